// A thread of the pool: scans a run of slots in order, or explains bodies that the scanner was not sure of.

import { workerData } from 'node:worker_threads'
import type { SharedMemory } from '../ring/layout.ts'
import { createDecoder, type DecoderName } from './decoder.ts'
import { type Note, type Run, RunScanner } from './run-scanner.ts'
import type { Validation } from './verdict.ts'

export interface WorkerData {
  readonly memory: SharedMemory
  readonly decoder: DecoderName
}

/** Slots whose bodies the scanner was not sure of. */
export interface Unsure {
  readonly slots: readonly number[]
}

const { memory, decoder } = workerData as WorkerData
const scanner = new RunScanner(memory, createDecoder(decoder, memory.bytes))

export default function work(task: Run | Unsure): Note[] | null | Validation[] {
  return 'slots' in task ? task.slots.map((slot) => scanner.explain(slot)) : scanner.scan(task)
}

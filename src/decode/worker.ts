// A thread of the pool: scans a run of slots, in their order, and hands each back as soon as it is done; or explains
// what the scanner was not sure of.

import { workerData } from 'piscina'
import { type SharedMemory, SLOT_WORDS, STATE, WORD } from '../ring/layout.ts'
import { createDecoder, type DecoderName } from './decoder.ts'
import type { Validation } from './verdict.ts'

/** What a thread is given at its start. */
export interface WorkerData {
  readonly memory: SharedMemory
  readonly decoder: DecoderName
}

/** Consecutive slots of the ring, which go on at its first slot after its last. */
export interface Run {
  readonly first: number
  readonly count: number
}

/** Slots whose bodies the scanner was not sure of. */
export interface Unsure {
  readonly slots: readonly number[]
}

/** What does not fit into a slot's words: what the decoder says of the run's n-th body, or null where it is not sure. */
export interface Note {
  readonly index: number
  readonly validation: Validation | null
}

const { memory, decoder: decoderName } = workerData as WorkerData
const words = new Int32Array(memory.table)
const slots = words.length / SLOT_WORDS
const decoder = createDecoder(decoderName, memory.bytes)

export default function work(task: Run | Unsure): Note[] | null | Validation[] {
  return 'slots' in task ? task.slots.map((slot) => explain(slot)) : scanRun(task)
}

/** Null, the common answer, says that every body of the run was accepted and its words say it all. */
function scanRun({ first, count }: Run): Note[] | null {
  const nowMs = Date.now()
  let notes: Note[] | null = null
  for (let index = 0; index < count; index++) {
    const at = arrived((first + index) % slots)
    const start = words[at + WORD.OFFSET]
    const verdict = decoder.scan(start, start + words[at + WORD.LENGTH], nowMs, words, at + WORD.DECODED)
    if (verdict !== null) {
      notes ??= []
      notes.push({ index, validation: verdict === 'not sure' ? null : verdict })
    }
    if (verdict !== 'not sure') decoded(at)
  }
  return notes
}

function explain(slot: number): Validation {
  const at = arrived(slot)
  const start = words[at + WORD.OFFSET]
  const end = start + words[at + WORD.LENGTH]
  const validation = decoder.explain(start, end, Date.now(), words, at + WORD.DECODED)
  decoded(at)
  return validation
}

/** Where the slot's words begin. */
function arrived(slot: number): number {
  const at = slot * SLOT_WORDS
  // Orders the front end's writes of the body and its place before our reads of them.
  if (Atomics.load(words, at + WORD.STATE) !== STATE.ARRIVED) throw new Error('a slot was handed over too early')
  return at
}

function decoded(at: number): void {
  // Orders our writes of the decoded words before the state that lets the front end read them.
  Atomics.store(words, at + WORD.STATE, STATE.DECODED)
}

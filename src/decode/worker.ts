// A thread of the pool: scans a run of slots in order, or explains bodies that the scanner was not sure of.

import { workerData } from 'piscina'
import { type SharedMemory, SLOT_WORDS, STATE, WORD } from '../ring/layout.ts'
import { createDecoder, type DecoderName } from './decoder.ts'
import type { Validation } from './verdict.ts'

export interface WorkerData {
  readonly memory: SharedMemory
  readonly decoder: DecoderName
}

/** Consecutive slots of the ring, wrapping around. */
export interface Run {
  readonly first: number
  readonly count: number
}

/** Slots whose bodies the scanner was not sure of. */
export interface Unsure {
  readonly slots: readonly number[]
}

/** A result that does not fit into the slot's words. */
export interface Note {
  /** The position of the body in the run. */
  readonly index: number
  /** null: the scanner is not sure. */
  readonly validation: Validation | null
}

const { memory, decoder: decoderName } = workerData as WorkerData
const words = new Int32Array(memory.table)
const slots = words.length / SLOT_WORDS
const decoder = createDecoder(decoderName, memory.bytes)

export default function work(task: Run | Unsure): Note[] | null | Validation[] {
  return 'slots' in task ? task.slots.map((slot) => explain(slot)) : scanRun(task)
}

/** null, the common result: every body of the run was accepted, with no more data than its words. */
function scanRun({ first, count }: Run): Note[] | null {
  const nowMs = Date.now()
  let notes: Note[] | null = null
  for (let index = 0; index < count; index++) {
    const at = indexOfArrived((first + index) % slots)
    const start = words[at + WORD.OFFSET]
    const end = start + words[at + WORD.LENGTH]
    if (words[at + WORD.KEYED] === 1) words[at + WORD.BODY_HASH] = decoder.hash(start, end)
    const verdict = decoder.scan(start, end, nowMs, words, at + WORD.DECODED)
    if (verdict !== null) {
      notes ??= []
      notes.push({ index, validation: verdict === 'not sure' ? null : verdict })
    }
    if (verdict !== 'not sure') markDecoded(at)
  }
  return notes
}

function explain(slot: number): Validation {
  const at = indexOfArrived(slot)
  const start = words[at + WORD.OFFSET]
  const end = start + words[at + WORD.LENGTH]
  const validation = decoder.explain(start, end, Date.now(), words, at + WORD.DECODED)
  markDecoded(at)
  return validation
}

/** The index of the slot's first word. */
function indexOfArrived(slot: number): number {
  const at = slot * SLOT_WORDS
  // Orders the front end's writes of the body and its position before our reads of them.
  if (Atomics.load(words, at + WORD.STATE) !== STATE.ARRIVED)
    throw new Error('a slot was submitted before its body was committed')
  return at
}

function markDecoded(at: number): void {
  // Orders our writes of the decoded words before the state that lets the front end read them.
  Atomics.store(words, at + WORD.STATE, STATE.DECODED)
}

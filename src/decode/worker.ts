// A thread of the pool: decodes a run of slots, in their order, and hands each back as soon as it is done.

import { workerData } from 'piscina'
import { type SharedMemory, SLOT_WORDS, STATE, WORD } from '../ring/layout.ts'
import type { Validation } from './decoded.ts'
import { createDecoder, type DecoderName } from './decoder.ts'

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

/** What does not fit into a slot's words: the run's n-th body was refused, or accepted with something to add. */
export interface Note {
  readonly index: number
  readonly validation: Validation
}

const { memory, decoder: decoderName } = workerData as WorkerData
const words = new Int32Array(memory.table)
const slots = words.length / SLOT_WORDS
const decoder = createDecoder(decoderName, memory.bytes)

/** Null, the common answer, says that every body of the run was accepted and its words say it all. */
export default function decodeRun({ first, count }: Run): Note[] | null {
  const nowMs = Date.now()
  let notes: Note[] | null = null
  for (let index = 0; index < count; index++) {
    const at = ((first + index) % slots) * SLOT_WORDS
    // Orders the front end's writes of the body and its place before our reads of them.
    if (Atomics.load(words, at + WORD.STATE) !== STATE.ARRIVED) throw new Error('a slot was handed over too early')
    const start = words[at + WORD.OFFSET]
    const validation = decoder.decode(start, start + words[at + WORD.LENGTH], nowMs, words, at + WORD.DECODED)
    if (validation !== null) {
      notes ??= []
      notes.push({ index, validation })
    }
    // Orders our writes of the decoded words before the state that lets the front end read them.
    Atomics.store(words, at + WORD.STATE, STATE.DECODED)
  }
  return notes
}

// Scans runs of slots: in the threads of the pool, and for few bytes in the acceptor itself.

import { FIELD, type SharedMemory, SLOT_WORDS, STATE, WORD } from '../ring/layout.ts'
import type { Decoder } from './decoder.ts'
import type { Validation } from './verdict.ts'

/** Consecutive slots of the ring, wrapping around. */
export interface Run {
  readonly first: number
  readonly count: number
}

/** A result that does not fit into the slot's words. */
export interface Note {
  /** The position of the body in the run. */
  readonly index: number
  /** null: the scanner is not sure. */
  readonly validation: Validation | null
}

export class RunScanner {
  readonly #words: Int32Array
  readonly #slots: number
  readonly #decoder: Decoder

  constructor(memory: SharedMemory, decoder: Decoder) {
    this.#words = new Int32Array(memory.table)
    this.#slots = this.#words.length / SLOT_WORDS
    this.#decoder = decoder
  }

  /** null, the common result: every body of the run was accepted, with no more data than its words. */
  scan({ first, count }: Run): Note[] | null {
    const words = this.#words
    const nowMs = Date.now()
    let notes: Note[] | null = null
    for (let index = 0; index < count; index++) {
      const at = this.#indexOfArrived((first + index) % this.#slots)
      const start = words[at + WORD.OFFSET]
      const end = start + words[at + WORD.LENGTH]
      const verdict = this.#decoder.scan(start, end, nowMs, words, at + WORD.DECODED)
      if (verdict !== null) {
        notes ??= []
        notes.push({ index, validation: verdict === 'not sure' ? null : verdict })
      }
      if (verdict !== 'not sure') this.#markDecoded(at, start)
    }
    return notes
  }

  /** Of a body that `scan` was not sure of. */
  explain(slot: number): Validation {
    const words = this.#words
    const at = this.#indexOfArrived(slot)
    const start = words[at + WORD.OFFSET]
    const end = start + words[at + WORD.LENGTH]
    const validation = this.#decoder.explain(start, end, Date.now(), words, at + WORD.DECODED)
    this.#markDecoded(at, start)
    return validation
  }

  /** The index of the slot's first word. */
  #indexOfArrived(slot: number): number {
    const at = slot * SLOT_WORDS
    // Orders the acceptor's writes of the body and its position before our reads of them.
    if (Atomics.load(this.#words, at + WORD.STATE) !== STATE.ARRIVED)
      throw new Error('a slot was submitted before its body was committed')
    return at
  }

  #markDecoded(at: number, start: number): void {
    const words = this.#words
    // After the line breaks in them have become spaces, as the queue stores them.
    const eventsEnd = words[at + WORD.DECODED + FIELD.eventsEnd]
    if (words[at + WORD.KEYED] === 1 && eventsEnd > 0) {
      const eventsStart = words[at + WORD.DECODED + FIELD.eventsStart]
      words[at + WORD.EVENTS_HASH] = this.#decoder.hash(start + eventsStart, start + eventsEnd)
    }
    // Orders our writes of the decoded words before the state that lets the acceptor read them.
    Atomics.store(words, at + WORD.STATE, STATE.DECODED)
  }
}

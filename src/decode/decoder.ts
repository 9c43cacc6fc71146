// Validates one body in place: the scanner first, and the validator for bodies that the scanner is not sure of.

import { endOfBodies, LOOK_AHEAD_BYTES } from '../ring/memory.ts'
import { Scanner } from './scanner.ts'
import { loadSimdjson, validateWithSimdjson } from './simdjson.ts'
import { validate } from './validator.ts'
import type { Validation } from './verdict.ts'

export type DecoderName = 'scanner' | 'simdjson'

export interface Decoder {
  /**
   * Validates the bytes [start, end). For a valid body it writes the numbers of FIELD from `words[at]` on. null: valid,
   * without extra members, and nothing was allocated. In memory it changes only the line breaks of a valid body, which
   * become spaces, and the SENTINEL_BYTES after `end`.
   */
  scan(start: number, end: number, nowMs: number, words: Int32Array, at: number): Validation | null | 'not sure'
  /** A hash of the bytes [start, end), of 32 bits and never 0. To be asked for before `scan`, which changes line breaks. */
  hash(start: number, end: number): number
  /** Decides on a body that `scan` was not sure of, and says what is wrong with it. Slow. */
  explain(start: number, end: number, nowMs: number, words: Int32Array, at: number): Validation
}

/** `memory` comes from createMemory and is shared: other threads own other regions of it. */
export function createDecoder(name: DecoderName, memory: WebAssembly.Memory): Decoder {
  if (name === 'scanner') return new ScanningDecoder(memory)
  const simdjson = loadSimdjson()
  if (simdjson === null) throw new Error('the optional package simdjson is not installed, or did not compile')
  const explain: Decoder['explain'] = (start, end, nowMs, words, at) => {
    const body = new Uint8Array(memory.buffer, start, end - start)
    const validation = validateWithSimdjson(simdjson, body, nowMs, words, at)
    if (validation.kind === 'accepted') joinLines(body)
    return validation
  }
  // simdjson decides on every body, so there is no second step.
  const scanner = new Scanner(memory)
  return { hash: (start, end) => scanner.hash(start, end), scan: explain, explain }
}

export function simdjsonAvailable(): boolean {
  return loadSimdjson() !== null
}

class ScanningDecoder implements Decoder {
  private readonly memory: SharedArrayBuffer
  private readonly endOfBodies: number
  private readonly scanner: Scanner

  constructor(memory: WebAssembly.Memory) {
    this.memory = memory.buffer
    this.endOfBodies = endOfBodies(memory)
    this.scanner = new Scanner(memory)
  }

  scan(start: number, end: number, nowMs: number, words: Int32Array, at: number): Validation | null | 'not sure' {
    if (end + LOOK_AHEAD_BYTES > this.endOfBodies) throw new RangeError('a body must end before its memory does')
    const { scanner } = this
    if (!scanner.scan(start, end, nowMs, words, at)) return 'not sure'
    if (scanner.sawLineBreak) joinLines(new Uint8Array(this.memory, start, end - start))
    return scanner.extraCount === 0 ? null : this.withExtras()
  }

  hash(start: number, end: number): number {
    return this.scanner.hash(start, end)
  }

  explain(start: number, end: number, nowMs: number, words: Int32Array, at: number): Validation {
    const body = new Uint8Array(this.memory, start, end - start)
    const validation = validate(body, nowMs, words, at)
    if (validation.kind === 'accepted') joinLines(body)
    return validation
  }

  private withExtras(): Validation {
    return { kind: 'accepted', appKey: this.scanner.appKey(), extras: this.scanner.extras() }
  }
}

/** Since a queue record is one line. In valid JSON no string contains a line break. */
function joinLines(body: Uint8Array): void {
  for (let position = 0; position < body.length; position++) {
    if (body[position] === 0x0a || body[position] === 0x0d) body[position] = 0x20
  }
}

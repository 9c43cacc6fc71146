// Decides on one body where it lies in memory: the scanner first, the validator on whatever it is not sure of.

import { LOOK_AHEAD_BYTES } from '../ring/memory.ts'
import { Scanner } from './scanner.ts'
import { loadSimdjson, validateWithSimdjson } from './simdjson.ts'
import { validate } from './validator.ts'
import type { Validation } from './verdict.ts'

export type DecoderName = 'scanner' | 'simdjson'

export interface Decoder {
  /**
   * Judges the bytes [start, end) and writes their numbers, as in FIELD, from `words[at]` on where the body fits.
   * Null says accepted, the app key stands in place and there are no extra members: nothing was allocated.
   * Writes nothing but line breaks of a body that fits, which become spaces, and the SENTINEL_BYTES after `end`.
   */
  scan(start: number, end: number, nowMs: number, words: Int32Array, at: number): Validation | null | 'not sure'
  /** The last word on a body that `scan` was not sure of: slow, and says what is wrong. */
  explain(start: number, end: number, nowMs: number, words: Int32Array, at: number): Validation
}

/** `memory` is of createMemory's making, and shared: other threads own its other regions. */
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
  // It has one way for all bodies, and is sure of each.
  return { scan: explain, explain }
}

export function simdjsonAvailable(): boolean {
  return loadSimdjson() !== null
}

class ScanningDecoder implements Decoder {
  private readonly memory: SharedArrayBuffer
  private readonly scanner: Scanner

  constructor(memory: WebAssembly.Memory) {
    this.memory = memory.buffer
    this.scanner = new Scanner(memory)
  }

  scan(start: number, end: number, nowMs: number, words: Int32Array, at: number): Validation | null | 'not sure' {
    if (end + LOOK_AHEAD_BYTES > this.memory.byteLength) throw new RangeError('a body must end before its memory does')
    const { scanner } = this
    if (!scanner.scan(start, end, nowMs, words, at)) return 'not sure'
    if (scanner.sawLineBreak) joinLines(new Uint8Array(this.memory, start, end - start))
    return scanner.extraCount === 0 ? null : this.withExtras()
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

/** A queue record is one line. In valid JSON a line break is never part of a string. */
function joinLines(body: Uint8Array): void {
  for (let position = 0; position < body.length; position++) {
    if (body[position] === 0x0a || body[position] === 0x0d) body[position] = 0x20
  }
}

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
   * without extra members, and nothing was allocated. In memory it changes only the line breaks of the body, which
   * become spaces, and the SENTINEL_BYTES after `end`.
   */
  scan(start: number, end: number, nowMs: number, words: Int32Array, at: number): Validation | null | 'not sure'
  /** A hash of the bytes [start, end), of 32 bits and never 0. */
  hash(start: number, end: number): number
  /** Decides on a body that `scan` was not sure of, and says what is wrong with it. Slow. */
  explain(start: number, end: number, nowMs: number, words: Int32Array, at: number): Validation
}

/** `memory` comes from createMemory and is shared: other threads own other regions of it. */
export function createDecoder(name: DecoderName, memory: WebAssembly.Memory): Decoder {
  if (name === 'scanner') return new ScanningDecoder(memory)
  const simdjson = loadSimdjson()
  if (simdjson === null) throw new Error('the package simdjson is not installed, or did not compile')
  const explain = explainBy(memory, (body, nowMs, words, at) => validateWithSimdjson(simdjson, body, nowMs, words, at))
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
  readonly explain: Decoder['explain']

  constructor(memory: WebAssembly.Memory) {
    this.memory = memory.buffer
    this.explain = explainBy(memory, validate)
    this.endOfBodies = endOfBodies(memory)
    this.scanner = new Scanner(memory)
  }

  scan(start: number, end: number, nowMs: number, words: Int32Array, at: number): Validation | null | 'not sure' {
    if (end + LOOK_AHEAD_BYTES > this.endOfBodies) throw new RangeError('a body must end before its memory does')
    const { scanner } = this
    if (!scanner.scan(start, end, nowMs, words, at)) return 'not sure'
    if (scanner.sawLineBreak) joinLines(new Uint8Array(this.memory, start, end - start))
    if (scanner.extraCount === 0) return null
    return { kind: 'accepted', appKey: scanner.appKey(), extras: scanner.extras() }
  }

  hash(start: number, end: number): number {
    return this.scanner.hash(start, end)
  }
}

function explainBy(memory: WebAssembly.Memory, check: typeof validate): Decoder['explain'] {
  return (start, end, nowMs, words, at) => {
    const body = new Uint8Array(memory.buffer, start, end - start)
    const validation = check(body, nowMs, words, at)
    joinLines(body)
    return validation
  }
}

/** Since a queue record is one line. In valid JSON no string contains a line break. */
function joinLines(body: Uint8Array): void {
  for (let position = 0; position < body.length; position++) {
    if (body[position] === 0x0a || body[position] === 0x0d) body[position] = 0x20
  }
}

// Runs one body through every decoder and holds their answers against each other.

import { createDecoder } from '../../../src/decode/decoder.ts'
import { Scanner } from '../../../src/decode/scanner.ts'
import { validate } from '../../../src/decode/validator.ts'
import { type Validation } from '../../../src/decode/verdict.ts'
import { DECODED_WORDS, FIELD, SENTINEL_BYTES } from '../../../src/ring/layout.ts'
import { createMemory } from '../../../src/ring/memory.ts'
import { decodeWith } from '../../support/decode.ts'
import { NOW_MS } from './bodies.ts'

const MEMORY_BYTES = 4 << 20
const shared = createMemory(MEMORY_BYTES)
const memory = new Uint8Array(shared.buffer)
const scanner = new Scanner(shared)
const decoder = createDecoder('scanner', shared)
/** Neither side of the body may lend it anything: these would end a string, an object, a number. */
const AROUND = Buffer.from('"}]1 0"}]}]\n')

const AROUND_BYTES = 64
const BORDER = Buffer.alloc(AROUND_BYTES, AROUND)
/** A body at an offset of its own in shared memory, between bytes that must stay as they are. */
function place(body: Uint8Array, offset: number): { start: number; end: number } {
  const start = AROUND_BYTES + offset
  const end = start + body.length
  memory.set(BORDER, start - AROUND_BYTES)
  memory.set(body, start)
  memory.set(BORDER, end)
  return { start, end }
}

function wordsOf(): Int32Array {
  return new Int32Array(DECODED_WORDS + 2).fill(-7)
}

export interface Verdict {
  readonly validation: Validation
  /** The scanner took it without the validator. */
  readonly scanned: boolean
}

/** What decode says of a body, after it has been seen that scanner, validator and JSON.parse agree. */
export function judge(body: Uint8Array, offset = 17, nowMs = NOW_MS): Verdict {
  const defined = wordsOf()
  const original = Buffer.from(body)
  const validation = validate(original, nowMs, defined, 1)
  hold(original.equals(body), 'the validator writes nothing into the body')
  holdGrammar(original, validation)

  const { start, end } = place(body, offset)
  const written = wordsOf()
  const scanned = scanner.scan(start, end, nowMs, written, 1)
  if (scanned) {
    hold(validation.kind === 'accepted', `the scanner took what the validator refuses: ${JSON.stringify(validation)}`)
    hold(same(written, defined), `the scanner found ${written.join()}, the validator ${defined.join()}`)
  }
  holdUntouched(body, start, end, false)

  if (!scanned && validation.kind === 'refused') return { validation, scanned }

  place(body, offset)
  const decided = wordsOf()
  const answer = decodeWith(decoder, start, end, nowMs, decided, 1)
  if (answer === null) {
    hold(validation.kind === 'accepted' && validation.extras === null, 'null says accepted, without extras')
    const inPlace = memory.slice(start + decided[1 + FIELD.appKeyStart], start + decided[1 + FIELD.appKeyEnd])
    hold(Buffer.from(inPlace).toString() === validation.appKey, 'the app key stands in place')
  } else {
    hold(JSON.stringify(answer) === JSON.stringify(validation), 'the decoder says what the validator says')
  }
  if (validation.kind === 'accepted')
    hold(same(decided, defined), `the decoder found ${decided.join()}, the validator ${defined.join()}`)
  holdUntouched(body, start, end, validation.kind === 'accepted')
  return { validation, scanned }
}

/** JSON.parse decides on grammar; only the depth is ours. */
function holdGrammar(body: Buffer, validation: Validation): void {
  const isInvalid = validation.kind === 'refused' && validation.code === 'invalid_json'
  if (isInvalid && validation.message.includes('levels deep')) return
  hold(isInvalid !== parses(body), `JSON.parse disagrees with ${JSON.stringify(validation)}`)
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export function parses(body: Uint8Array): boolean {
  try {
    JSON.parse(utf8.decode(body))
    return true
  } catch {
    return false
  }
}

/** The bytes around the body are as they were, and in it at most line breaks have become spaces. */
function holdUntouched(body: Uint8Array, start: number, end: number, joined: boolean): void {
  const expected = Buffer.from(body)
  for (const [at, byte] of joined ? expected.entries() : []) if (byte === 0x0a || byte === 0x0d) expected[at] = 0x20
  hold(expected.equals(memory.subarray(start, end)), 'the body is as sent')
  hold(BORDER.equals(memory.subarray(start - AROUND_BYTES, start)), 'nothing is written before the body')
  const after = memory.subarray(end + SENTINEL_BYTES, end + AROUND_BYTES)
  hold(BORDER.subarray(SENTINEL_BYTES).equals(after), 'nothing is written beyond the sentinel')
}

function same(one: Int32Array, other: Int32Array): boolean {
  return one.every((word, index) => word === other[index])
}

/** As expect, but cheap enough for a hundred thousand bodies. */
function hold(condition: boolean, claim: string): asserts condition {
  if (!condition) throw new Error(`does not hold: ${claim}`)
}

// Lets scanner and validator judge a body. The scanner may be unsure, but never accept what the validator refuses, and
// its numbers must be the validator's.

import { Scanner } from '../../src/decode/scanner.ts'
import { validate } from '../../src/decode/validator.ts'
import { DECODED_WORDS, SENTINEL_BYTES } from '../../src/ring/layout.ts'
import { createMemory } from '../../src/ring/memory.ts'
import { judge as judgeByAll } from '../unit/decode/oracle.ts'
import type { Case } from './cases.ts'

/** Any body fits, with what is around it. */
const MEMORY_BYTES = 4 << 20
const AROUND_BYTES = 64
const AFTER_BYTES = 256
/** Every so many seeds the body also passes the validator where the scanner is unsure, the decoder, and JSON.parse. */
const ALL_EVERY_SEEDS = 8

export type Judged = 'accepted' | 'not sure' | 'false accept' | 'different numbers' | 'other decoders disagree'
export interface Verdict {
  readonly judged: Judged
  readonly detail: string
  /** Asked of every eighth seed: the validator took what the scanner was not sure of. */
  readonly neededValidator: boolean
}

export type JudgedScanner = Pick<Scanner, 'scan' | 'hash' | 'appKey' | 'extras' | 'extraCount' | 'sawLineBreak'>

export class Judge {
  readonly #memory: Buffer
  readonly #scanner: JudgedScanner
  readonly #found = new Int32Array(DECODED_WORDS + 2)
  readonly #defined = new Int32Array(DECODED_WORDS + 2)

  /** `wrap`: puts another scanner in the place of the real one. */
  constructor(wrap: (real: Scanner) => JudgedScanner = (real) => real) {
    const memory = createMemory(MEMORY_BYTES)
    this.#memory = Buffer.from(memory.buffer)
    this.#scanner = wrap(new Scanner(memory))
  }

  /** The verdicts on a seed's bodies, in order. */
  judge(seed: number, { bodies, offset, around, nowMs }: Case): Verdict[] {
    const start = AROUND_BYTES + offset
    return bodies.map((body, index) => {
      if (index === 0) {
        this.#memory.fill(around, start - AROUND_BYTES, start)
        this.#memory.fill(around, start + body.length, start + body.length + AFTER_BYTES)
      }
      this.#memory.set(body, start)
      const verdict = this.#judgeAt(start, body, nowMs)
      return seed % ALL_EVERY_SEEDS === 0 ? this.#judgeByAll(start, body, nowMs, verdict) : verdict
    })
  }

  #judgeAt(start: number, body: Buffer, nowMs: number): Verdict {
    const end = start + body.length
    const scanner = this.#scanner
    const found = this.#found.fill(-7)
    const beyond = Buffer.from(this.#memory.subarray(end + SENTINEL_BYTES, end + AROUND_BYTES))
    const accepted = scanner.scan(start, end, nowMs, found, 1)
    if (!body.equals(this.#memory.subarray(start, end))) return verdict('different numbers', 'the body was written to')
    if (!beyond.equals(this.#memory.subarray(end + SENTINEL_BYTES, end + AROUND_BYTES)))
      return verdict('different numbers', 'bytes beyond the sentinel were written to')
    if (!accepted) return verdict('not sure')

    const defined = this.#defined.fill(-7)
    const validation = validate(body, nowMs, defined, 1)
    if (validation.kind === 'refused') return verdict('false accept', `the validator says: ${validation.message}`)
    if (!found.every((word, at) => word === defined[at]))
      return verdict('different numbers', `the scanner found ${found.join()}, the validator ${defined.join()}`)
    if (scanner.appKey() !== validation.appKey)
      return verdict('different numbers', `the app key is ${scanner.appKey()}`)
    const extras = scanner.extraCount === 0 ? null : scanner.extras().replace(/[\r\n]/g, ' ')
    if (extras !== validation.extras)
      return verdict('different numbers', `extras are ${extras}, for the validator ${validation.extras}`)
    const hasLineBreak = body.includes(0x0a) || body.includes(0x0d)
    if (hasLineBreak && !scanner.sawLineBreak) return verdict('different numbers', 'a line break was not seen')
    return verdict('accepted')
  }

  #judgeByAll(start: number, body: Buffer, nowMs: number, own: Verdict): Verdict {
    const end = start + body.length
    // Eight bytes behind the body may be read, and must not decide.
    const hash = this.#scanner.hash(start, end)
    this.#memory.fill(0xa5, end, end + SENTINEL_BYTES)
    if (this.#scanner.hash(start, end) !== hash) return verdict('different numbers', 'the hash reads beyond the body')
    try {
      const { validation } = judgeByAll(body, start % ALL_EVERY_SEEDS, nowMs)
      const neededValidator = own.judged === 'not sure' && validation.kind === 'accepted'
      return neededValidator ? { ...own, neededValidator } : own
    } catch (error) {
      return verdict('other decoders disagree', error instanceof Error ? error.message : String(error))
    }
  }
}

function verdict(judged: Judged, detail = ''): Verdict {
  return { judged, detail, neededValidator: false }
}

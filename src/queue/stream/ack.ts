// Reads JetStream's answer to a published message. Nearly all answers have one form, which is read without parsing
// JSON.

import { quoted } from '../../nats/guard.ts'
import { EVENTS_STREAM } from '../../nats/store-names.ts'

export type Ack =
  /** Stored under this sequence. */
  | { readonly kind: 'stored'; readonly sequence: number }
  /** Not stored again: the message `sequence` has the same id. */
  | { readonly kind: 'duplicate'; readonly sequence: number }
  /** Not stored. `isFull`: the stream, the account or the server has no room for it. */
  | { readonly kind: 'refused'; readonly reason: string; readonly isFull: boolean }
  /** None of an atomic batch is stored: its messages may be sent one by one. */
  | { readonly kind: 'not as a batch'; readonly reason: string }
  /** Stored in another stream, which has taken our subjects; nobody reads it there. */
  | { readonly kind: 'foreign stream' }
  /** Not stored: no stream takes this subject now. */
  | { readonly kind: 'no responders' }
  /** The answer has none of these forms. */
  | { readonly kind: 'unreadable' }

/** Older servers write a blank before "seq". */
const PREFIX = Buffer.from(`{"stream":"${EVENTS_STREAM}","seq":`)
const OLDER_PREFIX = Buffer.from(`{"stream":"${EVENTS_STREAM}", "seq":`)
const BLANK_AT = OLDER_PREFIX.indexOf(' ')
const BLANK = 32
/** `maximum bytes exceeded` and `maximum messages exceeded`; resources, of the account or the server. */
const NO_ROOM = /^maximum (?:bytes|messages)\b|resource/i
const DIGIT_ZERO = 48
const DIGIT_NINE = 57
const BRACE_CLOSE = 125
/** An integer with this many digits is exact in a double. */
const MAX_EXACT_DIGITS = 15

/** The sequence in `{"stream":"SLUICE_EVENTS","seq":123}`; 0 for an answer of another form, which `parseAck` reads. */
export function storedSequence(data: Uint8Array): number {
  const prefix = data[BLANK_AT] === BLANK ? OLDER_PREFIX : PREFIX
  const start = prefix.length
  const end = data.length - 1
  if (end <= start || end - start > MAX_EXACT_DIGITS || data[end] !== BRACE_CLOSE) return 0
  for (let at = 0; at < start; at += 1) if (data[at] !== prefix[at]) return 0
  let sequence = 0
  for (let at = start; at < end; at += 1) {
    const digit = data[at]
    if (digit < DIGIT_ZERO || digit > DIGIT_NINE) return 0
    sequence = sequence * 10 + (digit - DIGIT_ZERO)
  }
  return sequence
}

/** Reads an answer of any form. `status`: the code in its headers, or 0. `messages`: of the atomic batch that it answers, or 1. */
export function parseAck(data: Uint8Array, status: number, messages = 1): Ack {
  if (status === 503) return { kind: 'no responders' }
  let answer: unknown
  try {
    answer = JSON.parse(Buffer.from(data.buffer, data.byteOffset, data.length).toString())
  } catch {
    return { kind: 'unreadable' }
  }
  if (typeof answer !== 'object' || answer === null) return { kind: 'unreadable' }
  const { stream, seq, duplicate, error, count = 1 } = answer as Record<string, unknown>
  if (typeof error === 'object' && error !== null) {
    const { description, code } = error as Record<string, unknown>
    const reason = quoted(typeof description === 'string' ? description : `error ${String(code)}`)
    const isFull = NO_ROOM.test(reason)
    if (messages > 1 && !isFull) return { kind: 'not as a batch', reason }
    return { kind: 'refused', reason, isFull }
  }
  if (typeof seq !== 'number' || !Number.isSafeInteger(seq) || seq <= 0) return { kind: 'unreadable' }
  if (stream !== EVENTS_STREAM) return { kind: 'foreign stream' }
  // A server that knows nothing of batches stores each message alone, and answers for the last one.
  if (count !== messages) return { kind: 'unreadable' }
  return { kind: duplicate === true ? 'duplicate' : 'stored', sequence: seq }
}

/** Whose limit of storage it is that refuses a message so; null: none. */
export function limiterOf(reason: string): 'stream' | 'account' | 'server' | null {
  if (reason.startsWith('maximum bytes')) return 'stream'
  if (reason.startsWith('resource limits exceeded for account')) return 'account'
  return /^insufficient (?:storage )?resources/.test(reason) ? 'server' : null
}

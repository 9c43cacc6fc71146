// JetStream's answer to a published message, read off its bytes: nearly all of them have one form and differ in a number.

import { STREAM_NAME } from './stream.ts'

export type Ack =
  /** Stored, as this message of the stream. */
  | { readonly kind: 'stored'; readonly sequence: number }
  /** Not stored again: the message `sequence` came under the same id before. */
  | { readonly kind: 'duplicate'; readonly sequence: number }
  /** Not stored. */
  | { readonly kind: 'refused'; readonly reason: string }
  /** Stored elsewhere: another stream has taken our subjects, and nobody will read it there. */
  | { readonly kind: 'strange' }
  /** Nobody is there to store it. */
  | { readonly kind: 'no responders' }
  /** It says neither. */
  | { readonly kind: 'unreadable' }

/** As servers write it, older ones with a blank. */
const PREFIX = Buffer.from(`{"stream":"${STREAM_NAME}","seq":`)
const OLDER_PREFIX = Buffer.from(`{"stream":"${STREAM_NAME}", "seq":`)
const BLANK_AT = OLDER_PREFIX.indexOf(' ')
const BLANK = 32
const DIGIT_ZERO = 48
const DIGIT_NINE = 57
const BRACE_CLOSE = 125
/** So many digits are an exact integer in a double. */
const MAX_EXACT_DIGITS = 15

/** The sequence in `{"stream":"SLUICE_EVENTS","seq":123}`; 0 where the answer is of another form, for `parseAck` to read. */
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

/** An answer of any form. `status`: the code in the headers, where there are any. */
export function parseAck(data: Uint8Array, status: number): Ack {
  if (status === 503) return { kind: 'no responders' }
  let answer: unknown
  try {
    answer = JSON.parse(Buffer.from(data.buffer, data.byteOffset, data.length).toString())
  } catch {
    return { kind: 'unreadable' }
  }
  if (typeof answer !== 'object' || answer === null) return { kind: 'unreadable' }
  const { stream, seq, duplicate, error } = answer as Record<string, unknown>
  if (typeof error === 'object' && error !== null) {
    const { description, code } = error as Record<string, unknown>
    return { kind: 'refused', reason: typeof description === 'string' ? description : `error ${String(code)}` }
  }
  if (typeof seq !== 'number' || !Number.isSafeInteger(seq) || seq <= 0) return { kind: 'unreadable' }
  if (stream !== STREAM_NAME) return { kind: 'strange' }
  return { kind: duplicate === true ? 'duplicate' : 'stored', sequence: seq }
}

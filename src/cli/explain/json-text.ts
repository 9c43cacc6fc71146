// Finds members and items in JSON text without parsing it, so that what a client sent can be cut out as it came:
// JSON.parse would round its numbers. The text must be valid; on any other, it still ends.

export interface Span {
  readonly start: number
  /** Exclusive. */
  readonly end: number
}

export interface Member {
  /** Decoded. */
  readonly name: string
  readonly value: Span
}

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const OPEN_BRACKET = 0x5b
const BACKSLASH = 0x5c
const CLOSE_BRACKET = 0x5d
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const SPACE = 0x20

/** The members of the object that begins at `at` or after white space there, in order, repeats included. */
export function* membersOf(text: Uint8Array, at = 0): Generator<Member> {
  let next = skipSpace(text, at)
  if (text[next] !== OPEN_BRACE) return
  next = skipSpace(text, next + 1)
  while (next < text.length && text[next] === QUOTE) {
    const nameEnd = stringEnd(text, next)
    const colon = skipSpace(text, nameEnd)
    if (text[colon] !== COLON) return
    const start = skipSpace(text, colon + 1)
    const end = valueEnd(text, start)
    yield { name: decodeString(text, { start: next, end: nameEnd }), value: { start, end } }
    next = skipSpace(text, end)
    if (text[next] !== COMMA) return
    next = skipSpace(text, next + 1)
  }
}

/** The items of the array that begins at `at`. */
export function* itemsOf(text: Uint8Array, at: number): Generator<Span> {
  if (text[at] !== OPEN_BRACKET) return
  let next = skipSpace(text, at + 1)
  while (next < text.length && text[next] !== CLOSE_BRACKET) {
    const end = valueEnd(text, next)
    yield { start: next, end }
    next = skipSpace(text, end)
    if (text[next] !== COMMA) return
    next = skipSpace(text, next + 1)
  }
}

/** The string that stands at `span`, quotes included, or '' where it is none. */
export function decodeString(text: Uint8Array, { start, end }: Span): string {
  try {
    const value: unknown = JSON.parse(Buffer.from(text.subarray(start, end)).toString('utf8'))
    return typeof value === 'string' ? value : ''
  } catch {
    return ''
  }
}

function valueEnd(text: Uint8Array, start: number): number {
  const first = text[start]
  if (first === QUOTE) return stringEnd(text, start)
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return containerEnd(text, start)
  let at = start
  while (at < text.length && !endsScalar(text[at])) at++
  return at
}

function containerEnd(text: Uint8Array, start: number): number {
  let depth = 0
  let at = start
  while (at < text.length) {
    const byte = text[at]
    if (byte === QUOTE) {
      at = stringEnd(text, at)
      continue
    }
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth++
    if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth--
    at++
    if (depth === 0) return at
  }
  return at
}

function stringEnd(text: Uint8Array, start: number): number {
  let at = start + 1
  while (at < text.length && text[at] !== QUOTE) at += text[at] === BACKSLASH ? 2 : 1
  return Math.min(at + 1, text.length)
}

function endsScalar(byte: number): boolean {
  return byte <= SPACE || byte === COMMA || byte === CLOSE_BRACE || byte === CLOSE_BRACKET
}

function skipSpace(text: Uint8Array, at: number): number {
  let next = at
  while (next < text.length && text[next] <= SPACE) next++
  return next
}

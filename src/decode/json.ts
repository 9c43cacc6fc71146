// Reads JSON (RFC 8259) into a tree that keeps what JSON.parse loses: the order of members, repeats, and the
// bytes at which every value stands. It reads what the scanner did not accept, and what commands are given.

import { isUtf8 } from 'node:buffer'
import { MAX_DEPTH } from '../contract/bounds.ts'

/** Positions are byte offsets into the body; `end` is exclusive. */
export interface Span {
  readonly start: number
  readonly end: number
}
export interface JsonObject extends Span {
  readonly kind: 'object'
  readonly members: readonly JsonMember[]
}
export interface JsonArray extends Span {
  readonly kind: 'array'
  readonly items: readonly JsonValue[]
}
export interface JsonString extends Span {
  readonly kind: 'string'
  /** Decoded, when it is asked for. */
  readonly text: string
}
export interface JsonScalar extends Span {
  readonly kind: 'number' | 'boolean' | 'null'
}
export type JsonValue = JsonObject | JsonArray | JsonString | JsonScalar

/** From the opening quote of its key to the end of its value. */
export interface JsonMember extends Span {
  /** Decoded, when it is asked for. */
  readonly key: string
  readonly value: JsonValue
}

/** Problems never quote the body. */
export type JsonReading =
  | { readonly kind: 'value'; readonly value: JsonValue }
  | { readonly kind: 'broken'; readonly problem: string }

/** `maxDepth`: of a queue record, which holds members of a body one level deeper. */
export function readJson(body: Uint8Array, maxDepth = MAX_DEPTH): JsonReading {
  if (body.length === 0) return { kind: 'broken', problem: 'empty' }
  const packed = compressionOf(body)
  if (packed !== null) {
    return { kind: 'broken', problem: `compressed with ${packed}, which Content-Encoding does not say` }
  }
  if (!isUtf8(body)) return { kind: 'broken', problem: 'not valid UTF-8' }
  if (BYTE_ORDER_MARK.every((byte, index) => body[index] === byte)) {
    return { kind: 'broken', problem: 'begins with a byte-order mark, which is not JSON' }
  }
  const reader = new Reader(body, maxDepth)
  const value = reader.document()
  return value === null ? { kind: 'broken', problem: reader.problem } : { kind: 'value', value }
}

/** By its first bytes, with which no JSON begins. null: as neither. */
export function compressionOf(body: Uint8Array): 'gzip' | 'deflate' | null {
  const [first = 0, second = 0] = body
  if (first === 0x1f && second === 0x8b) return 'gzip'
  // The header of zlib, which the coding deflate has: a multiple of 31.
  return first === 0x78 && (first * 256 + second) % 31 === 0 ? 'deflate' : null
}

const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf]
const QUOTE = 0x22
const BACKSLASH = 0x5c
const ESCAPED = Buffer.from('"\\/bfnrt')
const LITERALS = [
  { text: Buffer.from('true'), kind: 'boolean' },
  { text: Buffer.from('false'), kind: 'boolean' },
  { text: Buffer.from('null'), kind: 'null' },
] as const

/** A string whose grammar has been checked. Most are never asked for: only the schema's members are. */
class Text implements JsonString {
  readonly kind = 'string'
  readonly start: number
  readonly end: number
  private readonly body: Buffer
  private readonly escaped: boolean

  constructor(body: Buffer, start: number, end: number, escaped: boolean) {
    this.body = body
    this.start = start
    this.end = end
    this.escaped = escaped
  }

  get text(): string {
    return this.escaped
      ? (JSON.parse(this.body.toString('utf8', this.start, this.end)) as string)
      : this.body.toString('utf8', this.start + 1, this.end - 1)
  }
}

class Member implements JsonMember {
  readonly value: JsonValue
  private readonly name: JsonString

  constructor(name: JsonString, value: JsonValue) {
    this.name = name
    this.value = value
  }

  get key(): string {
    return this.name.text
  }

  get start(): number {
    return this.name.start
  }

  get end(): number {
    return this.value.end
  }
}

/** Every method reads one thing at `position` and moves past it, or notes a problem and returns null. */
class Reader {
  problem = ''
  private position = 0
  private readonly body: Buffer
  private readonly maxDepth: number

  constructor(body: Uint8Array, maxDepth: number) {
    this.maxDepth = maxDepth
    this.body = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  }

  document(): JsonValue | null {
    const value = this.value(0)
    if (value === null) return null
    this.space()
    return this.position === this.body.length ? value : this.broken()
  }

  /** `depth` counts the containers open around the value: recursion ends at maxDepth. */
  private value(depth: number): JsonValue | null {
    this.space()
    const byte = this.body[this.position]
    if (byte === QUOTE) return this.string()
    if (byte === code('{') || byte === code('[')) {
      if (depth === this.maxDepth) {
        this.problem = `more than ${this.maxDepth} levels deep`
        return null
      }
      return byte === code('{') ? this.object(depth + 1) : this.array(depth + 1)
    }
    return byte === code('-') || isDigit(byte) ? this.number() : this.literal()
  }

  private object(depth: number): JsonObject | null {
    const start = this.position++
    const members: JsonMember[] = []
    this.space()
    if (this.take('}')) return { kind: 'object', start, end: this.position, members }
    for (;;) {
      this.space()
      if (this.body[this.position] !== QUOTE) return this.broken()
      const key = this.string()
      if (key === null) return null
      this.space()
      if (!this.take(':')) return this.broken()
      const value = this.value(depth)
      if (value === null) return null
      members.push(new Member(key, value))
      this.space()
      if (this.take('}')) return { kind: 'object', start, end: this.position, members }
      if (!this.take(',')) return this.broken()
    }
  }

  private array(depth: number): JsonArray | null {
    const start = this.position++
    const items: JsonValue[] = []
    this.space()
    if (this.take(']')) return { kind: 'array', start, end: this.position, items }
    for (;;) {
      const item = this.value(depth)
      if (item === null) return null
      items.push(item)
      this.space()
      if (this.take(']')) return { kind: 'array', start, end: this.position, items }
      if (!this.take(',')) return this.broken()
    }
  }

  private string(): JsonString | null {
    const start = this.position++
    let escaped = false
    for (;;) {
      const byte = this.body[this.position]
      if (byte === undefined || byte < 0x20) return this.broken()
      this.position += 1
      if (byte === QUOTE) break
      if (byte === BACKSLASH) {
        escaped = true
        if (!this.escape()) return this.broken()
      }
    }
    return new Text(this.body, start, this.position, escaped)
  }

  /** What follows a backslash. */
  private escape(): boolean {
    const byte = this.body[this.position]
    if (byte === code('u')) {
      for (let ahead = 1; ahead <= 4; ahead++) if (!isHexDigit(this.body[this.position + ahead])) return false
      this.position += 5
      return true
    }
    this.position += 1
    return byte !== undefined && ESCAPED.includes(byte)
  }

  private number(): JsonScalar | null {
    const start = this.position
    this.take('-')
    if (!this.take('0') && !this.digits()) return this.broken()
    if (this.take('.') && !this.digits()) return this.broken()
    if (this.take('e') || this.take('E')) {
      if (!this.take('+')) this.take('-')
      if (!this.digits()) return this.broken()
    }
    return { kind: 'number', start, end: this.position }
  }

  private literal(): JsonScalar | null {
    const start = this.position
    for (const { text, kind } of LITERALS) {
      if (text.equals(this.body.subarray(start, start + text.length))) {
        this.position += text.length
        return { kind, start, end: this.position }
      }
    }
    return this.broken()
  }

  /** One digit or more. */
  private digits(): boolean {
    const start = this.position
    while (isDigit(this.body[this.position])) this.position += 1
    return this.position > start
  }

  private space(): void {
    while (isSpace(this.body[this.position])) this.position += 1
  }

  private take(character: string): boolean {
    if (this.body[this.position] !== code(character)) return false
    this.position += 1
    return true
  }

  private broken(): null {
    this.problem = `not valid JSON at byte ${this.position}`
    return null
  }
}

function code(character: string): number {
  return character.charCodeAt(0)
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= code('0') && byte <= code('9')
}

function isHexDigit(byte: number | undefined): boolean {
  if (byte === undefined) return false
  const letter = byte | 0x20
  return isDigit(byte) || (letter >= code('a') && letter <= code('f'))
}

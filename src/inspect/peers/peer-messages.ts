// How messages between the consoles are written: one line of JSON, and bytes after it. What cannot be read is dropped:
// another version may have sent it.

import type { Answer } from '../question.ts'
import { type Check, isPart } from './peer-checks.ts'

/** Of one message. NATS takes a megabyte, unless it is configured otherwise. */
export const MAX_PIECE_BYTES = 262_144
/** Raised when a message changes: processes of two versions run side by side during an update, and do not read each other. */
export const FORMAT = 5
const LINE_FEED = 10

export interface Message<Head> {
  readonly head: Head
  /** The bytes after the head's line. */
  readonly body: Buffer
}

export function packed(head: object, body: Uint8Array = new Uint8Array()): Buffer {
  return Buffer.concat([Buffer.from(`${JSON.stringify({ format: FORMAT, ...head })}\n`), body])
}

/** null: it is not of this form, or its head is not one. */
export function unpack<Head>(data: Uint8Array, isHead: Check<Head>): Message<Head> | null {
  const message = messageIn(data)
  if (message?.head['format'] !== FORMAT) return null
  const { head, body } = message as Message<unknown>
  return isHead(head) ? { head, body } : null
}

/** Whether a process of another version wrote it. */
export function isOfOtherVersion(data: Uint8Array): boolean {
  const format = messageIn(data)?.head['format']
  return typeof format === 'number' && format !== FORMAT
}

function messageIn(data: Uint8Array): Message<Readonly<Record<string, unknown>>> | null {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.length)
  const end = bytes.indexOf(LINE_FEED)
  if (end < 0 || end > MAX_PIECE_BYTES) return null
  try {
    return { head: Object(JSON.parse(bytes.toString('utf8', 0, end))), body: bytes.subarray(end + 1) }
  } catch {
    return null
  }
}

export function splitAnswer(from: string, { status, json }: Answer): Buffer[] {
  const bytes = Buffer.from(json)
  const of = Math.max(1, Math.ceil(bytes.length / MAX_PIECE_BYTES))
  return Array.from({ length: of }, (_, part) =>
    packed({ from, part, of, status }, bytes.subarray(part * MAX_PIECE_BYTES, (part + 1) * MAX_PIECE_BYTES)),
  )
}

/** Puts answers together, whose parts come in any order. */
export class AnswersInParts {
  readonly #parts = new Map<string, Map<number, Buffer>>()
  readonly whole: Answer[] = []

  /** What is no part, or one that is there already, is dropped. */
  add(data: Uint8Array): void {
    const message = unpack(data, isPart)
    if (message === null || message.body.length > MAX_PIECE_BYTES) return
    const { from, part, of, status } = message.head
    const parts = this.#parts.get(from) ?? new Map<number, Buffer>()
    if (parts.has(part)) return
    this.#parts.set(from, parts.set(part, message.body))
    if (parts.size !== of) return
    const sorted = [...parts].toSorted(([one], [other]) => one - other)
    this.whole.push({ status, json: Buffer.concat(sorted.map(([, body]) => body)).toString() })
  }
}

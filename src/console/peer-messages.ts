// How messages between the consoles are written: one line of JSON, and bytes after it. What cannot be read is dropped:
// another version may have sent it.

import type { InquiryAnswer } from './inquiries.ts'
import { type Check, isPart } from './peer-checks.ts'

/** Of one message. NATS takes a megabyte, unless it is told otherwise. */
export const MAX_PIECE_BYTES = 262_144
/** To be raised when a message changes: nodes of two versions run side by side during an update. */
const FORMAT = 1
const LINE_FEED = 10

export function packed(head: object, body: Uint8Array = new Uint8Array()): Buffer {
  return Buffer.concat([Buffer.from(`${JSON.stringify({ format: FORMAT, ...head })}\n`), body])
}

/** null: it is not of this form, or its head is not what `isHead` wants. */
export function unpack(data: Uint8Array, isHead: Check): { readonly head: unknown; readonly body: Buffer } | null {
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.length)
  const end = bytes.indexOf(LINE_FEED)
  if (end < 0 || end > MAX_PIECE_BYTES) return null
  try {
    const head: unknown = JSON.parse(bytes.toString('utf8', 0, end))
    if (typeof head !== 'object' || head === null || !('format' in head) || head.format !== FORMAT) return null
    return isHead(head) ? { head, body: bytes.subarray(end + 1) } : null
  } catch {
    return null
  }
}

interface PartHead {
  readonly part: number
  readonly of: number
  readonly status: number
}

export function splitAnswer({ status, json }: InquiryAnswer): Buffer[] {
  const bytes = Buffer.from(json)
  const of = Math.max(1, Math.ceil(bytes.length / MAX_PIECE_BYTES))
  return Array.from({ length: of }, (_, part) =>
    packed({ part, of, status }, bytes.subarray(part * MAX_PIECE_BYTES, (part + 1) * MAX_PIECE_BYTES)),
  )
}

/** null: parts are missing. */
export function wholeAnswer(parts: readonly Uint8Array[]): InquiryAnswer | null {
  const read = parts.flatMap((part) => {
    return (unpack(part, isPart) ?? []) as { head: PartHead; body: Buffer } | []
  })
  const [first] = read
  if (first === undefined || read.length < first.head.of) return null
  const sorted = read.toSorted((one, other) => one.head.part - other.head.part)
  return { status: first.head.status, json: Buffer.concat(sorted.map(({ body }) => body)).toString() }
}

// The bytes of one published message: the protocol's line, the headers and the records, written once into one buffer.

import { ID_HEADER, NODE_HEADER } from './stream.ts'
import type { Parcel } from './nats-lanes.ts'

const CR = 13
const LF = 10

export interface MessageHead {
  readonly subject: string
  /** Where the acknowledgement goes. */
  readonly reply: string
  readonly id: string
  readonly nodeId: string
}

/** What the server counts against its `max_payload`: headers and records. */
export function payloadBytes(idLength: number, nodeId: string, parcelBytes: number): number {
  return headersOf('', nodeId).length + idLength + parcelBytes
}

export function encodeMessage({ subject, reply, id, nodeId }: MessageHead, parcel: Parcel): Buffer {
  const headers = headersOf(id, nodeId)
  // All of it is ASCII, so that its length is its size.
  const head = `HPUB ${subject} ${reply} ${headers.length} ${headers.length + parcel.bytes}\r\n${headers}`
  const message = Buffer.allocUnsafe(head.length + parcel.bytes + 2)
  message.write(head, 0, head.length, 'latin1')
  let at = head.length
  for (let entry: typeof parcel.first | null = parcel.first; entry !== null; entry = entry.next) {
    const { line } = entry.record
    // `fill` copies in one piece; `set` from the ring's shared memory goes word by word.
    message.fill(line, at, at + line.length)
    at += line.length
  }
  message[at] = CR
  message[at + 1] = LF
  return message
}

function headersOf(id: string, nodeId: string): string {
  return `NATS/1.0\r\n${ID_HEADER}: ${id}\r\n${NODE_HEADER}: ${nodeId}\r\n\r\n`
}

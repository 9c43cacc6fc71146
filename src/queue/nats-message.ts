// The bytes of published messages: the protocol's line, the headers and the records of each, written once into one
// buffer.

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

export interface NewMessage {
  /** The protocol's line and the headers, all of it ASCII. */
  readonly head: string
  readonly parcel: Parcel
}

export function messageHead({ subject, reply, id, nodeId }: MessageHead, parcelBytes: number): string {
  const headers = headersOf(id, nodeId)
  return `HPUB ${subject} ${reply} ${headers.length} ${headers.length + parcelBytes}\r\n${headers}`
}

/** One buffer for all of them: as many pieces would each be joined and copied once more on their way out. */
export function encodeMessages(messages: readonly NewMessage[]): Buffer {
  let size = 0
  for (const { head, parcel } of messages) size += head.length + parcel.bytes + 2
  const bytes = Buffer.allocUnsafe(size)
  let at = 0
  for (const { head, parcel } of messages) {
    at += bytes.write(head, at, 'latin1')
    for (let entry: typeof parcel.first | null = parcel.first; entry !== null; entry = entry.next) {
      const { line } = entry.record
      // `fill` copies in one piece; `set` from the ring's shared memory goes word by word.
      bytes.fill(line, at, at + line.length)
      at += line.length
    }
    bytes[at] = CR
    bytes[at + 1] = LF
    at += 2
  }
  return bytes
}

function headersOf(id: string, nodeId: string): string {
  return `NATS/1.0\r\n${ID_HEADER}: ${id}\r\n${NODE_HEADER}: ${nodeId}\r\n\r\n`
}

// The bytes of published messages: protocol line, headers and records of each, copied once into one buffer.

import { COST_HEADER, CostText } from '../record/cost-header.ts'
import type { Entry, Parcel } from './lanes.ts'
import { ID_HEADER } from './stream.ts'

const CR = 13
const LF = 10

export interface NewMessage {
  /** The protocol line and the headers, in ASCII. */
  readonly head: string
  readonly parcel: Parcel
}

export function headersOf(id: string, { first }: Parcel): string {
  const costs = new CostText()
  for (let entry: Entry | null = first; entry !== null; entry = entry.next) {
    const { appId, charge } = entry.record
    const { minute, cycleMinute, events } = charge
    costs.add({ minute, cycleMinute, appId, events })
  }
  return `NATS/1.0\r\n${ID_HEADER}: ${id}\r\n${COST_HEADER}: ${costs.toString()}\r\n\r\n`
}

/** `reply`: the subject of the acknowledgement. */
export function messageHead(subject: string, reply: string, headers: string, parcelBytes: number): string {
  return `HPUB ${subject} ${reply} ${headers.length} ${headers.length + parcelBytes}\r\n${headers}`
}

/** One buffer for all messages, since the client would join and copy separate pieces once more. */
export function encodeMessages(messages: readonly NewMessage[]): Buffer {
  let size = 0
  for (const { head, parcel } of messages) size += head.length + parcel.bytes + 2
  const bytes = Buffer.allocUnsafe(size)
  let at = 0
  for (const { head, parcel } of messages) {
    at += bytes.write(head, at, 'latin1')
    for (let entry: typeof parcel.first | null = parcel.first; entry !== null; entry = entry.next) {
      const { line } = entry.record
      // `fill` is one plain copy; `set` copies from the ring's shared memory word by word.
      bytes.fill(line, at, at + line.length)
      at += line.length
    }
    bytes[at] = CR
    bytes[at + 1] = LF
    at += 2
  }
  return bytes
}

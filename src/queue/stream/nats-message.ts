// The bytes of a published message: protocol line, headers and records.

import { COST_HEADER, CostText } from '../../contract/record/cost-header.ts'
import type { Entry, Parcel } from './lanes.ts'
import { BATCH_HEADERS, ID_HEADER, SPOOL_HEADER } from './stream.ts'

const CR = 13
const LF = 10
const CRLF_BYTES = 2

export interface NewMessage {
  /** The protocol line and the headers, in ASCII. */
  readonly head: string
  readonly parcel: Parcel
}

/** Where a message stands in an atomic batch. */
export interface BatchPlace {
  readonly id: string
  /** From 1 on. */
  readonly place: number
  /** All of the batch is stored with this message, or none. */
  readonly isLast: boolean
}

export function headersOf(id: string, { first }: Parcel, batch?: BatchPlace): string {
  const costs = new CostText()
  for (let entry: Entry | null = first; entry !== null; entry = entry.next) {
    const { appId, charge } = entry.record
    const { minute, cycleMinute, events } = charge
    costs.add({ minute, cycleMinute, appId, events })
  }
  const spool = first?.record.isSpooled === true ? `${SPOOL_HEADER}: 1\r\n` : ''
  const place = batch === undefined ? '' : placeHeaders(batch)
  return `NATS/1.0\r\n${ID_HEADER}: ${id}\r\n${COST_HEADER}: ${costs.toString()}\r\n${spool}${place}\r\n`
}

function placeHeaders({ id, place, isLast }: BatchPlace): string {
  const end = isLast ? `${BATCH_HEADERS.end}: 1\r\n` : ''
  return `${BATCH_HEADERS.id}: ${id}\r\n${BATCH_HEADERS.place}: ${place}\r\n${end}`
}

/** `reply`: the subject of the acknowledgement, with a blank before it; empty: none is wanted. */
export function messageHead(subject: string, reply: string, headers: string, parcelBytes: number): string {
  return `HPUB ${subject}${reply} ${headers.length} ${headers.length + parcelBytes}\r\n${headers}`
}

/** The length of the message on the wire. */
export function encodedBytes({ head, parcel }: NewMessage): number {
  return head.length + parcel.bytes + CRLF_BYTES
}

/** Copies each record once, from the ring. Returns where the next message begins. */
export function writeMessage({ head, parcel }: NewMessage, into: Buffer, at: number): number {
  let end = at + into.write(head, at, 'latin1')
  for (let entry: Entry | null = parcel.first; entry !== null; entry = entry.next) {
    const { line } = entry.record
    // `fill` is one plain copy; `set` copies from the ring's shared memory word by word.
    into.fill(line, end, end + line.length)
    end += line.length
  }
  into[end] = CR
  into[end + 1] = LF
  return end + CRLF_BYTES
}

// A line of the spool: a queue record with one more member behind all others, which says what the stream has to be sent with
// it. So a spool can be read as a journal can; on its way to the stream the member is cut off again, and each byte is as the
// client sent it.
//
// {"v":1,…,"events":[…],"spool":"<minute> <first minute of the billing cycle> <state>[ <id of the message in doubt>]"}

import type { Charge } from '../charge.ts'
import { parseRecordHead, type RecordHead } from './record-head.ts'
import { unfilled } from './record-lines.ts'

/** plain: it was never sent; earlier versions wrote share where Redis did not answer. doubt: it was sent, and is stored or not. */
export type SpoolState = 'plain' | 'share' | 'doubt'

export interface SpoolMark {
  readonly state: SpoolState
  /** Of the message under which it was sent; null: it was not. */
  readonly messageId: string | null
}

export interface SpooledLine extends SpoolMark {
  readonly head: RecordHead
  readonly charge: Charge
  /** As it goes into the stream, with its newline. */
  readonly line: Buffer
}

const END_OF_RECORD = '}\n'
const MEMBER = Buffer.from(',"spool":"')
const VALUE = /^(\d{1,10}) (\d{1,10}) (plain|share|doubt)(?: ([\w.-]{1,80}))?"\}$/
/** More than the member ever has. */
const MAX_MEMBER_BYTES = 160

/** A copy of the record. */
export function spoolLine(
  record: Uint8Array,
  { minute, cycleMinute }: Charge,
  { state, messageId }: SpoolMark,
): Buffer {
  const id = messageId === null ? '' : ` ${messageId}`
  const end = `,"spool":"${minute} ${cycleMinute} ${state}${id}"}\n`
  const length = record.length - END_OF_RECORD.length
  const line = Buffer.allocUnsafe(length + end.length)
  // `fill` is one plain copy; `set` copies from the ring's shared memory word by word.
  line.fill(record.subarray(0, length), 0, length)
  line.write(end, length, 'latin1')
  return line
}

/** `text`: a line without its newline. null: it is none of the spool. */
export function readSpoolLine(text: Buffer): SpooledLine | null {
  const whole = unfilled(text)
  const head = parseRecordHead(whole, 0, whole.length)
  const at = whole.lastIndexOf(MEMBER)
  if (head === null || at < 0 || whole.length - at > MAX_MEMBER_BYTES) return null
  const found = VALUE.exec(whole.toString('latin1', at + MEMBER.length))
  if (found === null) return null
  const [minute, cycleMinute] = [Number(found[1]), Number(found[2])]
  return {
    head,
    charge: { events: head.events, takenAtMs: head.receivedAtMs, minute, cycleMinute },
    state: found[3] as SpoolState,
    messageId: found[4] ?? null,
    line: Buffer.concat([whole.subarray(0, at), Buffer.from(END_OF_RECORD)]),
  }
}

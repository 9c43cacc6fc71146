// Which messages of other processes are taken. Whoever may publish on NATS may send them: what does not have the form that
// the code relies on is dropped.

import { AppAlert } from '../../contract/admin/alerts.ts'
import { Ask, Feed, Here, Inquiry, Part, PIECES, type Pieces, SessionEnded, Watch } from '../../contract/admin/peers.ts'
import { Refusal } from '../../contract/admin/refusals.ts'
import type { Of } from '../../contract/admin/schema.ts'
import { Check as fits, type TSchema } from '../../contract/admin/typebox.ts'
import { isUuid } from '../../contract/ids.ts'

/** Whether a value has the form that is wanted. */
export type Check<T> = (value: unknown) => value is T

/** Anywhere else a peer could make this process publish where the peer itself may not. */
const INBOX = /^sluice\.console\.reply\.[\w.-]{1,200}$/

export function isInbox(subject: string): boolean {
  return INBOX.test(subject)
}

function checkOf<Schema extends TSchema>(schema: Schema): Check<Of<Schema>> {
  return (value): value is Of<Schema> => fits(schema, value)
}

export const isWatch = checkOf(Watch)
export const isAsk = checkOf(Ask)
export const isInquiry = checkOf(Inquiry)
export const isHere = checkOf(Here)
export const isSessionEnded = checkOf(SessionEnded)
export const isFeed = checkOf(Feed)
export const isPart = checkOf(Part)
export const isPiece: { readonly [Name in keyof Pieces]: Check<{ readonly piece: Pieces[Name] }> } = {
  now: checkOf(PIECES.now),
  refusals: checkOf(PIECES.refusals),
  'last hour': checkOf(PIECES['last hour']),
}
const isRefusal = checkOf(Refusal)
const isAlert = checkOf(AppAlert)

/** An event is read by whoever watches: here a line break, which would end its message, is all that is looked for. */
export function isItem(kind: 'events' | 'refusals' | 'alerts', json: string): boolean {
  if (!/^\{[^\r\n]*\}$/.test(json)) return false
  if (kind === 'events') return true
  try {
    const item: unknown = JSON.parse(json)
    // The id is written into the stream by itself.
    return kind === 'refusals' ? isRefusal(item) : isAlert(item) && isUuid(item.id)
  } catch {
    return false
  }
}

// Which messages of other processes are taken. Whoever may publish on NATS may send them: what does not have the form that
// the code relies on is dropped.

import { AppAlert } from '../../contract/admin/alerts.ts'
import { Here, Live, Part, PIECES, type Pieces, Question, SessionEnded } from '../../contract/admin/peers.ts'
import { Refusal } from '../../contract/admin/refusals.ts'
import type { Of } from '../../contract/admin/schema.ts'
import { Check as fits, type TSchema } from '../../contract/admin/typebox.ts'
import type { OfEach } from '../../contract/admin/words.ts'
import { isUuid } from '../../contract/ids.ts'
import type { Answer } from '../question.ts'

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

export const isQuestion = checkOf(Question)
export const isHere = checkOf(Here)
export const isSessionEnded = checkOf(SessionEnded)
export const isPart = checkOf(Part)

/** Of the question `live`. */
export function isLiveBody(body: Buffer): boolean {
  return fits(Live, parsed(body.toString()))
}

/** undefined: it is none of this question. */
export function pieceIn<Name extends OfEach>(name: Name, { status, json }: Answer): Pieces[Name] | undefined {
  const piece = status === 200 ? parsed(json) : undefined
  const isPiece = fits(PIECES[name], piece) && (name !== 'live' || hasItems(piece as Pieces['live']))
  return isPiece ? (piece as Pieces[Name]) : undefined
}

function hasItems({ kind, told }: Pieces['live']): boolean {
  return told.every(({ kept }) => kept.every((one) => typeof one !== 'string' || isItem(kind, one)))
}

/** An event is read by whoever watches: here a line break, which would end its message, is all that is looked for. */
function isItem(kind: Pieces['live']['kind'], json: string): boolean {
  if (!/^\{[^\r\n]*\}$/.test(json)) return false
  if (kind === 'events') return true
  const item = parsed(json)
  // The id is written into the stream by itself.
  return kind === 'refusals' ? fits(Refusal, item) : fits(AppAlert, item) && isUuid((item as { id: string }).id)
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json)
  } catch {
    return undefined
  }
}

// The messages between the nodes of a cluster. Whoever may publish on NATS may send them, so each is bounded, and what does
// not have its form is dropped. Further members are allowed: a later version may have them.

import { EVENT_TYPES } from '../bounds.ts'
import { NodeReport } from './now.ts'
import { RefusalsPiece } from './refusals.ts'
import { Counts, listOf, type Of, oneOf, orNull, Text } from './schema.ts'
import { Type } from './typebox.ts'
import { INQUIRY_NAMES, MAX_REFUSALS_SHOWN, RANGE_NAMES } from './words.ts'

/** Of a filter, whose text is looked for in each event. */
const FilterText = orNull(Type.String({ maxLength: 200 }))
/** Of a process, and the number of its watch. The subject of a feed is made of it. */
const WatchId = Type.String({ pattern: '^[0-9a-f]{1,32}-[0-9]{1,10}$' })
const MAX_QUERY_CHARACTERS = 4096

/** Asked by an app's developers, whose watches have bounds of their own. */
const ofPortal = { portal: Type.Optional(Type.Literal(true)) }
const RefusalFilter = Type.Object({ app: FilterText, code: FilterText, ...ofPortal })
const AlertFilter = Type.Object({ app: FilterText, ...ofPortal })
const EventFilter = Type.Object({
  ...ofPortal,
  app: FilterText,
  type: orNull(oneOf(EVENT_TYPES)),
  name: FilterText,
  user: FilterText,
})

/** A node tells of the bytes of so many apps at most. */
export const MAX_BYTES_APPS = 1000

/** What a watcher asks other processes to send it; and its end. */
export const Watch = Type.Union([
  Type.Object({ from: Text, id: WatchId, kind: Type.Literal('end') }),
  Type.Object({ from: Text, id: WatchId, kind: Type.Literal('events'), filter: EventFilter }),
  Type.Object({ from: Text, id: WatchId, kind: Type.Literal('refusals'), filter: RefusalFilter }),
  Type.Object({ from: Text, id: WatchId, kind: Type.Literal('alerts'), filter: AlertFilter }),
])

/** What fits a filter in one second: seen, shown, and not looked at, since too much came. */
export const Rate = Type.Object({ seen: Type.Number(), shown: Type.Number(), unsearched: Type.Number() })

/** A message of a feed; an item's JSON follows it, as bytes. */
export const Feed = Type.Union([
  Type.Object({ kind: Type.Literal('item') }),
  Type.Object({ kind: Type.Literal('rate'), rate: Rate }),
])

/** Questions that every process answers of itself. `now` without a range has no plots. */
export const QUESTIONS = {
  now: Type.Object({ range: orNull(oneOf(RANGE_NAMES)) }),
  refusals: Type.Object({
    ...RefusalFilter.properties,
    limit: Type.Number({ maximum: MAX_REFUSALS_SHOWN }),
    request_id: Type.Optional(Type.String({ maxLength: 40 })),
  }),
  'last hour': Type.Object({ app: FilterText }),
}

export const Ask = Type.Union([
  Type.Object({ from: Text, name: Type.Literal('now'), question: QUESTIONS.now }),
  Type.Object({ from: Text, name: Type.Literal('refusals'), question: QUESTIONS.refusals }),
  Type.Object({ from: Text, name: Type.Literal('last hour'), question: QUESTIONS['last hour'] }),
])

/** Events accepted, and requests refused, of apps in the last hour. */
export const LastHourPiece = Type.Object({
  accepted: Counts,
  refused: Type.Record(Type.String(), Counts, { maxProperties: 1000 }),
  /** Events accepted in the last minutes, and in how many seconds. */
  recent: Type.Record(Type.String(), listOf(Type.Number(), { maxItems: 2 }), { maxProperties: 1000 }),
  /** false: an app that is not in it may still have had some. */
  has_all: Type.Boolean(),
  /** Stored in the last hour, today and in today's highest minute; of the apps with most in the hour. Both absent: an earlier version answers. */
  bytes: Type.Optional(
    Type.Record(Type.String(), listOf(Type.Number(), { minItems: 3, maxItems: 3 }), { maxProperties: MAX_BYTES_APPS }),
  ),
  bytes_has_all: Type.Optional(Type.Boolean()),
})

/** The answer of one process to each question. */
export const PIECES = {
  now: Type.Object({ piece: NodeReport }),
  refusals: Type.Object({ piece: RefusalsPiece }),
  'last hour': Type.Object({ piece: LastHourPiece }),
}

/** A process is there; or it ends. */
export const Here = Type.Union([
  Type.Object({ from: Text, report: NodeReport }),
  Type.Object({ from: Text, gone: Text }),
])

/** A session was ended before its time. Only who opened it knows its name. */
export const SessionEnded = Type.Object({
  from: Text,
  session: Type.String({ pattern: '^[\\w-]{22}$' }),
  endsAt: Type.Integer({ minimum: 0, maximum: 999_999_999_999 }),
})

/** A question that one node answers for all. A body follows it, as bytes. */
export const Inquiry = Type.Object({
  name: oneOf(INQUIRY_NAMES),
  scope: Type.Union([Type.Literal('all'), Type.Object({ appId: Type.String({ maxLength: 64 }) })]),
  query: Type.String({ maxLength: MAX_QUERY_CHARACTERS }),
})

/** One part of an answer that is too long for a message. Its bytes follow it. */
export const Part = Type.Object({
  part: Type.Number(),
  of: Type.Number(),
  status: Type.Integer({ minimum: 200, maximum: 599 }),
})

export type EventFilter = Of<typeof EventFilter>
export type AlertFilter = Of<typeof AlertFilter>
export type RefusalFilter = Of<typeof RefusalFilter>
export type Watch = Of<typeof Watch>
export type Rate = Of<typeof Rate>
export type Feed = Of<typeof Feed>
export type Questions = { readonly [Name in keyof typeof QUESTIONS]: Of<(typeof QUESTIONS)[Name]> }
export type LastHourPiece = Of<typeof LastHourPiece>
export type Pieces = { readonly [Name in keyof typeof PIECES]: Of<(typeof PIECES)[Name]>['piece'] }
export type Ask = Of<typeof Ask>

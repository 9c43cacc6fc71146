// The messages between the nodes of a cluster. Whoever may publish on NATS may send them, so each is bounded, and what does
// not have its form is dropped. Further members are allowed: a later version may have them.

import { EVENT_TYPES } from '../bounds.ts'
import { NodeReport } from './now.ts'
import { RefusalsPiece } from './refusals.ts'
import { Counts, listOf, type Of, oneOf, orNull, Text } from './schema.ts'
import { type TSchema, Type } from './typebox.ts'
import { MAX_BYTES_APPS, MAX_NODES, OF_EACH, OF_STORES } from './words.ts'

/** Of a filter, whose text is looked for in each event. */
const FilterText = orNull(Type.String({ maxLength: 200 }))
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

/** A body follows it, as bytes. `query`: as in the address. */
export const Question = Type.Object({
  from: Text,
  name: oneOf([...OF_EACH, ...OF_STORES]),
  scope: Type.Union([
    Type.Literal('all'),
    Type.Object({ appId: Type.String({ maxLength: 64 }), isOperator: Type.Optional(Type.Boolean()) }),
  ]),
  query: Type.String({ maxLength: MAX_QUERY_CHARACTERS }),
})

/** One part of an answer, which may be too long for a message. Its bytes follow it. */
export const Part = Type.Object({
  from: Text,
  part: Type.Number(),
  of: Type.Number(),
  status: Type.Integer({ minimum: 200, maximum: 599 }),
})

/** What fits a filter in one second: seen, shown, and not looked at, since too much came. */
export const Rate = Type.Object({ seen: Type.Number(), shown: Type.Number(), unsearched: Type.Number() })

/** By node, the number up to which whoever asks knows what fits. Of a node that is not named only what comes from now on is wanted. */
const Since = Type.Record(Type.String(), Type.Number(), { maxProperties: MAX_NODES })

function live<const Kind extends string, Filter extends TSchema>(kind: Kind, filter: Filter) {
  return Type.Object({
    kind: Type.Literal(kind),
    watches: listOf(Type.Object({ filter, since: Since })),
  })
}

/** The body of the question `live`: what fits each filter. */
export const Live = Type.Union([
  live('events', EventFilter),
  live('refusals', RefusalFilter),
  live('alerts', AlertFilter),
])

/** What a node tells of each watch, in their order: items as JSON, and what it counted in a second. */
const LivePiece = Type.Object({
  node: Text,
  kind: oneOf(['events', 'refusals', 'alerts']),
  told: listOf(Type.Object({ next: Type.Number(), kept: listOf(Type.Union([Type.String(), Rate])) })),
})

/** Events accepted, and requests refused, of apps in the last hour. */
export const LastHourPiece = Type.Object({
  accepted: Counts,
  refused: Type.Record(Type.String(), Counts, { maxProperties: 1000 }),
  /** Events accepted in the last minutes, and in how many seconds. */
  recent: Type.Record(Type.String(), listOf(Type.Number(), { maxItems: 2 }), { maxProperties: 1000 }),
  /** false: an app that is not in it may still have had some. */
  has_all: Type.Boolean(),
  /** Stored in the last hour, today and in today's highest minute; of the apps with most in the hour. */
  bytes: Type.Record(Type.String(), listOf(Type.Number(), { minItems: 3, maxItems: 3 }), {
    maxProperties: MAX_BYTES_APPS,
  }),
  bytes_has_all: Type.Boolean(),
})

/** The answer of one process to each question. */
export const PIECES = { now: NodeReport, refusals: RefusalsPiece, 'last hour': LastHourPiece, live: LivePiece }

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

export type EventFilter = Of<typeof EventFilter>
export type AlertFilter = Of<typeof AlertFilter>
export type RefusalFilter = Of<typeof RefusalFilter>
export type Rate = Of<typeof Rate>
export type Live = Of<typeof Live>
export type LastHourPiece = Of<typeof LastHourPiece>
export type Pieces = { readonly [Name in keyof typeof PIECES]: Of<(typeof PIECES)[Name]> }

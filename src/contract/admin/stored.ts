// What is stored: events, and where a batch is.

import { Refusal } from './refusals.ts'
import { listOf, type Of, OptionalText, oneOf, orNull, said, Time } from './schema.ts'
import { Type } from './typebox.ts'
import { CONSUMER_STATES, DAMAGE_KINDS, MAX_DAMAGE_SHOWN, NOT_FOUND_REASONS } from './words.ts'

export const StoredEvent = Type.Object({
  batch_id: Type.String(),
  app_id: Type.String(),
  received_at: Time,
  sdk_version: OptionalText,
  trace: Type.Optional(Type.String()),
  node: said(OptionalText, 'That took it; null: it was read from the queue, which does not tell.'),
  index: Type.Integer({ minimum: 0, description: 'Its place in the batch.' }),
  event: Type.Unsafe<unknown>({
    type: 'object',
    description: 'As it was sent. Of one larger than 64 KB only its head, with a `note`.',
  }),
})

export const EventRate = Type.Object({
  seen_per_second: Type.Number({ description: 'Events that fit the filter.' }),
  shown_per_second: Type.Number(),
  unsearched_per_second: Type.Optional(
    Type.Number({ description: 'More than could be looked through for the filter.' }),
  ),
})

const searched = {
  searched_back_to: orNull(
    Type.String({ format: 'date-time' }),
    'When the oldest record that was read was received; null: none was, or it was found without.',
  ),
  complete: Type.Boolean({
    description: 'false: the time was over before all of the queue was read, and others may be older.',
  }),
  skipped: Type.Integer({ description: 'Damaged records among those that were read. What they hold is not found.' }),
}

export const NewestEvents = Type.Object({ events: listOf(StoredEvent), ...searched })

export const BatchHit = Type.Object({
  kind: oneOf(['batch', 'key']),
  key: Type.Optional(Type.String({ description: 'Of a `key`, in lower case.' })),
  batch_id: Type.String(),
  app_id: Type.String(),
  received_at: Time,
  events: Type.Integer(),
})

export const SearchHit = Type.Union([
  BatchHit,
  Type.Object({ kind: Type.Literal('refusal'), ...Refusal.properties }),
  Type.Object({ kind: Type.Literal('event'), ...StoredEvent.properties }),
  Type.Object({ kind: Type.Literal('user'), ...StoredEvent.properties }),
])

export const SearchResult = Type.Object({
  query: Type.String(),
  found: listOf(SearchHit, { description: 'Empty where nothing was found.' }),
  ...searched,
})

export const Place = Type.Union([
  Type.Object({
    kind: Type.Literal('stream'),
    stream: Type.String(),
    subject: Type.String(),
    sequence: Type.Integer(),
    stored_at: Time,
    spooled: Type.Boolean({ description: 'It lay in the spool of a node from when it was received.' }),
  }),
  Type.Object({
    kind: Type.Literal('journal'),
    segment: Type.String(),
    offset_bytes: Type.Integer(),
    length_bytes: Type.Integer(),
  }),
  Type.Object(
    {
      kind: Type.Literal('spool'),
      since: Time,
      folder: Type.String(),
      segment: Type.String(),
      offset_bytes: Type.Integer(),
      length_bytes: Type.Integer(),
    },
    { description: 'On the disk of the node that answers, and not known to be in the stream yet.' },
  ),
])

export const Reader = Type.Object({
  name: Type.String(),
  state: oneOf(CONSUMER_STATES),
  read_at: Type.Unsafe<null>({ type: 'null', description: 'NATS does not tell it.' }),
})

const damage = Type.Optional(
  listOf(
    Type.Object({
      kind: oneOf(
        DAMAGE_KINDS,
        'checksum: the bytes there are not those that were written. missing: the file ends before them. record: they are no record. beside: this file of checksums cannot be read.',
      ),
      file: Type.String(),
      offset_bytes: Type.Integer(),
      length_bytes: Type.Integer(),
    }),
    { maxItems: MAX_DAMAGE_SHOWN, description: 'Damage to the journal or spool that the search met, the first of it.' },
  ),
)

export const Found = Type.Object({
  found: Type.Literal(true),
  batch_id: Type.String(),
  app_id: Type.String(),
  received_at: Time,
  sdk_version: OptionalText,
  trace: OptionalText,
  events: Type.Integer(),
  keyed: Type.Boolean(),
  place: Place,
  consumers: listOf(Reader),
  damage,
  record: Type.Optional(
    Type.Unsafe<{ readonly events?: unknown }>({ type: 'object', description: 'The queue record.' }),
  ),
})

/** The id is that of a refused request. */
export const RefusalFound = Type.Object({ found: Type.Literal(true), refusal: Refusal })

export const NotFound = Type.Object({
  found: Type.Literal(false),
  batch_id: Type.String(),
  reason: oneOf(
    NOT_FOUND_REASONS,
    'stopped: two seconds of reading did not reach all of the queue. empty: the queue is. future: the id says that it was made in the future. expired: it was made before anything that the queue still has. narrowed: the queue has more than the times that were asked for. absent: all that may hold it was read.',
  ),
  searched_from: Type.String({ description: 'Where the search came from the newest on.' }),
  searched_to: Type.String(),
  queue_reaches_back_to: OptionalText,
  damage,
  complete: Type.Boolean({ description: 'false: `reason` is `stopped`.' }),
  go_on_before: said(OptionalText, 'With this as `before` a search that stopped goes on; null: none is needed.'),
})

export type StoredEvent = Of<typeof StoredEvent>
export type EventRate = Of<typeof EventRate>
export type NewestEvents = Of<typeof NewestEvents>
export type SearchHit = Of<typeof SearchHit>
export type SearchResult = Of<typeof SearchResult>
export type Place = Of<typeof Place>
export type Reader = Of<typeof Reader>
export type Found = Of<typeof Found>
export type RefusalFound = Of<typeof RefusalFound>
export type NotFound = Of<typeof NotFound>

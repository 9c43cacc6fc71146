// Refused requests, as the admin API and `sluice tail --refused` show them.

import { TOLD_REASONS } from '../outcome.ts'
import { listOf, type Of, OptionalText, oneOf, orNull, said, Text, Time, TimeMs } from './schema.ts'
import { Type } from './typebox.ts'

const MINUTES = 60

export const Reason = orNull(
  Type.String({ maxLength: 40 }),
  'Why a request was answered 503: one of the words of `sluice_overloaded_total` (docs/runbooks.md; `GET /api/codes` has what each means). Of a 429, `bytes`: the bytes of its minute, not its events, were used up. Of a 401, `origin`: the page may not send with this key. Null elsewhere.',
)
/** As told to clients: no reason of a 503 leaves for those who send. */
export const ToldReason = Type.Optional(
  oneOf(
    TOLD_REASONS,
    'Of a 429, `bytes`: the bytes of its minute, not its events, were used up. Of a 401, `origin`: the page may not send with this key. Absent: the code says all.',
  ),
)
export const Origin = said(
  OptionalText,
  'Of a web page that `SLUICE_CORS_ORIGINS` does not allow to send, where that is why (its preflight, or a text/plain that needs none), or that `origins` of the app does not name. At most 200 characters. Null elsewhere.',
)

/** What a refusal and a group of them have both. */
const refused = {
  app_id: said(OptionalText, 'Null: the request named no app that is known.'),
  code: Type.String({
    maxLength: 1000,
    description: 'An `error` of the public API, or `replayed_other_body`, whose events are not stored.',
  }),
  reason: Reason,
  origin: Origin,
  path: said(
    OptionalText,
    'Of the first offending member; in groups all items of an array are alike: `events[*].name`.',
  ),
}

export const Refusal = Type.Object({
  time: Time,
  request_id: Type.String({ maxLength: 1000, description: 'As in X-Request-Id; of a replay, its X-Batch-Id.' }),
  ...refused,
  shape: Type.Optional(
    said(
      OptionalText,
      'Type and length of that member, and nothing of its content: `string of 212 characters`, or `absent`. Null: no member offends. Absent: an earlier version refused it.',
    ),
  ),
  message: Text,
  sdk_version: OptionalText,
  node: Text,
})

const PerMinute = Type.Array(Type.Integer(), { minItems: MINUTES, maxItems: MINUTES, description: 'Oldest first.' })

export const RefusalGroup = Type.Object({
  ...refused,
  sdk_version: said(OptionalText, 'The first of `sdk_versions`.'),
  sdk_versions: listOf(OptionalText, { description: 'All of this cause.' }),
  message: said(Text, 'Of the newest request of this cause.'),
  count: Type.Integer(),
  first_at: Time,
  last_at: Time,
  per_minute: PerMinute,
})

export const Refusals = Type.Object({
  since: said(
    Time,
    'From when on `groups` count: an hour ago, or the start of the node that started last, where that is later.',
  ),
  refusals: listOf(Refusal, { description: 'Newest first.' }),
  groups: listOf(RefusalGroup, { description: 'The most frequent first.' }),
})

/** The refusals of the last hour that are alike, of one node. */
export const OwnGroup = Type.Object({
  ...refused,
  sdk_version: OptionalText,
  message: Text,
  count: Type.Number(),
  first_ms: TimeMs,
  last_ms: TimeMs,
  per_minute: PerMinute,
})

/** The answer of one node. `minute`: that ends each list of minutes. `since_ms`: from when on it counts. */
export const RefusalsPiece = Type.Object({
  since_ms: TimeMs,
  minute: TimeMs,
  refusals: listOf(Refusal),
  groups: listOf(OwnGroup),
})

export type Refusal = Of<typeof Refusal>
export type RefusalGroup = Of<typeof RefusalGroup>
export type Refusals = Of<typeof Refusals>
export type OwnGroup = Of<typeof OwnGroup>
export type RefusalsPiece = Of<typeof RefusalsPiece>

// Apps and their limits, what would happen to a body, and what codes mean.

import { MAX_REPORTED_APPS, MAX_USAGE_DAYS } from '../bounds.ts'
import { ERROR_CODES } from '../outcome.ts'
import { Reason } from './refusals.ts'
import { Counts, listOf, type Of, OptionalNumber, OptionalText, oneOf, orNull, said, Time } from './schema.ts'
import { Type } from './typebox.ts'
import { WHOSE } from './words.ts'

export const Window = Type.Object({ used: Type.Number(), limit: OptionalNumber, resets_at: Time })

const tolerance = Type.Number({ description: 'What a paid plan may go over what was sold; it is in `limit`.' })

export const MonthWindow = Type.Object({
  used: Type.Number(),
  limit: Type.Number({ description: 'The enforced one, with the tolerance of paid plans.' }),
  resets_at: Time,
  tolerance_percent: tolerance,
})

export const LastHour = Type.Object({ accepted_events: Type.Integer(), refused: Counts })

export const StoredBytes = Type.Object({
  last_hour: Type.Integer(),
  today: Type.Integer({ description: 'Of the UTC day.' }),
  highest_minute_today: Type.Integer({ description: 'Of each node the most in a UTC minute of today, added up.' }),
})

export const SpooledEvents = Type.Object(
  {
    events: Type.Integer(),
    of_gone_nodes: Type.Integer({
      description:
        'Of these, in spools that no node has reported for two minutes: no window counts them until they are sent.',
    }),
  },
  {
    description:
      'Events in spools of nodes, or sent from one and not read by the audit yet. Absent: none, as far as is known.',
  },
)

export const AppUsage = Type.Object({
  app_id: Type.String(),
  name: OptionalText,
  plan: Type.String(),
  subscription: Type.String(),
  minute: Window,
  day: Window,
  month: MonthWindow,
  last_hour: orNull(LastHour, 'null: not known, since too many apps send.'),
  events_per_second: said(
    OptionalNumber,
    'Accepted in the last five minutes, or since the first one in them; null: that is less than a minute ago, or not known.',
  ),
  stored_bytes: orNull(
    StoredBytes,
    'Bytes of its records, as stored: the sum of what the nodes that answer have counted since their start. Null: not known.',
  ),
  keys: listOf(Type.Object({ key: Type.String({ description: 'Masked.' }), valid_until: OptionalText })),
  spooled: Type.Optional(SpooledEvents),
})

export const Usage = Type.Object({
  apps: listOf(AppUsage, { maxItems: MAX_REPORTED_APPS }),
  total_apps: Type.Integer(),
  read_at: Time,
})

export const UsageByDay = Type.Object({
  apps: listOf(
    Type.Object({
      app_id: Type.String(),
      days: listOf(
        Type.Object({ day: Type.String({ description: 'A UTC day, such as 2026-11-20.' }), events: Type.Integer() }),
        { maxItems: MAX_USAGE_DAYS },
      ),
    }),
    { maxItems: MAX_REPORTED_APPS },
  ),
  read_at: Time,
})

const limit = {
  used: Type.Number(),
  remaining: OptionalNumber,
  ends_at: Time,
}

export const Limit = Type.Object({ limit: OptionalNumber, ...limit, tolerance_percent: Type.Optional(tolerance) })

export const Explained = Type.Object({
  status: Type.Integer(),
  code: Type.String({ description: '`accepted`, or an `error` of the public API.' }),
  message: OptionalText,
  reason: Reason,
  retry_after_seconds: OptionalNumber,
  body_bytes: Type.Integer(),
  events: OptionalNumber,
  errors: listOf(
    Type.Object({
      path: Type.String(),
      message: Type.String(),
      code: oneOf(ERROR_CODES, 'What is wrong, for programs.'),
      event: orNull(Type.Integer(), 'The place of its event in `events`. Null: outside of them.'),
      start: orNull(
        Type.Integer(),
        "Its first byte in the body, that of a member's name; of a member that is missing, the bracket of the object that has not got it. Null: the body is not JSON.",
      ),
      end: orNull(Type.Integer(), 'The first byte behind it.'),
    }),
  ),
  invalid_events: orNull(
    listOf(Type.Integer()),
    'The places of all events that have an error: without them the body fits. Null: it fits, or an error lies outside of the events.',
  ),
  app: orNull(
    Type.Object({ app_id: Type.String(), name: OptionalText, plan: Type.String(), subscription: Type.String() }),
  ),
  limits: orNull(
    Type.Object({
      minute: Limit,
      day: Limit,
      month: Limit,
      bytes: Type.Optional(
        said(Limit, 'What this minute stored of the app on the node that answers. Absent: not known.'),
      ),
    }),
  ),
})

export const Codes = Type.Object({
  codes: listOf(
    Type.Object({
      code: Type.String(),
      status: Type.Integer(),
      meaning: Type.String(),
      client_should: Type.String(),
      whose: oneOf(
        WHOSE,
        '`ours`: the service fails; `client`: the request is wrong; `limit`: the plan, limits or subscription of the app.',
      ),
    }),
  ),
  reasons: listOf(
    Type.Object({
      reason: Type.String(),
      happened: Type.String(),
      clients: Type.String({ description: 'What clients notice.' }),
      todo: Type.String(),
    }),
  ),
})

export const Session = Type.Object({
  token_wanted: Type.Boolean(),
  open: Type.Boolean({ description: 'This request may ask.' }),
})

export const Example = Type.Object({
  port: Type.Integer({ description: 'The public one.' }),
  tls: Type.Boolean(),
  app_key: said(
    OptionalText,
    'Of the demo app that a first start makes; null: there is none, or the token shown is for reading alone. Other keys are never shown.',
  ),
})

export type Window = Of<typeof Window> & Partial<Pick<Of<typeof MonthWindow>, 'tolerance_percent'>>
export type LastHour = Of<typeof LastHour>
export type AppUsage = Of<typeof AppUsage>
export type Usage = Of<typeof Usage>
export type UsageByDay = Of<typeof UsageByDay>
export type Explained = Of<typeof Explained>
export type Codes = Of<typeof Codes>
export type Session = Of<typeof Session>
export type Example = Of<typeof Example>

// The alerts of apps, as the API gives them.

import { listOf, type Of, oneOf, orNull, Time } from './schema.ts'
import { Type } from './typebox.ts'

const MAX_PERCENT = 100

export const AppAlert = Type.Object({
  id: Type.String({ description: 'The same wherever and however often the alert is sent or read.' }),
  at: Time,
  app_id: Type.String(),
  kind: oneOf(
    ['step', 'forecast'],
    "step: of the app's own list; forecast: the month's room ends in less than 48 hours, at the rate of the last 24.",
  ),
  state: oneOf(
    ['raised', 'cleared'],
    'cleared: this step, and each above it, is no longer reached; or the room lasts again.',
  ),
  window: oneOf(['day', 'month']),
  percent: orNull(Type.Integer({ minimum: 1, maximum: MAX_PERCENT }), 'null: a forecast.'),
  used: Type.Integer(),
  limit: orNull(Type.Integer(), 'The enforced one, with the tolerance of paid plans; null: there is none any more.'),
  window_started_at: Time,
  window_ends_at: Time,
  full_at: orNull(Time, 'Of a forecast that is raised: when the room ends.'),
})

export const Alerts = Type.Object({
  alerts: listOf(AppAlert, { description: 'Oldest first.' }),
  more: Type.Boolean({ description: 'There are later ones: ask again with the id of the last one as `after`.' }),
})

export type Alerts = Of<typeof Alerts>

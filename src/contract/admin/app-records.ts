// App records as the admin API shows and takes them, and what a change of one answers.

import { AppUsage } from './apps.ts'
import { listOf, OptionalText, Time } from './schema.ts'
import { Type } from './typebox.ts'

export const ShownReadKey = Type.Object({
  name: Type.String(),
  expires_at: OptionalText,
  last_used_at: { ...OptionalText, description: 'To the hour.' },
})
export const ReadKeys = Type.Object({ read_keys: listOf(ShownReadKey) })
export const MadeReadKey = Type.Object({
  key: Type.String({ description: 'It is not shown again.' }),
  ...ShownReadKey.properties,
})

const members = {
  name: Type.Optional(Type.String({ maxLength: 200 })),
  plan: Type.String(),
  subscription: Type.String(),
  trial_ends_at: Type.Optional(Type.String()),
  billing_cycle_anchor: Type.Optional(Type.String()),
  events_per_day: Type.Optional(Type.Integer()),
  events_per_minute: Type.Optional(Type.Integer()),
  events_per_month: Type.Optional(Type.Integer()),
  bytes_per_minute: Type.Optional(Type.Integer()),
  origins: Type.Optional(listOf(Type.String())),
  alerts: Type.Optional(listOf(Type.Number())),
  previous_keys: Type.Optional(listOf(Type.Object({ app_key: Type.String(), valid_until: Type.String() }))),
}

export const AppRecord = Type.Object({
  app_key: Type.String({ description: 'In full to whoever may change it, masked to others; so are `previous_keys`.' }),
  app_id: Type.String(),
  ...members,
  read_keys: Type.Optional(listOf(ShownReadKey)),
})

export const Rotated = Type.Object({ app_key: Type.String(), older_valid_until: OptionalText })

const { keys: _, ...usage } = AppUsage.properties
export const OneUsage = Type.Object({ read_at: Time, ...usage })

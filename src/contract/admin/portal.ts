// What the portal answers an app's own developers: the same as the console, without what is the operators' alone.

import { AppUsage, Explained } from './apps.ts'
import { PORTAL_PROBLEMS, type PortalProblem } from './problems.ts'
import { Refusal, RefusalGroup, Refusals, ToldReason } from './refusals.ts'
import { listOf, type Of, OptionalText, oneOf, orNull, said, Time } from './schema.ts'
import { Found, StoredEvent } from './stored.ts'
import { Type } from './typebox.ts'

function without<Members extends Record<string, unknown>, Name extends keyof Members>(
  members: Members,
  ...names: Name[]
): Omit<Members, Name> {
  const kept = Object.entries(members).filter(([name]) => !names.some((one) => one === name))
  return Object.fromEntries(kept) as Omit<Members, Name>
}

export const PortalError = Type.Object({
  error: oneOf(Object.keys(PORTAL_PROBLEMS) as PortalProblem[]),
  message: Type.String(),
})

const DegradedSince = said(
  orNull(Time),
  'Since when some requests are answered 503, or figures may be late; null: neither, as far as is known.',
)

export const PortalSession = Type.Object({
  app: Type.Object({ app_id: Type.String(), name: OptionalText, plan: Type.String(), subscription: Type.String() }),
  key: Type.Object({ name: Type.String(), expires_at: OptionalText }),
  degraded_since: DegradedSince,
})

export const PortalUsage = Type.Object({
  read_at: Time,
  degraded_since: DegradedSince,
  ...without(AppUsage.properties, 'keys', 'spooled'),
})

export const PortalEvent = Type.Object(without(StoredEvent.properties, 'node'))
export const PortalEvents = Type.Object({
  events: listOf(PortalEvent, { description: 'Newest first.' }),
  complete: Type.Boolean({ description: 'false: the time was over before all that is kept was read.' }),
})

export const PortalRefusal = Type.Object({ ...without(Refusal.properties, 'node', 'reason'), reason: ToldReason })
export const PortalRefusals = Type.Object({
  since: Refusals.properties.since,
  refusals: listOf(PortalRefusal, { description: 'Newest first.' }),
  groups: listOf(Type.Object({ ...without(RefusalGroup.properties, 'reason'), reason: ToldReason }), {
    description: 'Of the last hour, the most frequent first.',
  }),
})

export const PortalFound = Type.Object(without(Found.properties, 'place', 'consumers', 'damage'))
export const PortalRefusalFound = Type.Object({ found: Type.Literal(true), refusal: PortalRefusal })
export const PortalNotFound = Type.Object({
  found: Type.Literal(false),
  batch_id: Type.String(),
  complete: Type.Boolean({ description: 'false: two seconds of reading did not reach all that is kept.' }),
  go_on_before: said(OptionalText, 'With this as `before` a search that stopped goes on; null: none is needed.'),
})

export const PortalExplained = Type.Object({ ...without(Explained.properties, 'reason'), reason: ToldReason })

export type PortalSession = Of<typeof PortalSession>

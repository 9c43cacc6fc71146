// An alert: an app has used a share of its day or month, its month will be used up soon, or neither is so any more. Decided
// once in the service, and shown everywhere under one id.

import { idOfName } from './ids.ts'

/** Alerts are kept for so long: 35 days. */
export const ALERTS_KEPT_MS = 35 * 86_400_000
/** Of an app, the newest. A day raises at most ten steps, and clears them. */
export const MAX_ALERTS_OF_APP = 500

export type AlertWindow = 'day' | 'month'

export interface Alert {
  /** The same, whoever decides it again. */
  readonly id: string
  /** When it was decided; ISO 8601, as all times here. */
  readonly at: string
  readonly app_id: string
  /** step: of the app's own list. forecast: the month's room ends in less than 48 hours, at the rate of the last 24. */
  readonly kind: 'step' | 'forecast'
  /** cleared: this step, and all above it, are no longer reached; or the room lasts. */
  readonly state: 'raised' | 'cleared'
  readonly window: AlertWindow
  /** null: a forecast. */
  readonly percent: number | null
  readonly used: number
  /** The enforced one, with the tolerance of paid plans; null: the app has none any more. */
  readonly limit: number | null
  readonly window_started_at: string
  readonly window_ends_at: string
  /** Of a forecast that is raised: when the room ends. */
  readonly full_at: string | null
}

/** `round`: how often the window was cleared before. */
export function alertId(
  { app_id: appId, kind, state, window, percent, window_started_at: start }: Omit<Alert, 'id'>,
  round: number,
): string {
  // No batch id is made of a name with spaces.
  return idOfName(`alert ${appId} ${kind} ${state} ${window} ${percent} ${start} ${round}`)
}

/** The newest ones of both lists, each once, oldest first; without those that are too old. */
export function joinAlerts(older: readonly Alert[], newer: readonly Alert[], nowMs: number): Alert[] {
  const byId = new Map(newer.map((alert) => [alert.id, alert]))
  // What was raised first stays.
  for (const alert of older) byId.set(alert.id, alert)
  const oldest = new Date(nowMs - ALERTS_KEPT_MS).toISOString()
  return [...byId.values()]
    .filter(({ at }) => at >= oldest)
    .toSorted((one, other) => (one.at < other.at ? -1 : 1))
    .slice(-MAX_ALERTS_OF_APP)
}

/** Of a text that may be damaged: none. */
export function parseAlerts(text: string): Alert[] {
  try {
    const value = JSON.parse(text) as unknown
    return Array.isArray(value) ? value.filter(isAlert) : []
  } catch {
    return []
  }
}

function isAlert(value: unknown): value is Alert {
  const { id, at, app_id: appId } = Object(value) as Partial<Alert>
  return [id, at, appId].every((text) => typeof text === 'string')
}

/** A line for the log. */
export function alertText(alert: Alert): string {
  const { app_id: appId, kind, state, window, percent, used, limit, full_at: fullAt } = alert
  const of = limit === null ? `${used} events, and has no limit any more` : `${used} of ${limit} events`
  if (kind === 'forecast') {
    if (state === 'cleared') return `app ${appId}: its month lasts again; it has used ${of}`
    return `app ${appId}: at the rate of the last 24 hours its month is used up at ${fullAt}; it has used ${of}`
  }
  const verb = state === 'raised' ? 'has used' : 'is below'
  return `app ${appId} ${verb} ${percent}% of its ${window}: ${of}`
}

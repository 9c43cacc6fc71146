// What an app has used of a minute, a day and a month, how that goes on, and the words for it.

import type { AppUsage, Window } from './api-types.ts'
import { count, day, limitText, percent, span, utc } from './format.ts'

const NEAR = 0.8
const SOON_SECONDS = 600
const DAY_SECONDS = 86_400

export interface ShownWindow {
  readonly name: 'minute' | 'day' | 'month'
  readonly used: number
  readonly limit: number | null
  readonly tolerancePercent: number
  /** null: there is no limit. */
  readonly share: number | null
  /** The share at its end, at the rate of the last minutes. */
  readonly ahead: number
  readonly resetsAt: string
  readonly tone: 'near' | 'fail' | undefined
  /** `1,820 of 2,000`, and `full in 8 min`. */
  readonly text: string
  readonly note: string
}

type Windows = Pick<AppUsage, 'minute' | 'day' | 'month' | 'events_per_second'>

export function windowsOf(app: Windows, nowMs: number): readonly ShownWindow[] {
  return [
    windowOf('minute', app.minute, null, nowMs),
    windowOf('day', app.day, app.events_per_second, nowMs),
    windowOf('month', app.month, app.events_per_second, nowMs),
  ]
}

/** `perSecond`: null where no forecast is made, as for a minute, whose rate is not that of the last five. */
function windowOf(name: ShownWindow['name'], window: Window, perSecond: number | null, nowMs: number): ShownWindow {
  const { used, limit, resets_at: resetsAt, tolerance_percent: tolerancePercent = 0 } = window
  const shown = { name, used, limit, tolerancePercent, resetsAt }
  if (limit === null) {
    return { ...shown, share: null, ahead: 0, tone: undefined, text: `${count(used)}, no limit`, note: '' }
  }
  const share = limit === 0 ? 1 : Math.min(1, used / limit)
  const restSeconds = Math.max(0, (Date.parse(resetsAt) - nowMs) / 1000)
  const fullSeconds = perSecond === null || perSecond <= 0 ? Infinity : Math.max(0, limit - used) / perSecond
  const isFull = used >= limit
  const willFill = !isFull && fullSeconds < restSeconds
  const ahead = limit === 0 || perSecond === null ? share : Math.min(1, (used + perSecond * restSeconds) / limit)
  const tone =
    willFill && fullSeconds < SOON_SECONDS ? 'fail' : isFull || willFill || share >= NEAR ? 'near' : undefined
  const text = `${count(used)} of ${count(limit)}`
  return { ...shown, share, ahead, tone, text, note: noteOf() }

  function noteOf(): string {
    if (isFull)
      return name === 'minute'
        ? `full, back in ${span(Math.ceil(restSeconds))}`
        : `full until ${untilText(resetsAt, nowMs)}`
    if (willFill) return `full in ${span(fullSeconds)}`
    if (name === 'minute') return `resets in ${span(Math.ceil(restSeconds))}`
    return perSecond === null
      ? `until ${untilText(resetsAt, nowMs)}`
      : `${percent(ahead)} by ${untilText(resetsAt, nowMs)}`
  }
}

export function untilText(at: string, nowMs: number): string {
  return (Date.parse(at) - nowMs) / 1000 <= DAY_SECONDS ? utc(at, 'minute') : day(at)
}

/** The one of which least is left; of two that are full, the longer one. */
export function nearestOf(windows: readonly ShownWindow[]): ShownWindow {
  const rank = ({ tone, share }: ShownWindow): number => (tone === 'fail' ? 2 : tone === 'near' ? 1 : 0) + (share ?? 0)
  return windows.toReversed().toSorted((one, other) => rank(other) - rank(one))[0]
}

/** As it was sold, with what may be gone over it. */
export function soldText({ limit, tolerancePercent }: ShownWindow): string {
  return limit === null ? 'no limit' : limitText(limit, tolerancePercent)
}

// `sluice apps rotate`: gives an app a new key, while its older keys stay valid for a while.

import { MAX_PREVIOUS_KEYS, momentMs, type PreviousKeyRecord } from '../../apps/app-record.ts'
import { UsageError } from '../shell.ts'
import type { Draft } from './app-draft.ts'
import type { RotationResult } from './apps-text.ts'

const HOUR_MS = 3_600_000
const UNIT_MS = { d: 24 * HOUR_MS, h: HOUR_MS } as const
const MAX_OVERLAP_MS = 3650 * UNIT_MS.d

/** Parses `30d`, `12h` or `0` to ms. */
export function overlapOf(text: string): number {
  const match = /^(\d{1,6})([dh])$/.exec(text)
  if (text === '0') return 0
  const ms = match === null ? Number.NaN : Number(match[1]) * UNIT_MS[match[2] as 'd' | 'h']
  if (ms <= MAX_OVERLAP_MS) return ms
  throw new UsageError('--overlap: must be a number of days or hours, such as 30d or 12h, at most 3650d, or 0')
}

export interface Rotation {
  readonly key: string
  readonly overlapMs: number
  readonly nowMs: number
}

/** `dropped`: the number of older keys that were removed before their time, since there are too many. */
export function rotated(record: Draft, { key, overlapMs, nowMs }: Rotation): { record: Draft } & RotationResult {
  const untilMs = nowMs + overlapMs
  const earlier = (record.previous_keys ?? []) as readonly PreviousKeyRecord[]
  const own: PreviousKeyRecord = { app_key: String(record.app_key), valid_until: timeText(untilMs) }
  const ending = earlier.map((each) => (endOf(each) > untilMs ? withEnd(each, untilMs) : each))
  const valid = overlapMs === 0 ? [] : [...ending, own].filter((each) => endOf(each) > nowMs)
  const kept = valid.slice(-MAX_PREVIOUS_KEYS)
  const { previous_keys: _previous, ...rest } = record
  return {
    record: { ...rest, app_key: key, ...(kept.length === 0 ? {} : { previous_keys: kept }) },
    olderValidUntil: overlapMs === 0 ? null : own.valid_until,
    dropped: valid.length - kept.length,
  }
}

function withEnd(previous: PreviousKeyRecord, endMs: number): PreviousKeyRecord {
  return { ...previous, valid_until: timeText(endMs) }
}

function endOf({ valid_until: text }: PreviousKeyRecord): number {
  return momentMs(text) ?? 0
}

/** Rounded up to the second. */
function timeText(ms: number): string {
  return `${new Date(Math.ceil(ms / 1000) * 1000).toISOString().slice(0, 19)}Z`
}

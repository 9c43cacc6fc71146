// The keys of an app: a new one that leaves the older ones valid for a while, and keys that only read.

import { randomBytes } from 'node:crypto'
import type { PreviousKeyRecord, ReadKeyRecord } from '../apps/app-record.ts'
import { freshReadKey, MAX_READ_KEYS, secretsOf } from '../apps/read-keys.ts'
import { MAX_PREVIOUS_KEYS, momentMs } from '../apps/record-members.ts'
import { DAY_MS, HOUR_MS } from '../lib/spans.ts'
import type { Draft } from './app-draft.ts'

const UNIT_MS = { d: DAY_MS, h: HOUR_MS } as const
const MAX_SPAN_MS = 3650 * UNIT_MS.d

/** Parses `30d`, `12h` or `0` to ms. null: it is none of these, or longer than ten years. */
export function spanMsOf(text: string): number | null {
  if (text === '0') return 0
  const match = /^(\d{1,6})([dh])$/.exec(text)
  const ms = match === null ? Number.NaN : Number(match[1]) * UNIT_MS[match[2] as 'd' | 'h']
  return ms <= MAX_SPAN_MS ? ms : null
}

export function freshKey(appId: string): string {
  return `ak_${appId}_${randomBytes(12).toString('hex')}`
}

export interface RotationResult {
  /** null: no older key is valid any more. */
  readonly olderValidUntil: string | null
  /** Older keys that were removed before their time. */
  readonly dropped: number
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

export interface NewReadKey {
  /** null: one is given. */
  readonly name: string | null
  /** null: it has no end. */
  readonly endsAtMs: number | null
}

/** What is wrong with a read key that is to be made or ended. */
export type ReadKeyProblem = 'name taken' | 'too many' | 'no such key'

export function withReadKey(
  record: Draft,
  { name, endsAtMs }: NewReadKey,
): { readonly record: Draft; readonly key: string; readonly made: ReadKeyRecord } | ReadKeyProblem {
  const present = readKeysOf(record)
  if (present.some((one) => one.name === name)) return 'name taken'
  if (present.length >= MAX_READ_KEYS) return 'too many'
  const key = freshReadKey()
  const end = endsAtMs === null ? {} : { expires_at: timeText(endsAtMs) }
  const made = { name: name ?? freeName(present), ...secretsOf(key), ...end }
  return { record: { ...record, read_keys: [...present, made] }, key, made }
}

function freeName(present: readonly ReadKeyRecord[]): string {
  const names = Array.from({ length: MAX_READ_KEYS }, (_, at) => `key-${at + 1}`)
  return names.find((name) => !present.some((one) => one.name === name)) ?? 'key'
}

export function withoutReadKey(record: Draft, name: string): Draft | ReadKeyProblem {
  const present = readKeysOf(record)
  const kept = present.filter((one) => one.name !== name)
  if (kept.length === present.length) return 'no such key'
  const { read_keys: _, ...rest } = record
  return kept.length === 0 ? rest : { ...rest, read_keys: kept }
}

export function readKeysOf(record: Draft): readonly ReadKeyRecord[] {
  return (record.read_keys ?? []) as readonly ReadKeyRecord[]
}

/** All that is shown of a key once it was made. */
export function shownReadKey({ name, expires_at, last_used_at }: ReadKeyRecord) {
  return { name, expires_at: expires_at ?? null, last_used_at: last_used_at ?? null }
}

// Refusals as the console shows them: filtered, with the node's name, and those of several nodes together.

import type { RefusedCount } from './now.ts'
import type { Refusal, RefusalGroup, ShownGroup, ShownRefusal, ShownRefusals } from './refusal.ts'

const MINUTE_MS = 60_000
export const MAX_REFUSALS_SHOWN = 1000
const DEFAULT_REFUSALS_SHOWN = 100
/** Of one node. */
const MAX_GROUPS_TOLD = 300
const NO_APP = '-'
const MAX_TEXT = 100

export interface RefusalFilter {
  /** `-`: no app is known; null: all. */
  readonly app: string | null
  readonly code: string | null
}

export interface RefusalQuestion extends RefusalFilter {
  readonly limit: number
}

/** What one node tells. */
export interface RefusalsPiece {
  /** The minute that ends each list of minutes. */
  readonly minute: number
  /** Newest first. */
  readonly refusals: readonly ShownRefusal[]
  readonly groups: readonly RefusalGroup[]
}

/** What this process has refused. */
export interface RefusalSource {
  newest(): Refusal[]
  rows(nowMs: number): RefusalGroup[]
}

/** A sentence where the query is wrong. */
export function readRefusalFilter(query: URLSearchParams): RefusalFilter | string {
  const value = (name: string): string | null => {
    const text = query.get(name)
    return text === '' ? null : text
  }
  const filter = { app: value('app'), code: value('code') }
  const long = (['app', 'code'] as const).find((name) => (filter[name]?.length ?? 0) > MAX_TEXT)
  return long === undefined ? filter : `${long}: must not exceed ${MAX_TEXT} characters`
}

export function readRefusalQuestion(query: URLSearchParams): RefusalQuestion | string {
  const filter = readRefusalFilter(query)
  if (typeof filter === 'string') return filter
  const text = query.get('limit') ?? String(DEFAULT_REFUSALS_SHOWN)
  const limit = Number(text)
  if (/^\d{1,4}$/.test(text) && limit >= 1 && limit <= MAX_REFUSALS_SHOWN) return { ...filter, limit }
  return `limit: must be a whole number from 1 to ${MAX_REFUSALS_SHOWN}`
}

export function fitsRefusal(
  { app, code }: RefusalFilter,
  refusal: { readonly app_id: string | null; readonly code: string },
): boolean {
  if (code !== null && refusal.code !== code) return false
  return app === null || refusal.app_id === (app === NO_APP ? null : app)
}

export function shownRefusal({ time_ms, ...refusal }: Refusal, node: string): ShownRefusal {
  return { time: new Date(time_ms).toISOString(), ...refusal, node }
}

export function refusalsPiece(
  source: RefusalSource,
  question: RefusalQuestion,
  at: { node: string; nowMs: number },
): RefusalsPiece {
  const fits = (one: { app_id: string | null; code: string }): boolean => fitsRefusal(question, one)
  return {
    minute: Math.floor(at.nowMs / MINUTE_MS),
    refusals: source
      .newest()
      .filter(fits)
      .slice(0, question.limit)
      .map((refusal) => shownRefusal(refusal, at.node)),
    groups: source.rows(at.nowMs).filter(fits).slice(0, MAX_GROUPS_TOLD),
  }
}

/** Counts of the last hour by app and code, the most frequent first. */
export function refusedCounts(source: RefusalSource, nowMs: number): RefusedCount[] {
  const counts = new Map<string, RefusedCount>()
  for (const { app_id, code, count } of source.rows(nowMs)) {
    const key = JSON.stringify([app_id, code])
    counts.set(key, { app_id, code, count: count + (counts.get(key)?.count ?? 0) })
  }
  return [...counts.values()].toSorted((one, other) => other.count - one.count)
}

/** The answer of all nodes. */
export function mergeRefusals(pieces: readonly RefusalsPiece[], limit: number): ShownRefusals {
  const lastMinute = Math.max(0, ...pieces.map(({ minute }) => minute))
  const groups = new Map<string, RefusalGroup>()
  for (const { minute, groups: told } of pieces) {
    for (const group of told) {
      const key = JSON.stringify([group.app_id, group.code, group.path, group.sdk_version])
      const moved = { ...group, per_minute: endingWith(group.per_minute, lastMinute - minute) }
      const before = groups.get(key)
      groups.set(key, before === undefined ? moved : mergeGroups(before, moved))
    }
  }
  return {
    refusals: newestRefusals(pieces, limit),
    groups: [...groups.values()].toSorted((one, other) => other.count - one.count).map(shownGroup),
  }
}

/** Newest first. */
export function newestRefusals(pieces: readonly RefusalsPiece[], limit: number): ShownRefusal[] {
  return pieces
    .flatMap(({ refusals }) => refusals)
    .toSorted((one, other) => (one.time < other.time ? 1 : one.time > other.time ? -1 : 0))
    .slice(0, limit)
}

function mergeGroups(one: RefusalGroup, other: RefusalGroup): RefusalGroup {
  return {
    ...one,
    count: one.count + other.count,
    first_ms: Math.min(one.first_ms, other.first_ms),
    last_ms: Math.max(one.last_ms, other.last_ms),
    per_minute: one.per_minute.map((count, at) => count + other.per_minute[at]),
  }
}

/** The same minutes, moved so that they end so many minutes later. */
function endingWith(perMinute: readonly number[], minutes: number): number[] {
  const passed = Math.min(minutes, perMinute.length)
  return [...perMinute.slice(passed), ...Array.from({ length: passed }, () => 0)]
}

function shownGroup({ first_ms, last_ms, per_minute, ...group }: RefusalGroup): ShownGroup {
  return {
    ...group,
    first_at: new Date(first_ms).toISOString(),
    last_at: new Date(last_ms).toISOString(),
    per_minute,
  }
}

// Refusals as the console shows them: filtered, with the node's name, and those of several nodes together.

import type { RefusedCount } from '../../contract/admin/now.ts'
import type { RefusalFilter } from '../../contract/admin/peers.ts'
import type {
  OwnGroup,
  Refusal,
  RefusalGroup,
  RefusalsPiece,
  Refusals as ShownRefusals,
} from '../../contract/admin/refusals.ts'
import { MAX_REFUSALS_SHOWN } from '../../contract/admin/words.ts'
import { isUuid } from '../../contract/ids.ts'
import { HOUR_MS, MINUTE_MS } from '../../lib/spans.ts'
import { countIn, textsIn } from '../query.ts'
import type { OwnRefusal } from './refusal.ts'
import type { Refusals } from './refusals.ts'

const DEFAULT_REFUSALS_SHOWN = 100
/** Of one node. */
const MAX_GROUPS = 300
const NO_APP = '-'
const MAX_TEXT = 100

/** `request_id`: of the only one that is wanted. */
export type RefusalQuestion = RefusalFilter & { readonly limit: number; readonly request_id?: string }

/** What this process has refused. */
export type RefusalSource = Pick<Refusals, 'newest' | 'newestOf' | 'withId' | 'rows'>

/** A sentence where the query is wrong. */
export function readRefusalFilter(query: URLSearchParams): RefusalFilter | string {
  return textsIn(query, ['app', 'code'], MAX_TEXT)
}

export function readRefusalQuestion(query: URLSearchParams): RefusalQuestion | string {
  const filter = readRefusalFilter(query)
  const limit = countIn(query, 'limit', { most: MAX_REFUSALS_SHOWN, standard: DEFAULT_REFUSALS_SHOWN })
  const requestId = query.get('request_id')?.toLowerCase() ?? ''
  if (typeof filter === 'string') return filter
  if (typeof limit === 'string') return limit
  if (requestId === '') return { ...filter, limit }
  return isUuid(requestId) ? { ...filter, limit, request_id: requestId } : 'request_id: must be a UUID'
}

export function fitsRefusal(
  filter: RefusalFilter,
  refusal: { readonly app_id: string | null; readonly code: string },
): boolean {
  if (filter.code !== null && refusal.code !== filter.code) return false
  return filter.app === null || refusal.app_id === appIdOf(filter)
}

/** Its own developers may have an app of that name. */
function appIdOf({ app, portal }: RefusalFilter): string | null {
  return app === NO_APP && portal !== true ? null : app
}

export function shownRefusal({ time_ms, ...refusal }: OwnRefusal, node: string): Refusal {
  return { time: new Date(time_ms).toISOString(), ...refusal, node }
}

export function refusalsPiece(
  source: RefusalSource,
  question: RefusalQuestion,
  at: { node: string; nowMs: number; startedAtMs: number },
): RefusalsPiece {
  const fits = (one: { app_id: string | null; code: string }): boolean => fitsRefusal(question, one)
  const minute = Math.floor(at.nowMs / MINUTE_MS)
  const since_ms = Math.max(at.startedAtMs, at.nowMs - HOUR_MS)
  if (question.request_id !== undefined) {
    const refusal = source.withId(question.request_id)
    const isWanted = refusal !== null && fits(refusal)
    return { since_ms, minute, refusals: isWanted ? [shownRefusal(refusal, at.node)] : [], groups: [] }
  }
  return {
    since_ms,
    minute,
    refusals: (question.app === null ? source.newest() : source.newestOf(appIdOf(question)))
      .filter(fits)
      .slice(0, question.limit)
      .map((refusal) => shownRefusal(refusal, at.node)),
    groups: source.rows(at.nowMs).filter(fits).slice(0, MAX_GROUPS),
  }
}

/** Counts of the last hour by app, code and reason, the most frequent first. */
export function refusedCounts(source: RefusalSource, nowMs: number): RefusedCount[] {
  const counts = new Map<string, RefusedCount>()
  for (const { app_id, code, reason, count } of source.rows(nowMs)) {
    const key = JSON.stringify([app_id, code, reason])
    counts.set(key, { app_id, code, reason, count: count + (counts.get(key)?.count ?? 0) })
  }
  return [...counts.values()].toSorted((one, other) => other.count - one.count)
}

type Cause = OwnGroup & Pick<RefusalGroup, 'sdk_versions'>

/** The answer of all nodes. Groups of one cause are one, whatever the SDK's version. */
export function mergeRefusals(pieces: readonly RefusalsPiece[], limit: number): ShownRefusals {
  const lastMinute = Math.max(0, ...pieces.map(({ minute }) => minute))
  const groups = new Map<string, Cause>()
  for (const { minute, groups: ofNode } of pieces) {
    for (const group of ofNode) {
      const { app_id, code, reason, origin, path, sdk_version, per_minute } = group
      const key = JSON.stringify([app_id, code, reason, origin, path])
      const moved = { ...group, sdk_versions: [sdk_version], per_minute: endingWith(per_minute, lastMinute - minute) }
      const before = groups.get(key)
      groups.set(key, before === undefined ? moved : mergeGroups(before, moved))
    }
  }
  return {
    since: new Date(Math.max(0, ...pieces.map(({ since_ms }) => since_ms))).toISOString(),
    refusals: newestRefusals(pieces, limit),
    groups: [...groups.values()].toSorted((one, other) => other.count - one.count).map(shownGroup),
  }
}

/** Newest first. */
export function newestRefusals(pieces: readonly RefusalsPiece[], limit: number): Refusal[] {
  return pieces
    .flatMap(({ refusals }) => refusals)
    .toSorted((one, other) => (one.time < other.time ? 1 : one.time > other.time ? -1 : 0))
    .slice(0, limit)
}

function mergeGroups(one: Cause, other: Cause): Cause {
  return {
    ...one,
    message: one.last_ms < other.last_ms ? other.message : one.message,
    sdk_versions: [...new Set([...one.sdk_versions, ...other.sdk_versions])],
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

function shownGroup({ first_ms, last_ms, per_minute, ...group }: Cause): RefusalGroup {
  return {
    ...group,
    first_at: new Date(first_ms).toISOString(),
    last_at: new Date(last_ms).toISOString(),
    per_minute,
  }
}

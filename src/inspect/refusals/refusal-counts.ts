// Refusals of the last hour by app, code, reason, path and SDK version, in bounded memory; and since the last log line,
// by app and code, or by the reason of a 503.

import type { OwnGroup } from '../../contract/admin/refusals.ts'
import { MAX_APPS_WITH_REFUSALS } from '../../contract/bounds.ts'
import type { OverloadReason, RefusalReason } from '../../contract/outcome.ts'
import { HourCount } from '../activity/hour-count.ts'
import { foreignPageText, type OwnRefusal, overloadOf, type RefusalLine } from './refusal.ts'

/** Of one app. Further ones count in the group of their code and reason that has neither path nor SDK version. */
const MAX_GROUPS = 20
/** Strangers can send any number of origins. */
const MAX_LINES_OF_APP = 40
const OTHER_ORIGINS = 'other origins'
/** A reason that did not appear for so long is new again. */
const QUIET_MS = 60_000

interface Group {
  readonly code: string
  readonly reason: RefusalReason | null
  readonly origin: string | null
  readonly path: string | null
  readonly sdkVersion: string | null
  /** Of the newest. */
  message: string
  readonly hour: HourCount
}

/** What a log line says of one code, of one origin, or of one reason. */
interface SinceLine {
  readonly code: string
  readonly reason: RefusalReason | null
  readonly origin: string | null
  count: number
  message: string
  requestId: string
  lastMs: number
}

/** true: there was none with this name for a minute. */
function note(lines: Map<string, SinceLine>, name: string, refusal: OwnRefusal, origin: string | null = null): boolean {
  const { code, reason, message, request_id: requestId, time_ms: lastMs } = refusal
  const line = lines.get(name)
  if (line === undefined) {
    lines.set(name, { code, reason, origin, count: 1, message, requestId, lastMs })
    return true
  }
  if (line.count++ === 0) {
    line.message = message
    line.requestId = requestId
  }
  const isFirst = lastMs - line.lastMs > QUIET_MS
  line.lastMs = lastMs
  return isFirst
}

class AppCounts {
  readonly hour = new HourCount()
  readonly sinceLine = new Map<string, SinceLine>()
  /** Without path and SDK version: at most one for each code and reason. */
  readonly #plain = new Map<string, Group>()
  readonly #groups = new Map<string, Group>()

  add(refusal: OwnRefusal): void {
    const { time_ms: nowMs, code, reason } = refusal
    this.hour.add(nowMs)
    const isPlain = refusal.path === null && refusal.sdk_version === null && refusal.origin === null
    const group = (isPlain ? null : this.#groupOf(refusal)) ?? this.#plainOf(code, reason)
    group.hour.add(nowMs)
    group.message = refusal.message
  }

  *groups(): Generator<Group> {
    yield* this.#plain.values()
    yield* this.#groups.values()
  }

  #plainOf(code: string, reason: RefusalReason | null): Group {
    const name = reason ?? code
    let group = this.#plain.get(name)
    if (group === undefined) {
      group = { code, reason, origin: null, path: null, sdkVersion: null, message: '', hour: new HourCount() }
      this.#plain.set(name, group)
    }
    return group
  }

  /** Of no 503, which has neither path nor SDK version. null: there are too many. */
  #groupOf({
    time_ms: nowMs,
    code,
    reason,
    origin,
    path: exactPath,
    sdk_version: sdkVersion,
  }: OwnRefusal): Group | null {
    const path = exactPath?.replaceAll(/\[\d+\]/g, '[*]') ?? null
    // No part has a line break, but the last one may have.
    const name = `${code}\n${reason ?? ''}\n${origin ?? ''}\n${path ?? ''}\n${sdkVersion ?? ''}`
    const found = this.#groups.get(name)
    if (found !== undefined) return found
    if (this.#groups.size >= MAX_GROUPS && !this.#forgetOne(nowMs)) return null
    const group = { code, reason, origin, path, sdkVersion, message: '', hour: new HourCount() }
    this.#groups.set(name, group)
    return group
  }

  /** Makes room where a group was not seen for an hour. */
  #forgetOne(nowMs: number): boolean {
    for (const [name, { hour }] of this.#groups) if (hour.total(nowMs) === 0) return this.#groups.delete(name)
    return false
  }
}

export class RefusalCounts {
  readonly #unknown = new AppCounts()
  readonly #apps = new Map<string, AppCounts>()
  readonly #overloads = new Map<OverloadReason, SinceLine>()
  /**
   * The apps that had the fewest refusals when all were last looked at, and new ones since, the oldest first. To look at
   * all for each new one took most of the time where thousands of apps are refused in turn.
   */
  #rare: string[] = []
  #rareTotal = 0

  /** true: a 503 whose reason has not appeared for a minute. */
  add(refusal: OwnRefusal): boolean {
    const { code, reason } = refusal
    const overload = overloadOf(refusal)
    const counts = this.#countsOf(refusal)
    counts.add(refusal)
    if (overload !== null) return note(this.#overloads, overload, refusal)
    const { sinceLine } = counts
    const origin = refusal.origin !== null && sinceLine.size >= MAX_LINES_OF_APP ? OTHER_ORIGINS : refusal.origin
    note(sinceLine, `${code} ${reason ?? ''} ${origin ?? ''}`, refusal, origin)
    return false
  }

  #countsOf(refusal: OwnRefusal): AppCounts {
    const { app_id: appId, time_ms: nowMs } = refusal
    if (appId === null) return this.#unknown
    let counts = this.#apps.get(appId)
    if (counts === undefined) {
      if (this.#apps.size >= MAX_APPS_WITH_REFUSALS) {
        // No app gives way for a 503: in an overload thousands of apps are refused in turn, which has to stay cheap.
        if (overloadOf(refusal) !== null) return this.#unknown
        this.#forgetLeast(nowMs)
        this.#noteRare(appId)
      }
      counts = new AppCounts()
      this.#apps.set(appId, counts)
    }
    return counts
  }

  #forgetLeast(nowMs: number): void {
    while (!this.#forgetRare(nowMs)) {
      const totals = [...this.#apps].map(([appId, { hour }]) => ({ appId, total: hour.total(nowMs) }))
      this.#rareTotal = Math.min(...totals.map(({ total }) => total))
      this.#rare = totals.filter(({ total }) => total === this.#rareTotal).map(({ appId }) => appId)
    }
  }

  /** false: none of the rare apps is as rare as it was. */
  #forgetRare(nowMs: number): boolean {
    for (let appId = this.#rare.shift(); appId !== undefined; appId = this.#rare.shift()) {
      if (this.#apps.get(appId)?.hour.total(nowMs) === this.#rareTotal) return this.#apps.delete(appId)
    }
    return false
  }

  /** A new app has been refused once. */
  #noteRare(appId: string): void {
    if (this.#rareTotal > 1) this.#rare = []
    if (this.#rareTotal >= 1) this.#rare.push(appId)
    this.#rareTotal = Math.min(this.#rareTotal, 1)
  }

  /** The most frequent first. */
  groups(nowMs: number): OwnGroup[] {
    const groups: OwnGroup[] = []
    for (const [appId, counts] of this.#all()) {
      for (const { code, reason, origin, path, sdkVersion, message, hour } of counts.groups()) {
        const count = hour.total(nowMs)
        if (count === 0) continue
        const { firstMs, lastMs } = hour.times
        groups.push({
          app_id: appId,
          code,
          reason,
          origin,
          path,
          sdk_version: sdkVersion,
          message,
          count,
          first_ms: firstMs,
          last_ms: lastMs,
          per_minute: hour.perMinute,
        })
      }
    }
    return groups.sort(byCount)
  }

  /** The 503s first, then the most frequent; each once. Apps that were not refused for an hour make room. */
  takeLines(nowMs: number): RefusalLine[] {
    const lines: RefusalLine[] = []
    for (const [app_id, { sinceLine, hour }] of this.#all()) {
      for (const { code, reason, origin, count, message, requestId } of sinceLine.values()) {
        const text = origin === null ? message : foreignPageText(origin, code)
        lines.push({ app_id, code, reason, origin, count, message: text, request_id: requestId })
      }
      sinceLine.clear()
      if (app_id !== null && hour.total(nowMs) === 0) this.#apps.delete(app_id)
    }
    return [...this.#takeOverloads(), ...lines.sort(byCount)]
  }

  #takeOverloads(): RefusalLine[] {
    const lines: RefusalLine[] = []
    for (const [reason, line] of this.#overloads) {
      const { count, message, requestId } = line
      const code = 'service_overloaded'
      if (count > 0) lines.push({ app_id: null, code, reason, origin: null, count, message, request_id: requestId })
      line.count = 0
    }
    return lines.sort(byCount)
  }

  *#all(): Generator<[string | null, AppCounts]> {
    yield [null, this.#unknown]
    yield* this.#apps
  }
}

function byCount(one: { readonly count: number }, other: { readonly count: number }): number {
  return other.count - one.count
}

// Refusals of the last hour by app, code, path and SDK version, in bounded memory; and by app and code since the last
// log line.

import { MAX_APPS_WITH_REFUSALS } from '../bounds.ts'
import { HourCount } from './hour-count.ts'
import type { Refusal, RefusalGroup, RefusalLine } from './refusal.ts'

/** Of one app. Further ones count in the group of their code that has neither path nor SDK version. */
const MAX_GROUPS = 20

interface Group {
  readonly code: string
  readonly path: string | null
  readonly sdkVersion: string | null
  readonly hour: HourCount
}

/** What a log line says of one code. */
interface SinceLine {
  count: number
  message: string
  requestId: string
}

class AppCounts {
  readonly hour = new HourCount()
  readonly sinceLine = new Map<string, SinceLine>()
  /** Without path and SDK version: at most one for each code. */
  readonly #plain = new Map<string, Group>()
  readonly #groups = new Map<string, Group>()

  add(refusal: Refusal, path: string | null, sdkVersion: string | null): void {
    const { time_ms: nowMs, code } = refusal
    this.hour.add(nowMs)
    this.#note(refusal)
    const isPlain = path === null && sdkVersion === null
    const group = isPlain ? null : this.#groupOf(nowMs, code, path, sdkVersion)
    ;(group ?? this.#plainOf(code)).hour.add(nowMs)
  }

  *groups(): Generator<Group> {
    yield* this.#plain.values()
    yield* this.#groups.values()
  }

  #note({ code, message, request_id: requestId }: Refusal): void {
    const since = this.sinceLine.get(code)
    if (since === undefined) {
      this.sinceLine.set(code, { count: 1, message, requestId })
    } else if (since.count++ === 0) {
      since.message = message
      since.requestId = requestId
    }
  }

  #plainOf(code: string): Group {
    let group = this.#plain.get(code)
    if (group === undefined) {
      group = { code, path: null, sdkVersion: null, hour: new HourCount() }
      this.#plain.set(code, group)
    }
    return group
  }

  /** null: there are too many. */
  #groupOf(nowMs: number, code: string, path: string | null, sdkVersion: string | null): Group | null {
    // No part has a line break, but the last one may have.
    const name = `${code}\n${path ?? ''}\n${sdkVersion ?? ''}`
    const found = this.#groups.get(name)
    if (found !== undefined) return found
    if (this.#groups.size >= MAX_GROUPS && !this.#forgetOne(nowMs)) return null
    const group = { code, path, sdkVersion, hour: new HourCount() }
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
  /**
   * The apps that had the fewest refusals when all were last looked at, and new ones since, the oldest first. To look at
   * all for each new one took most of the time where thousands of apps are refused in turn.
   */
  #rare: string[] = []
  #rareTotal = 0

  /** `appId` null: no app, or a fault that is not the app's. */
  add(refusal: Refusal, appId: string | null, path: string | null, sdkVersion: string | null): void {
    this.#countsOf(appId, refusal.time_ms).add(refusal, path, sdkVersion)
  }

  #countsOf(appId: string | null, nowMs: number): AppCounts {
    if (appId === null) return this.#unknown
    let counts = this.#apps.get(appId)
    if (counts === undefined) {
      if (this.#apps.size >= MAX_APPS_WITH_REFUSALS) {
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
  groups(nowMs: number): RefusalGroup[] {
    const groups: RefusalGroup[] = []
    for (const [appId, counts] of this.#all()) {
      for (const { code, path, sdkVersion, hour } of counts.groups()) {
        const count = hour.total(nowMs)
        if (count === 0) continue
        const { firstMs, lastMs } = hour.times
        groups.push({
          app_id: appId,
          code,
          path,
          sdk_version: sdkVersion,
          count,
          first_ms: firstMs,
          last_ms: lastMs,
          per_minute: hour.perMinute,
        })
      }
    }
    return groups.sort((one, other) => other.count - one.count)
  }

  /** By app and code, the most frequent first; each is told once. */
  takeLines(): RefusalLine[] {
    const lines: RefusalLine[] = []
    for (const [app_id, { sinceLine }] of this.#all()) {
      for (const [code, { count, message, requestId }] of sinceLine) {
        if (count > 0) lines.push({ app_id, code, count, message, request_id: requestId })
      }
      sinceLine.clear()
    }
    return lines.sort((one, other) => other.count - one.count)
  }

  *#all(): Generator<[string | null, AppCounts]> {
    yield [null, this.#unknown]
    yield* this.#apps
  }
}

// How many events each app had accepted in the last hour, for the view Apps.

import { HourCount } from './hour-count.ts'

/** Further apps are not counted until one of these was quiet for an hour: about half a megabyte. */
const MAX_APPS = 1000
/** Between two looks for quiet apps while there is no room. */
const SWEEP_INTERVAL_MS = 60_000

export class AcceptedCounts {
  readonly #apps = new Map<string, HourCount>()
  #sweptAtMs = Number.NEGATIVE_INFINITY

  /** On the path of a request. */
  add(appId: string, events: number, nowMs: number): void {
    let count = this.#apps.get(appId)
    if (count === undefined) {
      if (this.#apps.size >= MAX_APPS && !this.#sweep(nowMs)) return
      count = new HourCount()
      this.#apps.set(appId, count)
    }
    count.add(nowMs, events)
  }

  get hasAll(): boolean {
    return this.#apps.size < MAX_APPS
  }

  /** Of each app the count of the hour, and that of the last minutes with their seconds. */
  *all(nowMs: number): Generator<[appId: string, total: number, recent: readonly [count: number, seconds: number]]> {
    for (const [appId, count] of this.#apps) yield [appId, count.total(nowMs), count.recent(nowMs)]
  }

  /** true: there is room again. */
  #sweep(nowMs: number): boolean {
    if (nowMs - this.#sweptAtMs < SWEEP_INTERVAL_MS) return false
    this.#sweptAtMs = nowMs
    for (const [appId, count] of this.#apps) if (count.total(nowMs) === 0) this.#apps.delete(appId)
    return this.#apps.size < MAX_APPS
  }
}

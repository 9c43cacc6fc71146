// What this process refused: the newest requests one by one, of all and of each app, so that one app does not push out
// those of another; and the counts of the last hour. Bounded, and nothing of what a client sent but its SDK version,
// and type and length of what does not fit.
// Nothing here is on a metric, whose labels hold no app.

import type { OwnGroup } from '../../contract/admin/refusals.ts'
import { MAX_APPS_WITH_KEPT_REFUSALS, MAX_REFUSALS_KEPT, MAX_REFUSALS_KEPT_PER_APP } from '../../contract/bounds.ts'
import type { Writable } from '../../lib/writable.ts'
import type { OwnRefusal, RefusalLine } from './refusal.ts'
import { RefusalCounts } from './refusal-counts.ts'

/** A circular buffer, whose entries are written over: an overload allocates nothing here. */
class Newest {
  readonly #most: number
  readonly #entries: Writable<OwnRefusal>[] = []
  #length = 0
  #next = 0

  constructor(most: number) {
    this.#most = most
  }

  get isFull(): boolean {
    return this.#length === this.#most
  }

  add(refusal: OwnRefusal): void {
    if (this.#next === this.#entries.length) this.#entries.push({ ...refusal })
    else copy(refusal, this.#entries[this.#next])
    this.#next = (this.#next + 1) % this.#most
    if (!this.isFull) this.#length += 1
  }

  /** Copies, newest first. */
  read(): OwnRefusal[] {
    return Array.from({ length: this.#length }, (_, age) => {
      return { ...this.#entries[(this.#next - 1 - age + this.#most) % this.#most] }
    })
  }

  /** A copy; null: there is none. */
  withId(requestId: string): OwnRefusal | null {
    const found = this.#entries.findIndex(({ request_id: id }, at) => at < this.#length && id === requestId)
    return found < 0 ? null : { ...this.#entries[found] }
  }

  /** Forgets what it has; its entries stay, for others. */
  empty(): void {
    this.#length = 0
    this.#next = 0
  }
}

export class Refusals {
  readonly #all = new Newest(MAX_REFUSALS_KEPT)
  /**
   * At most some 64 MB: 2,000 apps, each refused 50 times with a message, a path, a shape and an SDK version of its own. The app
   * that was refused last is the last one. Those without a known app are under an empty name.
   */
  readonly #ofApps = new Map<string, Newest>()
  #lastApp: string | null = null
  readonly #counts = new RefusalCounts()
  /** Called with each refusal from now on, which may be written over after the call. null: nobody watches. */
  onRefused: ((refusal: OwnRefusal) => void) | null = null
  /** Called with a 503 whose reason has not appeared for a minute; it may be written over after the call. */
  onOverload: ((refusal: OwnRefusal) => void) | null = null

  /** Copies it. */
  add(refusal: OwnRefusal): void {
    this.#all.add(refusal)
    this.#newestFor(refusal.app_id ?? '').add(refusal)
    const isFirst = this.#counts.add(refusal)
    this.onRefused?.(refusal)
    if (isFirst) this.onOverload?.(refusal)
  }

  #newestFor(app: string): Newest {
    const known = this.#ofApps.get(app)
    if (known !== undefined && app === this.#lastApp) return known
    const isFull = this.#ofApps.size >= MAX_APPS_WITH_KEPT_REFUSALS
    const newest = known ?? (isFull ? this.#freed() : new Newest(MAX_REFUSALS_KEPT_PER_APP))
    this.#ofApps.delete(app)
    this.#ofApps.set(app, newest)
    this.#lastApp = app
    return newest
  }

  /** Those of the app that was refused the longest time ago give way. */
  #freed(): Newest {
    for (const [app, newest] of this.#ofApps) {
      this.#ofApps.delete(app)
      newest.empty()
      return newest
    }
    throw new Error('there is no app to give way')
  }

  /** The newest of all, newest first. */
  newest(): OwnRefusal[] {
    return this.#all.read()
  }

  /** The newest of one app, or of no known one (null), newest first. */
  newestOf(app: string | null): OwnRefusal[] {
    const ofAll = this.#all.read().filter(({ app_id }) => app_id === app)
    // The newest of all may have more of it, or fewer.
    if (ofAll.length >= MAX_REFUSALS_KEPT_PER_APP) return ofAll
    return this.#ofApps.get(app ?? '')?.read() ?? ofAll
  }

  /** The one with this X-Request-Id; null: it is not kept, or not any more. */
  withId(requestId: string): OwnRefusal | null {
    for (const newest of [this.#all, ...this.#ofApps.values()]) {
      const refusal = newest.withId(requestId)
      if (refusal !== null) return refusal
    }
    return null
  }

  /** The groups of the last hour, the most frequent first. */
  rows(nowMs: number): OwnGroup[] {
    return this.#counts.groups(nowMs)
  }

  /** What was refused since the last call. */
  takeLines(nowMs: number): RefusalLine[] {
    return this.#counts.takeLines(nowMs)
  }
}

/** Object.assign takes five times as long. */
function copy(from: OwnRefusal, to: Writable<OwnRefusal>): void {
  to.time_ms = from.time_ms
  to.request_id = from.request_id
  to.app_id = from.app_id
  to.code = from.code
  to.reason = from.reason
  to.origin = from.origin
  to.path = from.path
  to.shape = from.shape
  to.message = from.message
  to.sdk_version = from.sdk_version
}

// The clocks of this node, of Redis and of NATS, side by side. Redis's clock opens minutes. What each last said goes on by
// this process's monotonic clock, so that no step of a clock and no outage moves it.

import { MINUTE_MS } from '../lib/spans.ts'
import type { Timers } from '../lib/timers.ts'

/** Two clocks agree where they differ by less. A node that is this far from the median does not audit. */
const AGREE_MS = 30_000
/** A minute closes this long after its end. A request waits at most 2 s for its acknowledgement. */
const CLOSE_DELAY_MS = 5000
/** In minutes. No node can take in a minute that is further ahead of Redis's clock: replace.lua has the same number. */
const MAX_AHEAD = 2

/** Minutes are UTC minutes since 1970. */
export interface Bounds {
  /** The last minute that may be closed. */
  readonly closable: number
  /** The last minute that Redis's clock has passed. It is later than `closable` where Redis's clock is ahead. */
  readonly passed: number
  /** The last minute in which Redis can have taken events. */
  readonly latest: number
  /** The minute that runs now, by the median of the clocks. */
  readonly running: number
  /** Unix ms, by the same. */
  readonly nowMs: number
}

/**
 * redis_unknown: Redis has not said its time since the start. skewed: this node is far from the median. apart: no two clocks
 * agree. Only with bounds may this node audit.
 */
export type ClockState = { readonly kind: 'agree'; readonly bounds: Bounds } | { readonly kind: StoppedKind }
export type StoppedKind = 'redis_unknown' | 'skewed' | 'apart'

/** In ms; above 0: that clock is ahead of this node's. null: it was never heard. */
export interface Skews {
  readonly redis: number | null
  readonly nats: number | null
}

export class Clocks {
  readonly #timers: Timers
  /** Each clock's time minus monotonic time. */
  readonly #offsetsMs: { redis: number | null; nats: number | null } = { redis: null, nats: null }

  constructor(timers: Timers) {
    this.#timers = timers
  }

  /** An answer that just came says this time. It was read before, so that the clock is not behind what is kept here. */
  heard(of: 'redis' | 'nats', atMs: number): void {
    this.#offsetsMs[of] = atMs - this.#timers.monotonicMs()
  }

  skews(): Skews {
    const { redis, nats } = this.#offsetsMs
    const ownOffsetMs = this.#timers.nowMs() - this.#timers.monotonicMs()
    const skew = (offsetMs: number | null): number | null => (offsetMs === null ? null : offsetMs - ownOffsetMs)
    return { redis: skew(redis), nats: skew(nats) }
  }

  state(): ClockState {
    const { redis, nats } = this.skews()
    if (redis === null) return { kind: 'redis_unknown' }
    const skews = [0, redis, ...(nats === null ? [] : [nats])].toSorted((one, other) => one - other)
    if (!skews.some((skew, at) => at > 0 && skew - skews[at - 1] < AGREE_MS)) return { kind: 'apart' }
    // Of two, the lower one.
    const median = skews[skews.length === 3 ? 1 : 0]
    if (Math.abs(median) >= AGREE_MS) return { kind: 'skewed' }
    const ownMs = this.#timers.nowMs()
    const redisMs = ownMs + redis
    const minuteOf = (timeMs: number): number => Math.floor(timeMs / MINUTE_MS)
    const passedBy = (timeMs: number): number => minuteOf(timeMs - CLOSE_DELAY_MS) - 1
    return {
      kind: 'agree',
      bounds: {
        // Where Redis's clock is far ahead of the others', what is to come must not be closed.
        closable: passedBy(redis - median < AGREE_MS ? redisMs : ownMs + median),
        passed: passedBy(redisMs),
        latest: minuteOf(redisMs) + MAX_AHEAD,
        running: minuteOf(ownMs + median),
        nowMs: ownMs + median,
      },
    }
  }
}

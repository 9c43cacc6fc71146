// Says in the log where the clocks of this node, Redis and NATS differ, and when they agree again.

import type { OnNotice } from '../lib/notice.ts'
import type { ClockState, Skews, StoppedKind } from './clocks.ts'

const WARN_FROM_MS = 2000
/** Less than WARN_FROM_MS, so that a clock about there does not fill the log. */
const GOOD_BELOW_MS = 1000
/** A slow answer of one round looks like a skew. */
const ROUNDS = 3

const NAMES = { redis: "Redis's", nats: "NATS's" } as const
const STOPPED: Readonly<Record<Exclude<StoppedKind, 'redis_unknown'>, string>> = {
  skewed:
    "this node's clock is 30 s or more from those of Redis and NATS, so it audits nothing and other nodes do it; set its clock right (NTP)",
  apart:
    'the clocks of this node, Redis and NATS are 30 s or more apart, so no minute is closed and counters may be too high; set them right (NTP)',
}

export class ClockWatch {
  /** Why the clocks let this node audit nothing. */
  stopped: StoppedKind | null = null
  readonly #onNotice: OnNotice
  /** Rounds in a row that would change what was said of a clock. */
  readonly #rounds = { redis: 0, nats: 0 }
  readonly #isWarned = { redis: false, nats: false }

  constructor(onNotice: OnNotice) {
    this.#onNotice = onNotice
  }

  /** To be called once a round. */
  look({ kind }: ClockState, skews: Skews): void {
    this.#lookAtState(kind === 'agree' ? null : kind)
    for (const of of ['redis', 'nats'] as const) this.#lookAtSkew(of, skews[of])
  }

  #lookAtState(stopped: StoppedKind | null): void {
    const before = this.stopped
    this.stopped = stopped
    if (stopped === before) return
    if (stopped !== null && stopped !== 'redis_unknown') this.#onNotice(STOPPED[stopped], 'error')
    else if (stopped === null && before !== 'redis_unknown')
      this.#onNotice('the clocks agree again: this node audits the limits', 'info')
  }

  #lookAtSkew(of: 'redis' | 'nats', skewMs: number | null): void {
    if (skewMs === null) return
    const isWarned = this.#isWarned[of]
    const changes = isWarned ? Math.abs(skewMs) < GOOD_BELOW_MS : Math.abs(skewMs) >= WARN_FROM_MS
    this.#rounds[of] = changes ? this.#rounds[of] + 1 : 0
    if (this.#rounds[of] < ROUNDS) return
    this.#rounds[of] = 0
    this.#isWarned[of] = !isWarned
    if (isWarned) this.#onNotice(`${NAMES[of]} clock agrees with this node's again`, 'info')
    else
      this.#onNotice(
        `${skewText(of, skewMs)}; windows of limits go by Redis's clock, and from 30 s on the audit may stop; all machines need NTP (docs/cluster.md)`,
      )
  }
}

/** For example `Redis's clock is 2.5 s ahead of this machine's`. */
export function skewText(of: 'redis' | 'nats', skewMs: number): string {
  const seconds = (Math.abs(skewMs) / 1000).toFixed(1)
  return `${NAMES[of]} clock is ${seconds} s ${skewMs > 0 ? 'ahead of' : 'behind'} this machine's`
}

// Limits and keys of a single machine, in its memory.

import type { App } from '../../apps/app.ts'
import type { Charge } from '../../contract/charge.ts'
import type { RateLimitView, WindowView } from '../../contract/outcome.ts'
import type { Claim, Replay } from '../../keys/deduplicator.ts'
import type { MemoryDeduplicator } from '../../keys/memory-deduplicator.ts'
import type { Clock } from '../../lib/clock.ts'
import type { QueueRefusal } from '../../queue/queue.ts'
import { type Admission, type Admitted, type End, KEYS_FULL } from '../admission.ts'
import { type DaysUsed, secondsUntilRoom, type Usage, windowViews } from '../limiter.ts'
import type { MemoryLimiter } from './memory-limiter.ts'

export interface OwnAdmissionOptions {
  readonly limiter: MemoryLimiter
  readonly deduplicator: MemoryDeduplicator
  readonly clock: Clock
}

export class OwnAdmission implements Admission {
  readonly #limiter: MemoryLimiter
  readonly #deduplicator: MemoryDeduplicator
  readonly #clock: Clock

  constructor({ limiter, deduplicator, clock }: OwnAdmissionOptions) {
    this.#limiter = limiter
    this.#deduplicator = deduplicator
    this.#clock = clock
  }

  admit(app: App, events: number, batchId: string | null, refusal: QueueRefusal | null): Admitted | Promise<Admitted> {
    if (batchId === null) return this.#take(app, events, refusal)
    const claim = this.#deduplicator.claim(batchId, this.#clock())
    const takeClaimed = (result: Claim): Admitted => this.#takeClaimed(app, events, batchId, result, refusal)
    return claim instanceof Promise ? claim.then(takeClaimed) : takeClaimed(claim)
  }

  #takeClaimed(app: App, events: number, batchId: string, claim: Claim, refusal: QueueRefusal | null): Admitted {
    if (claim.kind === 'replay') return claim
    if (claim.kind === 'full') return KEYS_FULL
    const admitted = this.#take(app, events, refusal)
    if (admitted.kind !== 'taken') this.#deduplicator.release(batchId)
    return admitted
  }

  #take(app: App, events: number, refusal: QueueRefusal | null): Admitted {
    const taken = this.#limiter.take(app, events, this.#clock())
    if (typeof taken === 'number' && refusal !== null) {
      this.#limiter.refund(app, events, taken, this.#clock())
      return { kind: 'overloaded', reason: refusal }
    }
    if (typeof taken === 'number') {
      // Recovery counts the journal's records by their time, so it needs neither minute nor cycle.
      return { kind: 'taken', charge: { events, takenAtMs: taken, minute: 0, cycleMinute: 0 } }
    }
    const usage = this.#limiter.usage(app, this.#clock())
    return { kind: 'over limit', refusal: taken, retryAfterSeconds: secondsUntilRoom(usage, taken) }
  }

  replayOf(_app: App, batchId: string): Replay | null | Promise<Replay | null> {
    const replayIn = (claim: Claim): Replay | null => {
      if (claim.kind === 'claimed') this.#deduplicator.release(batchId)
      return claim.kind === 'replay' ? claim : null
    }
    const claim = this.#deduplicator.claim(batchId, this.#clock())
    return claim instanceof Promise ? claim.then(replayIn) : replayIn(claim)
  }

  end(
    app: App,
    { events: taken, takenAtMs }: Charge,
    batchId: string | null,
    end: End,
    events: number,
    eventsHash = 0,
  ): void {
    const staysUsed = end === 'stored' || end === 'unknown'
    // The key first: if the limiter throws, the key of a stored batch is still remembered.
    if (batchId !== null) {
      if (end === 'stored' || end === 'duplicate')
        this.#deduplicator.confirm(batchId, events, this.#clock(), eventsHash)
      else this.#deduplicator.release(batchId)
    }
    if (staysUsed) this.#limiter.commit(app, taken, takenAtMs)
    else this.#limiter.refund(app, taken, takenAtMs, this.#clock())
  }

  view(app: App): RateLimitView {
    return this.#limiter.view(app, this.#clock())
  }

  nearLimits(app: App, always: boolean): readonly WindowView[] | null {
    const nowMs = this.#clock()
    if (!always && !this.#limiter.isNearLimit(app, nowMs)) return null
    return windowViews(app, this.#limiter.usage(app, nowMs))
  }

  days(apps: readonly App[]): readonly DaysUsed[] {
    return apps.map(({ appId }) => this.#limiter.days(appId, this.#clock()))
  }

  usages(apps: readonly App[]): readonly Usage[] {
    return apps.map((app) => this.#limiter.usage(app, this.#clock()))
  }
}

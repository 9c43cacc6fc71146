// What one batch takes from its app's limits: in its turn's call to Redis, asked again where that was not sent or another node
// holds the key; or from this node's share, while Redis is away.

import type { App } from '../../apps/app.ts'
import type { Charge } from '../../contract/charge.ts'
import { MINUTE_MS } from '../../lib/spans.ts'
import { sleep } from '../../lib/timers.ts'
import type { QueueRefusal } from '../../queue/queue.ts'
import type { Admitted } from '../admission.ts'
import { cycleMinutesAt } from '../cycle-minutes.ts'
import { type LimitRefusal, secondsUntilRoom, type Usage } from '../limiter.ts'
import type { AppBudget, TakeOutcome } from './app-budget.ts'
import type { SharedContext } from './context.ts'
import { MAX_KEY_WAIT_MS, POLL_MS } from './request-keys.ts'
import { ANSWER, doubtOfAnswer, replayOfAnswer } from './take.ts'
import type { TurnCalls } from './turn-calls.ts'
import { usageOf } from './usage.ts'

/** How often in all a take may wait too long for its call; then its request is answered 503. */
const MAX_UNSENT = 3

const REDIS_SLOW: Admitted = { kind: 'overloaded', reason: 'redis_slow' }
const KEY_BUSY: Admitted = { kind: 'overloaded', reason: 'key_busy' }
const REFUSALS: Readonly<Record<number, LimitRefusal>> = {
  [ANSWER.month]: 'monthly_limit_exceeded',
  [ANSWER.day]: 'daily_limit_exceeded',
  [ANSWER.minute]: 'rate_limit_exceeded',
}

export interface TakesOptions extends SharedContext {
  readonly turnCalls: TurnCalls
  /** Redis's clock. */
  readonly nowMs: () => number
  /** Nodes alive. */
  readonly nodes: () => number
  /** Incremented here. */
  readonly calls: { without: number }
}

export class Takes {
  readonly #options: TakesOptions

  constructor(options: TakesOptions) {
    this.#options = options
  }

  /** Joins this turn's call, and polls while another node holds the key. Without Redis: takes from this node's share. */
  async take(budget: AppBudget, events: number, key: string | null, refusal: QueueRefusal | null): Promise<Admitted> {
    const { timers, turnCalls } = this.#options
    const startedAtMs = timers.monotonicMs()
    let unsent = 0
    let hasReturnedTokens = false
    for (let pauseMs: number = POLL_MS.first; ; ) {
      const isUp = turnCalls.isUp(budget.partition)
      const outcome = isUp ? await this.#ask(budget, events, key, refusal !== null) : 'away'
      if (outcome === 'away') return this.#takeWithoutRedis(budget, events, refusal)
      if (outcome === 'unsent' && ++unsent === MAX_UNSENT) return REDIS_SLOW
      if (outcome === 'unanswered') {
        // The call may have claimed the key in Redis, where another node would wait for it.
        if (key !== null) turnCalls.release(budget.partition, key)
        return REDIS_SLOW
      }
      if (outcome === 'retry' || outcome === 'unsent') continue
      const { answer, minute, cycleMinute, nowMs } = outcome
      if (refusal !== null && answer <= ANSWER.done) return { kind: 'overloaded', reason: refusal }
      if (answer < 0) return takenBefore(budget.app, answer, nowMs)
      if (answer === ANSWER.done) return taken(events, minute, cycleMinute, nowMs)
      if (answer >= ANSWER.replay) return replayOfAnswer(answer)
      if (Object.hasOwn(REFUSALS, answer)) {
        // The token budget's events and what Redis has left may be enough together.
        if (budget.tokens > 0 && !hasReturnedTokens) {
          hasReturnedTokens = true
          budget.returnTokens()
          continue
        }
        return this.#overLimit(budget, REFUSALS[answer])
      }
      if (timers.monotonicMs() - startedAtMs >= MAX_KEY_WAIT_MS) return KEY_BUSY
      await sleep(timers, pauseMs)
      pauseMs = Math.min(pauseMs * 1.5, POLL_MS.longest)
    }
  }

  #ask(budget: AppBudget, events: number, key: string | null, asks: boolean): Promise<TakeOutcome> {
    return new Promise((resolve) => {
      budget.takes.push({ events, key, asks, resolve, askedAtMs: this.#options.timers.monotonicMs() })
      this.#options.turnCalls.add(budget)
    })
  }

  #takeWithoutRedis(budget: AppBudget, events: number, refusal: QueueRefusal | null): Admitted {
    const nowMs = this.#options.nowMs()
    const minute = Math.floor(nowMs / MINUTE_MS)
    budget.turnTo(minute)
    this.#options.calls.without++
    const overLimit = budget.takeWithoutRedis(events, minute, this.#options.nodes(), refusal !== null)
    if (overLimit !== null) return this.#overLimit(budget, overLimit)
    if (refusal !== null) return { kind: 'overloaded', reason: refusal }
    this.#options.turnCalls.add(budget)
    const charge = chargeIn(minute, events, budget.cycle.first, nowMs)
    return { kind: 'taken', charge: { ...charge, isShare: true } }
  }

  #overLimit(budget: AppBudget, refusal: LimitRefusal): Admitted {
    return { kind: 'over limit', refusal, retryAfterSeconds: secondsUntilRoom(this.#knownUsage(budget), refusal) }
  }

  /** As far as this node knows, without asking Redis. */
  #knownUsage(budget: AppBudget): Usage {
    const atMs = this.#options.nowMs()
    const minute = Math.floor(atMs / MINUTE_MS)
    budget.turnTo(minute)
    return usageOf(budget.app, budget.usedAt(minute), { atMs, minute, cycle: budget.cycle })
  }
}

export function taken(events: number, minute: number, cycleMinute: number, nowMs: number): Admitted {
  return { kind: 'taken', charge: chargeIn(minute, events, cycleMinute, nowMs) }
}

/** `nowMs`: Redis's clock, moved into the minute where it lies outside, so that the record's time agrees with it. */
function chargeIn(minute: number, events: number, cycleMinute: number, nowMs: number): Charge {
  const startMs = minute * MINUTE_MS
  const takenAtMs = Math.min(Math.max(nowMs, startMs), startMs + MINUTE_MS - 1)
  return { events, takenAtMs, minute, cycleMinute }
}

/** The retry of a batch in doubt has its charge, so that it is counted once, whichever of them is stored. */
function takenBefore(app: App, answer: number, nowMs: number): Admitted {
  const { minute, events } = doubtOfAnswer(answer)
  const { first } = cycleMinutesAt(app, minute)
  return { kind: 'taken', charge: { ...chargeIn(minute, events, first, nowMs), isOfDoubt: true } }
}

// The calls that wait for Redis, each with a deadline. A deadline that passed because this process itself was late is
// moved, so that Redis is not blamed for it.

import type { Timer, Timers } from '../lib/timers.ts'
import { awayFault, connectionFault, type RedisFault } from './fault.ts'
import type { Away } from './link.ts'
import { BadReply, type Read } from './reply.ts'

/** Between checks of the deadlines. */
export const CHECK_MS = 50
/** A check that comes later than this shows that this process was slow, and moves every deadline by its delay. */
const MAX_LATE_MS = 50

/** slow: no answer within the budget. failed: an error reply, or the link went down before the answer. */
export type CallResult = 'answered' | 'slow' | 'failed'

export type OnResult = (result: CallResult, seconds: number) => void

export interface PendingCallsOptions {
  /** The longest that a caller waits. */
  readonly budgetMs: number
  readonly timers: Timers
  /** At each check while `misses` is above 0. */
  readonly onMisses: (misses: number, monotonicMs: number) => void
}

interface Call {
  deadlineMs: number
  /** Answers the caller with 'away'. */
  readonly giveUp: (result: CallResult) => void
}

export class PendingCalls {
  readonly #budgetMs: number
  readonly #timers: Timers
  readonly #onMisses: (misses: number, monotonicMs: number) => void
  /** In the order in which they were made, so that the first one has the earliest deadline. */
  readonly #waiting = new Set<Call>()
  /** Calls in a row without an answer in time. Set to 0 by whoever sees Redis answer. */
  misses = 0
  #timer: Timer | null = null

  constructor({ budgetMs, timers, onMisses }: PendingCallsOptions) {
    this.#budgetMs = budgetMs
    this.#timers = timers
    this.#onMisses = onMisses
  }

  get size(): number {
    return this.#waiting.size
  }

  /**
   * Rejects only with an error reply that does not mean that Redis is away. `onAway` gets every other failure, also a reply of another
   * shape; `onLate` an answer that comes after its caller was given up.
   */
  run<T>(
    command: () => Promise<unknown>,
    read: Read<T>,
    onResult: OnResult,
    onAway: (fault: RedisFault) => void,
    onLate?: (answer: T) => void,
  ): Promise<T | Away> {
    return new Promise((resolve, reject) => {
      const startedAtMs = this.#timers.monotonicMs()
      const end = (result: CallResult): void => {
        if (this.#waiting.delete(call)) onResult(result, (this.#timers.monotonicMs() - startedAtMs) / 1000)
      }
      const giveUp = (result: CallResult): void => {
        end(result)
        resolve('away')
      }
      const call: Call = { deadlineMs: startedAtMs + this.#budgetMs, giveUp }
      const reply = command()
      this.#waiting.add(call)
      this.#scheduleCheck()
      const fail = (fault: RedisFault): void => {
        onAway(fault)
        giveUp('failed')
      }
      reply.then(
        (given) => {
          let value: T
          try {
            value = read(given)
          } catch (error) {
            if (!(error instanceof BadReply)) throw error
            return fail(connectionFault(error))
          }
          if (!this.#waiting.has(call)) return onLate?.(value)
          end(this.#timers.monotonicMs() <= call.deadlineMs ? 'answered' : 'slow')
          return resolve(value)
        },
        (error: unknown) => {
          const fault = awayFault(error)
          if (fault === null) {
            end('failed')
            reject(error)
            return
          }
          fail(fault)
        },
      )
    })
  }

  /** Answers every caller with 'away'. */
  failAll(): void {
    this.misses = 0
    for (const { giveUp } of this.#waiting) giveUp('failed')
  }

  stop(): void {
    if (this.#timer !== null) this.#timers.clear(this.#timer)
  }

  /** One timer for all calls: at the oldest deadline, but at least every CHECK_MS, to notice that the process is late. */
  #scheduleCheck(): void {
    if (this.#timer !== null) return
    const [oldest] = this.#waiting
    if (oldest === undefined && this.misses === 0) return
    const monotonicMs = this.#timers.monotonicMs()
    const delayMs = Math.max(1, Math.ceil(Math.min(CHECK_MS, (oldest?.deadlineMs ?? Infinity) - monotonicMs)))
    this.#timer = this.#timers.setTimeout(() => this.#check(monotonicMs + delayMs), delayMs)
  }

  #check(dueMs: number): void {
    this.#timer = null
    const monotonicMs = this.#timers.monotonicMs()
    const lateMs = monotonicMs - dueMs
    if (lateMs > MAX_LATE_MS) {
      for (const call of this.#waiting)
        call.deadlineMs = Math.min(call.deadlineMs + lateMs, monotonicMs + this.#budgetMs)
    }
    this.#scheduleCheck()
    // Replies that are in the socket already come first: one turn of the event loop reads them, and in the next one
    // their promises have settled. Calls made meanwhile have deadlines after `monotonicMs`.
    this.#timers.setImmediate(() => this.#timers.setImmediate(() => this.#expire(monotonicMs)))
  }

  #expire(monotonicMs: number): void {
    for (const call of this.#waiting) {
      if (call.deadlineMs > monotonicMs) break
      this.misses++
      call.giveUp('slow')
    }
    if (this.misses > 0) this.#onMisses(this.misses, monotonicMs)
  }
}

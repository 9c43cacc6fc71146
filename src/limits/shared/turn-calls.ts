// Gathers the takes, key updates and corrections of one turn of the event loop, of all apps, into one call to Redis;
// on a cluster into one call per partition. While MAX_CALLS are under way, the rest waits for one of them to end.

import type { Timer, Timers } from '../../lib/timers.ts'
import type { RedisFault } from '../../redis/fault.ts'
import type { RedisLink } from '../../redis/link.ts'
import { runScript } from '../../redis/script.ts'
import type { RedisTime } from '../../redis/time.ts'
import type { AppBudget } from './app-budget.ts'
import { type Call, CallGroup, gather } from './call-group.ts'
import { SeenPartitions } from './seen-partitions.ts'
import { ANSWER, encodeQuestion, type Reply, TAKE } from './take.ts'

/** Under way at one time, per group. */
const MAX_CALLS = 4
/** For an answer that did not come in time; then its takes are left unanswered. */
const LATE_WAIT_MS = 500

export interface TurnCallsOptions {
  readonly link: RedisLink
  readonly nodeId: string
  readonly partitions: number
  readonly time: RedisTime
  readonly timers: Timers
  /** Incremented here. */
  readonly calls: { answered: number; slow: number; failed: number }
  readonly onFault: (error: unknown) => void
  /** The app's token budget now holds events. */
  readonly onGranted: (budget: AppBudget) => void
  /** Redis has lost data of these partitions, and answers 'away' for them until it has its sums again. */
  readonly onLost: (partitions: readonly number[]) => void
  /** A cluster does not serve this partition's hash slot; null: it does again. */
  readonly onServed: (partition: number, fault: RedisFault | null) => void
}

export class TurnCalls {
  readonly #options: TurnCallsOptions
  readonly #groups = new Map<number, CallGroup>()
  /** Calls without an answer in time, while Redis is up. */
  readonly #late = new Map<Call, { readonly group: CallGroup; readonly timer: Timer }>()
  readonly #seen: SeenPartitions
  /** Apps whose corrections wait until Redis is back. */
  readonly #deferred = new Set<AppBudget>()
  #onIdle: (() => void) | null = null

  constructor(options: TurnCallsOptions) {
    this.#options = options
    this.#seen = new SeenPartitions(options.partitions)
  }

  get hasForgotten(): boolean {
    return this.#seen.hasForgotten
  }

  /** Takes of this partition can be asked for. */
  isUp(partition: number): boolean {
    return this.#options.link.isUp && !this.#groupOf(partition).isUnserved
  }

  /** Whose hash slots the cluster does not serve. */
  get unserved(): number[] {
    return [...this.#groups.values()].flatMap(({ partition, isUnserved }) => (isUnserved ? [partition] : []))
  }

  /** The budget has takes or corrections to send. Only while its partition is up may it have takes. */
  add(budget: AppBudget): void {
    if (!this.#options.link.isUp) {
      this.#deferred.add(budget)
      return
    }
    const group = this.#groupOf(budget.partition)
    group.budgets.add(budget)
    this.#schedule(group)
  }

  release(partition: number, key: string): void {
    if (!this.isUp(partition)) return
    const group = this.#groupOf(partition)
    group.releasedKeys.push(key)
    this.#schedule(group)
  }

  /** While Redis is away the keys wait, and are written when it is back. */
  accept(partition: number, key: string, accepted: string, rememberedMs: number): void {
    const group = this.#groupOf(partition)
    const rememberedUntilMs = this.#options.timers.monotonicMs() + rememberedMs
    group.acceptedKeys.set(key, { partition, accepted, rememberedUntilMs })
    group.dropOldestKeys()
    if (this.#options.link.isUp) this.#schedule(group)
  }

  /** To be called when Redis goes away: nothing waits for a late answer any more. */
  abandonLate(): void {
    for (const [call, { group, timer }] of this.#late) {
      this.#options.timers.clear(timer)
      this.#handleNoReply(group, call, 'away')
    }
    this.#late.clear()
  }

  /** To be called when Redis is back. */
  resume(): void {
    const deferred = [...this.#deferred]
    this.#deferred.clear()
    for (const budget of deferred) this.add(budget)
    const together = this.#groups.get(-1)
    if (together !== undefined && this.#options.link.isCluster) {
      // Nobody knew while it was away that it is a cluster.
      for (const [key, value] of together.acceptedKeys) this.#groupOf(value.partition).acceptedKeys.set(key, value)
      together.acceptedKeys.clear()
    }
    for (const group of this.#groups.values()) if (!group.isEmpty) this.#schedule(group)
  }

  /** Raises the beat of each partition: so a Redis that went back is noticed by whoever calls it next. */
  beat(): void {
    if (!this.#options.link.isUp) return
    for (let partition = 0; partition < this.#seen.count; partition++) {
      const group = this.#groupOf(partition)
      if (group.isUnserved) continue
      group.beats.push(partition)
      this.#schedule(group)
    }
  }

  /** Sends what waits of each partition that is not served: the keys of the call that failed are among it. */
  probe(): void {
    if (!this.#options.link.isUp) return
    for (const group of this.#groups.values()) {
      if (!group.isUnserved || group.callsUnderway > 0) continue
      // A call without a key would ask any slot.
      group.beats = [group.partition]
      void this.#send(group)
    }
  }

  /** Redis has lost counts of this app: the next calls tell what it had acknowledged. */
  restore(budget: AppBudget): void {
    const group = this.#groupOf(budget.partition)
    group.lostBudgets.add(budget)
    this.#schedule(group)
  }

  /** Resolves when nothing waits and no call is under way. */
  async idle(): Promise<void> {
    const isBusy = (): boolean =>
      [...this.#groups.values()].some((group) => group.callsUnderway > 0 || group.isScheduled)
    while (isBusy()) await new Promise<void>((resolve) => (this.#onIdle = resolve))
  }

  #groupOf(partition: number): CallGroup {
    const { link, partitions } = this.#options
    const name = link.isCluster ? partition : -1
    let group = this.#groups.get(name)
    if (group === undefined) this.#groups.set(name, (group = new CallGroup(name, link.isCluster ? partitions : 1)))
    return group
  }

  #schedule(group: CallGroup): void {
    if (group.isScheduled || group.isUnserved) return
    group.isScheduled = true
    // After everything that this turn of the event loop reads from its sockets.
    this.#options.timers.setImmediate(() => {
      group.isScheduled = false
      if (!this.#options.link.isUp) this.#abandon(group)
      else while (group.callsUnderway < MAX_CALLS && !group.isEmpty) void this.#send(group)
      this.#onIdle?.()
    })
  }

  /** Redis went away before the call: takes go on without it, corrections wait for its return. */
  #abandon(group: CallGroup): void {
    // Claims expire on their own.
    group.releasedKeys = []
    group.beats = []
    for (const budget of group.budgets) {
      const { takes, corrections } = budget.drain(Number.POSITIVE_INFINITY)
      for (const [minute, events] of corrections) budget.correct(minute, events)
      if (corrections.size > 0) this.#deferred.add(budget)
      for (const { resolve } of takes) resolve('away')
    }
    group.budgets.clear()
  }

  async #send(group: CallGroup): Promise<void> {
    const { nodeId, link, timers, time, calls, onFault } = this.#options
    const call = gather(group, { nodeId, atMs: timers.monotonicMs(), seen: this.#seen })
    const { keys, args, read } = encodeQuestion(call.question)
    const sentAtMs = timers.monotonicMs()
    const isProbe = group.isUnserved
    group.callsUnderway++
    let reply: Reply | 'away' | null = null
    let isUnserved = false
    try {
      reply = await runScript(link, TAKE, keys, args, read, {
        onLate: (late) => this.#handleLateReply(call, late),
        onSlotFault: (fault) => {
          // Too late: what the call had to say is on its way again.
          if (reply !== null && !this.#late.has(call)) return
          isUnserved = true
          this.#handleUnserved(group, call, fault)
        },
      })
    } catch (error) {
      onFault(error)
    }
    group.callsUnderway--
    if (reply === null) {
      // Redis refused the call and would refuse it again, so nothing of it is sent again.
      calls.failed++
      for (const { takes } of call.budgets) for (const { resolve } of takes) resolve('away')
    } else if (isUnserved) {
      calls.failed++
    } else if (reply === 'away') {
      calls[link.isUp ? 'slow' : 'failed']++
      if (link.isUp) this.#awaitLateReply(group, call)
      else this.#handleNoReply(group, call, 'away')
    } else {
      calls.answered++
      time.learn(reply.nowMs, sentAtMs, timers.monotonicMs())
      if (isProbe) this.#handleServed(group)
      this.#handleReply(call, reply)
    }
    if (!group.isEmpty) this.#schedule(group)
    this.#onIdle?.()
  }

  #handleReply({ budgets, question }: Call, reply: Reply): void {
    const { forgotten, lost } = this.#seen.learn(question.partitions, reply.partitions)
    if (lost.length > 0) this.#options.onLost(lost)
    for (const [at, { budget, takes }] of budgets.entries()) {
      const appReply = reply.apps[at]
      budget.acknowledge(appReply)
      const isNewest = question.apps[at].app === budget.app
      // The record changed meanwhile and may allow less, so the token budget granted under the old one is given back. After a
      // loss, what this node knew before it decides about its share.
      if (isNewest && !forgotten.has(budget.partition)) budget.apply(appReply)
      else if (appReply.granted > 0) budget.correct(appReply.minute, appReply.granted)
      if (budget.tokens > 0) this.#options.onGranted(budget)
      const { minute, cycleMinute } = appReply
      for (const [place, { resolve, events, asks }] of takes.entries()) {
        const answer = appReply.takes[place]
        if (answer === ANSWER.forgotten) resolve('away')
        else if (isNewest || answer === ANSWER.held || answer >= ANSWER.replay || answer < 0) {
          resolve({ answer, nowMs: reply.nowMs, minute, cycleMinute })
        } else {
          // The newest record decides about each request.
          if (answer === ANSWER.done && events > 0 && !asks) budget.correct(minute, events)
          resolve('retry')
        }
      }
      if (budget.corrections.size > 0) this.add(budget)
    }
  }

  /** Its takes wait on: asked again, they would be taken twice. */
  #awaitLateReply(group: CallGroup, call: Call): void {
    const timer = this.#options.timers.setTimeout(() => {
      this.#late.delete(call)
      this.#handleNoReply(group, call, 'unanswered')
    }, LATE_WAIT_MS)
    timer.unref()
    this.#late.set(call, { group, timer })
  }

  #handleLateReply(call: Call, decoded: Reply): void {
    const waiting = this.#late.get(call)
    if (waiting !== undefined) {
      this.#options.timers.clear(waiting.timer)
      this.#late.delete(call)
      return this.#handleReply(call, decoded)
    }
    // Its requests were decided without Redis or refused, and what it had to add was sent again: all of it is taken back.
    for (const [at, { budget, takes }] of call.budgets.entries()) {
      const { minute, granted, takes: answers } = decoded.apps[at]
      budget.acknowledge(decoded.apps[at])
      const taken = takes.reduce(
        (sum, { events, asks }, place) => sum + (answers[place] === ANSWER.done && !asks ? events : 0),
        granted,
      )
      if (taken > 0) budget.correct(minute, taken)
      for (const [added, events] of call.question.apps[at].corrections) if (events < 0) budget.correct(added, -events)
      if (budget.corrections.size > 0) this.add(budget)
    }
  }

  /** The call has not run, and all of it waits for the next probe but its takes, which go on without Redis. */
  #handleUnserved(group: CallGroup, call: Call, fault: RedisFault): void {
    const { question, budgets, acceptedKeys } = call
    const waiting = this.#late.get(call)
    if (waiting !== undefined) this.#options.timers.clear(waiting.timer)
    this.#late.delete(call)
    if (!group.isUnserved) this.#options.onServed(group.partition, fault)
    group.isUnserved = true
    for (const [key, value] of acceptedKeys) if (!group.acceptedKeys.has(key)) group.acceptedKeys.set(key, value)
    group.dropOldestKeys()
    group.releasedKeys.push(...question.released)
    for (const [at, { budget, takes, isLost }] of budgets.entries()) {
      if (isLost) group.lostBudgets.add(budget)
      group.budgets.add(budget)
      for (const [minute, events] of question.apps[at].corrections) budget.correct(minute, events)
      for (const { key, resolve } of takes) {
        // Nothing is claimed under it. A probe without it could succeed where the call did not.
        if (key !== null) group.releasedKeys.push(key)
        resolve('away')
      }
    }
    for (const budget of group.budgets) for (const { resolve } of budget.takes.splice(0)) resolve('away')
  }

  #handleServed(group: CallGroup): void {
    if (!group.isUnserved) return
    group.isUnserved = false
    this.#options.onServed(group.partition, null)
    if (!group.isEmpty) this.#schedule(group)
  }

  /**
   * The script may still have run. Keys and events taken without Redis are sent again; refunds are not: a counter
   * that is too high is corrected by the audit, and one that is too low lets an app exceed its limit.
   */
  #handleNoReply(group: CallGroup, { budgets, acceptedKeys, question }: Call, outcome: 'away' | 'unanswered'): void {
    for (const [key, value] of acceptedKeys) if (!group.acceptedKeys.has(key)) group.acceptedKeys.set(key, value)
    group.dropOldestKeys()
    for (const [at, { budget, takes, isLost }] of budgets.entries()) {
      if (isLost) group.lostBudgets.add(budget)
      for (const [minute, events] of question.apps[at].corrections) if (events < 0) budget.correct(minute, events)
      if (budget.corrections.size > 0) this.add(budget)
      for (const { resolve } of takes) resolve(outcome)
    }
  }
}

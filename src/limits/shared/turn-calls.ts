// Gathers the takes, key updates and corrections of one turn of the event loop, of all apps, into one call to Redis;
// on a cluster into one call per partition. While MAX_CALLS are under way, the rest waits for one of them to end.

import type { Timer } from '../../lib/timers.ts'
import type { RedisFault } from '../../redis/fault.ts'
import { runScript } from '../../redis/script.ts'
import type { RedisTime } from '../../redis/time.ts'
import type { AppBudget } from './app-budget.ts'
import { type CallEnding, endOf, isSentAgain } from './call-ending.ts'
import { type Call, CallGroup, gather } from './call-group.ts'
import type { SharedContext } from './context.ts'
import { SeenPartitions } from './seen-partitions.ts'
import { encodeQuestion, type Reply, TAKE } from './take.ts'

/** Under way at one time, per group. */
const MAX_CALLS = 4
/** For an answer that did not come in time; then its takes are left unanswered. */
const LATE_WAIT_MS = 500

export interface TurnCallsOptions extends SharedContext {
  readonly time: RedisTime
  /** Incremented here. */
  readonly calls: { answered: number; slow: number; failed: number }
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
    for (const [call, { group }] of this.#late) {
      this.#stopWaiting(call)
      this.#end(group, call, { kind: 'away' })
    }
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
        onLate: (late) => this.#handleLateReply(group, call, late),
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
      calls.failed++
      this.#end(group, call, { kind: 'refused' })
    } else if (isUnserved) {
      calls.failed++
    } else if (reply === 'away') {
      calls[link.isUp ? 'slow' : 'failed']++
      if (link.isUp) this.#awaitLateReply(group, call)
      else this.#end(group, call, { kind: 'away' })
    } else {
      calls.answered++
      time.learn(reply.nowMs, sentAtMs, timers.monotonicMs())
      if (isProbe && group.isUnserved) {
        group.isUnserved = false
        this.#options.onServed(group.partition, null)
      }
      this.#handleReply(group, call, reply)
    }
    if (!group.isEmpty) this.#schedule(group)
    this.#onIdle?.()
  }

  #handleReply(group: CallGroup, call: Call, reply: Reply): void {
    const { forgotten, lost } = this.#seen.learn(call.question.partitions, reply.partitions)
    if (lost.length > 0) this.#options.onLost(lost)
    this.#end(group, call, { kind: 'replied', reply }, forgotten)
  }

  /** Its takes wait on: asked again, they would be taken twice. */
  #awaitLateReply(group: CallGroup, call: Call): void {
    const timer = this.#options.timers.setTimeout(() => {
      this.#stopWaiting(call)
      this.#end(group, call, { kind: 'unanswered' })
    }, LATE_WAIT_MS)
    timer.unref()
    this.#late.set(call, { group, timer })
  }

  #handleLateReply(group: CallGroup, call: Call, reply: Reply): void {
    const wasGivenUp = !this.#late.has(call)
    this.#stopWaiting(call)
    // Its requests were decided without Redis or refused, and what it had to add was sent again: all of it is taken back.
    if (wasGivenUp) this.#end(group, call, { kind: 'late', reply })
    else this.#handleReply(group, call, reply)
  }

  /** All of the call waits for the next probe but its takes, which go on without Redis. */
  #handleUnserved(group: CallGroup, call: Call, fault: RedisFault): void {
    this.#stopWaiting(call)
    if (!group.isUnserved) this.#options.onServed(group.partition, fault)
    group.isUnserved = true
    group.releasedKeys.push(...call.question.released)
    for (const { budget } of call.budgets) group.budgets.add(budget)
    this.#end(group, call, { kind: 'unserved' })
    for (const budget of group.budgets) for (const { resolve } of budget.takes.splice(0)) resolve('away')
  }

  #stopWaiting(call: Call): void {
    const waiting = this.#late.get(call)
    if (waiting !== undefined) this.#options.timers.clear(waiting.timer)
    this.#late.delete(call)
  }

  /** `forgotten`: the partitions whose counts Redis has lost. */
  #end(group: CallGroup, call: Call, ending: CallEnding, forgotten: ReadonlySet<number> = new Set()): void {
    if (isSentAgain(ending)) {
      for (const [key, value] of call.acceptedKeys) if (!group.acceptedKeys.has(key)) group.acceptedKeys.set(key, value)
      group.dropOldestKeys()
    }
    for (const [at, { budget, takes, isLost }] of call.budgets.entries()) {
      const question = call.question.apps[at]
      const state = { isNewest: question.app === budget.app, hasForgotten: forgotten.has(budget.partition) }
      const { outcomes, corrections, isApplied, releasedKeys } = endOf(ending, at, question, state)
      if (isLost && isSentAgain(ending)) group.lostBudgets.add(budget)
      if ('reply' in ending) budget.acknowledge(ending.reply.apps[at])
      if ('reply' in ending && isApplied) budget.apply(ending.reply.apps[at])
      for (const [minute, events] of corrections) budget.correct(minute, events)
      group.releasedKeys.push(...releasedKeys)
      if (ending.kind === 'replied' && budget.tokens > 0) this.#options.onGranted(budget)
      for (const [place, outcome] of outcomes.entries()) takes[place].resolve(outcome)
      if (budget.corrections.size > 0) this.add(budget)
    }
  }
}

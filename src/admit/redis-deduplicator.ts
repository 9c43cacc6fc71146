// Idempotency across nodes: first what this process knows, then what Redis knows. With Redis away a key is claimed
// here alone, and the queue's own duplicate window decides.

import { sleep, systemTimers, type Timers } from '../lib/timers.ts'
import type { Claim, Deduplicator } from './deduplicator.ts'
import { createMemoryDeduplicator, type MemoryDeduplicator } from './memory-deduplicator.ts'
import type { RedisLink } from './redis.ts'
import { refusalReason } from './redis-fault.ts'
import { type ClaimAnswers, claimKeys, confirmKeys, type KeyAnswer, releaseKey, WINDOW_MS } from './redis-keys.ts'
import { RedisTime } from './redis-time.ts'
import { UntoldKeys } from './untold-keys.ts'

/** What Redis comes to later than this was given up long ago: calls have a budget of milliseconds. */
const LATE_MS = 1000
/** Between looks at a key that another node holds: the first, and the longest. */
const POLL_MS = { first: 10, longest: 50 } as const
/** A key may pass from one failing request to the next; whoever has waited for so long is answered 503. */
const MAX_WAIT_MS = 20_000
/** Keys that one call claims or confirms, so that it holds Redis up for a fraction of a millisecond. */
const MAX_KEYS_PER_CALL = 64
/** Releases that Redis has not heard of, kept until it is back. */
const MAX_UNTOLD_RELEASES = 10_000

const CLAIMED: Claim = { kind: 'claimed', inDoubt: false }
const CLAIMED_IN_DOUBT: Claim = { kind: 'claimed', inDoubt: true }
const FULL: Claim = { kind: 'full' }

export interface RedisDeduplicatorOptions {
  readonly link: RedisLink
  /** Of this process alone, and new at each start. */
  readonly nodeId: string
  /** Most keys accepted here in the last 300 s and in flight that this process itself knows. */
  readonly maxKeys: number
  readonly seed?: number
  /** Default: those of this process. */
  readonly timers?: Timers
  /** Why Redis refused a call; nobody is told but the log. */
  readonly onFault?: (reason: string) => void
}

export interface RedisDeduplicator extends Deduplicator {
  /** To be called about once a second. */
  sweep(nowMs: number): void
  /** Accepted keys that this process itself knows. */
  readonly size: number
}

export function createRedisDeduplicator(options: RedisDeduplicatorOptions): RedisDeduplicator {
  return new SharedDeduplicator(options)
}

interface Asked {
  readonly batchId: string
  readonly resolve: (answer: KeyAnswer | 'away') => void
  readonly reject: (error: unknown) => void
}

interface Release {
  /** Which of this node's claims it frees; 0: none. */
  readonly call: number
  /** In Redis time; 0: no doubt. */
  readonly doubtUntilMs: number
}

interface Accepted {
  readonly batchIds: string[]
  readonly events: number[]
}

class SharedDeduplicator implements RedisDeduplicator {
  readonly #link: RedisLink
  readonly #nodeId: string
  readonly #memory: MemoryDeduplicator
  readonly #timers: Timers
  readonly #onFault: (error: unknown) => void
  /** Claimed in Redis alone, because the memory was full. */
  readonly #beyondMemory = new Set<string>()
  /** Each until when, in Redis time. */
  readonly #untoldReleases = new Map<string, Release>()
  readonly #untoldKeys: UntoldKeys
  /** Which call may have claimed each key that is in flight here. */
  readonly #claimedBy = new Map<string, number>()
  #calls = 0
  #time: RedisTime | null = null
  /** What gathers until the running turn of the loop is over, and then goes in one call. */
  #asked: Asked[] = []
  #accepted: Accepted = { batchIds: [], events: [] }

  constructor({ link, nodeId, maxKeys, seed = 0, timers, onFault }: RedisDeduplicatorOptions) {
    this.#link = link
    this.#nodeId = nodeId
    this.#memory = createMemoryDeduplicator({ maxKeys, seed })
    this.#timers = timers ?? systemTimers
    this.#onFault = (error) => onFault?.(refusalReason(error))
    this.#untoldKeys = new UntoldKeys({
      maxKeysPerCall: MAX_KEYS_PER_CALL,
      isUp: () => link.isUp,
      tell: (batchIds, events, untilMs) => confirmKeys(link, nodeId, batchIds, events, untilMs),
    })
    link.onChange((isUp) => {
      if (!isUp) return
      this.#tellReleases()
      this.#untoldKeys.tell().catch(this.#onFault)
    })
  }

  get size(): number {
    return this.#memory.size
  }

  sweep(nowMs: number): void {
    this.#memory.sweep(nowMs)
  }

  claim(batchId: string, nowMs: number): Claim | Promise<Claim> {
    this.#time ??= new RedisTime(nowMs, this.#timers.monotonicMs())
    const claim = this.#memory.claim(batchId, nowMs)
    if (claim instanceof Promise) return claim.then((passedOn) => this.#share(batchId, passedOn, nowMs))
    return this.#share(batchId, claim, nowMs)
  }

  confirm(batchId: string, events: number, nowMs: number): void {
    if (!this.#beyondMemory.delete(batchId)) this.#memory.confirm(batchId, events, nowMs)
    this.#claimedBy.delete(batchId)
    this.#untoldReleases.delete(batchId)
    if (!this.#link.isUp) {
      this.#untoldKeys.keep([batchId], [events], this.#redisNowMs() + WINDOW_MS)
      return
    }
    const { batchIds, events: counts } = this.#accepted
    counts.push(events)
    if (batchIds.push(batchId) === 1) queueMicrotask(() => this.#sendConfirms())
    else if (batchIds.length === MAX_KEYS_PER_CALL) this.#sendConfirms()
  }

  release(batchId: string, inDoubt: boolean, nowMs: number): void {
    const doubtUntilMs = inDoubt ? this.#redisNowMs() + WINDOW_MS : 0
    const call = this.#claimedBy.get(batchId) ?? 0
    if (this.#link.isUp) this.#sendRelease(batchId, call, doubtUntilMs)
    else if (inDoubt || call > 0) this.#keepRelease(batchId, { call, doubtUntilMs })
    this.#claimedBy.delete(batchId)
    if (!this.#beyondMemory.delete(batchId)) this.#memory.release(batchId, inDoubt, nowMs)
  }

  /** The key is this process's own; now for the other nodes. */
  #share(batchId: string, claim: Claim, nowMs: number): Claim | Promise<Claim> {
    switch (claim.kind) {
      case 'replay':
        return claim
      case 'full':
        if (this.#beyondMemory.has(batchId)) return FULL
        this.#beyondMemory.add(batchId)
        return this.#link.isUp ? this.#ask(batchId, false, nowMs) : CLAIMED
      case 'claimed':
        return this.#link.isUp ? this.#ask(batchId, claim.inDoubt, nowMs) : claim
    }
  }

  async #ask(batchId: string, inDoubt: boolean, nowMs: number): Promise<Claim> {
    const giveUpAtMs = this.#timers.monotonicMs() + MAX_WAIT_MS
    try {
      for (let pauseMs: number = POLL_MS.first; ; pauseMs = Math.min(pauseMs * 1.5, POLL_MS.longest)) {
        const answer = await this.#claimInRedis(batchId)
        if (answer === 'away') return inDoubt ? CLAIMED_IN_DOUBT : CLAIMED
        switch (answer.kind) {
          case 'claimed':
            return inDoubt || answer.inDoubt ? CLAIMED_IN_DOUBT : CLAIMED
          case 'accepted':
            this.#letGo(batchId, nowMs)
            return { kind: 'replay', events: answer.events }
          case 'held':
            if (this.#timers.monotonicMs() >= giveUpAtMs) {
              this.#letGo(batchId, nowMs)
              return FULL
            }
            await sleep(this.#timers, pauseMs)
        }
      }
    } catch (error) {
      this.#letGo(batchId, nowMs)
      throw error
    }
  }

  /** Another node has the answer: whoever waits here asks for it as well. */
  #letGo(batchId: string, nowMs: number): void {
    this.#claimedBy.delete(batchId)
    if (!this.#beyondMemory.delete(batchId)) this.#memory.release(batchId, false, nowMs)
  }

  #claimInRedis(batchId: string): Promise<KeyAnswer | 'away'> {
    return new Promise((resolve, reject) => {
      const gathered = this.#asked.push({ batchId, resolve, reject })
      if (gathered === 1) queueMicrotask(() => void this.#sendClaims())
      else if (gathered === MAX_KEYS_PER_CALL) void this.#sendClaims()
    })
  }

  async #sendClaims(): Promise<void> {
    const asked = this.#asked
    if (asked.length === 0) return
    this.#asked = []
    try {
      const batchIds = asked.map(({ batchId }) => batchId)
      let claimed = await this.#claimAll(batchIds)
      // A clock of Redis that was set forward makes one call late; its answer tells the new time.
      if (claimed !== 'away' && claimed.answers === null) claimed = await this.#claimAll(batchIds)
      const answers = claimed === 'away' ? null : claimed.answers
      asked.forEach(({ resolve }, at) => resolve(answers === null ? 'away' : answers[at]))
    } catch (error) {
      // The queue's own duplicate window decides, as it does without Redis.
      this.#onFault(error)
      for (const { resolve } of asked) resolve('away')
    }
  }

  async #claimAll(batchIds: readonly string[]): Promise<ClaimAnswers | 'away'> {
    const sentMs = this.#timers.monotonicMs()
    const call = ++this.#calls
    for (const batchId of batchIds) this.#claimedBy.set(batchId, call)
    const deadlineMs = this.#redisNowMs() + LATE_MS
    const claimed = await claimKeys(this.#link, this.#nodeId, batchIds, { call, deadlineMs })
    if (claimed !== 'away') this.#time?.learn(claimed.redisMs, sentMs, this.#timers.monotonicMs())
    return claimed
  }

  #sendConfirms(): void {
    const { batchIds, events } = this.#accepted
    if (batchIds.length === 0) return
    this.#accepted = { batchIds: [], events: [] }
    const untilMs = this.#redisNowMs() + WINDOW_MS
    confirmKeys(this.#link, this.#nodeId, batchIds, events, untilMs).then(
      (reply) => reply === 'away' && this.#untoldKeys.keep(batchIds, events, untilMs),
      this.#onFault,
    )
  }

  #sendRelease(batchId: string, call: number, doubtUntilMs: number): void {
    releaseKey(this.#link, this.#nodeId, batchId, { call, doubtUntilMs }).then(
      (reply) => reply === 'away' && this.#keepRelease(batchId, { call, doubtUntilMs }),
      this.#onFault,
    )
  }

  #keepRelease(batchId: string, release: Release): void {
    this.#untoldReleases.set(batchId, release)
    const [oldest] = this.#untoldReleases.keys()
    if (this.#untoldReleases.size > MAX_UNTOLD_RELEASES) this.#untoldReleases.delete(oldest)
  }

  /** Each frees its own claim alone: the key may be this node's again by now, by another call. */
  #tellReleases(): void {
    const releases = [...this.#untoldReleases]
    this.#untoldReleases.clear()
    for (const [batchId, { call, doubtUntilMs }] of releases) this.#sendRelease(batchId, call, doubtUntilMs)
  }

  #redisNowMs(): number {
    return this.#time?.nowMs(this.#timers.monotonicMs()) ?? 0
  }
}

// The idempotency keys of this node's requests: those in flight and accepted here, in memory, and what the other nodes
// have claimed or accepted, in Redis.

import type { App } from '../../apps/app.ts'
import { IDEMPOTENCY_WINDOW_SECONDS } from '../../contract/bounds.ts'
import { partitionOf } from '../../contract/partition.ts'
import type { Claim, Replay } from '../../keys/deduplicator.ts'
import { createMemoryDeduplicator, type MemoryDeduplicator } from '../../keys/memory-deduplicator.ts'
import { sleep } from '../../lib/timers.ts'
import { textOrNull } from '../../redis/reply.ts'
import type { End } from '../admission.ts'
import type { SharedContext } from './context.ts'
import { acceptedText, BURNT, idempotencyKey, replayOfText } from './take.ts'
import type { TurnCalls } from './turn-calls.ts'

const WINDOW_MS = IDEMPOTENCY_WINDOW_SECONDS * 1000
/** Between polls for a key that another node holds. */
export const POLL_MS = { first: 10, longest: 50 } as const
/** A key may pass from one failing request to the next, so a wait needs an end: the request is answered 503 then. */
export const MAX_KEY_WAIT_MS = 20_000

export interface RequestKeysOptions extends SharedContext {
  readonly maxKeys: number
  readonly seed: number
  readonly turnCalls: TurnCalls
}

export class RequestKeys {
  readonly #options: RequestKeysOptions
  readonly #memory: MemoryDeduplicator
  /** Keys in flight that found no place in `#memory`. */
  readonly #beyondMemory = new Set<string>()

  constructor(options: RequestKeysOptions) {
    this.#options = options
    this.#memory = createMemoryDeduplicator(options)
  }

  /** Accepted keys in memory. */
  get size(): number {
    return this.#memory.size
  }

  claim(batchId: string): Claim | Promise<Claim> {
    return this.#memory.claim(batchId, this.#options.timers.nowMs())
  }

  /** A key that an earlier process of this node has accepted. */
  restore(batchId: string, events: number, acceptedAtMs: number): void {
    this.#memory.restore(batchId, events, acceptedAtMs)
  }

  /**
   * For a key that found no place in memory: Redis and the queue still detect its repeats, except for two at once on
   * this node. false: one is in flight here already.
   */
  claimBeyondMemory(batchId: string): boolean {
    if (this.#beyondMemory.has(batchId)) return false
    this.#beyondMemory.add(batchId)
    return true
  }

  /** Frees the key for this node's other requests; the claim in Redis is released apart from this. */
  releaseLocal(batchId: string): void {
    if (!this.#beyondMemory.delete(batchId)) this.#memory.release(batchId)
  }

  end({ appId }: App, batchId: string, end: End, events: number, eventsHash: number): void {
    const { partitions, timers, turnCalls } = this.#options
    const partition = partitionOf(appId, partitions)
    const key = idempotencyKey(partition, batchId)
    if (end === 'stored' || end === 'duplicate') {
      if (!this.#beyondMemory.delete(batchId)) this.#memory.confirm(batchId, events, timers.nowMs(), eventsHash)
      turnCalls.accept(partition, key, acceptedText(events, eventsHash), WINDOW_MS)
    } else {
      turnCalls.release(partition, key)
      this.releaseLocal(batchId)
    }
  }

  async replayOf({ appId }: App, batchId: string): Promise<Replay | null> {
    const { timers, link, partitions, nodeId } = this.#options
    const claim = await this.claim(batchId)
    if (claim.kind === 'replay') return claim
    if (claim.kind === 'full') return null
    try {
      const key = idempotencyKey(partitionOf(appId, partitions), batchId)
      const giveUpAtMs = timers.monotonicMs() + MAX_KEY_WAIT_MS
      for (;;) {
        const held = await link.call((client) => client.get(key), textOrNull)
        if (held === 'away' || held === null) return null
        const replay = replayOfText(held)
        if (replay !== null) return replay
        if (held === nodeId || held === BURNT || timers.monotonicMs() >= giveUpAtMs) return null
        await sleep(timers, POLL_MS.longest)
      }
    } finally {
      this.#memory.release(batchId)
    }
  }

  sweep(): void {
    this.#memory.sweep(this.#options.timers.nowMs())
  }
}

// Limiters for tests, in a time that the test sets: nodes over one real Redis, with links that lose what they are told
// to lose.

import { Redis } from 'ioredis'
import type { Ledger } from '../../src/admit/reclaim.ts'
import type { Away, RedisClient, RedisLink } from '../../src/admit/redis.ts'
import { systemTimers } from '../../src/lib/timers.ts'
import { type LeasingLimiter, openRedisLimiter } from '../../src/admit/redis-limiter.ts'

/** `unsent`: nothing arrives. `unanswered`: it is done, and nobody hears. `late`: it is done when `deliver` is called. */
export type LinkFault = 'none' | 'unsent' | 'unanswered' | 'late'

/** A link without a breaker, over a client that stays connected. */
export class TestLink implements RedisLink {
  readonly #client: RedisClient
  readonly #listeners: ((isUp: boolean) => void)[] = []
  readonly #late: (() => Promise<unknown>)[] = []
  fault: LinkFault = 'none'
  /** Of the next calls, before `fault` holds again. */
  nextFaults: LinkFault[] = []
  isUp = true

  /** With `nowMs` scripts go by that time, as it is when they are done. */
  constructor(client: RedisClient, nowMs?: () => number) {
    this.#client = nowMs === undefined ? client : timed(client, nowMs)
  }

  async call<T>(command: (client: RedisClient) => Promise<T>): Promise<T | Away> {
    const fault = this.nextFaults.shift() ?? this.fault
    if (!this.isUp || fault === 'unsent') return 'away'
    if (fault === 'none') return command(this.#client)
    if (fault === 'unanswered') await command(this.#client)
    else this.#late.push(() => command(this.#client))
    return 'away'
  }

  /** What was late arrives, the newest first. */
  async deliver(): Promise<void> {
    for (const command of this.#late.splice(0).reverse()) await command().catch(() => null)
  }

  set(isUp: boolean): void {
    if (this.isUp === isUp) return
    this.isUp = isUp
    for (const listener of this.#listeners) listener(isUp)
  }

  onChange(listener: (isUp: boolean) => void): void {
    this.#listeners.push(listener)
  }

  async stop(): Promise<void> {}
}

function timed(client: RedisClient, nowMs: () => number): RedisClient {
  const withTime =
    (run: (...args: (string | number)[]) => Promise<unknown>) =>
    (...args: (string | number)[]): Promise<unknown> =>
      run.call(client, ...args, String(nowMs()))
  return new Proxy(client, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      return name === 'eval' || name === 'evalsha' ? withTime(member as never) : member.bind(target)
    },
  })
}

export interface TestNode {
  readonly limiter: LeasingLimiter
  readonly link: TestLink
  readonly notices: string[]
  readonly leaseRequests: { granted: number; refused: number; failed: number }
}

/** A node that goes by `nowMs`, and calls Redis only when it is taken from, swept or made to beat. */
export function testNode(parts: {
  client: RedisClient
  nodeId: string
  nowMs: () => number
  /** This node's own clocks, where they differ. */
  monotonicMs?: () => number
  wallMs?: () => number
  ledger?: Ledger
}): TestNode {
  const { nodeId, nowMs } = parts
  const link = new TestLink(parts.client, nowMs)
  const notices: string[] = []
  const leaseRequests = { granted: 0, refused: 0, failed: 0 }
  const limiter = openRedisLimiter({
    link,
    nodeId,
    timers: { ...systemTimers, nowMs: parts.wallMs ?? nowMs, monotonicMs: parts.monotonicMs ?? nowMs },
    ledger: parts.ledger ?? null,
    leaseRequests,
    onNotice: (message) => notices.push(message),
    isManual: true,
  })
  return { limiter, link, notices, leaseRequests }
}

export function connect(url: string): Redis {
  return new Redis(url, { enableAutoPipelining: false, maxRetriesPerRequest: null })
}

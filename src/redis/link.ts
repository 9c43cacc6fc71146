// The connection to Redis behind a circuit breaker: whoever asks gets an answer within the budget, or hears at once
// that Redis is away.

import type { Cluster, Redis } from 'ioredis'

export type RedisClient = Redis | Cluster

/** No answer: not connected, too slow, or cut off underway. What was asked may have been done or not. */
export type Away = 'away'

export interface RedisLink {
  /** false: nobody waits for Redis now. */
  readonly isUp: boolean
  /** A call may name keys of one hash slot only. */
  readonly isCluster: boolean
  /** Runs `command` and gives its result. Rejects only with an error reply of Redis itself. */
  call<T>(command: (client: RedisClient) => Promise<T>): Promise<T | Away>
  /** Hears of each change of `isUp`. */
  onChange(listener: (isUp: boolean) => void): void
  stop(): Promise<void>
}

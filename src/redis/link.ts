// The interface of the link to Redis, with its circuit breaker: a call gets its answer within the budget, or 'away'.

import type { Cluster, Redis } from 'ioredis'

export type RedisClient = Redis | Cluster

/** No answer: not connected, too slow, or disconnected meanwhile. Redis may still have run the call. */
export type Away = 'away'

export interface RedisLink {
  /** false: every call is answered 'away' at once. */
  readonly isUp: boolean
  /** A call may name keys of one hash slot only. */
  readonly isCluster: boolean
  /** Rejects only with an error reply of Redis itself. `onLate` gets an answer that comes after 'away', if one comes. */
  call<T>(command: (client: RedisClient) => Promise<T>, onLate?: (answer: T) => void): Promise<T | Away>
  /** `listener` is called at each change of `isUp`. */
  onChange(listener: (isUp: boolean) => void): void
  stop(): Promise<void>
}

// The interface of the link to Redis, with its circuit breaker: a call gets its answer within the budget, or 'away'.

import type { Cluster, Redis } from 'ioredis'
import type { RedisFault } from './fault.ts'
import type { Read } from './reply.ts'

export type RedisClient = Redis | Cluster

/** No answer: not connected, too slow, of another shape, or disconnected meanwhile. Redis may still have run the call. */
export type Away = 'away'

export interface CallOptions<T> {
  /** Gets an answer that comes after 'away', if one comes. */
  readonly onLate?: (answer: T) => void
  /** Before 'away', where a cluster does not serve the hash slot of the call now: it has not run the call, and the link stays up. */
  readonly onSlotFault?: (fault: RedisFault) => void
}

export interface RedisLink {
  /** false: every call is answered 'away' at once. */
  readonly isUp: boolean
  /** A call may name keys of one hash slot only. */
  readonly isCluster: boolean
  /** Rejects only with an error reply of Redis itself. `read` checks the reply, also one that comes late. */
  call<T>(
    command: (client: RedisClient) => Promise<unknown>,
    read: Read<T>,
    options?: CallOptions<T>,
  ): Promise<T | Away>
  /** `listener` is called at each change of `isUp`. */
  onChange(listener: (isUp: boolean) => void): void
  stop(): Promise<void>
}

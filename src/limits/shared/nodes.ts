// Which nodes are alive: each sends a heartbeat once a second, timed by Redis's clock.

import { readFileSync } from 'node:fs'
import type { RedisLink } from '../../redis/link.ts'
import { integer, listOf, must, type Read, text, unixMs } from '../../redis/reply.ts'
import { redisScript, runScript } from '../../redis/script.ts'
import type { RedisTime } from '../../redis/time.ts'
import type { SharedContext } from './context.ts'

export const NODES_KEY = 'sluice:nodes'

const HEARTBEAT = redisScript(readFileSync(new URL('./heartbeat.lua', import.meta.url), 'utf8'))

/** A node without a heartbeat for longer is declared dead. */
const DEAD_AFTER_MS = 5000

export interface HeartbeatReply {
  /** Redis's clock. */
  readonly nowMs: number
  /** When Redis had this node's heartbeat before; 0: it was not on the list. */
  readonly beforeMs: number
  readonly nodes: readonly string[]
}

/** Rejects with an error reply of Redis. */
export function sendHeartbeat(link: RedisLink, nodeId: string): Promise<HeartbeatReply | 'away'> {
  return runScript(link, HEARTBEAT, [NODES_KEY], [nodeId, String(DEAD_AFTER_MS)], heartbeatReply)
}

const heartbeatReply: Read<HeartbeatReply> = (reply) => {
  must(Array.isArray(reply))
  const [nowMs, beforeMs, ...nodes]: unknown[] = reply
  return { nowMs: unixMs(nowMs), beforeMs: integer(beforeMs), nodes: listOf(text)(nodes) }
}

/** The heartbeat of this node. Each reply also sets `time`. */
export class Heartbeat {
  readonly #options: SharedContext & { readonly time: RedisTime }
  /** Nodes alive at the last reply, this one included. */
  nodes = 1
  #isUnderway = false
  /** Of this node's newest heartbeat, by Redis's clock. */
  #newestMs = 0
  /** Redis has lost its list: until the others are on it again, `nodes` does not fall. By the monotonic clock. */
  #isListLostUntilMs = Number.NEGATIVE_INFINITY

  constructor(options: SharedContext & { readonly time: RedisTime }) {
    this.#options = options
  }

  /** Does nothing while Redis is away or the one before has no reply yet. true: Redis has answered. */
  async send(): Promise<boolean> {
    const { link, nodeId, timers, time, onFault } = this.#options
    if (this.#isUnderway || !link.isUp) return false
    this.#isUnderway = true
    try {
      const sentAtMs = timers.monotonicMs()
      const reply = await sendHeartbeat(link, nodeId)
      if (reply === 'away') return false
      const answeredAtMs = timers.monotonicMs()
      time.learn(reply.nowMs, sentAtMs, answeredAtMs)
      if (reply.beforeMs < this.#newestMs) this.#isListLostUntilMs = answeredAtMs + DEAD_AFTER_MS
      this.#newestMs = reply.nowMs
      this.nodes = Math.max(1, reply.nodes.length, answeredAtMs < this.#isListLostUntilMs ? this.nodes : 0)
      return true
    } catch (error) {
      onFault(error)
      return false
    } finally {
      this.#isUnderway = false
    }
  }

  /** Takes this node off the list at once, so that the others' shares grow without waiting for DEAD_AFTER_MS. */
  async leave(): Promise<void> {
    const { link, nodeId, onFault } = this.#options
    if (!link.isUp) return
    await link.call((client) => client.zrem(NODES_KEY, nodeId), integer).catch(onFault)
  }
}

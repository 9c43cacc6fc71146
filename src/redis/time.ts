// Redis's clock, estimated from this machine's monotonic clock. Redis's clock alone opens and closes minutes, so that
// all nodes agree on them.

import type { Away, RedisLink } from './link.ts'
import { listOf, must, type Read, text } from './reply.ts'

const MICROSECONDS_PER_MS = 1000
/** Seconds and microseconds. */
const TIME = /^(\d{1,12}) (\d{1,6})$/

/** Unix ms. On a cluster, of one of its servers. */
export function readRedisTime(link: RedisLink): Promise<number | Away> {
  return link.call((client) => client.time(), timeMs)
}

const timeMs: Read<number> = (reply) => {
  const found = TIME.exec(listOf(text)(reply).join(' '))
  must(found !== null)
  return Number(found[1]) * 1000 + Math.floor(Number(found[2]) / MICROSECONDS_PER_MS)
}

export class RedisTime {
  /** Redis's time minus monotonic time. */
  #offsetMs: number

  /** Uses this machine's wall clock until the first `learn`. */
  constructor(wallMs: number, monotonicMs: number) {
    this.#offsetMs = wallMs - monotonicMs
  }

  nowMs(monotonicMs: number): number {
    return Math.floor(monotonicMs + this.#offsetMs)
  }

  /**
   * A call sent and answered at these monotonic times was given `redisMs`. Redis read its clock somewhere between, which
   * bounds the offset. It moves only if it lies outside these bounds, so that a slow answer does not blur it.
   */
  learn(redisMs: number, sentMs: number, answeredMs: number): void {
    const lowestMs = redisMs - answeredMs
    const highestMs = redisMs + 1 - sentMs
    this.#offsetMs = Math.min(Math.max(this.#offsetMs, lowestMs), highestMs)
  }
}

// Nodes that share limits over a real Redis whose clock a test sets.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Redis } from 'ioredis'
import { systemTimers, type Timers } from '../../src/lib/timers.ts'
import { SharedAdmission } from '../../src/limits/shared/shared-admission.ts'
import { awayFault } from '../../src/redis/fault.ts'
import type { Away, CallOptions, RedisClient, RedisLink } from '../../src/redis/link.ts'
import type { Read } from '../../src/redis/reply.ts'

const SCRIPTS = ['limits/shared/take.lua', 'limits/shared/heartbeat.lua', 'limits/shared/days.lua', 'audit/replace.lua']
const TEXT_OF = new Map(
  SCRIPTS.map((file) => {
    const text = readFileSync(new URL(`../../src/${file}`, import.meta.url), 'utf8')
    return [createHash('sha1').update(text).digest('hex'), text]
  }),
)

export function connectTo(url: string): Redis {
  return new Redis(url, { enableAutoPipelining: false, maxRetriesPerRequest: null })
}

/** Runs the scripts of production with `nowMs` for the server's time, which cannot be set. */
export function timed(client: RedisClient, nowMs: () => number): RedisClient {
  const evalsha = (digest: string, ...rest: [number, ...string[]]): Promise<unknown> => {
    const text = TEXT_OF.get(digest)
    if (text === undefined) throw new Error(`no script has the digest ${digest}`)
    const time = `{ '${Math.floor(nowMs() / 1000)}', '${(nowMs() % 1000) * 1000}' }`
    return client.eval(text.replaceAll("redis.call('TIME')", time), ...rest)
  }
  return new Proxy(client, {
    get: (target, name) => {
      if (name === 'evalsha') return evalsha
      if (name === 'time') return async () => [String(Math.floor(nowMs() / 1000)), String((nowMs() % 1000) * 1000)]
      const member: unknown = Reflect.get(target, name)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
}

/** A link that a test takes down and up. */
export class TestLink implements RedisLink {
  isUp = true
  isCluster = false
  /** While it holds answers, calls are done and given up, and their answers come with `answerLate`. */
  isHolding = false
  #held: (() => void)[] = []
  readonly #client: RedisClient
  readonly #listeners: ((isUp: boolean) => void)[] = []
  #underway = 0

  constructor(client: RedisClient) {
    this.#client = client
  }

  answerLate(): void {
    this.isHolding = false
    const held = this.#held
    this.#held = []
    for (const answer of held) answer()
  }

  async call<T>(
    command: (client: RedisClient) => Promise<unknown>,
    read: Read<T>,
    { onLate, onSlotFault }: CallOptions<T> = {},
  ): Promise<T | Away> {
    if (!this.isUp) return 'away'
    this.#underway++
    const given = await command(this.#client)
      .finally(() => this.#underway--)
      .catch((error: unknown) => {
        const fault = awayFault(error)
        if (!this.isCluster || !fault?.isOfSlot) throw error
        onSlotFault?.(fault)
        return 'not served'
      })
    if (given === 'not served') return 'away'
    const result = read(given)
    if (!this.isHolding) return result
    if (onLate !== undefined) this.#held.push(() => onLate(result))
    return 'away'
  }

  /** Resolves when the calls of this turn of the event loop, and those that their answers lead to, are answered. */
  async idle(): Promise<void> {
    // A next call is made in the turn after an answer, which may be after this has looked.
    for (let idleTurns = 0; idleTurns < 2; idleTurns++) {
      await new Promise((resolve) => setImmediate(resolve))
      if (this.#underway > 0) idleTurns = -1
    }
  }

  set(isUp: boolean): void {
    this.isUp = isUp
    for (const listener of this.#listeners) listener(isUp)
  }

  onChange(listener: (isUp: boolean) => void): void {
    this.#listeners.push(listener)
  }

  async stop(): Promise<void> {}
}

export interface LimitNode {
  readonly admission: SharedAdmission
  readonly link: TestLink
  readonly faults: unknown[]
  readonly notices: string[]
}

export function limitNode(
  client: RedisClient,
  nodeId: string,
  nowMs: () => number,
  { maxKeys = 1000, timers = {} }: { maxKeys?: number; timers?: Partial<Timers> } = {},
): LimitNode {
  const link = new TestLink(timed(client, nowMs))
  const faults: unknown[] = []
  const notices: string[] = []
  const admission = new SharedAdmission({
    link,
    nodeId,
    partitions: 16,
    maxKeys,
    seed: 1,
    timers: { ...systemTimers, nowMs, monotonicMs: nowMs, ...timers },
    calls: { answered: 0, slow: 0, failed: 0, without: 0 },
    onFault: (error) => faults.push(error),
    onNotice: (notice) => notices.push(notice),
  })
  return { admission, link, faults, notices }
}

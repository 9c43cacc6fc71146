// Which nodes there are: each makes itself heard in Redis, and says of which apps it holds leases. A node that falls
// silent is found out by those who watch it.

import type { Away, RedisLink } from './redis.ts'
import { redisScript, runScript } from './redis-script.ts'

/** One hash slot holds all keys of nodes. */
export const NODES_KEY = 'sluice:{nodes}'
/** The last acknowledged mark of each node at its last beat. */
export const NODE_MARKS_KEY = `${NODES_KEY}:marks`

export function nodeAppsKey(nodeId: string): string {
  return `${NODES_KEY}:${nodeId}:apps`
}

export function nodeLockKey(nodeId: string): string {
  return `${NODES_KEY}:${nodeId}:lock`
}

/** A node heard within this time is counted. */
const COUNTED_MS = 5000
/** A node that was silent for so long, while Redis answered, is dead. Three times what its leases are trusted for. */
export const DEAD_AFTER_MS = 15_000
/** After Redis was away, nodes get so long to be heard again. */
const GRACE_MS = 30_000
/** Away for no longer than this was a moment, after which nobody has been taken for dead. */
const MOMENT_MS = 5000
/** Apps remembered as registered; beyond, they are registered once more. */
const MAX_REGISTERED = 100_000

const BEAT = redisScript(`
local nowMs = tonumber(ARGV[3])
if not nowMs then
  local time = redis.call('TIME')
  nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
end
local isNew = redis.call('ZADD', KEYS[1], nowMs, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
local heard = redis.call('ZCOUNT', KEYS[1], nowMs - ${COUNTED_MS}, '+inf')
return { nowMs, isNew, heard, redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES') }
`)

/** With its first app a node is in the list, whether it has beaten yet or not: it may die before. */
const REGISTER = redisScript(`
local nowMs = tonumber(ARGV[3])
if not nowMs then
  local time = redis.call('TIME')
  nowMs = time[1] * 1000 + math.floor(time[2] / 1000)
end
redis.call('SADD', KEYS[2], ARGV[2])
return redis.call('ZADD', KEYS[1], 'NX', nowMs, ARGV[1])
`)

interface Watched {
  readonly score: string
  readonly sinceMonotonicMs: number
}

/** A node and its last beat, as Redis has it. */
export interface SilentNode {
  readonly nodeId: string
  readonly score: string
}

export interface Beat {
  readonly clockMs: number
  /** Nodes that are silent for too long. */
  readonly dead: readonly SilentNode[]
}

export interface NodeRegistryParts {
  readonly link: RedisLink
  readonly nodeId: string
  readonly mark: () => number
}

export class NodeRegistry {
  readonly #parts: NodeRegistryParts
  readonly #registered = new Set<string>()
  readonly #watched = new Map<string, Watched>()
  /** Since when Redis is away; null: it answers. */
  #awaySinceMonotonicMs: number | null = null
  /** Nodes may be on their way back until then. */
  #graceEndsMonotonicMs = Number.NEGATIVE_INFINITY
  #nobodyIsDeadBeforeMonotonicMs = Number.NEGATIVE_INFINITY
  #wasListed = false
  /** Nodes heard lately, this one included. */
  count = 1

  constructor(parts: NodeRegistryParts) {
    this.#parts = parts
  }

  /** Makes this node heard, and looks who else is. `monotonicMs` is now. */
  async beat(monotonicMs: number): Promise<Beat | Away> {
    const { link, nodeId, mark } = this.#parts
    const reply = await runScript(link, BEAT, [NODES_KEY, NODE_MARKS_KEY], [nodeId, String(mark())])
    if (reply === 'away') {
      this.loseSight(monotonicMs)
      return 'away'
    }
    const [clockMs, isNew, heard, scores] = reply as [number, number, number, string[]]
    this.#seeAgain(monotonicMs)
    this.#seeWhetherNew(isNew)
    // The first node back hears nobody else yet, and must not take the shares of those that are still on their way.
    const isEarly = monotonicMs < this.#graceEndsMonotonicMs
    this.count = Math.max(1, heard, isEarly ? this.count : 0)
    return { clockMs, dead: this.#watch(scores, monotonicMs) }
  }

  /** Redis is away: who is silent may only be cut off. */
  loseSight(monotonicMs: number): void {
    this.#awaySinceMonotonicMs ??= monotonicMs
  }

  /** Before any call: others may have taken this node for dead, and forgotten of which apps it holds leases. */
  linkIsBack(monotonicMs: number): void {
    if (monotonicMs - (this.#awaySinceMonotonicMs ?? monotonicMs) > MOMENT_MS) this.#registered.clear()
  }

  /**
   * Redis answers again. After long nobody is dead before the grace is over; after a moment silence counts less that
   * moment, and as much again for others to be back: a link that breaks for an instant every few seconds must not keep
   * the dead from being found.
   */
  #seeAgain(monotonicMs: number): void {
    if (this.#awaySinceMonotonicMs === null) return
    const awayMs = monotonicMs - this.#awaySinceMonotonicMs
    this.#awaySinceMonotonicMs = null
    this.#graceEndsMonotonicMs = monotonicMs + GRACE_MS
    if (awayMs > MOMENT_MS) {
      this.#registered.clear()
      this.#nobodyIsDeadBeforeMonotonicMs = this.#graceEndsMonotonicMs
      return
    }
    for (const [nodeId, { score, sinceMonotonicMs }] of this.#watched) {
      const since = Math.min(monotonicMs, sinceMonotonicMs + 2 * awayMs)
      this.#watched.set(nodeId, { score, sinceMonotonicMs: since })
    }
  }

  /**
   * By this machine's clock, not by what the scores say: only a beat that does not change is a silence, and a clock
   * that was set kills nobody.
   */
  #watch(scores: readonly string[], monotonicMs: number): SilentNode[] {
    const dead: SilentNode[] = []
    const seen = new Set<string>()
    for (let at = 0; at < scores.length; at += 2) {
      const nodeId = scores[at]
      const score = scores[at + 1]
      seen.add(nodeId)
      const watched = this.#watched.get(nodeId)
      if (watched === undefined || watched.score !== score) {
        this.#watched.set(nodeId, { score, sinceMonotonicMs: monotonicMs })
      } else if (monotonicMs - watched.sinceMonotonicMs > DEAD_AFTER_MS && nodeId !== this.#parts.nodeId) {
        dead.push({ nodeId, score })
      }
    }
    for (const nodeId of this.#watched.keys()) if (!seen.has(nodeId)) this.#watched.delete(nodeId)
    return monotonicMs >= this.#nobodyIsDeadBeforeMonotonicMs ? dead : []
  }

  /** Before this node's first lease of an app, so that whoever reclaims finds it. */
  async register(appId: string): Promise<'registered' | Away> {
    if (this.#registered.has(appId)) return 'registered'
    const { link, nodeId } = this.#parts
    const isNew = await runScript(link, REGISTER, [NODES_KEY, nodeAppsKey(nodeId)], [nodeId, appId])
    if (isNew === 'away') return 'away'
    this.#seeWhetherNew(isNew as number)
    if (this.#registered.size >= MAX_REGISTERED) this.#registered.clear()
    this.#registered.add(appId)
    return 'registered'
  }

  /** Forgotten by Redis, or taken for dead: the list of its apps went with it. */
  #seeWhetherNew(isNew: number): void {
    if (isNew === 1 && this.#wasListed) this.#registered.clear()
    this.#wasListed = true
  }

  /** This node holds nothing any more. */
  async leave(): Promise<void> {
    await forgetNode(this.#parts.link, { nodeId: this.#parts.nodeId, score: '' })
  }
}

const FORGET = redisScript(`
if ARGV[2] ~= '' and redis.call('ZSCORE', KEYS[1], ARGV[1]) ~= ARGV[2] then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return redis.call('DEL', KEYS[3])
`)

/** Strikes a node off, unless it was heard again since `score`. */
export async function forgetNode(link: RedisLink, { nodeId, score }: SilentNode): Promise<void> {
  await runScript(link, FORGET, [NODES_KEY, NODE_MARKS_KEY, nodeAppsKey(nodeId)], [nodeId, score])
}

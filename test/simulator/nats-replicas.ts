// The three servers of the simulated NATS, of which one may be cut off from the two others, or behind them: which one
// leads, who reaches whom, and how much of a stream each has.

import type { Random } from './random.ts'
import type { World } from './world.ts'

export const SERVERS = 3
/** Until the two others have elected a leader. */
const ELECTION_MS = { min: 4000, max: 9000 } as const
/** A leader that reaches no other server gives up, and describes its streams until then. */
const QUORUM_LOST_MS = { min: 10_000, max: 20_000 } as const
/** After the cut, until the server has what the others stored meanwhile. */
const CATCH_UP_MS = 3000

/** By the stream's name: the last sequence that a server has. */
type Ends = ReadonlyMap<string, number>

interface Outlier {
  readonly server: number
  readonly state: 'cut' | 'behind'
  readonly sinceMs: number
  readonly ends: Ends
  /** It was the leader. */
  readonly hasLed: boolean
  readonly electionMs: number
  readonly quorumLostMs: number
}

export class Replicas {
  readonly #world: World
  readonly #random: Random
  #leader = 0
  #outlier: Outlier | null = null

  constructor(world: World, random: Random) {
    this.#world = world
    this.#random = random
  }

  /** The leader that a client of this server gets, whether it can store anything or not; null: none. */
  leaderFor(server: number): number | null {
    const one = this.#outlier
    if (one === null || one.state === 'behind') return this.#leader
    const cutForMs = this.#world.nowMs - one.sinceMs
    if (server === one.server) return one.hasLed && cutForMs < one.quorumLostMs ? server : null
    return one.hasLed && cutForMs < one.electionMs ? null : this.#leader
  }

  isCut(server: number): boolean {
    return this.#outlier?.state === 'cut' && this.#outlier.server === server
  }

  reaches(from: number, to: number): boolean {
    return from === to || (!this.isCut(from) && !this.isCut(to))
  }

  /** The last sequence of the stream that this server has. */
  endOf(server: number, stream: string): number {
    const one = this.#outlier
    return one === null || one.server !== server ? Number.POSITIVE_INFINITY : (one.ends.get(stream) ?? 0)
  }

  /** One that the server reaches, for a consumer. */
  homeFrom(server: number): number {
    const start = this.#random.int(0, SERVERS - 1)
    return this.reaches(server, start) ? start : (start + 1) % SERVERS
  }

  /** `place` 0 is the leader. false: another server is cut off or behind, or the leader would be behind itself. */
  setApart(place: number, state: 'cut' | 'behind', ends: Ends): boolean {
    if (this.#outlier !== null || (state === 'behind' && place % SERVERS === 0)) return false
    const server = (this.#leader + place) % SERVERS
    const hasLed = server === this.#leader
    const electionMs = this.#random.int(ELECTION_MS.min, ELECTION_MS.max)
    const quorumLostMs = this.#random.int(QUORUM_LOST_MS.min, QUORUM_LOST_MS.max)
    this.#outlier = { server, state, sinceMs: this.#world.nowMs, ends, hasLed, electionMs, quorumLostMs }
    if (hasLed) this.#leader = (server + this.#random.int(1, SERVERS - 1)) % SERVERS
    return true
  }

  /** 'same leader': it has led on, and stores what it was sent meanwhile. */
  rejoin(): 'same leader' | 'others led' {
    const one = this.#outlier
    this.#outlier = null
    if (one === null || one.state === 'behind') return 'others led'
    if (one.hasLed && this.#world.nowMs - one.sinceMs < one.electionMs) {
      this.#leader = one.server
      return 'same leader'
    }
    const behind = { ...one, state: 'behind', hasLed: false } as const
    this.#outlier = behind
    this.#world.after(CATCH_UP_MS, () => {
      if (this.#outlier === behind) this.#outlier = null
    })
    return 'others led'
  }
}

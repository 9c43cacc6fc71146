// Gathers what the requests of one turn of the event loop need of Redis, of all apps, into one call; on a cluster into
// one call for each partition. What comes while enough calls are under way gathers until one is answered.

import type { RedisLink } from '../../admit/redis.ts'
import { runScript } from '../../admit/redis-script.ts'
import type { RedisTime } from '../../admit/redis-time.ts'
import type { Timers } from '../../lib/timers.ts'
import type { Room, Take, TakeOutcome } from './room.ts'
import { type Answer, ANSWER, answerIn, type AppQuestion, type Question, TAKE, wordsOf } from './take.ts'

const MAX_CALLS = 4
/** Takes, claims and keys in one call, so that it holds Redis up for some 2 ms. */
const MAX_WORDS = 256
/** The longest that a request waits for Redis; so long one may wait for its call as well. */
const MAX_WAIT_MS = 250
/** Accepted keys that Redis has not heard of; beyond, the oldest are left to the queue's duplicate window. */
const MAX_UNTOLD_KEYS = 100_000

export interface TurnsOptions {
  readonly link: RedisLink
  readonly nodeId: string
  readonly time: RedisTime
  readonly timers: Timers
  /** Added to. */
  readonly calls: { answered: number; slow: number; failed: number }
  readonly onFault: (error: unknown) => void
  /** Its bucket holds something. */
  readonly onGranted: (room: Room) => void
}

interface Claim {
  readonly key: string
  readonly resolve: (answer: number | 'away') => void
}

/** What goes in calls of its own: all, or on a cluster one partition. */
class Group {
  rooms = new Set<Room>()
  claims: Claim[] = []
  released: string[] = []
  /** Each with its events, and until when it is remembered, in monotonic ms. */
  accepted = new Map<string, { events: number; untilMs: number }>()
  calls = 0
  isDue = false

  get isEmpty(): boolean {
    return this.rooms.size + this.claims.length + this.released.length + this.accepted.size === 0
  }
}

interface Asked {
  readonly question: Question
  readonly rooms: readonly { readonly room: Room; readonly takes: readonly Take[] }[]
  readonly claims: readonly Claim[]
  readonly accepted: ReadonlyMap<string, { events: number; untilMs: number }>
}

export class Turns {
  readonly #options: TurnsOptions
  readonly #groups = new Map<number, Group>()
  #onIdle: (() => void) | null = null

  constructor(options: TurnsOptions) {
    this.#options = options
  }

  /** Something of this app waits for Redis. */
  add(room: Room): void {
    const group = this.#groupOf(room.partition)
    group.rooms.add(room)
    this.#soon(group)
  }

  /** Claims a key of which the events are taken already. */
  claim(partition: number, key: string): Promise<number | 'away'> {
    const group = this.#groupOf(partition)
    this.#soon(group)
    return new Promise((resolve) => group.claims.push({ key, resolve }))
  }

  release(partition: number, key: string): void {
    if (!this.#options.link.isUp) return
    const group = this.#groupOf(partition)
    group.released.push(key)
    this.#soon(group)
  }

  /** While Redis is away they are kept, so that it hears of them when it is back. */
  accept(partition: number, key: string, events: number, keptMs: number): void {
    const group = this.#groupOf(partition)
    group.accepted.set(key, { events, untilMs: this.#options.timers.monotonicMs() + keptMs })
    this.#boundAccepted(group)
    this.#soon(group)
  }

  /** Sends what waits for Redis to be back. */
  resume(): void {
    for (const group of this.#groups.values()) if (!group.isEmpty) this.#soon(group)
  }

  /** Resolves when nothing waits and nothing is under way. */
  async idle(): Promise<void> {
    const isBusy = (): boolean => [...this.#groups.values()].some((group) => group.calls > 0 || group.isDue)
    while (isBusy()) await new Promise<void>((resolve) => (this.#onIdle = resolve))
  }

  #groupOf(partition: number): Group {
    const name = this.#options.link.isCluster ? partition : -1
    let group = this.#groups.get(name)
    if (group === undefined) this.#groups.set(name, (group = new Group()))
    return group
  }

  #boundAccepted({ accepted }: Group): void {
    const [oldest] = accepted.keys()
    if (accepted.size > MAX_UNTOLD_KEYS) accepted.delete(oldest)
  }

  #soon(group: Group): void {
    if (group.isDue) return
    group.isDue = true
    // Behind all that this turn of the event loop brings.
    this.#options.timers.setImmediate(() => {
      group.isDue = false
      while (group.calls < MAX_CALLS && !group.isEmpty) {
        if (!this.#options.link.isUp) {
          this.#leave(group)
          break
        }
        void this.#send(group)
      }
      this.#onIdle?.()
    })
  }

  /** Redis is away: nobody waits for it. What it has to be told stays. */
  #leave(group: Group): void {
    const { rooms, claims } = group
    group.claims = []
    group.released = []
    for (const room of rooms) {
      room.isFillWanted = false
      for (const { resolve } of room.takes.splice(0)) resolve('away')
      if (room.givenBack.size === 0) rooms.delete(room)
    }
    for (const { resolve } of claims) resolve('away')
  }

  async #send(group: Group): Promise<void> {
    const asked = this.#gather(group)
    const { link, timers, time, onFault } = this.#options
    const { keys, args } = wordsOf(asked.question)
    const sentAtMs = timers.monotonicMs()
    group.calls++
    let reply: unknown
    try {
      reply = await runScript(link, TAKE, keys, args)
    } catch (error) {
      onFault(error)
      reply = null
    }
    group.calls--
    if (reply === 'away' || reply === null) {
      const isSlow = reply === 'away' && link.isUp
      this.#options.calls[isSlow ? 'slow' : 'failed']++
      this.#unanswered(group, asked, isSlow ? 'unanswered' : 'away')
    } else {
      this.#options.calls.answered++
      const answer = answerIn(reply, asked.question)
      time.learn(answer.nowMs, sentAtMs, timers.monotonicMs())
      this.#answered(asked, answer)
    }
    if (!group.isEmpty && link.isUp) this.#soon(group)
    this.#onIdle?.()
  }

  #gather(group: Group): Asked {
    const { nodeId, timers } = this.#options
    const nowMs = timers.monotonicMs()
    let left = MAX_WORDS
    const accepted = new Map([...group.accepted].slice(0, left))
    for (const key of accepted.keys()) group.accepted.delete(key)
    for (const [key, { untilMs }] of accepted) if (untilMs <= nowMs) accepted.delete(key)
    const released = group.released.splice(0, left)
    const claims = group.claims.splice(0, left)
    left -= claims.length
    const rooms: { room: Room; takes: Take[] }[] = []
    const apps: AppQuestion[] = []
    for (const room of group.rooms) {
      if (left <= 0) break
      const { takes: handed, givenBack } = room.hand(left)
      const takes = handed.filter((take) => {
        const isLate = nowMs - take.askedAtMs > MAX_WAIT_MS
        if (isLate) take.resolve('unanswered')
        return !isLate
      })
      left -= Math.max(1, takes.length)
      if (room.takes.length === 0) group.rooms.delete(room)
      const { partition, app, cycle } = room
      // A call that only gives back must not fill the bucket again.
      const wanted = takes.length > 0 || room.isFillWanted ? room.wantedAt(nowMs) : 0
      room.isFillWanted = false
      rooms.push({ room, takes })
      apps.push({ partition, app, cycle, wanted, givenBack, takes })
    }
    const question: Question = {
      nodeId,
      accepted: Array.from(accepted, ([key, { events, untilMs }]) => {
        return { key, events, keptMs: Math.ceil(untilMs - nowMs) }
      }),
      released,
      claimed: claims.map(({ key }) => key),
      apps,
    }
    return { question, rooms, claims, accepted }
  }

  #answered({ rooms, claims, question }: Asked, answer: Answer): void {
    for (const [at, { resolve }] of claims.entries()) resolve(answer.claimed[at])
    for (const [at, { room, takes }] of rooms.entries()) {
      const heard = answer.apps[at]
      const { app } = question.apps[at]
      // What was granted by an older record goes back: the newer one may allow less.
      if (room.app === app) room.hear(heard)
      else if (heard.granted > 0) room.giveBack(heard.minute, heard.granted)
      if (room.tokens > 0) this.#options.onGranted(room)
      for (const [place, { resolve, events }] of takes.entries()) {
        const answered: TakeOutcome = { answer: heard.takes[place], nowMs: answer.nowMs, minute: heard.minute }
        if (room.app === app || answered.answer !== ANSWER.done) {
          resolve(answered)
          continue
        }
        if (events > 0) room.giveBack(heard.minute, events)
        resolve({ ...answered, answer: ANSWER.otherCycle })
      }
      if (room.givenBack.size > 0) this.add(room)
    }
  }

  /** What was asked may have been done: the audit settles what is counted too high, and claims end by themselves. */
  #unanswered(group: Group, { rooms, claims, accepted, question }: Asked, outcome: 'away' | 'unanswered'): void {
    for (const [key, value] of accepted) if (!group.accepted.has(key)) group.accepted.set(key, value)
    this.#boundAccepted(group)
    for (const { resolve } of claims) resolve('away')
    for (const [at, { room, takes }] of rooms.entries()) {
      for (const [minute, events] of question.apps[at].givenBack) if (events < 0) room.giveBack(minute, events)
      for (const { resolve } of takes) resolve(outcome)
      if (room.givenBack.size > 0) group.rooms.add(room)
    }
  }
}

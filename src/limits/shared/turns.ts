// Gathers what the requests of one turn of the event loop need of Redis, of all apps, into one call; on a cluster into
// one call for each partition. What comes while enough calls are under way gathers until one is answered.

import type { Timers } from '../../lib/timers.ts'
import type { RedisLink } from '../../redis/link.ts'
import { runScript } from '../../redis/script.ts'
import type { RedisTime } from '../../redis/time.ts'
import type { Room, Take } from './app-budget.ts'
import { ANSWER, type Answer, type AppQuestion, answerIn, type Question, TAKE, wordsOf } from './take.ts'

const MAX_CALLS = 4
/** Takes in one call, and as many accepted and released keys, so that it holds Redis up for some milliseconds at most. */
const MAX_TAKES = 256
/** The longest that a take may wait for its call. */
const MAX_WAIT_MS = 250
/** Accepted keys not yet written to Redis; beyond, the oldest are left to the queue's duplicate window. */
const MAX_PENDING_KEYS = 100_000

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

/** Events of an accepted key, and until when it is remembered, in monotonic ms. */
interface Accepted {
  readonly events: number
  readonly untilMs: number
}

/** What goes in calls of its own: all, or on a cluster one partition. */
class Group {
  readonly rooms = new Set<Room>()
  released: string[] = []
  readonly accepted = new Map<string, Accepted>()
  calls = 0
  isDue = false

  get isEmpty(): boolean {
    return this.rooms.size + this.released.length + this.accepted.size === 0
  }
}

interface Asked {
  readonly question: Question
  readonly rooms: readonly { readonly room: Room; readonly takes: readonly Take[] }[]
  readonly accepted: ReadonlyMap<string, Accepted>
}

export class Turns {
  readonly #options: TurnsOptions
  readonly #groups = new Map<number, Group>()
  /** Apps with corrections that wait until Redis is back. */
  readonly #deferred = new Set<Room>()
  #onIdle: (() => void) | null = null

  constructor(options: TurnsOptions) {
    this.#options = options
  }

  /** Something of this app waits for Redis. Takes may wait only while it is up. */
  add(room: Room): void {
    if (!this.#options.link.isUp) {
      this.#deferred.add(room)
      return
    }
    const group = this.#groupOf(room.partition)
    group.rooms.add(room)
    this.#soon(group)
  }

  release(partition: number, key: string): void {
    if (!this.#options.link.isUp) return
    const group = this.#groupOf(partition)
    group.released.push(key)
    this.#soon(group)
  }

  /** While Redis is away keys are kept, and written when it is back. */
  accept(partition: number, key: string, events: number, keptMs: number): void {
    const group = this.#groupOf(partition)
    group.accepted.set(key, { events, untilMs: this.#options.timers.monotonicMs() + keptMs })
    boundAccepted(group)
    if (this.#options.link.isUp) this.#soon(group)
  }

  /** Redis is back. */
  resume(): void {
    const deferred = [...this.#deferred]
    this.#deferred.clear()
    for (const room of deferred) this.add(room)
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

  #soon(group: Group): void {
    if (group.isDue) return
    group.isDue = true
    // Behind all that this turn of the event loop brings.
    this.#options.timers.setImmediate(() => {
      group.isDue = false
      if (!this.#options.link.isUp) this.#leave(group)
      else while (group.calls < MAX_CALLS && !group.isEmpty) void this.#send(group)
      this.#onIdle?.()
    })
  }

  /** Redis is away: nobody waits for it. Corrections wait for its return. */
  #leave(group: Group): void {
    group.released = []
    for (const room of group.rooms) {
      const { takes, givenBack } = room.hand(Number.POSITIVE_INFINITY)
      for (const [minute, events] of givenBack) room.giveBack(minute, events)
      if (givenBack.size > 0) this.#deferred.add(room)
      for (const { resolve } of takes) resolve('away')
    }
    group.rooms.clear()
  }

  async #send(group: Group): Promise<void> {
    const asked = this.#gather(group)
    const { link, timers, time, calls, onFault } = this.#options
    const { keys, args } = wordsOf(asked.question)
    const sentAtMs = timers.monotonicMs()
    group.calls++
    let reply: unknown = null
    try {
      reply = await runScript(link, TAKE, keys, args)
    } catch (error) {
      onFault(error)
    }
    group.calls--
    if (reply === null) {
      // It would fail again: nothing of it is sent again.
      calls.failed++
      for (const { takes } of asked.rooms) for (const { resolve } of takes) resolve('away')
    } else if (reply === 'away') {
      this.#unanswered(group, asked)
    } else {
      calls.answered++
      const answer = answerIn(reply, asked.question)
      time.learn(answer.nowMs, sentAtMs, timers.monotonicMs())
      this.#answered(asked, answer)
    }
    if (!group.isEmpty) this.#soon(group)
    this.#onIdle?.()
  }

  #gather(group: Group): Asked {
    const { nodeId, timers } = this.#options
    const nowMs = timers.monotonicMs()
    const accepted = new Map<string, Accepted>()
    for (const [key, value] of group.accepted) {
      if (accepted.size === MAX_TAKES) break
      group.accepted.delete(key)
      if (value.untilMs > nowMs) accepted.set(key, value)
    }
    const rooms: { room: Room; takes: Take[] }[] = []
    const apps: AppQuestion[] = []
    let left = MAX_TAKES
    for (const room of group.rooms) {
      if (left <= 0) break
      const handed = room.hand(left)
      const takes = handed.takes.filter((take) => {
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
      apps.push({ partition, app, cycle, wanted, givenBack: handed.givenBack, takes })
    }
    const question: Question = {
      nodeId,
      accepted: Array.from(accepted, ([key, { events, untilMs }]) => {
        return { key, events, keptMs: Math.ceil(untilMs - nowMs) }
      }),
      released: group.released.splice(0, MAX_TAKES),
      apps,
    }
    return { question, rooms, accepted }
  }

  #answered({ rooms, question }: Asked, answer: Answer): void {
    for (const [at, { room, takes }] of rooms.entries()) {
      const found = answer.apps[at]
      const isNewest = question.apps[at].app === room.app
      // What was granted by an older record goes back: the newer one may allow less.
      if (isNewest) room.apply(found)
      else if (found.granted > 0) room.giveBack(found.minute, found.granted)
      if (room.tokens > 0) this.#options.onGranted(room)
      const { minute, cycleMinute } = found
      for (const [place, { resolve, events }] of takes.entries()) {
        const said = found.takes[place]
        if (isNewest || said === ANSWER.held || said >= ANSWER.replay) {
          resolve({ answer: said, nowMs: answer.nowMs, minute, cycleMinute })
        } else {
          // No request is judged by an older record than the newest one.
          if (said === ANSWER.done && events > 0) room.giveBack(minute, events)
          resolve('ask again')
        }
      }
      if (room.givenBack.size > 0) this.add(room)
    }
  }

  /**
   * What was asked may have been done. So keys, and what was taken without Redis, are sent again: a counter that is too
   * high is what the audit mends, and one that is too low lets an app go over its limit.
   */
  #unanswered(group: Group, { rooms, accepted, question }: Asked): void {
    const { link, calls } = this.#options
    calls[link.isUp ? 'slow' : 'failed']++
    for (const [key, value] of accepted) if (!group.accepted.has(key)) group.accepted.set(key, value)
    boundAccepted(group)
    for (const [at, { room, takes }] of rooms.entries()) {
      for (const [minute, events] of question.apps[at].givenBack) if (events < 0) room.giveBack(minute, events)
      if (room.givenBack.size > 0) this.add(room)
      for (const { resolve } of takes) resolve(link.isUp ? 'unanswered' : 'away')
    }
  }
}

function boundAccepted({ accepted }: Group): void {
  for (const oldest of accepted.keys()) {
    if (accepted.size <= MAX_PENDING_KEYS) return
    accepted.delete(oldest)
  }
}

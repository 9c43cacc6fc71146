// Virtual time: one queue for all events. Between two events all pending promises run, so that an event's effects are
// complete before the next event.

import { promiseHooks } from 'node:v8'
import type { Timer, Timers } from '../../src/lib/timers.ts'

/** The order of events at the same time, as in one turn of Node's event loop. */
export const PHASE = { world: 0, timer: 1, io: 2, immediate: 3 } as const

type Phase = (typeof PHASE)[keyof typeof PHASE]

interface ScheduledEvent {
  atMs: number
  readonly phase: Phase
  readonly order: number
  /** The process whose event loop runs it; null: none. */
  readonly host: Host | null
  task: (() => void) | null
}

/** More events mean an endless loop: in any run, and for each second of a long one. */
const MAX_EVENTS = 3_000_000
const MAX_EVENTS_A_SECOND = 1000

export class World {
  /** Since the start of the run. */
  nowMs = 0
  /** Unix ms of the start. */
  readonly epochMs: number
  events = 0
  readonly #heap: ScheduledEvent[] = []
  #order = 0

  constructor(epochMs: number) {
    this.epochMs = epochMs
  }

  /** Unix ms, without the clock offsets of any process. */
  get wallMs(): number {
    return this.epochMs + this.nowMs
  }

  at(atMs: number, task: () => void): void {
    this.post(Math.max(atMs, this.nowMs), PHASE.world, null, task)
  }

  after(delayMs: number, task: () => void): void {
    this.at(this.nowMs + delayMs, task)
  }

  post(atMs: number, phase: Phase, host: Host | null, task: () => void): ScheduledEvent {
    const event: ScheduledEvent = { atMs, phase, order: ++this.#order, host, task }
    this.#push(event)
    return event
  }

  /** Runs every event up to `untilMs`; `isOver` ends it early. */
  async runUntil(untilMs: number, isOver: () => boolean = () => false): Promise<void> {
    await promisesRun()
    const promises = watchPromises()
    try {
      await this.#runUntil(untilMs, isOver, promises)
    } finally {
      promises.stop()
    }
  }

  async #runUntil(untilMs: number, isOver: () => boolean, promises: PromiseWatch): Promise<void> {
    for (;;) {
      const next = this.#heap[0]
      if (next === undefined || next.atMs > untilMs || isOver()) break
      this.#pop()
      if (next.task === null) continue
      const { host } = next
      if (host !== null) {
        if (host.isDead) continue
        if (host.stalledUntilMs > next.atMs) {
          next.atMs = host.stalledUntilMs
          this.#push(next)
          continue
        }
      }
      this.nowMs = next.atMs
      if (++this.events > MAX_EVENTS + (this.nowMs / 1000) * MAX_EVENTS_A_SECOND)
        throw new Error(`${this.events} events: an endless loop`)
      promises.isAny = false
      next.task()
      // Most events only schedule others. Skipping the turn of Node's event loop, which costs more, makes runs faster.
      if (promises.isAny) await promisesRun()
    }
    if (!isOver()) this.nowMs = Math.max(this.nowMs, untilMs)
  }

  #push(event: ScheduledEvent): void {
    const heap = this.#heap
    let at = heap.length
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (!isBefore(event, heap[parent])) break
      heap[at] = heap[parent]
      at = parent
    }
    heap[at] = event
  }

  #pop(): void {
    const heap = this.#heap
    const last = heap.pop() as ScheduledEvent
    const size = heap.length
    if (size === 0) return
    let at = 0
    for (;;) {
      let child = 2 * at + 1
      if (child >= size) break
      if (child + 1 < size && isBefore(heap[child + 1], heap[child])) child++
      if (!isBefore(heap[child], last)) break
      heap[at] = heap[child]
      at = child
    }
    heap[at] = last
  }
}

function isBefore(one: ScheduledEvent, other: ScheduledEvent): boolean {
  if (one.atMs !== other.atMs) return one.atMs < other.atMs
  if (one.phase !== other.phase) return one.phase < other.phase
  return one.order < other.order
}

/** Whether the microtask queue may hold anything. */
interface PromiseWatch {
  isAny: boolean
  stop(): void
}

/** Only creating or settling a promise, or `queueMicrotask`, can add to the microtask queue. */
function watchPromises(): PromiseWatch {
  const { queueMicrotask } = globalThis
  const see = (): void => {
    watch.isAny = true
  }
  globalThis.queueMicrotask = (task) => {
    see()
    queueMicrotask(task)
  }
  const stopHook = promiseHooks.createHook({ init: see, settled: see }) as () => void
  const watch = {
    isAny: false,
    stop: () => {
      stopHook()
      globalThis.queueMicrotask = queueMicrotask
    },
  }
  return watch
}

/** Node empties the microtask and tick queues before it runs an immediate. */
function promisesRun(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** One process: its timers, its clock, and an event loop that can stall or die. */
export class Host {
  readonly timers: Timers
  isDead = false
  stalledUntilMs = 0
  /** How far this machine's wall clock is ahead of the world's. */
  clockOffsetMs = 0
  readonly #world: World
  readonly #startedAtMs: number
  readonly #onKill: (() => void)[] = []

  constructor(world: World) {
    this.#world = world
    this.#startedAtMs = world.nowMs
    this.timers = {
      nowMs: () => Math.floor(world.wallMs + this.clockOffsetMs),
      monotonicMs: () => world.nowMs - this.#startedAtMs + 1000,
      setTimeout: (task, delayMs) => this.#setTimer(task, delayMs, false),
      setInterval: (task, intervalMs) => this.#setTimer(task, intervalMs, true),
      clear: (timer) => (timer as VirtualTimer).stop(),
      setImmediate: (task) => void world.post(world.nowMs, PHASE.immediate, this, task),
    }
  }

  get ageMs(): number {
    return this.#world.nowMs - this.#startedAtMs
  }

  /** A packet arrives over the network. */
  receive(atMs: number, task: () => void): void {
    this.#world.post(Math.max(atMs, this.#world.nowMs), PHASE.io, this, task)
  }

  /** Stops the event loop. Events that are due meanwhile run afterwards. */
  stall(forMs: number): void {
    this.stalledUntilMs = Math.max(this.stalledUntilMs, this.#world.nowMs + forMs)
  }

  /** For connections that the process's death closes. */
  onKill(task: () => void): void {
    this.#onKill.push(task)
  }

  kill(): void {
    this.isDead = true
    for (const task of this.#onKill.splice(0)) task()
  }

  #setTimer(task: () => void, delayMs: number, repeats: boolean): Timer {
    // Like Node: whole ms, at least 1.
    return new VirtualTimer(this.#world, this, task, Math.max(1, Math.trunc(delayMs)), repeats)
  }
}

class VirtualTimer implements Timer {
  readonly #world: World
  readonly #host: Host
  readonly #task: () => void
  readonly #delayMs: number
  readonly #repeats: boolean
  #next: ScheduledEvent

  constructor(world: World, host: Host, task: () => void, delayMs: number, repeats: boolean) {
    this.#world = world
    this.#host = host
    this.#task = task
    this.#delayMs = delayMs
    this.#repeats = repeats
    this.#next = this.#post()
  }

  unref(): void {}

  stop(): void {
    this.#next.task = null
  }

  #post(): ScheduledEvent {
    return this.#world.post(this.#world.nowMs + this.#delayMs, PHASE.timer, this.#host, () => {
      if (this.#repeats) this.#next = this.#post()
      this.#task()
    })
  }
}

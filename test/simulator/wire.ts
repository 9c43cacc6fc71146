// The network: a path between a process and a server, which can be slow, silent or cut, and the connections over it, on
// which packets arrive in order or not at all.

import type { Random } from './random.ts'
import type { Host, World } from './world.ts'

/** silent: packets are held until the path heals. cut: connections break, and new ones are refused. */
export type PathState = 'ok' | 'silent' | 'cut'

/** A packet takes LATENCY_MS plus up to JITTER_MS. */
const LATENCY_MS = 0.1
const JITTER_MS = 0.3
/** A kernel sends what a closed connection has left for some 100 s; the duplicate window of ten minutes goes by that. */
const LEFT_MS = 300_000

export class Path {
  readonly world: World
  readonly random: Random
  extraMs = 0
  #state: PathState = 'ok'
  readonly #wires = new Set<Wire>()

  constructor(world: World, random: Random) {
    this.world = world
    this.random = random
  }

  get state(): PathState {
    return this.#state
  }

  get latencyMs(): number {
    return LATENCY_MS + this.extraMs + JITTER_MS * this.random.next()
  }

  set(state: PathState): void {
    this.#state = state
    if (state === 'cut') this.breakAll()
    if (state === 'ok') for (const wire of this.#wires) wire.flush()
  }

  /** Every connection breaks; new ones can be opened. */
  breakAll(): void {
    for (const wire of this.#wires) wire.cut()
  }

  add(wire: Wire): void {
    this.#wires.add(wire)
  }

  remove(wire: Wire): void {
    this.#wires.delete(wire)
  }
}

type Direction = 'toServer' | 'toHost'

/** One connection. After the process closes it, packets already sent still reach the server. */
export class Wire {
  isOpen = true
  readonly #path: Path
  readonly #host: Host
  readonly #onCut: () => void
  readonly #lastMs = { toServer: 0, toHost: 0 }
  #closedAtMs = Number.POSITIVE_INFINITY
  #held: { readonly direction: Direction; readonly task: () => void }[] = []

  /** `onCut` is called when the process notices that the connection broke. */
  constructor(path: Path, host: Host, onCut: () => void) {
    this.#path = path
    this.#host = host
    this.#onCut = onCut
    path.add(this)
  }

  toServer(task: () => void): void {
    if (this.isOpen) this.#send('toServer', task)
  }

  /** Packets that arrive after the process has closed are lost. */
  toHost(task: () => void): void {
    if (this.isOpen) this.#send('toHost', () => this.isOpen && task())
  }

  /** The process closes the connection, or dies. */
  close(): void {
    if (this.isOpen) this.#closedAtMs = this.#path.world.nowMs
    this.isOpen = false
    if (this.#held.length === 0) this.#path.remove(this)
  }

  /** The network breaks the connection: packets that have not arrived are lost. */
  cut(): void {
    if (!this.isOpen) return
    this.isOpen = false
    this.#held = []
    this.#path.remove(this)
    this.#host.receive(this.#path.world.nowMs + this.#path.latencyMs, this.#onCut)
  }

  flush(): void {
    const held = this.#path.world.nowMs - this.#closedAtMs > LEFT_MS ? [] : this.#held
    this.#held = []
    for (const { direction, task } of held) this.#send(direction, task)
    if (!this.isOpen) this.#path.remove(this)
  }

  #send(direction: Direction, task: () => void): void {
    if (this.#path.state === 'silent') {
      this.#held.push({ direction, task })
      return
    }
    const { world } = this.#path
    const atMs = Math.max(this.#lastMs[direction], world.nowMs + this.#path.latencyMs)
    this.#lastMs[direction] = atMs
    if (direction === 'toHost') this.#host.receive(atMs, task)
    else world.at(atMs, task)
  }
}

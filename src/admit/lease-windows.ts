// The windows of one app on one node: each a minute, or the part of a minute that lies in one billing cycle.

import { type Cycle, cycleAt, DAY_MS, MINUTE_MS, windowStartMs } from './plans.ts'

export interface LeaseWindow {
  /** Its own on this node, and never 0. */
  readonly id: number
  readonly startMs: number
  /** Merged windows reach over several minutes. */
  endMs: number
  readonly cycle: Cycle
  /** Taken and not given back; of it, `settled` is durable. */
  spent: number
  settled: number
  /** What Redis has granted, by its last answer. Less than `spent`: a debt from when Redis was away. */
  granted: number
  /** What is granted and unspent is not to be used: a call gives it back. */
  isReleased: boolean
  /** A call held it, so that Redis may know of it. */
  isSent: boolean
  /** What the last call that was answered said. */
  toldSpent: number
  toldSettled: number
}

export class LeaseWindows {
  readonly #nextId: () => number
  /** The current one stands last, once there is any. */
  readonly #windows: LeaseWindow[] = []

  constructor(nextId: () => number) {
    this.#nextId = nextId
  }

  get current(): LeaseWindow | undefined {
    return this.#windows.at(-1)
  }

  get all(): readonly LeaseWindow[] {
    return this.#windows
  }

  /** Makes the window that holds `nowMs` the current one. */
  turnTo(nowMs: number, anchorMs: number | null): LeaseWindow {
    const cycle = cycleAt(anchorMs, nowMs)
    const minuteMs = windowStartMs(nowMs, MINUTE_MS)
    const startMs = Math.max(minuteMs, cycle.startMs)
    this.#mergeLast()
    // An anchor that was changed back finds what it had in this minute.
    const at = this.#windows.findIndex((one) => one.startMs === startMs && isSameCycle(one.cycle, cycle))
    const [window] =
      at < 0 ? [this.#opened(startMs, Math.min(minuteMs + MINUTE_MS, cycle.endMs), cycle)] : this.#windows.splice(at, 1)
    this.#windows.push(window)
    return window
  }

  #opened(startMs: number, endMs: number, cycle: Cycle): LeaseWindow {
    const counts = { spent: 0, settled: 0, granted: 0, isReleased: false, isSent: false, toldSpent: 0, toldSettled: 0 }
    return { id: this.#nextId(), startMs, endMs, cycle, ...counts }
  }

  /** While Redis is away windows pile up that it never heard of: those of one day and cycle become one. */
  #mergeLast(): void {
    const last = this.current
    if (last === undefined || last.isSent) return
    const dayMs = windowStartMs(last.startMs, DAY_MS)
    const earlier = this.#windows.find(
      (one) =>
        !one.isSent &&
        one.endMs <= last.startMs &&
        windowStartMs(one.startMs, DAY_MS) === dayMs &&
        isSameCycle(one.cycle, last.cycle),
    )
    if (earlier === undefined && last.spent > 0) return
    this.#windows.pop()
    if (earlier === undefined) return
    earlier.endMs = last.endMs
    earlier.spent += last.spent
    earlier.settled += last.settled
  }

  /** The window that holds a time in the cycle of an anchor, and has `cost` in flight. */
  holding(takenAtMs: number, anchorMs: number | null, cost: number): LeaseWindow | undefined {
    const cycle = cycleAt(anchorMs, takenAtMs)
    return this.#windows.find((one) => hasInFlight(one, takenAtMs, cost) && isSameCycle(one.cycle, cycle))
  }

  /** Forgets windows that are over and of which Redis knows all: the next call leaves them out. */
  close(nowMs: number): void {
    for (let at = this.#windows.length - 2; at >= 0; at--) {
      if (this.#windows[at].endMs <= nowMs && isClosed(this.#windows[at])) this.#windows.splice(at, 1)
    }
  }
}

/** Redis was told all that there is to tell. */
export function isTold(window: LeaseWindow): boolean {
  return window.spent === window.toldSpent && window.settled === window.toldSettled
}

/** Nothing is in hand, in flight or untold. */
export function isClosed(window: LeaseWindow): boolean {
  return isTold(window) && window.spent === window.settled && window.granted === window.spent
}

export function hasInFlight(window: LeaseWindow, takenAtMs: number, cost: number): boolean {
  return window.startMs <= takenAtMs && takenAtMs < window.endMs && window.spent - window.settled >= cost
}

export function isSameCycle(one: Cycle, other: Cycle): boolean {
  return one.startMs === other.startMs && one.endMs === other.endMs
}

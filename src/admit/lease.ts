// One app's limits as one node accounts for them: what it was granted, and what it has spent of that. Nothing here
// waits or calls. Times are Redis's, but where a name says monotonic.

import type { App } from './app.ts'
import type { KnownTotals, SyncCall, SyncReply, WindowAccount } from './lease-script.ts'
import { hasInFlight, isClosed, isSameCycle, isTold, type LeaseWindow, LeaseWindows } from './lease-windows.ts'
import type { LimitRefusal, Standing } from './limiter.ts'
import { type Cycle, DAY_MS, MINUTE_MS, windowStartMs } from './plans.ts'

/** A clock that steps back by this or more was wrong before. */
const STEP_BACK_BELIEVED_MS = 60_000
/** How long the events in hand should last at the app's rate; half of it is the low-water mark. */
const HOLD_MS = 2000
/** The rate follows a change within about so long. */
const RATE_MEMORY_MS = 1000

/** What a call is for. */
export interface CallAsk {
  readonly node: string
  readonly seq: number
  readonly deadlineMs: number
  readonly mark: number
  readonly nodes: number
  readonly costs: readonly number[]
  /** false: give back what is in hand, and ask for no more. */
  readonly keeps: boolean
  /**
   * Only what Redis may have heard of: the call is to find out whether it is there again. What is settled since the
   * last full account is left to the next one, since `mark` may not pass over a window that is left out.
   */
  readonly isProbe: boolean
}

/** Events by window. */
export interface Counts {
  readonly minute: number
  readonly day: number
  readonly month: number
}

export class Lease {
  readonly appId: string
  readonly #windows: LeaseWindows
  #app: App
  #known: KnownTotals | null = null
  /** The newest time seen: windows do not turn back. */
  #newestMs = 0
  #eventsPerMs = 0
  #takenSinceCall = 0
  #calledAtMonotonicMs: number | null = null
  #lowWater = 0

  constructor(app: App, nextWindowId: () => number) {
    this.appId = app.appId
    this.#app = app
    this.#windows = new LeaseWindows(nextWindowId)
  }

  /** Granted and unspent in the current window, to be used without asking. */
  get holding(): number {
    const current = this.#windows.current
    return current === undefined || current.isReleased ? 0 : Math.max(0, current.granted - current.spent)
  }

  /** So little is left that more should be fetched while requests go on. */
  get isLow(): boolean {
    return this.holding < this.#lowWater
  }

  /** Redis was told all that was spent and settled. */
  get isTold(): boolean {
    return this.#windows.all.every(isTold)
  }

  /** Nothing is in hand or untold. */
  get isAtRest(): boolean {
    return this.#windows.all.every((window) => isTold(window) && window.granted === window.spent)
  }

  /** Nothing is in hand, in flight or untold: the lease can be forgotten. */
  get isClosed(): boolean {
    return this.#windows.all.every(isClosed)
  }

  /** The current window is over, and Redis has not heard how it ended. */
  hasEnded(timeMs: number): boolean {
    const current = this.#windows.current
    return current !== undefined && current.endMs <= timeMs && (current.granted !== current.spent || !isTold(current))
  }

  /** Takes from what is in hand, and gives the time at which. null: it does not suffice. */
  spend(app: App, cost: number, timeMs: number): number | null {
    const window = this.#windowAt(app, timeMs)
    if (this.holding < cost) return null
    this.#takenSinceCall += cost
    return this.#take(window, cost)
  }

  /** Takes from this node's share of what was left when Redis was last heard. */
  spendShare(app: App, cost: number, timeMs: number, nodes: number): number | LimitRefusal {
    const window = this.#windowAt(app, timeMs)
    return refusalBy(this.#room(window, nodes), cost) ?? this.#take(window, cost)
  }

  /** Which window has no room for `cost`, by what is known. */
  knownRefusal(app: App, cost: number, timeMs: number): LimitRefusal | null {
    return refusalBy(this.#room(this.#windowAt(app, timeMs), 1), cost)
  }

  settle(app: App, cost: number, takenAtMs: number): void {
    this.#windowOf(app, cost, takenAtMs).settled += cost
  }

  giveBack(app: App, cost: number, takenAtMs: number): void {
    this.#windowOf(app, cost, takenAtMs).spent -= cost
  }

  /** Left of the minute as far as this node knows; of its share, where `nodes` is more than 1. */
  remaining(app: App, timeMs: number, nodes: number): { readonly events: number; readonly endsAtMs: number } {
    const window = this.#windowAt(app, timeMs)
    const events = Math.min(app.eventsPerMinute, Math.max(0, this.#room(window, nodes).minute))
    return { events, endsAtMs: windowStartMs(window.startMs, MINUTE_MS) + MINUTE_MS }
  }

  /** What is used as far as this node knows. `isKnown`: Redis has told of this very minute and cycle. */
  standing(app: App, timeMs: number): { readonly standing: Standing; readonly isKnown: boolean } {
    const window = this.#windowAt(app, timeMs)
    const used = this.#usedByOthersAndHere(window)
    const inHand = this.#inHand(window)
    const spent = { minute: used.minute - inHand.minute, day: used.day - inHand.day, month: used.month - inHand.month }
    const isKnown =
      isMinuteOf(this.#known, windowStartMs(window.startMs, MINUTE_MS)) && isCycleOf(this.#known, window.cycle)
    return { standing: standingOf(app, spent, window, timeMs), isKnown }
  }

  /** Spent here, or given back, since Redis last heard; in the windows that hold `timeMs`. */
  untold(app: App, timeMs: number): Counts {
    return this.#sum(this.#windowAt(app, timeMs), ({ spent, toldSpent }) => spent - toldSpent)
  }

  /** What the next call says. All that is in hand is thrown in for requests that wait. */
  call(ask: CallAsk, timeMs: number, monotonicMs: number): SyncCall {
    const window = this.#windowAt(this.#app, timeMs)
    const hold = this.#wantedHold(ask.costs, monotonicMs)
    if (ask.costs.length > 0 || !ask.keeps) window.isReleased = true
    const windows = this.#windows.all.filter((one) => !ask.isProbe || one.isSent)
    const current = windows.indexOf(window) + 1
    const { eventsPerMinute, eventsPerDay, eventsPerMonth } = this.#app
    return {
      node: ask.node,
      seq: ask.seq,
      deadlineMs: ask.deadlineMs,
      mark: ask.mark,
      nodes: ask.nodes,
      cycle: window.cycle,
      minuteLimit: eventsPerMinute,
      ...(eventsPerDay === null ? {} : { dayLimit: eventsPerDay }),
      monthLimit: eventsPerMonth,
      windows: windows.map((one) => this.#account(one, ask.isProbe)),
      ...(current > 0 ? { current } : {}),
      costs: ask.costs,
      hold: ask.keeps ? hold : 0,
      ...(this.#known === null ? {} : { known: this.#known }),
    }
  }

  /**
   * Takes in what `call` was answered. Gives for each of its costs when it was taken, or why not. 'again': the window
   * meant is not the running one, and nothing was judged.
   */
  answered(call: SyncCall, reply: SyncReply & { kind: 'done' }): readonly (number | LimitRefusal)[] | 'again' {
    this.#known = {
      bornMs: reply.bornMs,
      version: reply.version,
      minuteStartMs: windowStartMs(reply.nowMs, MINUTE_MS),
      minuteUsed: reply.minuteUsed,
      dayStartMs: windowStartMs(reply.nowMs, DAY_MS),
      dayUsed: reply.dayUsed,
      cycleStartMs: call.cycle.startMs,
      cycleEndMs: call.cycle.endMs,
      cycleUsed: reply.cycleUsed,
    }
    const asked = call.current === undefined ? undefined : call.windows[call.current - 1]
    const results: (number | LimitRefusal)[] = []
    for (const account of call.windows) {
      const window = this.#windows.all.find(({ id }) => id === account.id)
      if (window === undefined) throw new Error(`a window of ${this.appId} went while a call held it`)
      window.toldSpent = account.spent
      window.toldSettled = account.settled
      window.granted = account === asked ? reply.granted : account.spent
      if (account !== asked) continue
      // What was granted by limits that have changed since is not to be used.
      window.isReleased = this.#limitsDiffer(call)
      for (const [at, verdict] of reply.verdicts.entries()) {
        results.push(verdict === 'granted' ? this.#take(window, call.costs[at]) : verdict)
        if (verdict === 'granted') window.toldSpent += call.costs[at]
      }
    }
    const wasAhead = asked !== undefined && !reply.isCurrent
    if (wasAhead || isStep(this.#newestMs, reply.nowMs)) this.#newestMs = reply.nowMs
    this.#windows.close(reply.nowMs)
    this.#lowWater = Math.floor(Math.min(call.hold, this.#heldAtMost(call.nodes)) / 2)
    return wasAhead ? 'again' : results
  }

  /** A probe's mark is that of the last full account, and so is what it says is settled. */
  #account(window: LeaseWindow, isProbe: boolean): WindowAccount {
    window.isSent = true
    const { id, startMs, endMs, cycle, spent, granted } = window
    const settled = isProbe ? window.toldSettled : window.settled
    const keep = window === this.#windows.current ? this.holding : 0
    return { id, startMs, endMs, cycleStartMs: cycle.startMs, cycleEndMs: cycle.endMs, spent, settled, keep, granted }
  }

  /** The window that holds `timeMs`, opened where it is new. A changed limit lets go of what is in hand. */
  #windowAt(app: App, timeMs: number): LeaseWindow {
    if (isStep(this.#newestMs, timeMs)) this.#newestMs = timeMs
    const nowMs = this.#newestMs
    const current = this.#windows.current
    const before = this.#app
    this.#app = app
    if (current === undefined || nowMs < current.startMs || current.endMs <= nowMs) return this.#turn(nowMs)
    if (app === before) return current
    if (
      app.eventsPerMinute !== before.eventsPerMinute ||
      app.eventsPerDay !== before.eventsPerDay ||
      app.eventsPerMonth !== before.eventsPerMonth
    ) {
      current.isReleased = true
    }
    return app.billingAnchorMs === before.billingAnchorMs ? current : this.#turn(nowMs)
  }

  #turn(nowMs: number): LeaseWindow {
    this.#lowWater = 0
    return this.#windows.turnTo(nowMs, this.#app.billingAnchorMs)
  }

  #limitsDiffer(call: SyncCall): boolean {
    const { eventsPerMinute, eventsPerDay, eventsPerMonth } = this.#app
    if (call.minuteLimit !== eventsPerMinute || call.monthLimit !== eventsPerMonth) return true
    return (call.dayLimit ?? null) !== eventsPerDay
  }

  #take(window: LeaseWindow, cost: number): number {
    window.spent += cost
    // The window may have ended while Redis judged; what was taken counts in it all the same.
    return Math.max(window.startMs, Math.min(this.#newestMs, window.endMs - 1))
  }

  #windowOf(app: App, cost: number, takenAtMs: number): LeaseWindow {
    const current = this.#windows.current
    if (current !== undefined && app === this.#app && hasInFlight(current, takenAtMs, cost)) return current
    const window = this.#windows.holding(takenAtMs, app.billingAnchorMs, cost)
    if (window === undefined) throw new Error(`${cost} landed of ${app.appId}, and no window has it in flight`)
    return window
  }

  /** By Redis's last answer, which counts all that nodes were granted, this one too. */
  #usedByOthersAndHere({ startMs, cycle }: LeaseWindow): Counts {
    const known = this.#known
    return {
      minute: isMinuteOf(known, windowStartMs(startMs, MINUTE_MS)) ? known.minuteUsed : 0,
      day: known?.dayStartMs === windowStartMs(startMs, DAY_MS) ? known.dayUsed : 0,
      month: isCycleOf(known, cycle) ? known.cycleUsed : 0,
    }
  }

  /** Granted and unspent here; below zero where debts are more. */
  #inHand(window: LeaseWindow): Counts {
    return this.#sum(window, ({ granted, spent }) => granted - spent)
  }

  /** Over all windows in the minute, the day and the cycle of one. */
  #sum({ startMs, cycle }: LeaseWindow, countOf: (window: LeaseWindow) => number): Counts {
    const minuteMs = windowStartMs(startMs, MINUTE_MS)
    const dayMs = windowStartMs(startMs, DAY_MS)
    let minute = 0
    let day = 0
    let month = 0
    for (const one of this.#windows.all) {
      const count = countOf(one)
      if (windowStartMs(one.startMs, MINUTE_MS) === minuteMs) minute += count
      if (windowStartMs(one.startMs, DAY_MS) === dayMs) day += count
      if (isSameCycle(one.cycle, cycle)) month += count
    }
    return { minute, day, month }
  }

  /** What is in hand, and this node's part of what was left when Redis was last heard. */
  #room(window: LeaseWindow, nodes: number): Counts {
    const { eventsPerMinute, eventsPerDay, eventsPerMonth } = this.#app
    const inHand = this.#inHand(window)
    const used = this.#usedByOthersAndHere(window)
    const share = (limit: number, used: number): number => Math.floor(Math.max(0, limit - used) / nodes)
    return {
      minute: inHand.minute + share(eventsPerMinute, used.minute),
      day: inHand.day + share(eventsPerDay ?? Number.POSITIVE_INFINITY, used.day),
      month: inHand.month + share(eventsPerMonth, used.month),
    }
  }

  /** What the script would let this node hold, by what is known: it is no use to ask for more. */
  #heldAtMost(nodes: number): number {
    const window = this.#windows.current
    if (window === undefined) return 0
    const { minute, day, month } = this.#room(window, 1)
    return Math.max(0, Math.floor((Math.min(minute, day, month) - this.holding) / (4 * nodes)))
  }

  /** So many for the next seconds at the app's rate, or twice what it has just asked for where it is new. */
  #wantedHold(costs: readonly number[], monotonicMs: number): number {
    const taken = this.#takenSinceCall + costs.reduce((sum, cost) => sum + cost, 0)
    const elapsedMs = Math.max(1, monotonicMs - (this.#calledAtMonotonicMs ?? monotonicMs))
    const remembered = Math.exp(-elapsedMs / RATE_MEMORY_MS)
    this.#eventsPerMs = this.#eventsPerMs * remembered + (taken / elapsedMs) * (1 - remembered)
    this.#calledAtMonotonicMs = monotonicMs
    this.#takenSinceCall = 0
    return Math.ceil(this.#eventsPerMs * HOLD_MS)
  }
}

/** A standing by what is spent, in the windows that hold `at`. */
export function standingOf(
  app: App,
  spent: Counts,
  at: { readonly startMs: number; readonly cycle: Cycle },
  atMs: number,
): Standing {
  const minuteEndMs = windowStartMs(at.startMs, MINUTE_MS) + MINUTE_MS
  const dayEndMs = windowStartMs(at.startMs, DAY_MS) + DAY_MS
  return {
    atMs,
    minute: { limit: app.eventsPerMinute, used: Math.max(0, spent.minute), endsAtMs: minuteEndMs },
    day: { limit: app.eventsPerDay, used: Math.max(0, spent.day), endsAtMs: dayEndMs },
    month: { limit: app.eventsPerMonth, used: Math.max(0, spent.month), endsAtMs: at.cycle.endMs },
  }
}

function refusalBy(room: Counts, cost: number): LimitRefusal | null {
  if (cost > room.month) return 'monthly_limit_exceeded'
  if (cost > room.day) return 'daily_limit_exceeded'
  if (cost > room.minute) return 'rate_limit_exceeded'
  return null
}

/** Time goes forward, or back by so much that it was wrong before. */
function isStep(newestMs: number, timeMs: number): boolean {
  return timeMs > newestMs || timeMs <= newestMs - STEP_BACK_BELIEVED_MS
}

function isMinuteOf(known: KnownTotals | null, startMs: number): known is KnownTotals {
  return known?.minuteStartMs === startMs
}

function isCycleOf(known: KnownTotals | null, cycle: Cycle): known is KnownTotals {
  return known?.cycleStartMs === cycle.startMs && known.cycleEndMs === cycle.endMs
}

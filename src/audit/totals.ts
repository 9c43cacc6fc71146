// The stored events of one partition's apps, by day and by billing cycle: exact for the closed minutes, up to a position
// in the stream. Pure computation, without I/O.

import { MAX_USAGE_DAYS } from '../contract/bounds.ts'
import type { RecordCost } from '../contract/record/cost-header.ts'
import { MINUTE_MS, MINUTES_A_DAY } from '../lib/spans.ts'
import { type AlertSums, isStanding, type MonthSum, type StandingAlerts } from '../limits/alerts.ts'
import type { CycleMinutes } from '../limits/cycle-minutes.ts'
import type { Place } from '../queue/stream/read/cost-reader.ts'
import { type AppTotals, readApp, type SavedApp, sumFrom, usedSince, writeApp } from './app-totals.ts'
import type { Bounds } from './clocks.ts'

/** Before an app's newest day. A cycle touches 32 at most. */
const DAYS_KEPT = MAX_USAGE_DAYS - 1
/** Per app. An app has more than one only while its anchor changes; the newest are kept. */
const MAX_CYCLES = 3

interface OpenMinute {
  readonly firstSequence: number
  readonly costs: Map<string, { events: number; cycleMinute: number }>
}

/** The format of an entry of SLUICE_COUNTS. */
export interface SavedTotals {
  readonly v: 1
  /** When the stream was created: the sequences of another stream mean nothing here. */
  readonly created: string
  readonly sequence: number
  readonly timeUs: number
  readonly minute: number
  /** The lowest sequence that has to be read again. */
  readonly from: number
  readonly apps: Readonly<Record<string, SavedApp>>
  /** The minutes that were open, and from which sequence on. Absent in an entry of 0.3: those after `minute`. */
  readonly open?: readonly (readonly [number, number])[]
  /** What stands of alerts, by app. Absent in an entry of 0.3. */
  readonly alerts?: Readonly<Record<string, StandingAlerts>>
  /** By app: days that were over when their events came, with these events, until alerts are decided. Absent in an entry of 0.3. */
  readonly late?: Readonly<Record<string, readonly (readonly [number, number])[]>>
}

/** What `close` and `takeBack` need to know of the clocks. */
type ClosingBounds = Pick<Bounds, 'closable' | 'latest' | 'running'>

export class PartitionTotals {
  readonly created: string
  readonly apps = new Map<string, AppTotals>()
  /** What stands of alerts, by app. */
  readonly standing = new Map<string, StandingAlerts>()
  /** By app and day: events that came when their day was over, until alerts are decided. */
  readonly #late = new Map<string, Map<number, number>>()
  /** Nothing was saved yet: then the days of the whole stream are over. */
  #isFirst: boolean
  /** Since the last `takeChanged`. */
  #changed = new Set<string>()
  readonly #open = new Map<number, OpenMinute>()
  /** How far the saved totals go: older records are counted in them, except those of minutes that were open. */
  readonly #loaded: Place
  readonly #wasOpenFrom: (minute: number) => number
  #last: Place
  /** The last closed minute. */
  minute: number

  constructor(created: string, saved: SavedTotals | null) {
    this.created = created
    this.minute = saved?.minute ?? 0
    this.#loaded = { sequence: saved?.sequence ?? 0, timeUs: saved?.timeUs ?? 0 }
    this.#last = this.#loaded
    const open = saved?.open === undefined ? null : new Map(saved.open)
    const closed = this.minute
    this.#wasOpenFrom =
      open === null
        ? (minute) => (minute > closed ? 0 : Number.POSITIVE_INFINITY)
        : (minute) => open.get(minute) ?? Number.POSITIVE_INFINITY
    for (const [appId, app] of Object.entries(saved?.apps ?? {})) this.apps.set(appId, readApp(app))
    for (const [appId, alerts] of Object.entries(saved?.alerts ?? {}))
      if (isStanding(alerts)) this.standing.set(appId, alerts)
    for (const [appId, late] of Object.entries(saved?.late ?? {})) this.#late.set(appId, new Map(late))
    this.#isFirst = saved === null
  }

  get last(): Place {
    return this.#last
  }

  /** The newest minute that is closed or has events. */
  get newestMinute(): number {
    return Math.max(this.minute, ...this.#open.keys())
  }

  /**
   * Adds a message's costs. Minutes up to `closableMinute` count at once, later ones when they close. Returns whether it was
   * stored late: its minute was closed without it. `running`: the minute that runs now.
   */
  read(place: Place, costs: readonly RecordCost[], closableMinute: number, running = closableMinute): boolean {
    const { sequence, timeUs } = place
    let isLate = false
    const wasReadBefore = sequence <= this.#loaded.sequence && timeUs <= this.#loaded.timeUs
    for (const cost of costs) {
      if (wasReadBefore && sequence < this.#wasOpenFrom(cost.minute)) continue
      if (cost.minute <= this.minute) isLate = true
      if (!this.#isFirst) this.#noteLate(cost, Math.floor(running / MINUTES_A_DAY))
      if (cost.minute <= Math.max(closableMinute, this.minute)) this.#count(cost)
      else this.#addToOpenMinute(cost, sequence)
    }
    this.#last = { sequence, timeUs: Math.max(timeUs, this.#last.timeUs) }
    return isLate
  }

  /** Closes the minutes up to this one. Their records have been read, except those that are stored late. */
  close(minute: number): void {
    if (minute <= this.minute) return
    this.minute = minute
    this.#countOpen((opened) => opened <= minute, minute)
  }

  /**
   * Charges what names a minute that cannot have begun to the running one: the clock that gave it was wrong. Returns how
   * many events; they have to be saved at once, so that nobody charges them again.
   */
  chargeFuture({ latest, running }: ClosingBounds): number {
    return this.#countOpen((opened) => opened > latest, running)
  }

  /** Opens the minutes after this one again. What was read of them stays counted. */
  takeBack(minute: number, { running }: ClosingBounds): void {
    this.#countOpen(() => true, running)
    this.minute = minute
  }

  /** For each app the larger of both sums, by day and cycle. */
  keepLarger({ apps }: PartitionTotals): void {
    for (const [appId, theirs] of apps) {
      const ours = this.apps.get(appId) ?? { newest: -1, cycle: 0, cycles: new Map(), days: new Map() }
      this.apps.set(appId, ours)
      keepLargest(ours.days, theirs.days)
      keepLargest(ours.cycles, theirs.cycles)
      if (theirs.newest >= ours.newest) Object.assign(ours, { newest: theirs.newest, cycle: theirs.cycle })
      this.#changed.add(appId)
    }
  }

  /** All apps with events, those of open minutes included. */
  appIds(): Set<string> {
    const appIds = new Set(this.apps.keys())
    for (const { costs } of this.#open.values()) for (const appId of costs.keys()) appIds.add(appId)
    return appIds
  }

  /** What is stored of an app, in open minutes too. `cycle`: the one that runs; `before`: the one before it. */
  alertSums(appId: string, cycle: CycleMinutes, before: CycleMinutes, nowMs: number): AlertSums {
    const app = this.apps.get(appId)
    const days = new Map(app?.days)
    let [used, usedBefore] = [app === undefined ? 0 : usedSince(app, cycle.first), 0]
    let isKnown = app?.cycles.has(before.first) === true
    if (app !== undefined && isKnown) usedBefore = usedSince(app, before.first) - used
    for (const [minute, { costs }] of this.#open) {
      const { events = 0, cycleMinute = null } = costs.get(appId) ?? {}
      isKnown ||= cycleMinute === before.first
      const day = Math.floor(minute / MINUTES_A_DAY)
      if (events > 0) days.set(day, (days.get(day) ?? 0) + events)
      if (minute >= cycle.first) used += events
      else if (minute >= before.first) usedBefore += events
    }
    const lastMonth = isKnown ? monthSum(before, usedBefore) : null
    return { nowMs, days, month: monthSum(cycle, used), lastMonth, late: this.#late.get(appId) ?? new Map() }
  }

  /** Alerts of this app are decided. */
  decided(appId: string): void {
    this.#late.delete(appId)
  }

  takeChanged(): ReadonlySet<string> {
    const changed = this.#changed
    this.#changed = new Set()
    return changed
  }

  /** For apps that `takeChanged` returned but that could not be written. */
  markChanged(appIds: Iterable<string>): void {
    for (const appId of appIds) this.#changed.add(appId)
  }

  save(): SavedTotals {
    const { sequence, timeUs } = this.#last
    const from = Math.min(sequence + 1, ...Array.from(this.#open.values(), ({ firstSequence }) => firstSequence))
    const today = Math.floor(this.minute / MINUTES_A_DAY)
    for (const [appId, { newest }] of this.apps) {
      if (Math.floor(newest / MINUTES_A_DAY) < today - DAYS_KEPT) this.apps.delete(appId)
    }
    // Object.fromEntries also accepts an app with the id `__proto__`.
    const apps = Object.fromEntries(Array.from(this.apps, ([appId, totals]) => [appId, writeApp(totals)]))
    const open = Array.from(this.#open, ([opened, { firstSequence }]) => [opened, firstSequence] as const)
    const oldestMs = (today - DAYS_KEPT) * MINUTES_A_DAY * MINUTE_MS
    for (const [appId, { month }] of this.standing) if (month.endMs < oldestMs) this.standing.delete(appId)
    const alerts = Object.fromEntries(this.standing)
    const late = Object.fromEntries(Array.from(this.#late, ([appId, days]) => [appId, [...days]] as const))
    this.#isFirst = false
    return { v: 1, created: this.created, sequence, timeUs, minute: this.minute, from, apps, open, alerts, late }
  }

  #noteLate({ minute, appId, events }: RecordCost, today: number): void {
    const day = Math.floor(minute / MINUTES_A_DAY)
    if (day >= today || events === 0) return
    const days = this.#late.get(appId) ?? new Map<number, number>()
    this.#late.set(appId, days.set(day, (days.get(day) ?? 0) + events))
  }

  /** Counts open minutes, a later one than `atMost` as this. Returns the events of such later ones. */
  #countOpen(isWanted: (minute: number) => boolean, atMost: number): number {
    let movedEvents = 0
    for (const [opened, { costs }] of this.#open) {
      if (!isWanted(opened)) continue
      const minute = Math.min(opened, atMost)
      for (const [appId, { events, cycleMinute }] of costs) {
        if (minute < opened) movedEvents += events
        // A cycle that has not begun is not known here: of one that begins now, take.lua counts the days.
        this.#count({ minute, cycleMinute: Math.min(cycleMinute, minute), appId, events })
      }
      this.#open.delete(opened)
    }
    return movedEvents
  }

  #addToOpenMinute({ minute, cycleMinute, appId, events }: RecordCost, sequence: number): void {
    let open = this.#open.get(minute)
    if (open === undefined) this.#open.set(minute, (open = { firstSequence: sequence, costs: new Map() }))
    const known = open.costs.get(appId)
    if (known === undefined) open.costs.set(appId, { events, cycleMinute })
    else {
      known.events += events
      known.cycleMinute = cycleMinute
    }
  }

  #count({ minute, cycleMinute, appId, events }: RecordCost): void {
    let totals = this.apps.get(appId)
    if (totals === undefined) {
      totals = { newest: -1, cycle: cycleMinute, cycles: new Map(), days: new Map() }
      this.apps.set(appId, totals)
    }
    const { cycles, days } = totals
    const day = Math.floor(minute / MINUTES_A_DAY)
    if (!cycles.has(cycleMinute)) {
      // A new cycle starts at 0. A moved anchor makes a cycle of days already counted; its first day counts whole.
      cycles.set(cycleMinute, totals.newest < cycleMinute ? 0 : sumFrom(days, Math.floor(cycleMinute / MINUTES_A_DAY)))
      // The newest record's cycle stays, because it is the one written to Redis.
      const oldest = [...cycles.keys()].find((first) => first !== totals.cycle && first !== cycleMinute)
      if (cycles.size > MAX_CYCLES && oldest !== undefined) cycles.delete(oldest)
    }
    for (const [first, sum] of cycles) if (minute >= first) cycles.set(first, sum + events)
    days.set(day, (days.get(day) ?? 0) + events)
    for (const old of days.keys()) if (old < day - DAYS_KEPT) days.delete(old)
    if (minute >= totals.newest) {
      totals.newest = minute
      totals.cycle = cycleMinute
    }
    this.#changed.add(appId)
  }
}

function monthSum({ first, next }: CycleMinutes, used: number): MonthSum {
  return { startMs: first * MINUTE_MS, endMs: next * MINUTE_MS, used }
}

function keepLargest(ours: Map<number, number>, theirs: ReadonlyMap<number, number>): void {
  for (const [first, events] of theirs) ours.set(first, Math.max(events, ours.get(first) ?? 0))
}

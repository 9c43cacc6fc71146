// What one partition's apps have stored, by day and by billing cycle: exact for the minutes that are closed, up to a
// place in the stream. Nothing here waits or calls.

import { MINUTES_A_DAY } from '../apps/plans.ts'
import type { RecordCost } from '../queue/record/cost-header.ts'

/** A cycle has at most 31 days, and may begin and end within one. */
const DAYS_KEPT = 33
/** Of an app whose anchor keeps changing the newest are kept. */
const MAX_CYCLES = 3

/** Minutes and days are UTC's, counted from 1970. */
export interface AppTotals {
  /** The newest minute that was counted. */
  newest: number
  /** First minute of the cycle that the newest record names. */
  cycle: number
  /** By the first minute of each cycle: the events of that minute and all after it. */
  readonly cycles: Map<number, number>
  readonly days: Map<number, number>
}

/** A message's place in the stream. */
export interface Place {
  readonly sequence: number
  /** When the stream stored it, in microseconds since 1970. */
  readonly timeUs: number
}

interface OpenMinute {
  readonly firstSequence: number
  readonly costs: Map<string, { events: number; cycleMinute: number }>
}

/** As it is kept in NATS, and read back. */
export interface SavedTotals {
  readonly v: 1
  /** When the stream was created: one made anew has other sequences. */
  readonly created: string
  readonly sequence: number
  readonly timeUs: number
  readonly minute: number
  /** The lowest sequence that has to be read again. */
  readonly from: number
  readonly apps: Readonly<Record<string, SavedApp>>
}

/** newest, cycle, cycles with their events, first day, events by day from then on. */
type SavedApp = readonly [number, number, readonly (readonly [number, number])[], number, readonly number[]]

export class PartitionTotals {
  readonly created: string
  readonly apps = new Map<string, AppTotals>()
  /** Apps whose totals have changed since `takeChanged`. */
  #changed = new Set<string>()
  readonly #open = new Map<number, OpenMinute>()
  /** What was counted before this was loaded. */
  readonly #loaded: Place & { readonly minute: number }
  #last: Place
  /** Every minute up to it is closed. */
  minute: number

  constructor(created: string, saved: SavedTotals | null) {
    this.created = created
    this.minute = saved?.minute ?? 0
    this.#loaded = { sequence: saved?.sequence ?? 0, timeUs: saved?.timeUs ?? 0, minute: this.minute }
    this.#last = this.#loaded
    for (const [appId, app] of Object.entries(saved?.apps ?? {})) this.apps.set(appId, readApp(app))
  }

  get last(): Place {
    return this.#last
  }

  /** Reads a message's costs. Minutes up to `closable` count at once, later ones when they are closed. */
  read(place: Place, costs: readonly RecordCost[], closable: number): void {
    const { sequence, timeUs } = place
    const isReadBefore = sequence <= this.#loaded.sequence && timeUs <= this.#loaded.timeUs
    for (const cost of costs) {
      if (isReadBefore && cost.minute <= this.#loaded.minute) continue
      if (cost.minute <= Math.max(closable, this.minute)) this.#count(cost)
      else this.#wait(cost, sequence)
    }
    this.#last = { sequence, timeUs: Math.max(timeUs, this.#last.timeUs) }
  }

  /** Every record of these minutes that was stored in time has been read. */
  close(minute: number): void {
    if (minute <= this.minute) return
    this.minute = minute
    for (const [opened, { costs }] of this.#open) {
      if (opened > minute) continue
      for (const [appId, { events, cycleMinute }] of costs) this.#count({ minute: opened, cycleMinute, appId, events })
      this.#open.delete(opened)
    }
  }

  takeChanged(): ReadonlySet<string> {
    const changed = this.#changed
    this.#changed = new Set()
    return changed
  }

  /** They have to be taken again. */
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
    // An app may be named as members of every object are.
    const apps = Object.fromEntries(Array.from(this.apps, ([appId, totals]) => [appId, writeApp(totals)]))
    return { v: 1, created: this.created, sequence, timeUs, minute: this.minute, from, apps }
  }

  #wait({ minute, cycleMinute, appId, events }: RecordCost, sequence: number): void {
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
      // Nothing is counted since it began, unless the app's anchor was moved: then all of its first day counts.
      cycles.set(cycleMinute, totals.newest < cycleMinute ? 0 : sumFrom(days, Math.floor(cycleMinute / MINUTES_A_DAY)))
      // Never the cycle of the newest record: that one is written to Redis.
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

/** As take.lua reads them, but for the place and the minute: base, and totals by day. */
export function redisTexts({ newest, cycle, cycles, days }: AppTotals): { base: string; days: string } {
  const day = Math.floor(newest / MINUTES_A_DAY)
  const base = `${cycle} ${cycles.get(cycle) ?? 0} ${newest} ${day} ${days.get(day) ?? 0}`
  return { base, days: Array.from(days, ([at, events]) => `${at}:${events}`).join(' ') }
}

function sumFrom(days: ReadonlyMap<number, number>, first: number): number {
  let sum = 0
  for (const [day, events] of days) if (day >= first) sum += events
  return sum
}

function writeApp({ newest, cycle, cycles, days }: AppTotals): SavedApp {
  const first = Math.min(...days.keys())
  const last = Math.max(...days.keys())
  const byDay = Array.from({ length: last - first + 1 }, (_, at) => days.get(first + at) ?? 0)
  return [newest, cycle, [...cycles], first, byDay]
}

function readApp([newest, cycle, cycles, first, byDay]: SavedApp): AppTotals {
  const days = new Map(byDay.map((events, at) => [first + at, events] as const).filter(([, events]) => events > 0))
  return { newest, cycle, cycles: new Map(cycles), days }
}

// The sums of one app, and how they are written to SLUICE_COUNTS and to Redis.

import { MINUTES_A_DAY } from '../lib/spans.ts'

/** Minutes and days are numbered from 1970, UTC. */
export interface AppTotals {
  /** The newest minute with events. */
  newest: number
  /** First minute of the newest record's cycle. */
  cycle: number
  /** By a cycle's first minute: the events of that minute and all later ones. */
  readonly cycles: Map<number, number>
  readonly days: Map<number, number>
}

/** newest, cycle, cycles with their events, first day, events of each day from then on. */
export type SavedApp = readonly [number, number, readonly (readonly [number, number])[], number, readonly number[]]

/** The fields `base` (without its first two numbers) and `days` that take.lua reads. */
export function encodeTotals({ newest, cycle, cycles, days }: AppTotals): { base: string; days: string } {
  const day = Math.floor(newest / MINUTES_A_DAY)
  const base = `${cycle} ${cycles.get(cycle) ?? 0} ${newest} ${day} ${days.get(day) ?? 0}`
  return { base, days: Array.from(days, ([at, events]) => `${at}:${events}`).join(' ') }
}

/** The events of that minute and all later ones, as take.lua counts them where no cycle began then. */
export function usedSince({ newest, cycles, days }: AppTotals, first: number): number {
  return cycles.get(first) ?? (newest < first ? 0 : sumFrom(days, Math.floor(first / MINUTES_A_DAY)))
}

export function sumFrom(days: ReadonlyMap<number, number>, first: number): number {
  let sum = 0
  for (const [day, events] of days) if (day >= first) sum += events
  return sum
}

export function writeApp({ newest, cycle, cycles, days }: AppTotals): SavedApp {
  const first = Math.min(...days.keys())
  const last = Math.max(...days.keys())
  const byDay = Array.from({ length: last - first + 1 }, (_, at) => days.get(first + at) ?? 0)
  return [newest, cycle, [...cycles], first, byDay]
}

export function readApp([newest, cycle, cycles, first, byDay]: SavedApp): AppTotals {
  const days = new Map(byDay.map((events, at) => [first + at, events] as const).filter(([, events]) => events > 0))
  return { newest, cycle, cycles: new Map(cycles), days }
}

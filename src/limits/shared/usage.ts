// Reads the usage of apps from Redis, for `sluice explain` and `sluice usage`. It takes nothing.

import { readFileSync } from 'node:fs'
import type { App } from '../../apps/app.ts'
import { partitionOf } from '../../contract/partition.ts'
import { DAY_MS, MINUTE_MS } from '../../lib/spans.ts'
import type { Away, RedisLink } from '../../redis/link.ts'
import { listOf, text } from '../../redis/reply.ts'
import { redisScript, runScript } from '../../redis/script.ts'
import { type CycleMinutes, cycleMinutesAt } from '../cycle-minutes.ts'
import type { DaysUsed, Usage } from '../limiter.ts'
import { countsKey, encodeQuestion, fenceKey, TAKE } from './take.ts'

const DAYS = redisScript(readFileSync(new URL('./days.lua', import.meta.url), 'utf8'))

/** Used so far in each window. Only the minute counts an empty batch, as 1. */
export interface UsedEvents {
  readonly minute: number
  readonly day: number
  readonly month: number
}

interface AskedAt {
  readonly partitions: number
  /** Redis's clock. */
  readonly nowMs: number
}

/** Events in the nodes' token budgets count as used. Rejects with an error reply of Redis. */
export async function readUsage(link: RedisLink, app: App, at: AskedAt): Promise<Usage | Away> {
  const usages = await readUsages(link, [app], at)
  return usages === 'away' ? 'away' : usages[0]
}

/** Of some hundred apps at most, in their order: the script holds Redis up for about 10 µs an app. */
export async function readUsages(link: RedisLink, apps: readonly App[], at: AskedAt): Promise<Usage[] | Away> {
  const { partitions, nowMs } = at
  const asked = apps.map((app) => ({
    partition: partitionOf(app.appId, partitions),
    app,
    cycle: cycleMinutesAt(app, Math.floor(nowMs / MINUTE_MS)),
    wanted: 0,
    acknowledged: [],
    corrections: new Map<number, number>(),
    takes: [],
  }))
  const usages: Usage[] = []
  for (const [together, calls] of callsOf(link, asked)) {
    const question = { nodeId: '', accepted: [], released: [], partitions: [], apps: calls }
    const { keys, args, read } = encodeQuestion(question)
    const reply = await runScript(link, TAKE, keys, args, read)
    if (reply === 'away') return 'away'
    for (const [index, { monthUsed, dayUsed, minuteUsed, spooled, spooledOfDead, minute }] of reply.apps.entries()) {
      const { app, cycle } = calls[index]
      const used = { month: monthUsed, day: dayUsed, minute: minuteUsed }
      const usage = usageOf(app, used, { atMs: reply.nowMs, minute, cycle })
      const inSpools = { events: spooled, ofGoneNodes: spooledOfDead }
      usages[together[index]] = spooled === 0 ? usage : { ...usage, spooled: inSpools }
    }
  }
  return usages
}

/** Of some hundred apps at most, in their order: what the audit has counted, and the open minutes. */
export async function readDays(link: RedisLink, apps: readonly App[], partitions: number): Promise<DaysUsed[] | Away> {
  const days: DaysUsed[] = []
  const asked = apps.map(({ appId }) => ({ appId, partition: partitionOf(appId, partitions) }))
  for (const [together, calls] of callsOf(link, asked)) {
    const keys = calls.flatMap(({ appId, partition }) => [fenceKey(partition), countsKey(partition, appId)])
    const texts = await runScript(link, DAYS, keys, [], listOf(text, calls.length))
    if (texts === 'away') return 'away'
    for (const [index, of] of texts.entries()) days[together[index]] = parseDays(of)
  }
  return days
}

/** `<day>:<events>`, with spaces between them, as the field `days` of an app in Redis has it. */
export function parseDays(days: string): Map<number, number> {
  const sums = new Map<number, number>()
  for (const [, day, events] of days.matchAll(/(\d+):(\d+)/g)) {
    sums.set(Number(day), (sums.get(Number(day)) ?? 0) + Number(events))
  }
  return sums
}

/** What goes into each call, with its places in the list: a cluster takes keys of one partition only in a call. */
function callsOf<T extends { readonly partition: number }>(link: RedisLink, asked: readonly T[]): [number[], T[]][] {
  const calls = new Map<number, [number[], T[]]>()
  for (const [index, each] of asked.entries()) {
    const partition = link.isCluster ? each.partition : 0
    const call = calls.get(partition) ?? [[], []]
    calls.set(partition, call)
    call[0].push(index)
    call[1].push(each)
  }
  return [...calls.values()]
}

export function usageOf(
  app: App,
  used: UsedEvents,
  { atMs, minute, cycle }: { atMs: number; minute: number; cycle: CycleMinutes },
): Usage {
  const startMs = minute * MINUTE_MS
  return {
    atMs,
    minute: { limit: app.eventsPerMinute, used: used.minute, endsAtMs: startMs + MINUTE_MS },
    day: { limit: app.eventsPerDay, used: used.day, endsAtMs: (Math.floor(startMs / DAY_MS) + 1) * DAY_MS },
    month: { limit: app.eventsPerMonth, used: used.month, endsAtMs: cycle.next * MINUTE_MS },
  }
}

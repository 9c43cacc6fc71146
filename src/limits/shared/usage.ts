// Reads the usage of apps from Redis, for `sluice explain` and `sluice usage`. It takes nothing.

import type { App } from '../../apps/app.ts'
import { partitionOf } from '../../contract/partition.ts'
import { DAY_MS, MINUTE_MS, MINUTES_A_DAY } from '../../lib/spans.ts'
import type { Away, RedisLink } from '../../redis/link.ts'
import { runScript } from '../../redis/script.ts'
import { type CycleMinutes, cycleMinutesAt } from '../cycle-minutes.ts'
import type { DaysUsed, Spooled, Usage } from '../limiter.ts'
import {
  type AppQuestion,
  countsKey,
  decodeReply,
  encodeQuestion,
  fenceIn,
  fenceKey,
  type Question,
  TAKE,
} from './take.ts'

/** A spool's field that was not written for so long is that of a dead node, as take.lua has it. */
const SPOOL_DEAD_MS = 120_000
/** As spooled.lua has it: when it was written, and the events by cycle. */
const SPOOL = /^(\d+) \d+ \d+ (\S+) \S+$/

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
  const minute = Math.floor(nowMs / MINUTE_MS)
  const asked = apps.map((app) => ({
    partition: partitionOf(app.appId, partitions),
    app,
    cycle: cycleMinutesAt(app, minute),
    wanted: 0,
    acknowledged: [],
    corrections: new Map<number, number>(),
    takes: [],
  }))
  const usages: Usage[] = []
  for (const [together, calls] of callsOf(link, asked)) {
    const reply = await askUsage(link, calls)
    if (reply === 'away') return 'away'
    for (const [index, usage] of reply.entries()) usages[together[index]] = usage
  }
  const spooled = await readSpooled(link, apps, at)
  if (spooled === 'away') return 'away'
  return usages.map((usage, index) => withSpooled(usage, spooled[index]))
}

function withSpooled(usage: Usage, spooled: Spooled | null): Usage {
  return spooled === null ? usage : { ...usage, spooled }
}

/** null: no spool holds any. */
async function readSpooled(
  link: RedisLink,
  apps: readonly App[],
  { partitions, nowMs }: AskedAt,
): Promise<(Spooled | null)[] | Away> {
  return await link.call((client) =>
    Promise.all(
      apps.map(async ({ appId }) => {
        const counts = countsKey(partitionOf(appId, partitions), appId)
        const names = (await client.hget(counts, 's'))?.match(/\S+/g) ?? []
        if (names.length === 0) return null
        const fields = await client.hmget(counts, ...names.map((name) => `s:${name}`))
        let [events, ofGoneNodes] = [0, 0]
        for (const field of fields) {
          const [, atMs, cycles] = SPOOL.exec(field ?? '') ?? []
          if (cycles === undefined) continue
          const sum = [...parseDays(cycles).values()].reduce((one, other) => one + other, 0)
          events += sum
          if (nowMs - Number(atMs) >= SPOOL_DEAD_MS) ofGoneNodes += sum
        }
        return events === 0 ? null : { events, ofGoneNodes }
      }),
    ),
  )
}

/** Of some hundred apps at most, in their order: what the audit has counted, and the open minutes. */
export async function readDays(link: RedisLink, apps: readonly App[], partitions: number): Promise<DaysUsed[] | Away> {
  return await link.call((client) =>
    Promise.all(
      apps.map(async ({ appId }) => {
        const partition = partitionOf(appId, partitions)
        // The fence first: a minute that is closed meanwhile is missing for once, and never counted twice.
        const [fence, counts] = await Promise.all([
          client.get(fenceKey(partition)),
          client.hgetall(countsKey(partition, appId)),
        ])
        return daysOf(counts, fenceIn(fence)?.minute ?? 0)
      }),
    ),
  )
}

function daysOf(counts: Readonly<Record<string, string>>, closedMinute: number): DaysUsed {
  const days = parseDays(counts['days'] ?? '')
  for (const [name, events] of Object.entries(counts)) {
    const minute = Number(/^m(\d+)$/.exec(name)?.[1] ?? 0)
    const day = Math.floor(minute / MINUTES_A_DAY)
    if (minute > closedMinute && Number(events) > 0) days.set(day, (days.get(day) ?? 0) + Number(events))
  }
  return days
}

/** The field `days` of an app in Redis: `<day>:<events>`, with spaces between them. Others have commas. */
export function parseDays(text: string): Map<number, number> {
  return new Map(Array.from(text.matchAll(/(\d+):(\d+)/g), ([, day, events]) => [Number(day), Number(events)]))
}

/** What goes into each call, with its places in the list: a cluster takes keys of one partition only in a call. */
function callsOf(link: RedisLink, asked: readonly AppQuestion[]): [number[], AppQuestion[]][] {
  const calls = new Map<number, [number[], AppQuestion[]]>()
  for (const [index, each] of asked.entries()) {
    const partition = link.isCluster ? each.partition : 0
    const call = calls.get(partition) ?? [[], []]
    calls.set(partition, call)
    call[0].push(index)
    call[1].push(each)
  }
  return [...calls.values()]
}

async function askUsage(link: RedisLink, asked: readonly AppQuestion[]): Promise<Usage[] | Away> {
  const question: Question = { nodeId: '', accepted: [], released: [], partitions: [], apps: asked }
  const { keys, args } = encodeQuestion(question)
  const reply = await runScript(link, TAKE, keys, args)
  if (reply === 'away') return 'away'
  const { nowMs: atMs, apps } = decodeReply(reply, question)
  return apps.map(({ minute, monthUsed, dayUsed, minuteUsed }, index) => {
    const { app, cycle } = asked[index]
    return usageOf(app, { month: monthUsed, day: dayUsed, minute: minuteUsed }, { atMs, minute, cycle })
  })
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

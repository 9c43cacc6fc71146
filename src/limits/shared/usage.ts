// Reads an app's usage from Redis, for `sluice explain`. It takes nothing.

import type { App } from '../../apps/app.ts'
import { DAY_MS, MINUTE_MS } from '../../apps/plans.ts'
import { partitionOf } from '../../queue/partition.ts'
import type { Away, RedisLink } from '../../redis/link.ts'
import { runScript } from '../../redis/script.ts'
import { type CycleMinutes, cycleMinutesAt } from '../cycle-minutes.ts'
import type { Usage } from '../limiter.ts'
import { decodeReply, encodeQuestion, type Question, TAKE } from './take.ts'

/** Used so far in each window. Only the minute counts an empty batch, as 1. */
export interface UsedEvents {
  readonly minute: number
  readonly day: number
  readonly month: number
}

/** `nowMs`: Redis's clock. Events in the nodes' buckets count as used. Rejects with an error reply of Redis. */
export async function readUsage(
  link: RedisLink,
  app: App,
  { partitions, nowMs }: { partitions: number; nowMs: number },
): Promise<Usage | Away> {
  const cycle = cycleMinutesAt(app, Math.floor(nowMs / MINUTE_MS))
  const partition = partitionOf(app.appId, partitions)
  const asked = { partition, app, cycle, wanted: 0, corrections: new Map<number, number>(), takes: [] }
  const question: Question = { nodeId: '', accepted: [], released: [], apps: [asked] }
  const { keys, args } = encodeQuestion(question)
  const reply = await runScript(link, TAKE, keys, args)
  if (reply === 'away') return 'away'
  const { nowMs: atMs, apps } = decodeReply(reply, question)
  const [{ minute, monthUsed, dayUsed, minuteUsed }] = apps
  return usageOf(app, { month: monthUsed, day: dayUsed, minute: minuteUsed }, { atMs, minute, cycle })
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

// What an app has used by Redis's count, for the commands and the console. It takes nothing.

import type { App } from '../../apps/app.ts'
import { DAY_MS, MINUTE_MS } from '../../apps/plans.ts'
import { partitionOf } from '../../queue/partition.ts'
import type { Away, RedisLink } from '../../redis/link.ts'
import { runScript } from '../../redis/script.ts'
import { type CycleMinutes, cycleMinutesAt } from '../cycle-minutes.ts'
import type { Standing } from '../limiter.ts'
import { answerIn, type Question, TAKE, wordsOf } from './take.ts'

/** What is used of each window; all but the minute in events that are stored or about to be. */
export interface Used {
  readonly minute: number
  readonly day: number
  readonly month: number
}

/** `nowMs`: by Redis's clock. What lies in the nodes' buckets counts as used. Rejects with an error reply of Redis. */
export async function readStanding(
  link: RedisLink,
  app: App,
  { partitions, nowMs }: { partitions: number; nowMs: number },
): Promise<Standing | Away> {
  const cycle = cycleMinutesAt(app, Math.floor(nowMs / MINUTE_MS))
  const partition = partitionOf(app.appId, partitions)
  const asked = { partition, app, cycle, wanted: 0, givenBack: new Map<number, number>(), takes: [] }
  const question: Question = { nodeId: '', accepted: [], released: [], apps: [asked] }
  const { keys, args } = wordsOf(question)
  const reply = await runScript(link, TAKE, keys, args)
  if (reply === 'away') return 'away'
  const { nowMs: atMs, apps } = answerIn(reply, question)
  const [{ minute, monthUsed, dayUsed, minuteUsed }] = apps
  return standingOf(app, { month: monthUsed, day: dayUsed, minute: minuteUsed }, { atMs, minute, cycle })
}

export function standingOf(
  app: App,
  used: Used,
  { atMs, minute, cycle }: { atMs: number; minute: number; cycle: CycleMinutes },
): Standing {
  const startMs = minute * MINUTE_MS
  return {
    atMs,
    minute: { limit: app.eventsPerMinute, used: used.minute, endsAtMs: startMs + MINUTE_MS },
    day: { limit: app.eventsPerDay, used: used.day, endsAtMs: (Math.floor(startMs / DAY_MS) + 1) * DAY_MS },
    month: { limit: app.eventsPerMonth, used: used.month, endsAtMs: cycle.next * MINUTE_MS },
  }
}

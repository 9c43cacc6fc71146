// What the audit writes to Redis, and in which order.

import { beforeAll, expect, it } from 'vitest'
import { partitionOf } from '../../src/contract/partition.ts'
import { countsKey, fenceKey } from '../../src/limits/shared/take.ts'
import { Clients } from './clients.ts'
import { Cluster } from './cluster.ts'
import { Judge } from './judge.ts'
import { LuaMachine } from './lua.ts'
import { openParts, PARTITIONS } from './parts.ts'
import { anApp, history, send } from './scenario.ts'

const APPS = 500
const MINUTE_MS = 60_000
const END_MS = 3 * MINUTE_MS + 10_000
/** The longest wait for an acknowledgement, and a margin. */
const MIN_CLOSE_DELAY_MS = 4000

let lua: LuaMachine
beforeAll(async () => {
  lua = await LuaMachine.open()
})

it('closes a minute seconds after its end, and only once every app has its base up to it', async () => {
  const steps = Array.from({ length: APPS }, (_, app) => [
    send(1000 + app, { app }),
    send(MINUTE_MS + 1000 + app, { app }),
  ]).flat()
  const apps = Array.from({ length: APPS }, (_, at) => anApp(at))
  const cluster = new Cluster(history('close', { nodes: 1, apps, steps, endMs: END_MS }), lua, openParts)
  const { redis, world } = cluster
  const judge = new Judge(cluster)
  const clients = new Clients(cluster, judge, 1)
  const closed = Array.from({ length: PARTITIONS }, (): Set<number> => new Set())
  const wrong: string[] = []
  const firstMinute = Math.floor(world.epochMs / MINUTE_MS)
  const lastMinute = firstMinute + 1
  const look = (): void => {
    for (const [partition, minutes] of closed.entries()) {
      const fence = redis.ask('GET', fenceKey(partition))
      const minute = typeof fence === 'string' ? Number(fence.split(' ')[1]) : 0
      if (minute === 0 || minutes.has(minute)) continue
      const lateMs = redis.nowMs - (minute + 1) * MINUTE_MS
      // No app has sent anything before.
      if (minute < firstMinute) continue
      minutes.add(minute)
      if (lateMs < MIN_CLOSE_DELAY_MS) wrong.push(`partition ${partition} closed ${lateMs} ms after its minute`)
      for (const { app_id } of apps) {
        if (partitionOf(app_id, PARTITIONS) !== partition) continue
        const base = redis.ask('HGET', countsKey(partition, app_id), 'base')
        const until = typeof base === 'string' ? Number(base.split(' ')[1]) : 0
        if (until < Math.min(minute, lastMinute)) wrong.push(`${app_id} has a base up to ${until}`)
      }
    }
  }
  try {
    for (const step of steps) if (step.kind === 'send') world.at(step.atMs, () => clients.start(step))
    const submit = redis.submit.bind(redis)
    redis.submit = (words, answer) =>
      submit(words, (reply) => {
        look()
        answer(reply)
      })
    await world.runUntil(END_MS)
  } finally {
    cluster.discard()
  }
  expect([judge.accepted, judge.refused]).toEqual([2 * APPS, 0])
  expect(wrong.slice(0, 3)).toEqual([])
  for (const minutes of closed) expect(minutes.size).toBeGreaterThanOrEqual(2)
})

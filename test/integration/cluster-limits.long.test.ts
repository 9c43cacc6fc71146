// Limits and counters over several nodes: never exceeded, and exact after every kind of end.

import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { batch, expectAccepted, expectRefused, expectSound, figures, post, single } from '../support/client.ts'
import {
  AUDITED_MS,
  type Cluster,
  expectCovered,
  expectExact,
  expectUsed,
  startCluster,
  whileRedisAnswers,
} from '../support/cluster.ts'
import type { StoredRecord } from '../support/journal-files.ts'
import { acceptedOf, eventsOf, expectStoredOnce, startLoad } from '../support/load.ts'
import { openRaw, rawPost } from '../support/raw-http.ts'
import { type AppRecord, appRecord, eventually, roomInMinute, type Service } from '../support/service.ts'
import { readRecords } from '../support/stream.ts'

const NODES = 3
/** Connections to each node that send without a pause. */
const WORKERS = 3
/** Refusals in a row on one connection that show that the limit is reached, not only for a moment. */
const REFUSALS = 15
/** Of the minute that an attempt may fill. */
const ATTEMPT_SECONDS = 15
/** Far less than an audit takes: the node itself gives its buckets back before it ends. */
const DRAINED_MS = 10_000
const SOME_BATCHES = 20

let cluster: Cluster

beforeAll(async () => {
  cluster = await startCluster({ nodes: NODES, apps: [appRecord('dying')] })
})

interface Hammered {
  readonly appId: string
  /** Events. */
  readonly accepted: number
  readonly refusals: readonly string[]
}

/** Sends to every node at once until none accepts more. */
async function hammer(appId: string, events: number): Promise<Hammered> {
  let accepted = 0
  const refusals = new Set<string>()
  const worker = async (node: Service): Promise<void> => {
    for (let inARow = 0; inARow < REFUSALS; ) {
      const answer = await post(node, batch(`ak_${appId}`, events))
      expectSound(answer)
      if (answer.status === 202) {
        accepted += events
        inARow = 0
      } else {
        refusals.add(String(answer.json['error']))
        inARow++
      }
    }
  }
  await Promise.all(cluster.nodes.flatMap((node) => Array.from({ length: WORKERS }, () => worker(node))))
  return { appId, accepted, refusals: [...refusals] }
}

/** With its own app, and not near the end of a minute. */
async function hammerNew(appId: string, limits: Partial<AppRecord>, events = 1): Promise<Hammered> {
  await cluster.addApps([appRecord(appId, limits)])
  await roomInMinute(ATTEMPT_SECONDS)
  return hammer(appId, events)
}

function eventsIn(records: readonly StoredRecord[]): number {
  return records.reduce((sum, { events }) => sum + events.length, 0)
}

async function storedOf(appId: string): Promise<StoredRecord[]> {
  return (await readRecords(cluster.nats.url)).filter(({ app_id }) => app_id === appId)
}

interface Tally {
  accepted: number
  dropped: number
  readonly others: number[]
}

/** Opens one connection after the other until none is accepted; each closes when its answer says so. */
async function sendUntilGone(node: Service, appKey: string, tally: Tally): Promise<void> {
  for (;;) {
    const connection = await openRaw(node.port).catch(() => null)
    if (connection === null) return
    for (let isOpen = true; isOpen; ) {
      connection.write(rawPost(batch(appKey, 2), [`Idempotency-Key: ${randomUUID()}`]))
      const answer = await connection.readAnswer()
      if (answer === null) tally.dropped++
      else if (answer.status === 202) tally.accepted += 2
      else tally.others.push(answer.status)
      isOpen = answer !== null && answer.headers['connection'] !== 'close'
    }
    connection.close()
  }
}

describe('three nodes that get more than a limit', () => {
  test('use up the limit of a minute together, and never exceed it', () =>
    whileRedisAnswers(cluster, async (attempt) => {
      const { appId, accepted, refusals } = await hammerNew(`minute-${attempt}`, { plan: 'trial' })
      expect(refusals).toEqual(['rate_limit_exceeded'])
      expect(accepted).toBeLessThanOrEqual(200)
      expect(accepted).toBeGreaterThanOrEqual(198)
      for (const node of cluster.nodes) {
        const answer = await post(node, batch(`ak_${appId}`, 100))
        expectRefused(answer, 429, 'rate_limit_exceeded')
        expect(figures(answer)).toMatchObject({ limit: 200, remaining: 200 - accepted })
      }
    }))

  test('use up the limit of a day together, and never exceed it', () =>
    whileRedisAnswers(cluster, async (attempt) => {
      const { appId, accepted, refusals } = await hammerNew(`day-${attempt}`, { events_per_day: 300 })
      expect(refusals).toEqual(['daily_limit_exceeded'])
      expect(accepted).toBeLessThanOrEqual(300)
      expect(accepted).toBeGreaterThanOrEqual(297)
      expect((await storedOf(appId)).length).toBe(accepted)
    }))

  test('use up the limit of a month together, and never exceed it', () =>
    whileRedisAnswers(cluster, async (attempt) => {
      const limits = { plan: 'trial', events_per_minute: 100_000, events_per_month: 250 }
      const { appId, accepted, refusals } = await hammerNew(`month-${attempt}`, limits)
      expect(refusals).toEqual(['monthly_limit_exceeded'])
      expect(accepted).toBeLessThanOrEqual(250)
      expect(accepted).toBeGreaterThanOrEqual(248)
      expect((await storedOf(appId)).length).toBe(accepted)
    }))

  test('take batches completely, and leave less than one unused', () =>
    whileRedisAnswers(cluster, async (attempt) => {
      const { appId, accepted } = await hammerNew(`batches-${attempt}`, { events_per_day: 1000 }, 7)
      expect(accepted).toBeLessThanOrEqual(1000)
      expect(accepted).toBeGreaterThan(1000 - 7)
      expect(eventsIn(await storedOf(appId))).toBe(accepted)
    }))
})

describe('a node', () => {
  test('that stops under load answers every request that reached it, and gives its buckets back', () =>
    whileRedisAnswers(cluster, async (attempt) => {
      const appId = `leaving-${attempt}`
      await cluster.addApps([appRecord(appId)])
      const leaving = await cluster.addNode()
      const tally: Tally = { accepted: 0, dropped: 0, others: [] }
      const workers = Array.from({ length: 8 }, () => sendUntilGone(leaving, `ak_${appId}`, tally))
      await eventually('the load runs', () => tally.accepted > 0)
      const exit = await leaving.stop()
      await Promise.all(workers)
      expect(exit.code, exit.output).toBe(0)
      expect(tally).toEqual({ accepted: tally.accepted, dropped: 0, others: [] })
      expect(tally.accepted).toBeGreaterThan(0)
      expect(eventsIn(await storedOf(appId))).toBe(tally.accepted)
      // At once, without an audit.
      await expectUsed(cluster, `ak_${appId}`, tally.accepted, DRAINED_MS)
    }))

  test('that is killed under load loses no accepted event, and all of them are counted', async () => {
    const [staying] = cluster.nodes
    const dying = await cluster.addNode()
    let ports = [dying.port, staying.port]
    const load = startLoad({ ports: () => ports, appKey: 'ak_dying', workers: 8, pauseMs: 0 })
    await eventually('the load runs', () => acceptedOf(load.batches).length > SOME_BATCHES)
    await dying.kill()
    ports = [staying.port]
    const already = acceptedOf(load.batches).length
    await eventually('the load goes on', () => acceptedOf(load.batches).length > already + SOME_BATCHES)
    const batches = await load.stop()
    expect(batches.filter(({ batchId }) => batchId === null)).toEqual([])
    expectStoredOnce(await storedOf('dying'), batches)
    await expectCovered(cluster, 'ak_dying', eventsOf(batches))
  })
})

describe('all nodes', () => {
  test('leave exact counters behind when they stop', () =>
    whileRedisAnswers(cluster, async (attempt) => {
      const appId = `ending-${attempt}`
      while (cluster.nodes.length < 2) await cluster.addNode()
      await cluster.addApps([appRecord(appId)])
      const ports = cluster.nodes.map(({ port }) => port)
      const load = startLoad({ ports: () => ports, appKey: `ak_${appId}`, unkeyedEvery: 3 })
      await eventually('the load runs', () => acceptedOf(load.batches).length > SOME_BATCHES)
      const batches = await load.stop()
      expect(batches.filter(({ batchId }) => batchId === null)).toEqual([])
      const exits = await Promise.all(cluster.nodes.map((node) => node.stop()))
      expect(exits.map(({ code }) => code)).toEqual(exits.map(() => 0))
      expectStoredOnce(await storedOf(appId), batches)
      expect((await cluster.used(`ak_${appId}`)).month).toBe(eventsOf(batches))
    }))

  test(
    'make every counter equal the stream after a restart, also that of the killed node',
    async () => {
      const node = await cluster.addNode()
      expect(cluster.apps.length).toBeGreaterThan(5)
      await expectExact(cluster)
      expectAccepted(await post(node, single('ak_dying')), 1)
    },
    AUDITED_MS + 20_000,
  )
})

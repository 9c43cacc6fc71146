// NATS away, in each way it can be, under the same two nodes from the first fault to the last: batches are refused
// rather than lost, what is tried again under its key is stored once, and in the end what is stored is charged.

import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { casesOf } from '../cases/outages.js'
import { type Answer, batch, expectAccepted, expectRefused, get, post, single } from '../support/client.ts'
import {
  AUDITED_MS,
  becomesReady,
  type Cluster,
  expectCovered,
  expectExact,
  logOf,
  metric,
  partsOf,
  startCluster,
  whileRedisAnswers,
} from '../support/cluster.ts'
import type { StoredRecord } from '../support/journal-files.ts'
import { acceptedOf, eventsOf, expectStoredOnce, type RunningLoad, startLoad, statusCounts } from '../support/load.ts'
import { appRecord, eventually, runCommand, type Service, sleep } from '../support/service.ts'
import { readRecords, STREAM, withStreams } from '../support/stream.ts'

const CASES = casesOf('NATS')
/** Faults that keep what was stored. */
const FAULTS = CASES.filter(({ isLoss }) => !isLoss).map(({ name }) => name)
/** Faults that take the stream away, and what was in it. */
const LOSSES = CASES.filter(({ isLoss }) => isLoss).map(({ name }) => name)
/** Of a request. */
type Headers = Record<string, string>

/** More than the two seconds that an acknowledgement may take. */
const DELAY_MS = 3000
/** So long that every connection is given up. */
const LONG_MS = 8000
/** Two seconds, and what a busy machine adds. */
const BACK_MS = 6000
/** A replay asks Redis alone; a busy machine may lose sight of it, and then NATS is asked for two seconds in vain. */
const REPLAY_MS = 10_000

let cluster: Cluster
let first: Service
let second: Service
/** Mends what a test has broken and not mended itself. */
let heal: (() => unknown) | null = null
let load: RunningLoad | null = null

beforeAll(async () => {
  cluster = await startCluster({ nodes: 2, apps: [] })
  ;[first, second] = cluster.nodes as [Service, Service]
}, 60_000)

async function mend(): Promise<void> {
  await heal?.()
  heal = null
  await load?.stop()
  load = null
}

afterEach(mend)

/** Sets how many messages the stream may hold; -1: any number. */
function limitStream(most: (messages: number) => number): Promise<unknown> {
  return withStreams(cluster.nats.url, async (streams) => {
    const { state } = await streams.streams.info(STREAM)
    return streams.streams.update(STREAM, { max_msgs: most(state.messages) })
  })
}

async function freezeFor(ms: number): Promise<void> {
  cluster.nats.freeze()
  await sleep(ms)
}

const make: Readonly<Record<string, { fault: () => unknown; heal: () => unknown }>> = {
  killed: { fault: () => cluster.nats.kill(), heal: () => cluster.nats.restart() },
  frozen: { fault: () => cluster.nats.freeze(), heal: () => cluster.nats.resume() },
  'frozen-long': { fault: () => freezeFor(LONG_MS), heal: () => cluster.nats.resume() },
  delayed: { fault: () => cluster.natsProxy.delay(DELAY_MS), heal: () => cluster.natsProxy.heal() },
  cut: { fault: () => cluster.natsProxy.cut(), heal: () => cluster.natsProxy.heal() },
  full: { fault: () => limitStream((messages) => messages), heal: () => limitStream(() => -1) },
}

const ports = (): number[] => [first.port, second.port]
const keyHeader = (): Headers => ({ 'Idempotency-Key': randomUUID() })

function expectTurnedAway(answer: Answer): void {
  expectRefused(answer, 503, 'service_overloaded')
  expect(Number(answer.headers['retry-after'])).toBeLessThanOrEqual(5)
}

/** Tries a batch again under its key, as its client would, until it is accepted. */
function retry(node: Service, body: string, headers: Headers): Promise<void> {
  return eventually('it is accepted', async () => (await post(node, body, headers)).status === 202, BACK_MS)
}

function expectReplayed(node: Service, body: string, headers: Headers): Promise<void> {
  const isReplayed = async (): Promise<boolean> => (await post(node, body, headers)).json['deduplicated'] === true
  return eventually('it is replayed', isReplayed, REPLAY_MS)
}

const eventsIn = (records: readonly StoredRecord[]): number =>
  records.reduce((sum, { events }) => sum + events.length, 0)

async function storedOf(appId: string): Promise<StoredRecord[]> {
  return (await readRecords(cluster.nats.url)).filter(({ app_id }) => app_id === appId)
}

/** A line for each change, and not for each request: none follows its like. */
function expectToldOnce(node: Service, from: number, requests: number): void {
  const lines = logOf(node, from)
  const told = lines.filter(({ part }) => part === 'nats').map(({ msg }) => msg)
  expect(told.length, told.join('\n')).toBeGreaterThanOrEqual(2)
  expect(told.length, told.join('\n')).toBeLessThan(Math.max(8, requests / 4))
  expect(told.filter((msg, at) => msg === told[at + 1])).toEqual([])
  const errors = lines.filter(({ level }) => level === 'error' || level === 'fatal')
  expect(errors.map(({ msg }) => msg)).toEqual([])
}

/** What holds while NATS is away. */
async function holdMeanwhile(fault: string, appKey: string, early: Headers, refused: Headers): Promise<void> {
  // Two nodes at once, with a key and without.
  const turnedAway = await Promise.all([
    post(first, batch(appKey, 2), refused),
    post(second, batch(appKey, 3)),
    post(second, single(appKey), keyHeader()),
  ])
  for (const answer of turnedAway) expectTurnedAway(answer)
  // What needs no queue is answered as ever.
  await expectReplayed(second, single(appKey), early)
  expectRefused(await post(first, single('ak_stranger')), 401, 'invalid_app_key')
  const isUp = fault === 'full' ? 1 : 0
  for (const node of [first, second]) {
    await eventually(`NATS up is ${isUp}`, async () => (await metric(node, 'sluice_nats_up')) === isUp)
    expect((await partsOf(node))['queue']).toMatch(/^(NATS away|NATS does not acknowledge|stream full): /)
    expect((await get(node.adminPort, '/livez')).status).toBe(200)
    expect((await get(node.adminPort, '/readyz')).status).toBe(200)
  }
}

async function expectOutageHeld(fault: string, attempt: number): Promise<void> {
  const appId = `${fault}-${attempt}`
  const appKey = `ak_${appId}`
  await cluster.addApps([appRecord(appId)])
  const loudness = [first, second].map((node) => node.output().length)
  load = startLoad({ ports, appKey, unkeyedEvery: 4 })
  const early = keyHeader()
  expectAccepted(await post(first, single(appKey), early), 1)

  heal = make[fault].heal
  await make[fault].fault()
  const refused = keyHeader()
  await holdMeanwhile(fault, appKey, early, refused)

  await heal()
  heal = null
  // On the other node, which learns from the stream whether the first try was stored after all.
  await retry(second, batch(appKey, 2), refused)
  await retry(first, single(appKey), keyHeader())
  for (const node of [first, second]) {
    await eventually('NATS is up', async () => (await metric(node, 'sluice_nats_up')) === 1)
    expect((await partsOf(node))['queue']).toBe('ok, NATS JetStream')
  }
  const batches = await load.stop()
  // The load's own tries may all have been answered in time, where the fault was mended just before.
  expect(['202', '503']).toEqual(expect.arrayContaining(Object.keys(statusCounts(batches))))
  expect(batches.filter(({ key, batchId }) => key !== null && batchId === null)).toEqual([])
  const records = await storedOf(appId)
  const own = new Set(batches.map(({ batchId }) => batchId))
  expectStoredOnce(
    records.filter(({ batch_id }) => own.has(batch_id)),
    acceptedOf(batches),
  )
  expect(new Set(records.map(({ batch_id }) => batch_id)).size, 'stored twice').toBe(records.length)
  // What was in doubt stays counted until the audit knows.
  await expectCovered(cluster, appKey, eventsIn(records))
  const requests = batches.flatMap(({ tries }) => tries).length
  for (const [at, node] of [first, second].entries()) expectToldOnce(node, loudness[at], requests)
}

async function expectLossHeld(loss: string, attempt: number): Promise<void> {
  const appId = `${loss}-${attempt}`
  const appKey = `ak_${appId}`
  await cluster.addApps([appRecord(appId)])
  const configOf = () => withStreams(cluster.nats.url, async (streams) => (await streams.streams.info(STREAM)).config)
  const before = await configOf()
  const early = keyHeader()
  expectAccepted(await post(first, batch(appKey, 2), early), 2)
  const underway = keyHeader()
  const backup = join(cluster.commandEnv['SLUICE_DATA_DIR'], 'backup.json')
  if (loss === 'emptied') {
    expect((await runCommand(['apps', 'export', backup], cluster.commandEnv)).code).toBe(0)
    heal = () => cluster.nats.restart({ empty: true })
    await cluster.nats.kill()
    expectTurnedAway(await post(first, single(appKey), underway))
    load = startLoad({ ports, appKey })
    await heal()
    heal = null
  } else {
    await withStreams(cluster.nats.url, (streams) => streams.streams.delete(STREAM))
    load = startLoad({ ports, appKey })
  }
  await retry(second, single(appKey), underway)
  await expectReplayed(second, batch(appKey, 2), early)
  const batches = await load.stop()
  expect(await configOf()).toEqual(before)
  const records = await storedOf(appId)
  const own = new Set(batches.map(({ batchId }) => batchId))
  expectStoredOnce(
    records.filter(({ batch_id }) => own.has(batch_id)),
    batches,
  )
  expect(records.length, 'the one underway, and the load').toBe(1 + batches.length)
  // The nodes know the apps all the while; commands, and nodes that start, want them in the bucket again.
  if (loss === 'emptied') expect((await runCommand(['apps', 'import', backup], cluster.commandEnv)).code).toBe(0)
  // What was lost stays counted, at the least until the audit has closed its minute.
  await expectCovered(cluster, appKey, 3 + eventsOf(batches))
}

describe('an outage of NATS', () => {
  test('is each one of the table', () => {
    expect(FAULTS.toSorted()).toEqual(Object.keys(make).toSorted())
    expect(LOSSES.toSorted()).toEqual(['deleted', 'emptied'])
  })

  test.each(FAULTS)('(%s) is answered 503, and then all is stored once and charged once', (fault) =>
    whileRedisAnswers(cluster, (attempt) => expectOutageHeld(fault, attempt).finally(mend)),
  )

  test('at a start leaves the node not ready, and it serves once NATS is there, without a restart', async () => {
    await cluster.addApps([appRecord('late')])
    heal = () => cluster.natsProxy.heal()
    cluster.natsProxy.cut()
    const node = await cluster.startNode()
    expect((await get(node.adminPort, '/livez')).status).toBe(200)
    expect((await get(node.adminPort, '/readyz')).status).toBe(503)
    const key = keyHeader()
    expectTurnedAway(await post(node, single('ak_late'), key))
    heal()
    await becomesReady(node)
    await retry(node, single('ak_late'), key)
    await expectCovered(cluster, 'ak_late', 1)
    expect((await node.stop()).code).toBe(0)
  })

  test('leaves counters that are what the stream holds', () => expectExact(cluster), AUDITED_MS + 10_000)

  // Behind all others: what these stored is lost, and each node tells so some 20 s later, in lines of level error.
  test.each(LOSSES)('(%s) that takes the stream away: it is made again, and what was accepted stays so', (loss) =>
    whileRedisAnswers(cluster, (attempt) => expectLossHeld(loss, attempt).finally(mend)),
  )
})

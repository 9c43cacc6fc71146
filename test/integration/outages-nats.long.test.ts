// NATS away, in each way it can be, under the same two nodes from the first fault to the last: batches are refused
// rather than lost, what is tried again under its key is stored once, and in the end what is stored is charged.

import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { casesOf } from '../cases/outages.js'
import { type Answer, batch, expectAccepted, expectRefused, post, single } from '../support/client.ts'
import { AUDITED_MS, expectCovered, expectExact, metric, partsOf, whileRedisAnswers } from '../support/cluster.ts'
import { acceptedOf, eventsOf, expectStoredOnce, startLoad, statusCounts } from '../support/load.ts'
import { eventsIn, expectLateStart, expectServing, expectToldOnce, type Fault, Outage } from '../support/outage.ts'
import { appRecord, eventually, runCommand, type Service, sleep } from '../support/service.ts'
import { STREAM, withStreams } from '../support/stream.ts'

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

const outage = new Outage()

/** Sets how many messages the stream may hold; -1: any number. */
function limitStream(most: (messages: number) => number): Promise<unknown> {
  return withStreams(outage.cluster.nats.url, async (streams) => {
    const { state } = await streams.streams.info(STREAM)
    return streams.streams.update(STREAM, { max_msgs: most(state.messages) })
  })
}

async function freezeFor(ms: number): Promise<void> {
  outage.cluster.nats.freeze()
  await sleep(ms)
}

const make: Readonly<Record<string, Fault>> = {
  killed: { fault: () => outage.cluster.nats.kill(), heal: () => outage.cluster.nats.restart() },
  frozen: { fault: () => outage.cluster.nats.freeze(), heal: () => outage.cluster.nats.resume() },
  'frozen-long': { fault: () => freezeFor(LONG_MS), heal: () => outage.cluster.nats.resume() },
  delayed: { fault: () => outage.cluster.natsProxy.delay(DELAY_MS), heal: () => outage.cluster.natsProxy.heal() },
  cut: { fault: () => outage.cluster.natsProxy.cut(), heal: () => outage.cluster.natsProxy.heal() },
  full: { fault: () => limitStream((messages) => messages), heal: () => limitStream(() => -1) },
}

const ports = (): number[] => outage.nodes.map(({ port }) => port)
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

/** Once it has been away for 2 s, what is new is refused without a wait: it is not given to NATS, but for one batch a second. */
async function expectRefusedAtOnce(node: Service, appKey: string): Promise<void> {
  const published = async (): Promise<number> =>
    (await metric(node, 'sluice_stage_duration_seconds_count{stage="publish"}')) ?? 0
  const isAtOnce = async (): Promise<boolean> => {
    const before = await published()
    const answers = await Promise.all(Array.from({ length: 20 }, () => post(node, single(appKey), keyHeader())))
    for (const answer of answers) expectTurnedAway(answer)
    return (await published()) - before < 10
  }
  await eventually('what is new is refused at once', isAtOnce, BACK_MS)
}

/** What holds while NATS is away. */
async function holdMeanwhile(fault: string, appKey: string, early: Headers, refused: Headers): Promise<void> {
  // Two nodes at once, with a key and without.
  const turnedAway = await Promise.all([
    post(outage.first, batch(appKey, 2), refused),
    post(outage.second, batch(appKey, 3)),
    post(outage.second, single(appKey), keyHeader()),
  ])
  for (const answer of turnedAway) expectTurnedAway(answer)
  if (fault === 'killed' || fault === 'cut' || fault === 'frozen-long') await expectRefusedAtOnce(outage.first, appKey)
  // What needs no queue is answered as ever.
  await expectReplayed(outage.second, single(appKey), early)
  expectRefused(await post(outage.first, single('ak_stranger')), 401, 'invalid_app_key')
  const isUp = fault === 'full' ? 1 : 0
  for (const node of outage.nodes) {
    await eventually(`NATS up is ${isUp}`, async () => (await metric(node, 'sluice_nats_up')) === isUp)
    expect((await partsOf(node))['queue']).toMatch(/^(NATS away|NATS does not acknowledge|stream full): /)
    await expectServing(node)
  }
}

async function expectOutageHeld(fault: string, attempt: number): Promise<void> {
  const appId = `${fault}-${attempt}`
  const appKey = `ak_${appId}`
  await outage.cluster.addApps([appRecord(appId)])
  const loudness = outage.nodes.map((node) => node.output().length)
  outage.load = startLoad({ ports, appKey, unkeyedEvery: 4 })
  const early = keyHeader()
  expectAccepted(await post(outage.first, single(appKey), early), 1)

  await outage.begin(make[fault])
  const refused = keyHeader()
  await holdMeanwhile(fault, appKey, early, refused)

  await outage.heal()
  // On the other node, which learns from the stream whether the first try was stored after all.
  await retry(outage.second, batch(appKey, 2), refused)
  await retry(outage.first, single(appKey), keyHeader())
  for (const node of outage.nodes) {
    await eventually('NATS is up', async () => (await metric(node, 'sluice_nats_up')) === 1)
    expect((await partsOf(node))['queue']).toBe('ok, NATS JetStream')
  }
  const batches = await outage.load.stop()
  // The load's own tries may all have been answered in time, where the fault was mended just before.
  expect(['202', '503']).toEqual(expect.arrayContaining(Object.keys(statusCounts(batches))))
  expect(batches.filter(({ key, batchId }) => key !== null && batchId === null)).toEqual([])
  const records = await outage.storedOf(appId)
  const own = new Set(batches.map(({ batchId }) => batchId))
  expectStoredOnce(
    records.filter(({ batch_id }) => own.has(batch_id)),
    acceptedOf(batches),
  )
  expect(new Set(records.map(({ batch_id }) => batch_id)).size, 'stored twice').toBe(records.length)
  // What was in doubt stays counted until the audit knows.
  await expectCovered(outage.cluster, appKey, eventsIn(records))
  const requests = batches.flatMap(({ tries }) => tries).length
  await expectToldOnce(outage, 'nats', loudness, Math.max(8, requests / 4))
}

async function expectLossHeld(loss: string, attempt: number): Promise<void> {
  const appId = `${loss}-${attempt}`
  const appKey = `ak_${appId}`
  await outage.cluster.addApps([appRecord(appId)])
  const configOf = () =>
    withStreams(outage.cluster.nats.url, async (streams) => (await streams.streams.info(STREAM)).config)
  const before = await configOf()
  const early = keyHeader()
  expectAccepted(await post(outage.first, batch(appKey, 2), early), 2)
  const underway = keyHeader()
  const backup = join(outage.cluster.commandEnv['SLUICE_DATA_DIR'], 'backup.json')
  if (loss === 'emptied') {
    expect((await runCommand(['apps', 'export', backup], outage.cluster.commandEnv)).code).toBe(0)
    await outage.begin({
      fault: () => outage.cluster.nats.kill(),
      heal: () => outage.cluster.nats.restart({ empty: true }),
    })
    expectTurnedAway(await post(outage.first, single(appKey), underway))
    outage.load = startLoad({ ports, appKey })
    await outage.heal()
  } else {
    await withStreams(outage.cluster.nats.url, (streams) => streams.streams.delete(STREAM))
    outage.load = startLoad({ ports, appKey })
  }
  await retry(outage.second, single(appKey), underway)
  await expectReplayed(outage.second, batch(appKey, 2), early)
  const batches = await outage.load.stop()
  expect(await configOf()).toEqual(before)
  const records = await outage.storedOf(appId)
  const own = new Set(batches.map(({ batchId }) => batchId))
  expectStoredOnce(
    records.filter(({ batch_id }) => own.has(batch_id)),
    batches,
  )
  expect(records.length, 'the one underway, and the load').toBe(1 + batches.length)
  // The nodes know the apps all the while; commands, and nodes that start, want them in the bucket again.
  if (loss === 'emptied') expect((await runCommand(['apps', 'import', backup], outage.cluster.commandEnv)).code).toBe(0)
  // What was lost stays counted, at the least until the audit has closed its minute.
  await expectCovered(outage.cluster, appKey, 3 + eventsOf(batches))
}

describe('an outage of NATS', () => {
  test('is each one of the table', () => {
    expect(FAULTS.toSorted()).toEqual(Object.keys(make).toSorted())
    expect(LOSSES.toSorted()).toEqual(['deleted', 'emptied'])
  })

  test.each(FAULTS)('(%s) is answered 503, and then all is stored once and charged once', (fault) =>
    whileRedisAnswers(outage.cluster, (attempt) => expectOutageHeld(fault, attempt).finally(() => outage.mend())),
  )

  test('at a start leaves the node not ready, and it serves once NATS is there, without a restart', () =>
    expectLateStart(outage, make['cut'], async (node) =>
      expectTurnedAway(await post(node, single('ak_late'), keyHeader())),
    ))

  test('leaves counters that are what the stream holds', () => expectExact(outage.cluster), AUDITED_MS + 10_000)

  // Behind all others: what these stored is lost, and each node tells so some 20 s later, in lines of level error.
  test.each(LOSSES)('(%s) that takes the stream away: it is made again, and what was accepted stays so', (loss) =>
    whileRedisAnswers(outage.cluster, (attempt) => expectLossHeld(loss, attempt).finally(() => outage.mend())),
  )
})

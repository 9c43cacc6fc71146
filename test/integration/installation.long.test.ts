// What becomes of an installation whose NATS has lost something: nodes that run tell it once, and a node that starts takes
// no empty bucket of app records for the one that others knew.

import { cp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, type TestContext, test } from 'vitest'
import { expectAccepted, get, post, single } from '../support/client.ts'
import {
  becomesReady,
  type Cluster,
  LOOKED_MS,
  looksAgain,
  metric,
  partsOf,
  sharedRecord,
  startCluster,
} from '../support/cluster.ts'
import { appRecord, eventually, runCommand, type Service } from '../support/service.ts'
import { STREAM, withStreams } from '../support/stream.ts'

/** Each test has a cluster of its own, and waits most of the time for nodes to look again: so several run at once. */
async function cluster(
  { onTestFinished }: Pick<TestContext, 'onTestFinished'>,
  nodes: number,
  apps = [appRecord('one'), appRecord('two')],
): Promise<Cluster> {
  const started = await startCluster({ nodes, apps })
  onTestFinished(() => started.stop())
  return started
}

const sluice = ({ commandEnv }: Cluster, ...args: string[]) => runCommand(args, commandEnv)
const deleteStream = ({ nats }: Cluster, name: string) =>
  withStreams(nats.url, (manager) => manager.streams.delete(name))

interface Told {
  readonly level: string
  readonly msg: string
}

/** The lines of the log about what NATS has lost. */
function toldBy(node: Service, store?: string): Told[] {
  const lines = node.output().split('\n')
  const parsed = lines
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Told & { store?: string })
  return parsed.filter((line) => line.store !== undefined && (store === undefined || line.store === store))
}

const lossesOf = (node: Service, store: string) => metric(node, `sluice_store_lost_total{store="${store}"}`)

async function expectToldOnce(node: Service, store: string, text: RegExp): Promise<void> {
  await eventually(`the loss of the ${store} is told`, () => toldBy(node, store).length > 0, LOOKED_MS)
  expect(toldBy(node, store)).toEqual([expect.objectContaining({ level: 'error', msg: expect.stringMatching(text) })])
  expect(await lossesOf(node, store)).toBe(1)
}

const becomesKnown = (started: Cluster, store: string, messages: number) =>
  eventually(
    `${messages} messages of the ${store} are known`,
    async () => (await sharedRecord(started))?.stores[store]?.messages === messages,
    LOOKED_MS,
  )

async function expectUnready(node: Service): Promise<void> {
  await eventually('it says why it has no app records', async () =>
    /sluice apps adopt-empty/.test((await partsOf(node))['apps']),
  )
  expect((await get(node.adminPort, '/readyz')).status).toBe(503)
  expect((await post(node, single('ak_one'))).status).toBe(503)
  expect(await metric(node, 'sluice_overloaded_total{reason="apps_unread"}')).toBe(1)
}

describe.concurrent('a node that starts', () => {
  test('first of all, or after 0.3 with its app records, is ready and tells no loss', async (context) => {
    const started = await cluster(context, 0)
    const node = await started.addNode()
    expectAccepted(await post(node, single('ak_one')), 1)
    await becomesKnown(started, 'apps', 2)
    expect(toldBy(node)).toEqual([])
    expect(await lossesOf(node, 'apps')).toBe(0)
  })

  test('with no app record anywhere is ready, and knows the first one that is made', async (context) => {
    const started = await cluster(context, 1, [])
    await started.addApps([appRecord('first')])
    expect(toldBy(started.nodes[0])).toEqual([])
  })

  test('after NATS lost its data is not ready, and answers 503 rather than 401, until the records are imported', async (context) => {
    const started = await cluster(context, 1)
    const [old] = started.nodes
    const file = join(started.commandEnv['SLUICE_DATA_DIR'], 'backup.json')
    expect((await sluice(started, 'apps', 'export', file)).code).toBe(0)
    await becomesKnown(started, 'apps', 2)
    expectAccepted(await post(old, single('ak_one')), 1)
    await becomesKnown(started, 'stream', 1)
    await started.nats.kill()
    await started.nats.restart({ empty: true })
    const late = await started.startNode()
    await expectUnready(late)
    // The one that knows the apps goes on.
    await eventually('the old node accepts', async () => (await post(old, single('ak_one'))).status === 202)
    await expectToldOnce(
      old,
      'apps',
      /^the bucket SLUICE_APPS is gone: 2 app records, stored from \S+ to \S+, are gone; /,
    )
    await expectToldOnce(
      old,
      'stream',
      /^the stream SLUICE_EVENTS is (a new one|gone): 1 message, stored from \S+Z to \S+Z, are gone; /,
    )
    await expectToldOnce(old, 'counts', /^the bucket SLUICE_COUNTS is (a new one|gone): /)
    const refused = await sluice(started, 'apps', 'add', 'three', '--plan', '10k')
    expect([refused.code, refused.output]).toEqual([1, expect.stringContaining('sluice apps adopt-empty')])
    const checked = await sluice(started, 'check')
    expect([checked.code, checked.output]).toEqual([1, expect.stringMatching(/^FAIL +apps .*sluice apps adopt-empty/m)])
    await expectStillUnready(late)
    expect((await sluice(started, 'apps', 'import', file)).code).toBe(0)
    await becomesReady(late)
    expectAccepted(await post(late, single('ak_one')), 1)
    await eventually('the old node follows', async () => (await metric(old, 'sluice_degraded{part="apps"}')) === 0)
    await looksAgain(started, 3)
    for (const store of ['apps', 'stream', 'counts']) expect(await lossesOf(old, store), store).toBe(1)
    expect((await sluice(started, 'apps', 'add', 'three', '--plan', '10k')).code).toBe(0)
  })

  test('alone, with nothing left in NATS and Redis kept, waits for sluice apps adopt-empty', async (context) => {
    const started = await cluster(context, 1)
    await becomesKnown(started, 'apps', 2)
    await started.nodes[0].kill()
    await started.nats.kill()
    await started.nats.restart({ empty: true })
    const checked = await sluice(started, 'check')
    expect([checked.code, checked.output]).toEqual([1, expect.stringMatching(/^FAIL +apps .*sluice apps adopt-empty/m)])
    const late = await started.startNode()
    await expectUnready(late)
    const adopted = await sluice(started, 'apps', 'adopt-empty')
    expect([adopted.code, adopted.stdout]).toEqual([0, ''])
    expect(adopted.output).toContain('the bucket SLUICE_APPS is adopted with 0 app records')
    await becomesReady(late)
    expect((await post(late, single('ak_one'))).status).toBe(401)
    await started.addApps([appRecord('new')])
    await becomesReady(await started.startNode())
  })

  test('alone, with its bucket gone and Redis emptied, learns from SLUICE_COUNTS that there were app records', async (context) => {
    const started = await cluster(context, 1)
    await becomesKnown(started, 'apps', 2)
    await started.nodes[0].kill()
    await deleteStream(started, 'KV_SLUICE_APPS')
    await started.redis.kill()
    await started.redis.restart({ empty: true })
    await expectUnready(await started.startNode())
  })
})

async function expectStillUnready(node: Service): Promise<void> {
  expect((await get(node.adminPort, '/readyz')).status).toBe(503)
}

describe.concurrent('a node that runs tells once', () => {
  test('that its stream was purged, or deleted and made again, and that the sums are gone', async (context) => {
    const started = await cluster(context, 2)
    const [node, other] = started.nodes
    for (let sent = 0; sent < 3; sent++) expectAccepted(await post(node, single('ak_one')), 1)
    await becomesKnown(started, 'stream', 3)
    await looksAgain(started, 4)
    await withStreams(started.nats.url, (manager) => manager.streams.purge(STREAM))
    for (const each of [node, other])
      await expectToldOnce(each, 'stream', /^the stream SLUICE_EVENTS was emptied: 3 messages, stored from /)
    expectAccepted(await post(node, single('ak_one')), 1)
    await becomesKnown(started, 'stream', 1)
    await looksAgain(started, 4)
    await deleteStream(started, STREAM)
    await deleteStream(started, 'KV_SLUICE_COUNTS')
    for (const each of [node, other]) {
      await eventually('it is told', () => toldBy(each, 'stream').length === 2, LOOKED_MS)
      expect(toldBy(each, 'stream')[1].msg).toMatch(/^the stream SLUICE_EVENTS is (a new one|gone): 1 message, /)
      await expectToldOnce(each, 'counts', /^the bucket SLUICE_COUNTS is (a new one|gone): /)
    }
    await looksAgain(started, 4)
    expect(await lossesOf(node, 'stream')).toBe(2)
    expect(await lossesOf(other, 'counts')).toBe(1)
    // One that starts now finds the record of the new ones.
    const late = await started.addNode()
    await looksAgain(started, 4)
    expect(toldBy(late)).toEqual([])
  })

  test.for([
    ['and nothing has come since', 0, /^the stream SLUICE_EVENTS has lost its end: the last 5 messages, /],
    [
      'and others have their numbers',
      10,
      /^the stream SLUICE_EVENTS has lost its end, and has stored others since: number 7, /,
    ],
  ] as const)('that its stream lost its end, %s', async ([, since, text], context) => {
    const started = await cluster(context, 1)
    const [node] = started.nodes
    const { folder } = started.nats
    const kept = join(folder, 'kept')
    const sends = async (count: number) => {
      for (let sent = 0; sent < count; sent++) expectAccepted(await post(node, single('ak_one')), 1)
    }
    await sends(2)
    await started.nats.kill()
    await cp(join(folder, 'data'), kept, { recursive: true })
    await started.nats.restart()
    await eventually('it accepts', async () => (await post(node, single('ak_none'))).status === 401)
    await eventually('NATS is up', async () => (await metric(node, 'sluice_nats_up')) === 1)
    await sends(5)
    await becomesKnown(started, 'stream', 7)
    await started.nats.kill()
    await rm(join(folder, 'data'), { recursive: true })
    await cp(kept, join(folder, 'data'), { recursive: true })
    await started.nats.restart()
    await eventually('NATS is up', async () => (await metric(node, 'sluice_nats_up')) === 1)
    await sends(since)
    await expectToldOnce(node, 'stream', text)
  })
})

describe.concurrent('a node with another number of partitions', () => {
  const OTHER = { SLUICE_PARTITIONS: '8' }
  const WORDS =
    /SLUICE_PARTITIONS is 8, but this installation has 16 partitions, .*start this node with SLUICE_PARTITIONS=16/

  test('exits with 1 and says which it has to be, also where Redis has forgotten it', async (context) => {
    const started = await cluster(context, 1)
    await expect(started.startNode(OTHER)).rejects.toThrow(/the service ended at its start with 1/)
    await expect(started.startNode(OTHER)).rejects.toThrow(WORDS)
    await started.nodes[0].kill()
    await started.redis.kill()
    await started.redis.restart({ empty: true })
    await expect(started.startNode(OTHER)).rejects.toThrow(WORDS)
    await started.addNode()
  })

  test('less than the audit has counted in exits with 1 though no node has written down the number, as after 0.3', async (context) => {
    const started = await cluster(context, 1)
    const entries = ['$KV.SLUICE_COUNTS.p15', '$KV.SLUICE_COUNTS.installation']
    const bucket = 'KV_SLUICE_COUNTS'
    await eventually('the last partition is audited', () =>
      withStreams(started.nats.url, (manager) => manager.streams.getMessage(bucket, { last_by_subj: entries[0] })).then(
        (entry) => entry !== null,
        () => false,
      ),
    )
    await started.nodes[0].kill()
    await withStreams(started.nats.url, (manager) => manager.streams.purge(bucket, { filter: entries[1] }))
    await started.redis.kill()
    await started.redis.restart({ empty: true })
    await expect(started.startNode(OTHER)).rejects.toThrow(WORDS)
    await started.addNode()
  })

  test('that starts while NATS is away ends once it is back, before it is ready', async (context) => {
    const started = await cluster(context, 1)
    started.natsProxy.cut()
    const late = await started.startNode(OTHER)
    expect((await get(late.adminPort, '/readyz')).status).toBe(503)
    started.natsProxy.heal()
    const { code, output } = await late.exited
    expect([code, output]).toEqual([1, expect.stringMatching(WORDS)])
    expect(output).not.toContain('app records read')
  })
})

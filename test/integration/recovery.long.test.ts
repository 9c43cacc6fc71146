// The days of docs/recovery.md: a stream is restored while nodes run under load, a region is lost whose stream another one
// has copied, and all nodes move to another NATS.

import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { jetstream, type StreamUpdateConfig } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { connect } from '@nats-io/transport-node'
import { describe, expect, type TestContext, test } from 'vitest'
import { type Backup, backUpStream, restoreStream } from '../support/backup.ts'
import { expectAccepted, post, single } from '../support/client.ts'
import { becomesReady, type Cluster, partsOf, startCluster } from '../support/cluster.ts'
import { acceptedOf, eventsOf, expectStoredOnce, startLoad } from '../support/load.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { freePort } from '../support/programs.ts'
import { startRedis } from '../support/redis.ts'
import { appRecord, eventually, makeFolder, runCommand, type Service, sleep, startService } from '../support/service.ts'
import { readRecords, STREAM, withStreams } from '../support/stream.ts'

const SINCE = 'EVENTS_SINCE'
/** Events of one region must not reach the stream of the other but by its copying. */
const APART = 'deny_imports: ["sluice.>"], deny_exports: ["sluice.>"]'
/** The audit closes the last minute. */
const AUDITED_MS = 150_000

async function putHold(url: string, value: string | null): Promise<void> {
  const connection = await connect({ servers: url.replace('nats://', '') })
  const entries = await new Kvm(jetstream(connection)).open('SLUICE_COUNTS')
  await (value === null ? entries.delete('hold') : entries.put('hold', value))
  await connection.close()
}

const messagesOf = (url: string, name: string) =>
  withStreams(url, async ({ streams }) => (await streams.info(name)).state.messages)

/** The steps of "Restore the stream". Between the last two no node may make the stream: `held` waits there. */
async function restore({ nats }: Cluster, backup: Backup, held: () => Promise<void>): Promise<void> {
  await putHold(nats.url, 'restore')
  await withStreams(nats.url, async ({ streams }) => {
    await streams.update(STREAM, { sealed: true } as Partial<StreamUpdateConfig>)
    await streams.add({ name: SINCE, sources: [{ name: STREAM }] })
  })
  const all = await messagesOf(nats.url, STREAM)
  await eventually('the copy is whole', async () => (await messagesOf(nats.url, SINCE)) === all)
  await withStreams(nats.url, ({ streams }) => streams.delete(STREAM))
  await held()
  await restoreStream(nats.url, backup)
  await putHold(nats.url, null)
}

interface Region {
  readonly nats: NatsServer
  /** Settings of its nodes and commands. */
  readonly env: Readonly<Record<string, string>>
  /** `env`: other settings than those of the region. */
  startNode(env?: Readonly<Record<string, string>>): Promise<Service>
  /** Redis and NATS, at once. */
  kill(): Promise<void>
}

/** A NATS of a JetStream domain of its own, which others may join or which joins another, with a Redis. */
async function startRegion(
  { onTestFinished }: Pick<TestContext, 'onTestFinished'>,
  domain: string,
  leafnodes: string,
): Promise<Region> {
  const folder = await makeFolder()
  const file = join(folder, 'nats.conf')
  await writeFile(file, `server_name: ${domain}\njetstream { domain: ${domain} }\nleafnodes { ${leafnodes} }\n`)
  const [redis, nats] = await Promise.all([startRedis(), startNats(['--config', file])])
  onTestFinished(async () => void (await Promise.all([redis.stop(), nats.stop()])))
  const env = { REDIS_URL: redis.url, NATS_URL: nats.url, SLUICE_DATA_DIR: folder, SLUICE_ADMIN_HOST: '127.0.0.1' }
  const startNode = async (other = {}): Promise<Service> => {
    const node = await startService({ dataDir: folder, env: { ...env, ...other } })
    onTestFinished(() => node.kill())
    return node
  }
  return { nats, env, startNode, kill: async () => void (await Promise.all([redis.kill(), nats.kill()])) }
}

async function sluice({ env }: Region, ...args: string[]): Promise<string> {
  const { code, output, stdout } = await runCommand(args, env)
  expect([args, code, output]).toEqual([args, 0, output])
  return stdout
}

/** What docs/recovery.md makes with jq, of the first region's stream. */
async function copyStream(from: NatsServer, to: NatsServer, domain: string): Promise<void> {
  const { config } = await withStreams(from.url, ({ streams }) => streams.info(STREAM))
  const { name, storage, retention, discard, duplicate_window, max_age, max_bytes, num_replicas, allow_direct } = config
  const sources = [{ name, external: { api: `$JS.${domain}.API`, deliver: '' } }]
  const kept = { name, storage, retention, discard, duplicate_window, max_age, max_bytes, num_replicas, allow_direct }
  await withStreams(to.url, ({ streams }) => streams.add({ ...kept, sources }))
}

/** What docs/recovery.md makes with `nats kv get` and `put`: the counts, without what else is there. */
async function copyCounts(from: NatsServer, to: NatsServer): Promise<number> {
  const [source, target] = await Promise.all([from, to].map(({ port }) => connect({ servers: `127.0.0.1:${port}` })))
  const counts = await new Kvm(jetstream(source)).open('SLUICE_COUNTS')
  const copies = await new Kvm(jetstream(target)).create('SLUICE_COUNTS')
  let copied = 0
  for await (const key of await counts.keys()) {
    if (!key.startsWith('p')) continue
    const entry = await counts.get(key)
    if (entry !== null) await copies.put(key, entry.value)
    copied += 1
  }
  await Promise.all([source.close(), target.close()])
  return copied
}

test('sluice moves to another NATS in a stop of all nodes: nothing is lost, keys are recognised, and counters go on', async ({
  onTestFinished,
}) => {
  const leafPort = await freePort()
  const old = await startRegion({ onTestFinished }, 'old', `host: 127.0.0.1, port: ${leafPort}`)
  const remotes = `remotes: [{ url: "nats-leaf://127.0.0.1:${leafPort}", ${APART} }]`
  const fresh = await startRegion({ onTestFinished }, 'fresh', remotes)
  await sluice(old, 'apps', 'add', '--app-id', 'one', '--app-key', 'ak_one', '--plan', '5m')
  const before = await old.startNode()
  await becomesReady(before)
  await copyStream(old.nats, fresh.nats, 'old')
  const load = startLoad({ ports: () => [before.port], appKey: 'ak_one', unkeyedEvery: 5 })
  await eventually('there are batches', () => acceptedOf(load.batches).length > 100)
  const batches = [...(await load.stop())]
  const closed = async () => (await messagesOf(old.nats.url, 'KV_SLUICE_COUNTS')) > 1
  await eventually('a minute is closed', closed, AUDITED_MS)
  const key = { 'Idempotency-Key': randomUUID() }
  expectAccepted(await post(before, single('ak_one'), key), 1)
  // 1 and 2: all nodes stop, the rest is copied, and records and counts go over.
  expect(await before.stop()).toMatchObject({ code: 0 })
  const all = await messagesOf(old.nats.url, STREAM)
  await eventually('all is copied', async () => (await messagesOf(fresh.nats.url, STREAM)) === all)
  const exported = join(old.env['SLUICE_DATA_DIR'], 'export.json')
  await sluice(old, 'apps', 'export', exported)
  await sluice(fresh, 'apps', 'import', exported)
  expect(await copyCounts(old.nats, fresh.nats)).toBeGreaterThan(0)
  // 3 to 5: without the third the nodes would be those of another installation for two minutes, and their stores new ones.
  const [, forget = 'false'] = /^3\. `(redis-cli [^`]+)`/m.exec(readFileSync('docs/recovery.md', 'utf8')) ?? []
  const shell = { env: { ...process.env, REDIS_URL: old.env['REDIS_URL'] }, encoding: 'utf8' } as const
  expect(execFileSync('bash', ['-c', forget], shell)).toBe('2\n')
  await withStreams(fresh.nats.url, ({ streams }) => streams.update(STREAM, { subjects: ['sluice.events.*'] }))
  const moved = { ...fresh, env: { ...fresh.env, REDIS_URL: old.env['REDIS_URL'] } }
  const after = await fresh.startNode(moved.env)
  await becomesReady(after)
  const again = await post(after, single('ak_one'), key)
  expect([again.status, again.json['deduplicated']]).toEqual([202, true])
  const loadAfter = startLoad({ ports: () => [after.port], appKey: 'ak_one', unkeyedEvery: 5 })
  await eventually('there are more', () => acceptedOf(loadAfter.batches).length > 100)
  batches.push(...(await loadAfter.stop()))
  const records = await readRecords(fresh.nats.url)
  const keyed = records.filter(({ batch_id: id }) => id === again.headers['x-batch-id'])
  expect(keyed).toHaveLength(1)
  expectStoredOnce(
    records.filter((record) => !keyed.includes(record)),
    batches,
  )
  const charged = 1 + eventsOf(acceptedOf(batches))
  await eventually(
    'the day is what is stored',
    async () => new RegExp(`^day +${charged} `, 'm').test(await usageOf(moved, after.adminPort)),
    AUDITED_MS,
  )
  await eventually('it audits all partitions', async () =>
    /partitions 0, 1, .*, 15/.test((await partsOf(after))['audit']),
  )
  expect(after.output()).not.toMatch(/of another installation|is a new one|SluiceStoreLost/)
}, 360_000)

describe.concurrent('a stream that is gone', () => {
  test('is restored while nodes run under load, and every batch answered 202 is in it or in what came since', async ({
    onTestFinished,
  }) => {
    const cluster = await startCluster({ nodes: 2, apps: [appRecord('one')] })
    onTestFinished(() => cluster.stop())
    const { nats, nodes } = cluster
    for (let sent = 0; sent < 5; sent++) expectAccepted(await post(nodes[0], single('ak_one')), 1)
    const backup = await backUpStream(nats.url)
    await withStreams(nats.url, ({ streams }) => streams.delete(STREAM))
    const load = startLoad({ ports: () => nodes.map(({ port }) => port), appKey: 'ak_one' })
    await eventually('the stream is made again', () => acceptedOf(load.batches).length > 20)
    // Without the entry nodes are faster than whoever restores.
    await expect(restoreStream(nats.url, backup)).rejects.toThrow(/already in use|already exist/)
    let acceptedBefore = 0
    await restore(cluster, backup, async () => {
      acceptedBefore = acceptedOf(load.batches).length
      for (const node of nodes) {
        await eventually('it says why there is no stream', async () =>
          /it is gone, and is not made again before \S+Z, since SLUICE_COUNTS has the entry hold/.test(
            (await partsOf(node))['queue'],
          ),
        )
      }
    })
    await eventually('batches are taken again', () => acceptedOf(load.batches).length > acceptedBefore + 20)
    const batches = await load.stop()
    const restored = await readRecords(nats.url)
    expect(restored.slice(0, 5).map(({ events }) => events.length)).toEqual([1, 1, 1, 1, 1])
    const since = await readRecords(nats.url, SINCE)
    expectStoredOnce([...since, ...restored.slice(5)], batches)
    const charged = 5 + eventsOf(acceptedOf(batches))
    await eventually(
      'what is stored is charged, and once',
      async () => (await cluster.used('ak_one')).day === charged,
      AUDITED_MS,
    )
  })

  test('with its whole region goes on in a second one that has copied it: nothing is lost, stored twice or charged twice', async ({
    onTestFinished,
  }) => {
    const leafPort = await freePort()
    const first = await startRegion({ onTestFinished }, 'first', `host: 127.0.0.1, port: ${leafPort}`)
    const second = await startRegion(
      { onTestFinished },
      'second',
      `remotes: [{ url: "nats-leaf://127.0.0.1:${leafPort}", ${APART} }]`,
    )
    await sluice(first, 'apps', 'add', '--app-id', 'one', '--app-key', 'ak_one', '--plan', '5m')
    const node = await first.startNode()
    await becomesReady(node)
    await copyStream(first.nats, second.nats, 'first')
    const exported = join(first.env['SLUICE_DATA_DIR'], 'export.json')
    await sluice(first, 'apps', 'export', exported)
    await sluice(second, 'apps', 'import', exported)
    // One that is started too early: the stream takes nothing yet, and nor does it.
    const early = await second.startNode()
    await eventually('it refuses', async () => (await post(early, single('ak_one'))).status === 503)
    expect(await messagesOf(first.nats.url, STREAM)).toBe(0)
    let ports = [node.port]
    const load = startLoad({ ports: () => ports, appKey: 'ak_one', unkeyedEvery: 5 })
    await eventually('there are batches', () => acceptedOf(load.batches).length > 100)
    const key = { 'Idempotency-Key': randomUUID() }
    expectAccepted(await post(node, single('ak_one'), key), 1)
    // What is on its way when the region goes is lost with it: here nothing is, so that nothing may be missing.
    const batches = [...(await load.stop())]
    const all = await messagesOf(first.nats.url, STREAM)
    await eventually('all is copied', async () => (await messagesOf(second.nats.url, STREAM)) === all)
    await Promise.all([node.kill(), first.kill()])
    await withStreams(second.nats.url, ({ streams }) => streams.update(STREAM, { subjects: ['sluice.events.*'] }))
    ports = [early.port]
    await eventually('batches are taken again', async () => (await post(early, single('ak_one'), key)).status === 202)
    const again = await post(early, single('ak_one'), key)
    expect([again.status, again.json['deduplicated']]).toEqual([202, true])
    const loadAfter = startLoad({ ports: () => ports, appKey: 'ak_one', unkeyedEvery: 5 })
    await sleep(1000)
    batches.push(...(await loadAfter.stop()))
    const records = await readRecords(second.nats.url)
    const keyed = records.filter(({ batch_id: id }) => id === again.headers['x-batch-id'])
    expect(keyed).toHaveLength(1)
    expectStoredOnce(
      records.filter((record) => !keyed.includes(record)),
      batches,
    )
    const charged = 1 + eventsOf(acceptedOf(batches))
    const { adminPort } = early
    await eventually(
      'the day is what is stored',
      async () => new RegExp(`^day +${charged} `, 'm').test(await usageOf(second, adminPort)),
      AUDITED_MS,
    )
  })
})

function usageOf({ env }: Region, adminPort: number): Promise<string> {
  return runCommand(['usage', '--app', 'one'], { ...env, SLUICE_ADMIN_PORT: String(adminPort) }).then(({ output }) =>
    output.replaceAll(',', ''),
  )
}

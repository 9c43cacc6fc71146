// The nodes have users of their own in production's NATS: everything that a node does is allowed, and what would lose events
// is not.

import { randomUUID } from 'node:crypto'
import { AckPolicy, jetstream, jetstreamManager, StorageType } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import type { NatsConnection } from '@nats-io/transport-node'
import { describe, expect, it, onTestFinished } from 'vitest'
import { CountsBucket } from '../../src/audit/counts-bucket.ts'
import { readAlerts } from '../../src/audit/stored-alerts.ts'
import { PartitionTotals } from '../../src/audit/totals.ts'
import { connectNats } from '../../src/nats/connection.ts'
import { EVENTS_STREAM } from '../../src/nats/store-names.ts'
import { get, post, single } from '../support/client.ts'
import { buildKustomization } from '../support/kustomize.ts'
import {
  KNOWS_SYNC_INTERVAL,
  type ProductionNats,
  SERVERS,
  startProductionNats,
  urlOf,
} from '../support/manifest-nats.ts'
import { metricsOf } from '../support/processes.js'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { eventually, makeFolder, runCommand, type Service, startService } from '../support/service.ts'
import { anAlert } from '../unit/inspect/reports.ts'

const production = await buildKustomization('deploy/overlays/production')
const APP_KEY = 'ak_shop'
/** An election, or a round of the audit, on a busy machine. */
const LONG_MS = 60_000
/** Pages of the console that need an answer of the other node. */
const SHOWN_OF_BOTH = {
  '/api/now': /"size_bytes":134217728\b/,
  '/api/refusals': /validation_failed/,
}

type User = 'sluice' | 'sluice2' | 'operator' | 'reader'
type Environment = Readonly<Record<string, string>>

async function startStores(): Promise<{
  redis: RedisServer
  nats: ProductionNats
  envOf: (user: User) => Environment
}> {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const nats = await startProductionNats(production)
  onTestFinished(nats.stop)
  const envOf = (user: User): Environment => ({
    REDIS_URL: redis.url,
    NATS_URL: urlOf(nats.servers, user),
    SLUICE_STREAM_REPLICAS: String(SERVERS),
    SLUICE_PARSERS: '1',
    SLUICE_ADMIN_HOST: '127.0.0.1',
  })
  return { redis, nats, envOf }
}

async function startNode(env: Environment): Promise<Service> {
  const dataDir = await makeFolder()
  const node = await startService({ dataDir, env })
  onTestFinished(() => node.kill())
  return node
}

async function open(url: string): Promise<NatsConnection> {
  const connection = await connectNats(url)
  onTestFinished(() => connection.close())
  return connection
}

async function addApp(env: Environment): Promise<void> {
  const flags = ['--app-id', 'shop', '--app-key', APP_KEY, '--plan', '5m', '--subscription', 'active']
  const { code, output } = await runCommand(['apps', 'add', ...flags], env)
  expect(code, output).toBe(0)
}

const accepts = async (node: Service): Promise<boolean> => (await post(node, single(APP_KEY))).status === 202

function violations({ servers }: ProductionNats): string[] {
  return servers.flatMap(({ program }) => program.output().match(/^.*violation.*$/gim) ?? [])
}

describe("production's user of the nodes", () => {
  it('may do all that a node does, and can neither change, empty nor delete what is stored', async () => {
    const { redis, nats, envOf } = await startStores()
    const [first, second] = [await startNode(envOf('sluice')), await startNode(envOf('sluice2'))]
    for (const node of [first, second])
      await eventually('it is ready', async () => (await get(node.adminPort, '/readyz')).status === 200, LONG_MS)
    await addApp(envOf('operator'))
    for (const node of [first, second]) await eventually('a batch is stored', () => accepts(node), LONG_MS)
    // The second node asks the stream what it has stored under the key.
    const headers = { 'Idempotency-Key': randomUUID() }
    const kept = await post(first, single(APP_KEY), headers)
    expect(kept.status).toBe(202)
    await redis.restart({ empty: true })
    await eventually('the stream tells a repeat', async () => {
      const { status, text } = await post(second, single(APP_KEY), headers)
      return status === 202 && text.includes('"deduplicated":true')
    })
    const operator = await open(urlOf(nats.servers, 'operator'))
    const owning = await jetstreamManager(operator)
    await owning.consumers.add(EVENTS_STREAM, { durable_name: 'warehouse', ack_policy: AckPolicy.Explicit })
    for (const metric of [
      'sluice_stream_bytes',
      'sluice_audit_lag_seconds',
      'sluice_stream_consumer_lag_seconds{consumer="warehouse"}',
    ]) {
      await eventually(`${metric} is there`, async () => (await metricsOf(first)).has(metric), LONG_MS)
    }
    const check = (await runCommand(['check'], envOf('sluice'))).output
    expect(check).toMatch(/ok +stream .*3 replicas/)
    // Through the system account, of which it may ask this alone.
    expect(check).toMatch(
      KNOWS_SYNC_INTERVAL
        ? /ok +durability +a 202 survives a kill of any server, a power cut of one and a power cut of all$/m
        : /warn +durability +a 202 survives nothing for certain \(nats-server 2\.9/,
    )
    expect((await runCommand(['tail', '--from-start', '--no-follow'], envOf('sluice'))).stdout).toContain('"shop"')

    const find = await runCommand(['find', String(kept.headers['x-batch-id'])], envOf('sluice'))
    expect([find.code, find.output]).toEqual([0, expect.stringContaining('warehouse')])

    // The console of one node asks the others.
    await post(second, single(APP_KEY, { type: 'unknown' }))
    for (const [path, wanted] of Object.entries(SHOWN_OF_BOTH)) {
      await eventually(`${path} shows both nodes`, async () => wanted.test((await get(first.adminPort, path)).text))
    }

    const node = await open(urlOf(nats.servers, 'sluice'))
    const counts = await CountsBucket.open(node, SERVERS)
    const { saved, revision } = await counts.read(1000)
    expect([saved, revision]).toEqual([null, 0])
    await counts.write(1000, new PartitionTotals('2026-01-01T00:00:00Z', null).save(), 0)
    const alert = anAlert({ at: new Date().toISOString() })
    await counts.addAlerts('shop', [alert], Date.now())
    expect([await readAlerts(node, 'shop'), await readAlerts(node, null)]).toEqual([[alert], [alert]])
    await counts.forgetAlerts(Date.now() + 37 * 86_400_000)
    expect(await readAlerts(node, null)).toEqual([])
    const messages = node.subscribe('sluice.console.request', { max: 1 })
    await node.flush()
    const other = await open(urlOf(nats.servers, 'sluice2'))
    other.publish('sluice.console.request', 'who is there?')
    for await (const message of messages) expect(message.string()).toBe('who is there?')
    expect(violations(nats)).toEqual([])

    const manager = await jetstreamManager(node, { checkAPI: false })
    const { config } = await manager.streams.info(EVENTS_STREAM)
    const forbidden: Readonly<Record<string, () => Promise<unknown>>> = {
      'delete the stream': () => manager.streams.delete(EVENTS_STREAM),
      'empty it': () => manager.streams.purge(EVENTS_STREAM),
      'change it': () => manager.streams.update(EVENTS_STREAM, { max_msgs: 1 }),
      'delete an event': () => manager.streams.deleteMessage(EVENTS_STREAM, 1),
      'make another stream': () => manager.streams.add({ name: 'OTHER', subjects: ['other'] }),
      'delete the app records': () => manager.streams.delete('KV_SLUICE_APPS'),
      'empty them': () => manager.streams.purge('KV_SLUICE_APPS'),
      'write one': async () =>
        (await new Kvm(jetstream(node, { checkAPI: false })).open('SLUICE_APPS')).put('shop', '{}'),
      'empty the counts': () => manager.streams.purge('KV_SLUICE_COUNTS'),
    }
    for (const [what, attempt] of Object.entries(forbidden)) {
      await expect(attempt(), what).rejects.toThrow(/permissions violation/i)
    }
    await expect(manager.streams.add({ ...config, storage: StorageType.File, max_msgs: 1 })).rejects.toThrow(/in use/)
    const remove = await runCommand(['apps', 'remove', 'shop', '--yes'], envOf('sluice'))
    expect(remove.code).not.toBe(0)
    expect(violations(nats).length).toBeGreaterThanOrEqual(Object.keys(forbidden).length)
    expect((await owning.streams.info(EVENTS_STREAM)).state.first_seq).toBe(1)
    expect(await accepts(first)).toBe(true)
  })
})

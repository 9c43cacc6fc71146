// The stream of a service: created from the settings, never changed, reported where it would break a promise, and full:
// what the service answers then, what shows it, and what makes room again.

import { AckPolicy, jetstream, jetstreamManager, type StreamConfig } from '@nats-io/jetstream'
import { beforeEach, describe, expect, test } from 'vitest'
import { batch, bodyOfSize, expectAccepted, get, post } from '../support/client.ts'
import { addStream, streamConfig, withConnection } from '../support/jetstream.ts'
import { type NatsServer, needCurrentNats, startNats } from '../support/nats.ts'
import { metricsOf } from '../support/processes.js'
import { type RedisServer, startRedis } from '../support/redis.ts'
import {
  appRecord,
  type CommandResult,
  eventually,
  makeFolder,
  runCommand,
  type Service,
  startService,
} from '../support/service.ts'

const STREAM = 'SLUICE_EVENTS'
const GIB = 1024 ** 3
/** Longer than the interval between two measurements of the stream. */
const MEASURED_MS = 15_000
/** Room for some batches; a full stream of this size still takes small ones. */
const SMALL_BYTES = 1.5 * 1024 ** 2
const WHOLE: Partial<StreamConfig> = { discard: 'new', duplicate_window: 600e9 }

let redis: RedisServer
let nats: NatsServer
let folder: string
beforeEach(async () => {
  ;[redis, nats, folder] = await Promise.all([startRedis(), startNats(), makeFolder()])
})

const environment = (env: Readonly<Record<string, string>> = {}): Record<string, string> => ({
  REDIS_URL: redis.url,
  NATS_URL: nats.url,
  SLUICE_APPS_FILE: `${folder}/apps.json`,
  ...env,
})

async function start(env: Readonly<Record<string, string>> = {}): Promise<Service> {
  const service = await startService({ dataDir: folder, apps: [appRecord('one')], env: environment(env) })
  await eventually('it is ready', async () => (await get(service.adminPort, '/readyz')).status === 200)
  return service
}

function check(): Promise<CommandResult> {
  return runCommand(['check'], environment({ PORT: '0', SLUICE_ADMIN_PORT: '0' }), folder)
}

async function metric(service: Service, name: string): Promise<number | undefined> {
  return (await metricsOf(service)).get(name)
}

test('a service creates the stream from the settings, and shows its state', async () => {
  const service = await start({ SLUICE_STREAM_KEEP_HOURS: '5', SLUICE_STREAM_MAX_GB: '2' })
  expect(await streamConfig(nats.url)).toMatchObject({
    max_age: 5 * 3600e9,
    max_bytes: 2 * GIB,
    num_replicas: 1,
    discard: 'new',
    duplicate_window: 600e9,
  })
  expect(await metric(service, 'sluice_stream_max_bytes')).toBe(2 * GIB)
  expect(await metric(service, 'sluice_stream_oldest_seconds')).toBe(0)
  expect(await metric(service, 'sluice_stream_keep_seconds')).toBe(5 * 3600)
  expectAccepted(await post(service, batch('ak_one', 3)), 3)
  await eventually(
    'the stream has grown',
    async () => ((await metric(service, 'sluice_stream_bytes')) ?? 0) > 0,
    MEASURED_MS,
  )
  expect(await metric(service, 'sluice_stream_oldest_seconds')).toBeGreaterThan(0)
  const { code, stdout } = await check()
  expect(stdout).toMatch(/^ok +stream .*1 message, \S+ B of at most 2 GiB, reaching back \d+ s, kept 5 h, 1 replica$/m)
  expect(code).toBe(0)
})

test('a stream that an operator created is never changed, and settings that the operator may choose cause no warning', async () => {
  await addStream(nats.url, { ...WHOLE, max_age: 24 * 3600e9, max_bytes: 1e9, subjects: ['sluice.>'] })
  const before = await streamConfig(nats.url)
  const service = await start({ SLUICE_STREAM_KEEP_HOURS: '5', SLUICE_STREAM_REPLICAS: '3' })
  expectAccepted(await post(service, batch('ak_one', 3)), 3)
  await service.stop()
  expect(await streamConfig(nats.url)).toEqual(before)
  expect(service.output()).not.toContain('promise')
  expect((await check()).stdout).toMatch(/^ok +stream /m)
})

test.each([
  [{ duplicate_window: 300e9 }, 'duplicate_window is 300 s, sluice wants at least 600 s'],
  [{ retention: 'interest' }, 'retention is interest, sluice wants limits'],
  [{ storage: 'memory' }, 'storage is memory, sluice wants file'],
  [{ max_age: 1800e9 }, 'max_age is 1800 s, sluice wants at least 3600 s'],
] as const)('a stream with %j is left alone, and warned of by the log and sluice check', async (change, warning) => {
  await addStream(nats.url, { ...WHOLE, ...change })
  const before = await streamConfig(nats.url)
  const service = await start()
  expect(service.output()).toContain(`stream ${STREAM} would break a promise: ${warning}`)
  expect(await streamConfig(nats.url)).toEqual(before)
  const { code, stdout } = await check()
  expect(stdout).toMatch(new RegExp(`^warn +stream .*; ${warning}$`, 'm'))
  expect(code).toBe(0)
})

test('a full stream refuses, shows in the metrics, and fails sluice check; purging consumed messages makes room', async () => {
  await addStream(nats.url, { ...WHOLE, max_bytes: SMALL_BYTES })
  const service = await start()
  const statuses: number[] = []
  const large = bodyOfSize('ak_one', 200_000)
  do statuses.push((await post(service, large)).status)
  while (statuses.at(-1) === 202 && statuses.length < 100)
  expect(statuses.at(-1)).toBe(503)
  expect(statuses.length).toBeGreaterThan(4)

  await eventually('the log says so', () => service.output().includes('stream SLUICE_EVENTS is full (1.'))
  const full = await check()
  expect(full.stdout).toMatch(
    /^FAIL +stream .* of at most 1\.5 MiB, .*; batches are answered 503: it has no room for a batch of the largest size: raise max_bytes, or purge /m,
  )
  expect(full.code).toBe(1)
  await eventually(
    'the metrics show it',
    async () => ((await metric(service, 'sluice_stream_bytes')) ?? 0) > 0.8 * SMALL_BYTES,
    MEASURED_MS,
  )
  expect(await metric(service, 'sluice_stream_max_bytes')).toBe(SMALL_BYTES)

  await withConnection(nats.url, async (connection) => {
    const manager = await jetstreamManager(connection)
    await consumed(connection, 'ahead', 4)
    await consumed(connection, 'behind', 3)
    // The audit's consumers are not durable and acknowledge nothing.
    const consumers = await manager.consumers.list(STREAM).next()
    const durable = consumers.filter(({ config }) => config.durable_name !== undefined)
    const had = Math.min(...durable.map((consumer) => consumer.ack_floor.stream_seq))
    expect(had).toBe(3)
    // As in the runbook: --seq is the first message that stays.
    await manager.streams.purge(STREAM, { seq: had + 1 })
    expect((await manager.streams.info(STREAM)).state.first_seq).toBe(4)
  })
  expectAccepted(await post(service, batch('ak_one', 20)), 20)
  const room = await check()
  expect(room.stdout).toMatch(/^(ok|warn) +stream /m)
  expect(room.code).toBe(0)
})

test('a full stream continues as soon as the operator raises its limit', async () => {
  await addStream(nats.url, { ...WHOLE, max_msgs: 1 })
  const service = await start()
  expectAccepted(await post(service, batch('ak_one', 1)), 1)
  expect((await post(service, batch('ak_one', 1))).status).toBe(503)
  expect((await check()).stdout).toMatch(/^FAIL +stream .*it is full: raise max_msgs/m)
  await withConnection(nats.url, async (connection) => {
    await (await jetstreamManager(connection)).streams.update(STREAM, { max_msgs: 1000 })
  })
  expectAccepted(await post(service, batch('ak_one', 1)), 1)
  expect((await check()).stdout).toMatch(/^ok +stream .*2 messages of at most 1,000/m)
})

describe('on a NATS of today', () => {
  beforeEach(async (context) => {
    const program = needCurrentNats(context)
    await nats.stop()
    nats = await startNats([], program)
  })

  const says = { persist_mode: 'persist_mode async', subject_transform: 'remove its subject_transform' }
  const transform = { src: 'sluice.events.*', dest: 'other.{{wildcard(1)}}' }

  test.each([
    ['persist_mode', { persist_mode: 'async' }],
    ['subject_transform', { subject_transform: transform }],
  ] as const)('a stream with a %s that sluice cannot keep its promise with is refused', async (name, change) => {
    await addStream(nats.url, { ...WHOLE, ...change })
    const service = await startService({ dataDir: folder, apps: [appRecord('one')], env: environment() })
    await eventually('the log says so', () => service.output().includes(says[name]))
    expect((await get(service.adminPort, '/readyz')).status).toBe(503)
    expect((await post(service, batch('ak_one', 1))).status).toBe(503)
    expect((await get(service.adminPort, '/readyz')).status).toBe(503)
    expect(await metric(service, 'sluice_overloaded_total{reason="stream_refused"}')).toBe(1)
    const { code, stdout } = await check()
    expect(stdout).toMatch(
      new RegExp(`^FAIL +stream .*; ${name} is .*; batches are answered 503: .*${says[name]}`, 'm'),
    )
    expect(code).toBe(1)
  })

  test('a subject_transform that comes later is refused, and its end ends that', async () => {
    const service = await start()
    expectAccepted(await post(service, batch('ak_one', 1)), 1)
    const change = (to: Partial<StreamConfig>) =>
      withConnection(nats.url, async (connection) => (await jetstreamManager(connection)).streams.update(STREAM, to))
    await change({ subject_transform: transform })
    const status = async () => (await post(service, batch('ak_one', 1))).status
    await eventually('it is refused', async () => (await status()) === 503, 2 * MEASURED_MS)
    await expect
      .poll(() => service.output())
      .toContain('stream refuses messages: it stores messages under other subjects')
    await change({ subject_transform: undefined } as unknown as Partial<StreamConfig>)
    await eventually('it is accepted', async () => (await status()) === 202, 2 * MEASURED_MS)
  })
})

/** A durable consumer that has acknowledged this many messages. */
async function consumed(
  connection: Parameters<typeof jetstreamManager>[0],
  name: string,
  messages: number,
): Promise<void> {
  const manager = await jetstreamManager(connection)
  await manager.consumers.add(STREAM, { durable_name: name, ack_policy: AckPolicy.Explicit })
  const consumer = await jetstream(connection).consumers.get(STREAM, name)
  for (let index = 0; index < messages; index += 1) {
    const message = await consumer.next({ expires: 2000 })
    expect(await message?.ackAck()).toBe(true)
  }
}

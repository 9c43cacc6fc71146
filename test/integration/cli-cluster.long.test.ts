// `sluice explain` and `check` over a real Redis and a real NATS: that looking changes nothing, and what is said of servers
// that are away or not as they should be.

import { writeFileSync } from 'node:fs'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { Kvm } from '@nats-io/kv'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { batch, expectAccepted, post } from '../support/client.ts'
import { startCluster } from '../support/cluster.ts'
import { addStream, withConnection } from '../support/jetstream.ts'
import { NATS_SERVER, type NatsServer, startNats } from '../support/nats.ts'
import { type Program, startProgram } from '../support/programs.ts'
import { type RedisServer, startRedis, startRedisCluster } from '../support/redis.ts'
import {
  appRecord,
  type CommandResult,
  makeFolder,
  roomInMinute,
  runCommand,
  startService,
} from '../support/service.ts'

const PORTS = { PORT: '0', SLUICE_ADMIN_PORT: '0' }

let redis: RedisServer
let nats: NatsServer
let client: Redis
let folder: string

beforeAll(async () => {
  ;[redis, nats] = await Promise.all([startRedis(), startNats()])
  client = new Redis(redis.port, '127.0.0.1', { retryStrategy: () => 50 })
  client.on('error', () => {})
})
beforeEach(async () => {
  await Promise.all([client.flushall(), noStreams()])
  folder = await makeFolder()
})
afterAll(() => client.disconnect())

function sluice(args: readonly string[], env: Record<string, string> = {}): Promise<CommandResult> {
  return runCommand(args, { REDIS_URL: redis.url, NATS_URL: nats.url, SLUICE_DATA_DIR: folder, ...env }, folder)
}

/** Each key with what Redis would hand over to move it, its time to live apart. */
async function everyKey(): Promise<Map<string, string>> {
  const keys = (await client.keys('*')).toSorted()
  const values = await Promise.all(keys.map((key) => client.dumpBuffer(key)))
  return new Map(keys.map((key, at) => [key, values[at].toString('base64')]))
}

async function noStreams(): Promise<void> {
  await withConnection(nats.url, async (connection) => {
    const manager = await jetstreamManager(connection)
    for await (const name of manager.streams.names()) await manager.streams.delete(name)
  })
}

function putRaw(key: string, text: string): Promise<number> {
  return withConnection(nats.url, async (connection) =>
    (await new Kvm(connection).create('SLUICE_APPS')).put(key, text),
  )
}

test('a Redis Cluster is looked into by explain and check', async () => {
  const cluster = await startRedisCluster()
  const env = { REDIS_URL: cluster.url, ...PORTS }
  await sluice(['apps', 'add', '--app-id', 'shop', '--plan', '1m', '--app-key', 'ak_shop'])
  const file = join(folder, 'body.json')
  await writeFile(file, batch('ak_shop', 2))
  expect((await sluice(['explain', file], env)).stdout).toMatch(/^202 accepted[^]*^minute +0 +5,000 /m)
  const { code, stdout } = await sluice(['check'], env)
  expect(stdout).toMatch(/^ok +redis .*cluster of 3 masters$/m)
  expect(code).toBe(0)
})

interface Explained {
  readonly outcome: string
  readonly limits: Record<'minute' | 'day' | 'month', { limit: number; used: number; remaining: number }>
}

describe('explain', () => {
  test('knows that the stream is full, and that with a spool this refuses nothing', async () => {
    const cluster = await startCluster({ nodes: 1, apps: [appRecord('one')] })
    expectAccepted(await post(cluster.nodes[0], batch('ak_one')), 1)
    await withConnection(cluster.nats.url, async (connection) => {
      const { streams } = await jetstreamManager(connection)
      await streams.update('SLUICE_EVENTS', { max_msgs: 1 })
    })
    expect((await explain(batch('ak_one'), cluster.commandEnv)).outcome).toBe('service_overloaded')
    const env = { ...cluster.commandEnv, SLUICE_SPOOL_DIR: join(folder, 'spool') }
    expect((await explain(batch('ak_one'), env)).outcome).toBe('accepted')
  })

  async function explain(body: string, env: Record<string, string>): Promise<Explained> {
    const file = join(folder, 'body.json')
    writeFileSync(file, body)
    const { stdout, output } = await sluice(['explain', '--json', file], env)
    expect(output).toBe(stdout)
    return JSON.parse(stdout) as Explained
  }

  test('knows what all nodes have accepted, agrees with them, and changes nothing in Redis or the stream', async () => {
    const apps = [appRecord('one', { events_per_day: 10 }), appRecord('gone')]
    const cluster = await startCluster({ nodes: 2, apps })
    await sluice(['apps', 'set', 'gone', '--subscription', 'canceled'], cluster.commandEnv)
    const [first, second] = cluster.nodes
    await roomInMinute(20)
    expectAccepted(await post(first, batch('ak_one', 3)), 3)
    expectAccepted(await post(second, batch('ak_one', 4)), 4)
    expect((await post(first, batch('ak_one', 4))).json['error']).toBe('daily_limit_exceeded')
    await Promise.all(cluster.nodes.map((node) => node.stop()))

    const own = new Redis(cluster.redis.port, '127.0.0.1')
    onTestFinished(() => own.disconnect())
    const dump = async (): Promise<unknown[]> => {
      const keys = (await own.keys('*')).toSorted()
      const stored = await Promise.all(keys.map(async (key) => [key, (await own.dumpBuffer(key)).toString('base64')]))
      const lastSequence = await withConnection(cluster.nats.url, async (connection) => {
        const { streams } = await jetstreamManager(connection)
        const infos = await Promise.all(['SLUICE_EVENTS', 'KV_SLUICE_APPS'].map((name) => streams.info(name)))
        return infos.map(({ state }) => state.last_seq).join()
      })
      return [lastSequence, ...stored]
    }
    const before = await dump()
    expect(before.length).toBeGreaterThan(1)
    const accepted = await explain(batch('ak_one', 3), cluster.commandEnv)
    expect(accepted).toMatchObject({
      outcome: 'accepted',
      limits: { minute: { used: 7 }, day: { limit: 10, used: 7, remaining: 3 }, month: { used: 7 } },
    })
    expect((await explain(batch('ak_one', 4), cluster.commandEnv)).outcome).toBe('daily_limit_exceeded')
    expect((await explain(batch('ak_gone'), cluster.commandEnv)).outcome).toBe('subscription_inactive')
    expect((await explain(batch('ak_nobody'), cluster.commandEnv)).outcome).toBe('invalid_app_key')
    expect(await dump()).toEqual(before)
    expect(await readdir(cluster.commandEnv['SLUICE_DATA_DIR'])).not.toContain('journal')
  })
})

describe('check', () => {
  const check = (env: Record<string, string> = {}): Promise<CommandResult> =>
    sluice(['check'], { ...PORTS, SLUICE_DATA_DIR: join(folder, 'none'), ...env })

  beforeEach(() => nats.restart({ empty: true }))

  test('has a line for each shared part and none for a folder nobody uses, and leaves nothing behind', async () => {
    const { code, stdout } = await check()
    const place = (port: number): string => `127\\.0\\.0\\.1:${port}`
    for (const line of [
      'ok +settings +queue: NATS, limits and keys: Redis, apps: NATS',
      `ok +redis +${place(redis.port)}: Redis [0-9.]+, one server`,
      'ok +apps +none in SLUICE_APPS yet: sluice apps add makes one',
      `ok +nats +${place(nats.port)}: nats-server [0-9.]+, max_payload 1 MiB`,
      'ok +stream +no SLUICE_EVENTS yet: the first start creates it',
    ]) {
      expect(stdout).toMatch(new RegExp(`^${line}$`, 'm'))
    }
    expect(stdout).not.toMatch(/data folder|journal/)
    expect(code).toBe(0)
    expect((await everyKey()).size).toBe(0)
    expect(await readdir(folder)).toEqual([])
    const streams = await withConnection(nats.url, async (connection) => {
      const manager = await jetstreamManager(connection)
      return (await manager.getAccountInfo()).streams
    })
    expect(streams).toBe(0)
  })

  test('warns of a Redis that forgets, and of what in the stream would break a promise', async () => {
    const forgetful = await startRedis(['--appendonly', 'no', '--maxmemory-policy', 'allkeys-lru'])
    await addStream(nats.url, { duplicate_window: 120e9, max_age: 7200e9, max_bytes: 1e9 })
    const { code, stdout } = await check({ REDIS_URL: forgetful.url })
    // The audit brings back what Redis forgets: persistence is the operator's choice.
    expect(stdout).toMatch(/^warn +redis .*maxmemory-policy is allkeys-lru, sluice wants noeviction: [^;]*$/m)
    expect(stdout).toMatch(
      /^warn +stream .*0 messages, 0 B of at most 954 MiB, kept 2 h, 1 replica; .*duplicate_window is 120 s/m,
    )
    expect(stdout).not.toMatch(/max_age/)
    expect(code).toBe(0)
  })

  test('fails where the stream is to have more replicas than there are servers, and shows that it has fewer', async () => {
    const before = await check({ SLUICE_STREAM_REPLICAS: '3' })
    expect(before.stdout).toMatch(/^FAIL +stream .*cannot be created: SLUICE_STREAM_REPLICAS is 3/m)
    expect(before.code).toBe(1)
    await addStream(nats.url, { discard: 'new', duplicate_window: 600e9 })
    const after = await check({ SLUICE_STREAM_REPLICAS: '3' })
    expect(after.stdout).toMatch(/^ok +stream .*1 replica \(SLUICE_STREAM_REPLICAS: 3\)$/m)
    expect(after.code).toBe(0)
  })

  test('counts apps and messages, and fails on a record that cannot be used', async () => {
    await sluice(['apps', 'add', '--app-id', 'shop', '--plan', '1m', '--app-key', 'ak_shop'])
    expect((await check()).stdout).toMatch(/^ok +apps +1 in SLUICE_APPS$/m)
    await putRaw('bad', '{}')
    await putRaw('twin', JSON.stringify({ ...appRecord('twin'), app_key: 'ak_shop' }))
    const { code, stdout } = await check()
    expect(stdout).toMatch(
      /^FAIL +apps +2 in SLUICE_APPS; the entry bad of .* required; .*the entry twin of .* shares an app key with shop: /m,
    )
    expect(stdout).toMatch(/^ok +redis /m)
    expect(code).toBe(1)
  })

  test('warns where its user may not ask Redis for its settings', async () => {
    await client.call('ACL', 'SETUSER', 'node', 'on', '>pw-of-node', '~*', '&*', '+@all', '-info', '-config')
    onTestFinished(async () => void (await client.call('ACL', 'DELUSER', 'node')))
    const { code, stdout } = await check({ REDIS_URL: `redis://node:pw-of-node@127.0.0.1:${redis.port}` })
    expect(stdout).toMatch(/^warn +redis .*may not run INFO/m)
    expect(stdout).not.toContain('pw-of-node')
    expect(code).toBe(0)
  })

  test('fails on a NATS that takes no large records, and on one without JetStream', async () => {
    const settings = join(folder, 'nats.conf')
    await writeFile(settings, 'max_payload: 65536\n')
    const small = await startNats(['-c', settings])
    const { code, stdout } = await check({ NATS_URL: small.url })
    expect(stdout).toMatch(/^FAIL +nats .*max_payload 64 KiB; a record may need 600 KiB/m)
    expect(code).toBe(1)
    const plain: Program = await startProgram({
      name: 'nats',
      command: ({ port }) => [NATS_SERVER, '--addr', '127.0.0.1', '--port', String(port)],
    })
    const without = await check({ NATS_URL: `nats://127.0.0.1:${plain.port}` })
    expect(without.stdout).toMatch(/^FAIL +stream .*JetStream is not enabled$/m)
    expect(without.code).toBe(1)
  })

  test.each(['away', 'frozen'])('fails on both servers %s, side by side, and shows no password', async (state) => {
    if (state === 'away') {
      await Promise.all([redis.kill(), nats.kill()])
      onTestFinished(async () => void (await Promise.all([redis.restart(), nats.restart()])))
    } else {
      for (const server of [redis, nats]) {
        server.freeze()
        onTestFinished(() => server.resume())
      }
    }
    const { code, stdout, output } = await check({
      REDIS_URL: `redis://me:s3cret@127.0.0.1:${redis.port}`,
      NATS_URL: `nats://me:s3cret@127.0.0.1:${nats.port}`,
    })
    expect(code).toBe(1)
    expect(stdout).toMatch(/^FAIL +redis +Redis at 127\.0\.0\.1:\d+ is away: /m)
    expect(stdout).toMatch(/^FAIL +nats +NATS cannot be reached \(127\.0\.0\.1:\d+: /m)
    expect(stdout).not.toMatch(/^\w+ +(apps|stream) /m)
    expect(output).not.toContain('s3cret')
  })

  test('knows a node that runs on the same settings', async () => {
    const env = { REDIS_URL: redis.url, NATS_URL: nats.url, SLUICE_ADMIN_HOST: '127.0.0.1' }
    const node = await startService({ dataDir: folder, env })
    const ports = { HOST: '127.0.0.1', PORT: String(node.port), SLUICE_ADMIN_PORT: String(node.adminPort) }
    const { code, stdout } = await check({ ...env, ...ports })
    expect(stdout.match(/is held by the running sluice/g)).toHaveLength(2)
    expect(code).toBe(0)
  })
})

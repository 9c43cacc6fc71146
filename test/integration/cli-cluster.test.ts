// `sluice apps`, `explain` and `check` over a real Redis and a real NATS: where records and counters come from, that
// looking changes nothing, and what is said of servers that are away or not as they should be.

import { writeFileSync } from 'node:fs'
import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { batch, expectAccepted, post } from '../support/client.ts'
import { startCluster } from '../support/cluster.ts'
import { addStream, withConnection } from '../support/jetstream.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { freePort, type Program, startProgram } from '../support/programs.ts'
import { type RedisServer, startRedis, startRedisCluster } from '../support/redis.ts'
import {
  appRecord,
  type CommandResult,
  makeFolder,
  removeFolder,
  roomInMinute,
  runCommand,
  startService,
} from '../support/service.ts'

const RECORDS_KEY = 'sluice:{apps}:records'
const PORTS = { PORT: '0', SLUICE_ADMIN_PORT: '0' }

let redis: RedisServer
let nats: NatsServer
let client: Redis
let folder: string
const cleanUps: (() => unknown)[] = []

beforeAll(async () => {
  ;[redis, nats] = await Promise.all([startRedis(), startNats()])
  client = new Redis(redis.port, '127.0.0.1', { retryStrategy: () => 50 })
  client.on('error', () => {})
})
beforeEach(async () => {
  await client.flushall()
  folder = await makeFolder()
})
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp()
  await removeFolder(folder)
})
afterAll(async () => {
  client.disconnect()
  await Promise.all([redis.stop(), nats.stop()])
})

function sluice(args: readonly string[], env: Record<string, string> = {}): Promise<CommandResult> {
  return runCommand(args, { REDIS_URL: redis.url, NATS_URL: nats.url, SLUICE_DATA_DIR: folder, ...env }, folder)
}

/** Each key with what Redis would hand over to move it, its time to live apart. */
async function everyKey(): Promise<Map<string, string>> {
  const keys = (await client.keys('*')).toSorted()
  const values = await Promise.all(keys.map((key) => client.dumpBuffer(key)))
  return new Map(keys.map((key, at) => [key, values[at].toString('base64')]))
}

describe('apps in Redis', () => {
  test('are listed, edited and refused as those in a file are', async () => {
    const steps: readonly (readonly string[])[] = [
      ['add', '--app-id', 'shop', '--plan', '100k', '--app-key', 'ak_shop', '--events-per-day', '200'],
      ['add', '--app-id', 'two', '--plan', 'trial', '--app-key', 'ak_two', '--subscription', 'trialing'],
      ['add', '--app-id', 'two', '--plan', '1m'],
      ['add', '--app-id', 'new', '--plan', '1m', '--app-key', 'ak_two'],
      ['add', '--app-id', 'bad id', '--plan', 'huge'],
      ['set', 'shop', '--plan', '1m', '--events-per-day', '', '--name', 'Shop'],
      ['set', 'shop', '--plan', ''],
      ['list', '--json'],
      ['rotate', 'nobody'],
      ['remove', 'two'],
      ['remove', 'two'],
      ['remove', '--app-key', 'ak_none'],
      ['remove', '--app-key', 'ak_shop', 'shop'],
      ['list'],
    ]
    for (const step of steps) {
      const [inRedis, inFile] = await Promise.all(
        [{}, { REDIS_URL: '', NATS_URL: '' }].map((env) => sluice(['apps', ...step], env)),
      )
      expect(inRedis, step.join(' ')).toEqual(inFile)
    }
    expect(await client.hgetall(RECORDS_KEY)).toEqual({
      ak_shop: '{"app_key":"ak_shop","app_id":"shop","plan":"1m","subscription":"active","name":"Shop"}',
    })
  })

  test('get a new key, and the old one is gone', async () => {
    const first = (await sluice(['apps', 'add', '--app-id', 'shop', '--plan', '1m'])).stdout.trim()
    const second = (await sluice(['apps', 'rotate', 'shop'])).stdout.trim()
    expect(second).toMatch(/^ak_shop_[0-9a-f]{24}$/)
    expect(second).not.toBe(first)
    expect(await client.hkeys(RECORDS_KEY)).toEqual([second])
  })

  test('edited at the same moment are all there afterwards', async () => {
    const ids = Array.from({ length: 8 }, (_, index) => `app${index}`)
    const added = await Promise.all(ids.map((id) => sluice(['apps', 'add', '--app-id', id, '--plan', 'trial'])))
    expect(added.map(({ code }) => code)).toEqual(ids.map(() => 0))
    const { apps } = JSON.parse((await sluice(['apps', 'list', '--json'])).stdout) as { apps: { app_id: string }[] }
    expect(apps.map((app) => app.app_id)).toEqual(ids)
  })

  test('that cannot be used are named beside the others, and removed by their key', async () => {
    await sluice(['apps', 'add', '--app-id', 'shop', '--plan', '1m', '--app-key', 'ak_shop'])
    await client.hset(RECORDS_KEY, 'ak_bad_secret', '{"app_key":')
    const { code, stdout, output } = await sluice(['apps', 'list'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^shop +1m/m)
    expect(output).toContain('sluice apps: the app record under ak_bad… in Redis cannot be used: not JSON\n')
    expect(output).not.toContain('secret')
    expect((await sluice(['apps', 'set', 'shop', '--plan', '5m'])).code).toBe(0)
    expect((await client.hkeys(RECORDS_KEY)).toSorted()).toEqual(['ak_bad_secret', 'ak_shop'])
    expect((await sluice(['apps', 'remove', '--app-key', 'ak_bad_secret'])).code).toBe(0)
    expect(await client.hkeys(RECORDS_KEY)).toEqual(['ak_shop'])
  })

  test('are left alone where an app file is named', async () => {
    const env = { SLUICE_APPS_FILE: join(folder, 'own.json'), REDIS_URL: `redis://127.0.0.1:${await freePort()}` }
    await sluice(['apps', 'add', '--app-id', 'shop', '--plan', '1m'], env)
    expect((await sluice(['apps', 'list'], env)).stdout).toMatch(/^shop +1m/m)
    expect(await client.keys('*')).toEqual([])
  })

  test('live in a Redis Cluster as well', async () => {
    const cluster = await startRedisCluster()
    cleanUps.push(() => cluster.stop())
    const env = { REDIS_URL: cluster.url, ...PORTS }
    expect((await sluice(['apps', 'add', '--app-id', 'shop', '--plan', '1m', '--app-key', 'ak_shop'], env)).code).toBe(
      0,
    )
    expect((await sluice(['apps', 'list'], env)).stdout).toMatch(/^shop +1m/m)
    const file = join(folder, 'body.json')
    await writeFile(file, batch('ak_shop', 2))
    expect((await sluice(['explain', file], env)).stdout).toMatch(/^202 accepted[^]*^minute +5,000 +0 /m)
    const { code, stdout } = await sluice(['check'], env)
    expect(stdout).toMatch(/^ok +redis .*cluster of 3 masters, append-only file\nok +apps +1 in Redis$/m)
    expect(code).toBe(0)
  })
})

describe('Redis that does not answer', () => {
  const oneLine = /^sluice (apps|explain): Redis at 127\.0\.0\.1:\d+ is away: [^\n]+\n$/

  test('is one clear line without the password, and exit 1', async () => {
    const port = await freePort()
    const file = join(folder, 'body.json')
    await writeFile(file, batch('ak_one'))
    const env = { REDIS_URL: `redis://me:s3cret@127.0.0.1:${port}` }
    for (const args of [
      ['apps', 'list'],
      ['apps', 'add', '--app-id', 'a', '--plan', '1m'],
      ['explain', file],
    ]) {
      const { code, stdout, output } = await sluice(args, env)
      expect(`${code}${stdout}`).toBe('1')
      expect(output).toMatch(oneLine)
      expect(output).toContain('connection refused')
      expect(output).not.toContain('s3cret')
    }
  })

  test('and keeps its connections open is given up', async () => {
    redis.freeze()
    cleanUps.push(() => redis.resume())
    const { code, output } = await sluice(['apps', 'list'])
    expect(code).toBe(1)
    expect(output).toMatch(oneLine)
  })

  test('for want of the right password says so, and does not show the wrong one', async () => {
    await client.config('SET', 'requirepass', 'right-one')
    cleanUps.push(() => client.config('SET', 'requirepass', ''))
    const { code, output } = await sluice(['apps', 'list'], { REDIS_URL: `redis://:wr0ng@127.0.0.1:${redis.port}` })
    expect(code).toBe(1)
    expect(output).toMatch(oneLine)
    expect(output).toContain('password')
    expect(output).not.toMatch(/wr0ng|right-one/)
  })
})

describe.each([
  ['NATS_URL', 'REDIS_URL'],
  ['REDIS_URL', 'NATS_URL'],
])('%s without %s', (given, missing) => {
  const mistake = `${missing}: must be given with ${given}: both for many nodes, neither for this machine alone`

  test.each([['serve'], ['apps', 'list'], ['tail', '--no-follow'], ['explain', 'body.json']])(
    'is one clear line, and exit 1, of sluice %s',
    async (...args) => {
      await writeFile(join(folder, 'body.json'), batch('ak_one'))
      const { code, stdout, output } = await sluice(args, { ...PORTS, [missing]: '' })
      expect(`${code}${stdout}`).toBe('1')
      expect(output).toBe(`sluice ${args[0]}: the settings are wrong: ${mistake}\n`)
      expect(await readdir(folder)).toEqual(['body.json'])
    },
  )

  test('is a failure of sluice check, which asks nobody else', async () => {
    const { code, stdout } = await sluice(['check'], { ...PORTS, [missing]: '' })
    expect(stdout).toBe(`FAIL  settings  ${mistake}\n`)
    expect(code).toBe(1)
  })
})

interface Explained {
  readonly outcome: string
  readonly limits: Record<'minute' | 'day' | 'month', { limit: number; used: number; remaining: number }>
}

describe('explain', () => {
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
    cleanUps.push(() => cluster.stop())
    await sluice(['apps', 'set', 'gone', '--subscription', 'canceled'], cluster.commandEnv)
    const [first, second] = cluster.nodes
    await roomInMinute(20)
    expectAccepted(await post(first, batch('ak_one', 3)), 3)
    expectAccepted(await post(second, batch('ak_one', 4)), 4)
    expect((await post(first, batch('ak_one', 4))).json['error']).toBe('daily_limit_exceeded')
    await Promise.all(cluster.nodes.map((node) => node.stop()))

    const own = new Redis(cluster.redis.port, '127.0.0.1')
    cleanUps.push(() => own.disconnect())
    const dump = async (): Promise<unknown[]> => {
      const keys = (await own.keys('*')).toSorted()
      const stored = await Promise.all(keys.map(async (key) => [key, (await own.dumpBuffer(key)).toString('base64')]))
      const lastSequence = await withConnection(cluster.nats.url, async (connection) => {
        const { state } = await (await jetstreamManager(connection)).streams.info('SLUICE_EVENTS')
        return state.last_seq
      })
      return [lastSequence, ...stored]
    }
    const before = await dump()
    expect(before.length).toBeGreaterThan(2)
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

  test('takes apps from the file that is named, and limits from Redis', async () => {
    const appsFile = join(folder, 'own.json')
    const env = { REDIS_URL: redis.url, NATS_URL: nats.url, SLUICE_APPS_FILE: appsFile }
    const service = await startService({ dataDir: folder, apps: [appRecord('one', { events_per_day: 10 })], env })
    cleanUps.push(() => service.kill())
    expectAccepted(await post(service, batch('ak_one', 6)), 6)
    await service.stop()
    const elsewhere = { SLUICE_APPS_FILE: appsFile, SLUICE_DATA_DIR: join(folder, 'none') }
    expect(await explain(batch('ak_one', 5), elsewhere)).toMatchObject({
      outcome: 'daily_limit_exceeded',
      limits: { day: { limit: 10, used: 6 } },
    })
  })

  test('of an app whose record in Redis cannot be used says so', async () => {
    await client.hset(
      RECORDS_KEY,
      'ak_bad',
      '{"app_key":"ak_bad","app_id":"bad","plan":"huge","subscription":"active"}',
    )
    writeFileSync(join(folder, 'body.json'), batch('ak_bad'))
    const { code, output } = await sluice(['explain', 'body.json'])
    expect(code).toBe(1)
    expect(output).toMatch(/^sluice explain: the app record of bad in Redis cannot be used: plan: must be [^\n]+\n$/)
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
      'ok +settings +queue: NATS, limits and keys: Redis, apps: Redis',
      `ok +redis +${place(redis.port)}: Redis [0-9.]+, one server, append-only file`,
      'ok +apps +none in Redis yet: sluice apps add makes one',
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
    cleanUps.push(() => forgetful.stop())
    await addStream(nats.url, { duplicate_window: 120e9, max_age: 7200e9, max_bytes: 1e9 })
    const { code, stdout } = await check({ REDIS_URL: forgetful.url })
    expect(stdout).toMatch(
      /^warn +redis .*maxmemory-policy is allkeys-lru, sluice wants noeviction.*persistence is off/m,
    )
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
    await sluice(['apps', 'add', '--app-id', 'shop', '--plan', '1m'])
    expect((await check()).stdout).toMatch(/^ok +apps +1 in Redis$/m)
    await client.hset(RECORDS_KEY, 'ak_bad', '{}')
    const { code, stdout } = await check()
    expect(stdout).toMatch(/^FAIL +apps +the app records in Redis cannot be used:\n +under ak_bad…: /m)
    expect(stdout).toMatch(/^ok +redis /m)
    expect(code).toBe(1)
  })

  test('warns where its user may not ask Redis for its settings', async () => {
    await client.call('ACL', 'SETUSER', 'node', 'on', '>pw-of-node', '~*', '&*', '+@all', '-info', '-config')
    cleanUps.push(() => client.call('ACL', 'DELUSER', 'node'))
    const { code, stdout } = await check({ REDIS_URL: `redis://node:pw-of-node@127.0.0.1:${redis.port}` })
    expect(stdout).toMatch(/^warn +redis .*may not run INFO[^]*^ok +apps /m)
    expect(stdout).not.toContain('pw-of-node')
    expect(code).toBe(0)
  })

  test('fails on a NATS that takes no large records, and on one without JetStream', async () => {
    const settings = join(folder, 'nats.conf')
    await writeFile(settings, 'max_payload: 65536\n')
    const small = await startNats(['-c', settings])
    cleanUps.push(() => small.stop())
    const { code, stdout } = await check({ NATS_URL: small.url })
    expect(stdout).toMatch(/^FAIL +nats .*max_payload 64 KiB; a record may need 600 KiB/m)
    expect(code).toBe(1)
    const plain: Program = await startProgram({
      name: 'nats',
      command: ({ port }) => ['nats-server', '--addr', '127.0.0.1', '--port', String(port)],
    })
    cleanUps.push(() => plain.stop())
    const without = await check({ NATS_URL: `nats://127.0.0.1:${plain.port}` })
    expect(without.stdout).toMatch(/^FAIL +stream .*JetStream is not enabled$/m)
    expect(without.code).toBe(1)
  })

  test.each(['away', 'frozen'])('fails on both servers %s, side by side, and shows no password', async (state) => {
    if (state === 'away') {
      await Promise.all([redis.kill(), nats.kill()])
      cleanUps.push(() => Promise.all([redis.restart(), nats.restart()]))
    } else {
      for (const server of [redis, nats]) {
        server.freeze()
        cleanUps.push(() => server.resume())
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
    cleanUps.push(() => node.kill())
    const ports = { HOST: '127.0.0.1', PORT: String(node.port), SLUICE_ADMIN_PORT: String(node.adminPort) }
    const { code, stdout } = await check({ ...env, ...ports })
    expect(stdout.match(/is held by the running sluice/g)).toHaveLength(2)
    expect(code).toBe(0)
  })
})

// `sluice apps`, `explain` and `check` over a real Redis and a real NATS: where records and counters come from, that
// looking changes nothing, and what is said of servers that are away or not as they should be.

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
  onTestFinished(() => removeFolder(folder))
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

async function noStreams(): Promise<void> {
  await withConnection(nats.url, async (connection) => {
    const manager = await jetstreamManager(connection)
    for await (const name of manager.streams.names()) await manager.streams.delete(name)
  })
}

/** What is in the bucket, as any other program reads it. */
function bucketEntries(): Promise<Record<string, string>> {
  return withConnection(nats.url, async (connection) => {
    const bucket = await new Kvm(connection).open('SLUICE_APPS')
    const entries: Record<string, string> = {}
    for await (const key of await bucket.keys()) entries[key] = (await bucket.get(key))?.string() ?? ''
    return entries
  })
}

function putRaw(key: string, text: string): Promise<number> {
  return withConnection(nats.url, async (connection) =>
    (await new Kvm(connection).create('SLUICE_APPS')).put(key, text),
  )
}

describe('apps in the bucket', () => {
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
      ['remove', 'two', '--yes'],
      ['remove', 'two', '--yes'],
      ['rotate', 'shop', '--overlap', 'soon'],
      ['export', '-'],
      ['list'],
    ]
    expect(await client.keys('*')).toEqual([])
    for (const step of steps) {
      const [inBucket, inFile] = await Promise.all(
        [{}, { REDIS_URL: '', NATS_URL: '' }].map((env) => sluice(['apps', ...step], env)),
      )
      expect(inBucket, step.join(' ')).toEqual(inFile)
    }
    expect(await bucketEntries()).toEqual({
      shop: '{"app_key":"ak_shop","app_id":"shop","plan":"1m","subscription":"active","name":"Shop"}',
    })
  })

  test('get a new key, and the older ones stay valid for as long as is asked for', async () => {
    const first = (await sluice(['apps', 'add', '--app-id', 'shop', '--plan', '1m'])).stdout.trim()
    const second = (await sluice(['apps', 'rotate', 'shop', '--overlap', '12h'])).stdout.trim()
    expect(second).toMatch(/^ak_shop_[0-9a-f]{24}$/)
    expect(second).not.toBe(first)
    const record = JSON.parse((await bucketEntries())['shop']) as {
      app_key: string
      previous_keys: { app_key: string; valid_until: string }[]
    }
    expect(record).toMatchObject({ app_key: second, previous_keys: [{ app_key: first }] })
    const leftHours = (Date.parse(record.previous_keys[0].valid_until) - Date.now()) / 3_600_000
    expect(leftHours).toBeGreaterThan(11.9)
    expect(leftHours).toBeLessThan(12.01)
    expect((await sluice(['apps', 'list'])).stdout).toContain(`${second}  ${first} until 20`)
    const third = (await sluice(['apps', 'rotate', 'shop', '--overlap', '0'])).stdout.trim()
    expect(JSON.parse((await bucketEntries())['shop'])).toEqual({
      app_key: third,
      app_id: 'shop',
      plan: '1m',
      subscription: 'active',
    })
  })

  test('move between the bucket and a file, and leave what the file does not name unless told otherwise', async () => {
    const ids = ['one', 'two', 'three']
    for (const id of ids) await sluice(['apps', 'add', '--app-id', id, '--plan', '1m', '--app-key', `ak_${id}`])
    const backup = join(folder, 'backup.json')
    const exported = await sluice(['apps', 'export', backup])
    expect(exported).toMatchObject({ code: 0, stdout: '' })
    expect(exported.output).toMatch(/^wrote [\d,]+ app records? to /)
    const before = await bucketEntries()
    await sluice(['apps', 'set', 'two', '--plan', '5m'])
    await sluice(['apps', 'remove', 'three', '--yes'])
    await sluice(['apps', 'add', '--app-id', 'four', '--plan', '1m', '--app-key', 'ak_four'])
    await putRaw('one', 'spoilt')
    const dry = await sluice(['apps', 'import', backup, '--dry-run', '--replace-all'])
    expect(dry).toMatchObject({
      code: 0,
      stdout: 'would change SLUICE_APPS:\n  2 added: one, three\n  1 replaced: two\n  1 removed: four\n  0 unchanged\n',
    })
    expect((await bucketEntries())['two']).toContain('5m')
    const merged = await sluice(['apps', 'import', backup])
    expect(merged).toMatchObject({
      code: 0,
      stdout: '',
      output: 'changed SLUICE_APPS:\n  2 added: one, three\n  1 replaced: two\n  0 removed\n  1 unchanged\n',
    })
    expect(Object.keys(await bucketEntries()).toSorted()).toEqual(['four', 'one', 'three', 'two'])
    expect(await bucketEntries()).toMatchObject(before)
    expect((await sluice(['apps', 'import', backup, '--replace-all'])).output).toContain('1 removed: four')
    expect(await bucketEntries()).toEqual(before)
    const own = { SLUICE_APPS_FILE: join(folder, 'own.json') }
    expect((await sluice(['apps', 'import', backup], own)).output).toContain('3 added')
    expect((await sluice(['apps', 'list'], own)).stdout).toBe((await sluice(['apps', 'list'])).stdout)
  })

  test('are not changed by an import that is not right as a whole', async () => {
    await sluice(['apps', 'add', '--app-id', 'one', '--plan', '1m', '--app-key', 'ak_one'])
    const before = await bucketEntries()
    const file = join(folder, 'wrong.json')
    for (const [apps, mistake] of [
      [[appRecord('good'), { ...appRecord('bad'), plan: 'huge' }], 'apps[1].plan: must be one of'],
      [[appRecord('good'), { ...appRecord('other'), app_key: 'ak_one' }], 'another app has this key'],
    ] as const) {
      await writeFile(file, JSON.stringify({ apps }))
      const { code, output } = await sluice(['apps', 'import', file])
      expect(code).toBe(1)
      expect(output).toContain(mistake)
    }
    expect(await bucketEntries()).toEqual(before)
  })

  test('edited at the same moment are all there afterwards', async () => {
    const ids = Array.from({ length: 8 }, (_, index) => `app${index}`)
    const added = await Promise.all(ids.map((id) => sluice(['apps', 'add', '--app-id', id, '--plan', 'trial'])))
    expect(added.map(({ code }) => code)).toEqual(ids.map(() => 0))
    const { apps } = JSON.parse((await sluice(['apps', 'list', '--json'])).stdout) as { apps: { app_id: string }[] }
    expect(apps.map((app) => app.app_id)).toEqual(ids)
  })

  test('that cannot be used are named beside the others, and removed by their id', async () => {
    await sluice(['apps', 'add', '--app-id', 'shop', '--plan', '1m', '--app-key', 'ak_shop'])
    await putRaw('bad', '{"app_key":"ak_bad_secret"')
    const { code, stdout, output } = await sluice(['apps', 'list'])
    expect(code).toBe(0)
    expect(stdout).toMatch(/^shop +1m/m)
    expect(output).toContain(
      'sluice apps: the entry bad of SLUICE_APPS is not an app record and is skipped: not JSON\n',
    )
    expect(output).not.toContain('secret')
    expect((await sluice(['apps', 'export', join(folder, 'backup.json')])).code).toBe(1)
    expect((await sluice(['apps', 'set', 'shop', '--plan', '5m'])).code).toBe(0)
    expect((await sluice(['apps', 'add', '--app-id', 'bad', '--plan', '5m'])).output).toContain('remove bad')
    expect(Object.keys(await bucketEntries()).toSorted()).toEqual(['bad', 'shop'])
    expect((await sluice(['apps', 'remove', 'bad', '--yes'])).code).toBe(0)
    expect(Object.keys(await bucketEntries())).toEqual(['shop'])
  })

  test('are left alone where an app file is named', async () => {
    const env = { SLUICE_APPS_FILE: join(folder, 'own.json'), NATS_URL: `nats://127.0.0.1:${await freePort()}` }
    await sluice(['apps', 'add', '--app-id', 'shop', '--plan', '1m'], env)
    expect((await sluice(['apps', 'list'], env)).stdout).toMatch(/^shop +1m/m)
  })

  test('need no Redis', async () => {
    const env = { REDIS_URL: `redis://127.0.0.1:${await freePort()}` }
    expect((await sluice(['apps', 'add', '--app-id', 'shop', '--plan', '1m'], env)).code).toBe(0)
    expect((await sluice(['apps', 'list'], env)).stdout).toMatch(/^shop +1m/m)
  })
})

test('a Redis Cluster is looked into by explain and check', async () => {
  const cluster = await startRedisCluster()
  onTestFinished(() => cluster.stop())
  const env = { REDIS_URL: cluster.url, ...PORTS }
  await sluice(['apps', 'add', '--app-id', 'shop', '--plan', '1m', '--app-key', 'ak_shop'])
  const file = join(folder, 'body.json')
  await writeFile(file, batch('ak_shop', 2))
  expect((await sluice(['explain', file], env)).stdout).toMatch(/^202 accepted[^]*^minute +0 +5,000 /m)
  const { code, stdout } = await sluice(['check'], env)
  expect(stdout).toMatch(/^ok +redis .*cluster of 3 masters$/m)
  expect(code).toBe(0)
})

describe('NATS that does not answer', () => {
  test.each(['away', 'frozen'])(
    'is one clear line of sluice apps without the password, and exit 1: %s',
    async (how) => {
      const port = how === 'frozen' ? nats.port : await freePort()
      if (how === 'frozen') {
        nats.freeze()
        onTestFinished(() => nats.resume())
      }
      const env = { NATS_URL: `nats://me:s3cret@127.0.0.1:${port}` }
      for (const args of [
        ['apps', 'list'],
        ['apps', 'add', '--app-id', 'a', '--plan', '1m'],
      ]) {
        const { code, stdout, output } = await sluice(args, env)
        expect(`${code}${stdout}`).toBe('1')
        expect(output).toMatch(/^sluice apps: NATS cannot be reached \(127\.0\.0\.1:\d+: [^\n]+\)\n$/)
        expect(output).not.toContain('s3cret')
      }
    },
  )
})

describe('Redis that does not answer', () => {
  const oneLine = /^sluice explain: Redis at 127\.0\.0\.1:\d+ is away: [^\n]+\n$/

  const explained = async (env: Record<string, string>): Promise<CommandResult> => {
    await writeFile(join(folder, 'body.json'), batch('ak_one'))
    const result = await sluice(['explain', 'body.json'], env)
    expect(`${result.code}${result.stdout}`).toBe('1')
    expect(result.output).toMatch(oneLine)
    return result
  }

  test('is one clear line without the password, and exit 1', async () => {
    const { output } = await explained({ REDIS_URL: `redis://me:s3cret@127.0.0.1:${await freePort()}` })
    expect(output).toContain('connection refused')
    expect(output).not.toContain('s3cret')
  })

  test('and keeps its connections open is given up', async () => {
    redis.freeze()
    onTestFinished(() => redis.resume())
    expect((await explained({})).output).toContain('no answer')
  })

  test('for want of the right password says so, and does not show the wrong one', async () => {
    await client.config('SET', 'requirepass', 'right-one')
    onTestFinished(async () => void (await client.config('SET', 'requirepass', '')))
    const { output } = await explained({ REDIS_URL: `redis://:wr0ng@127.0.0.1:${redis.port}` })
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
    onTestFinished(() => cluster.stop())
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

  test('takes apps from the file that is named, and limits from Redis', async () => {
    const appsFile = join(folder, 'own.json')
    const env = { REDIS_URL: redis.url, NATS_URL: nats.url, SLUICE_APPS_FILE: appsFile }
    const service = await startService({ dataDir: folder, apps: [appRecord('one', { events_per_day: 10 })], env })
    onTestFinished(() => service.kill())
    expectAccepted(await post(service, batch('ak_one', 6)), 6)
    await service.stop()
    const elsewhere = { SLUICE_APPS_FILE: appsFile, SLUICE_DATA_DIR: join(folder, 'none') }
    expect(await explain(batch('ak_one', 5), elsewhere)).toMatchObject({
      outcome: 'daily_limit_exceeded',
      limits: { day: { limit: 10, used: 6 } },
    })
  })

  test('of an app whose record cannot be used says so', async () => {
    await putRaw('bad', '{"app_key":"ak_bad","app_id":"bad","plan":"huge","subscription":"active"}')
    writeFileSync(join(folder, 'body.json'), batch('ak_bad'))
    const { code, output } = await sluice(['explain', 'body.json'])
    expect(code).toBe(1)
    expect(output).toMatch(
      /^sluice explain: the entry bad of SLUICE_APPS is not an app record and is skipped: plan: must [^\n]+\n$/,
    )
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
    onTestFinished(() => forgetful.stop())
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
    onTestFinished(() => small.stop())
    const { code, stdout } = await check({ NATS_URL: small.url })
    expect(stdout).toMatch(/^FAIL +nats .*max_payload 64 KiB; a record may need 600 KiB/m)
    expect(code).toBe(1)
    const plain: Program = await startProgram({
      name: 'nats',
      command: ({ port }) => [NATS_SERVER, '--addr', '127.0.0.1', '--port', String(port)],
    })
    onTestFinished(() => plain.stop())
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
    onTestFinished(() => node.kill())
    const ports = { HOST: '127.0.0.1', PORT: String(node.port), SLUICE_ADMIN_PORT: String(node.adminPort) }
    const { code, stdout } = await check({ ...env, ...ports })
    expect(stdout.match(/is held by the running sluice/g)).toHaveLength(2)
    expect(code).toBe(0)
  })
})

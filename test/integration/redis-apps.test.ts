// App records in a real Redis, as a node finds them and as commands edit them, with Redis frozen, killed and emptied.

import { Redis } from 'ioredis'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { AppRecord } from '../../src/admit/app-record.ts'
import type { AppLookup } from '../../src/admit/app.ts'
import {
  editAppRecordsInRedis,
  readAppRecordsInRedis,
  removeAppRecordsInRedis,
} from '../../src/admit/redis-app-records.ts'
import { openRedisApps, type RedisApps } from '../../src/admit/redis-apps.ts'
import type { RedisConnection } from '../../src/admit/redis-connection.ts'
import { startProxy } from '../support/proxy.ts'
import { type RedisServer, startRedis, startRedisCluster } from '../support/redis.ts'
import { commandCalls, connectedLink } from '../support/redis-nodes.ts'
import { eventually, sleep } from '../support/service.ts'

const RECORDS = 'sluice:{apps}:records'
const record = (id: string, parts: Partial<AppRecord> = {}): AppRecord => ({
  app_key: `ak_${id}`,
  app_id: id,
  plan: '10k',
  subscription: 'active',
  ...parts,
})

let server: RedisServer
let direct: Redis
const toStop: (() => unknown)[] = []

beforeEach(async () => {
  server = await startRedis()
  direct = new Redis(server.url)
  direct.on('error', () => {})
})

afterEach(async () => {
  for (const stop of toStop.splice(0).reverse()) await stop()
  direct.disconnect()
  await server.stop()
})

interface Node {
  readonly link: RedisConnection
  readonly apps: RedisApps
  readonly notices: string[]
  /** Moves the clock that records age by. */
  pass(ms: number): void
}

async function aNode(url = server.url): Promise<Node> {
  const link = await connectedLink(url)
  toStop.push(() => link.stop())
  const notices: string[] = []
  let passedMs = 0
  const apps = openRedisApps({
    link,
    onNotice: (message) => void notices.push(message),
    monotonicMs: () => performance.now() + passedMs,
  })
  toStop.push(() => apps.stop())
  return { link, apps, notices, pass: (ms) => void (passedMs += ms) }
}

const find = async (node: Node, key: string): Promise<AppLookup> => node.apps.find(key)

/** Puts records in, in place of those with the same id. */
async function put(node: Node, ...records: AppRecord[]): Promise<void> {
  const ids = new Set(records.map(({ app_id: id }) => id))
  const edit = editAppRecordsInRedis(node.link, (present) => [
    ...present.filter(({ app_id: id }) => !ids.has(id)),
    ...records,
  ])
  expect(await edit).toBe('done')
}

const remove = (node: Node, id: string) =>
  editAppRecordsInRedis(node.link, (present) => present.filter(({ app_id: other }) => other !== id))

/** Long before a record is asked for because of its age. */
const hasPlan = (node: Node, key: string, plan: string) =>
  eventually(
    `${key} has the plan ${plan}`,
    async () => {
      const found = await find(node, key)
      return typeof found === 'object' && found.plan === plan
    },
    5000,
  )

describe('an app in Redis', () => {
  it('is found by its key, and then at once', async () => {
    const node = await aNode()
    await put(node, record('a', { name: 'Ä', events_per_day: 7 }))
    expect(await find(node, 'ak_a')).toMatchObject({ appId: 'a', name: 'Ä', eventsPerDay: 7 })
    expect(node.apps.find('ak_a')).toMatchObject({ appId: 'a' })
    expect(await find(node, 'ak_b')).toBe('unknown')
    expect(node.apps.find('ak_b')).toBe('unknown')
    expect([...node.apps.all()].map(({ appId }) => appId)).toEqual(['a'])
  })

  it('is looked up once for many requests at the same moment', async () => {
    const node = await aNode()
    await put(node, record('a'), record('b'))
    await find(node, 'ak_x')
    await sleep(400)
    await direct.config('RESETSTAT')
    const found = await Promise.all(Array.from({ length: 200 }, (_, at) => find(node, at % 2 === 0 ? 'ak_a' : 'ak_b')))
    expect(new Set(found.map((lookup) => (lookup as { appId: string }).appId))).toEqual(new Set(['a', 'b']))
    expect((await commandCalls(direct))['hmget']).toBe(1)
  })

  it('is asked for anew after 20 s while requests go on, and waited for after 30 s', async () => {
    const node = await aNode()
    await put(node, record('a'))
    await find(node, 'ak_a')
    await direct.hset(RECORDS, 'ak_a', JSON.stringify(record('a', { plan: '1m' })))
    node.pass(19_000)
    await sleep(50)
    expect(node.apps.find('ak_a')).toMatchObject({ plan: '10k' })
    node.pass(1500)
    expect(node.apps.find('ak_a')).toMatchObject({ plan: '10k' })
    await hasPlan(node, 'ak_a', '1m')
    await direct.hset(RECORDS, 'ak_a', JSON.stringify(record('a', { plan: '2m' })))
    node.pass(30_500)
    expect(node.apps.find('ak_a')).toBeInstanceOf(Promise)
    expect(await find(node, 'ak_a')).toMatchObject({ plan: '2m' })
  })

  it('that was unknown is asked for anew after 5 s', async () => {
    const node = await aNode()
    expect(await find(node, 'ak_a')).toBe('unknown')
    await direct.hset(RECORDS, 'ak_a', JSON.stringify(record('a')))
    node.pass(4500)
    expect(node.apps.find('ak_a')).toBe('unknown')
    node.pass(600)
    expect(await find(node, 'ak_a')).toMatchObject({ appId: 'a' })
  })

  it('with a key longer than any is unknown without being asked for', async () => {
    const node = await aNode()
    expect(node.apps.find(`ak_${'x'.repeat(254)}`)).toBe('unknown')
    expect(await find(node, `ak_${'x'.repeat(253)}`)).toBe('unknown')
  })

  it('is found on a Redis Cluster', async () => {
    const cluster = await startRedisCluster()
    toStop.push(() => cluster.stop())
    const [one, other] = [await aNode(cluster.url), await aNode(cluster.url)]
    await put(one, record('a'))
    expect(await find(other, 'ak_a')).toMatchObject({ appId: 'a' })
    await put(one, record('a', { plan: '5m' }))
    await hasPlan(other, 'ak_a', '5m')
  })
})

describe('an edit', () => {
  it('of any kind is in force on every node within 1 s', async () => {
    const [one, other] = [await aNode(), await aNode()]
    await put(one, record('a'), record('b'), record('c'))
    for (const key of ['ak_a', 'ak_b', 'ak_c', 'ak_d', 'ak_c2'])
      await Promise.all([one, other].map((node) => find(node, key)))
    await put(one, record('a', { subscription: 'paused' }), record('d'))
    await remove(one, 'b')
    await put(one, record('c', { app_key: 'ak_c2' }))
    // As long as the contract allows, and a little for a busy machine.
    await sleep(1200)
    for (const node of [one, other]) {
      expect(await find(node, 'ak_a')).toMatchObject({ subscription: 'paused' })
      expect(await find(node, 'ak_b')).toBe('unknown')
      expect(await find(node, 'ak_c')).toBe('unknown')
      expect(await find(node, 'ak_c2')).toMatchObject({ appId: 'c' })
      expect(await find(node, 'ak_d')).toMatchObject({ appId: 'd' })
    }
  })

  it('of more records than are remembered one by one is heard of as well', async () => {
    const [one, other] = [await aNode(), await aNode()]
    await put(one, record('a'))
    await find(other, 'ak_a')
    await sleep(700)
    await put(one, record('a', { plan: '5m' }))
    await put(one, ...Array.from({ length: 1500 }, (_, at) => record(`more-${at}`)))
    await hasPlan(other, 'ak_a', '5m')
    expect(await direct.zcard('sluice:{apps}:changes')).toBe(1000)
  })

  it('asks for nothing but what it changed', async () => {
    const node = await aNode()
    await put(node, record('a'), record('b'))
    await Promise.all(['ak_a', 'ak_b'].map((key) => find(node, key)))
    await sleep(700)
    await put(node, record('a', { plan: '5m' }))
    await hasPlan(node, 'ak_a', '5m')
    expect(node.apps.find('ak_b')).toMatchObject({ appId: 'b' })
  })

  it('that comes at the same moment as others loses none of them', async () => {
    const nodes = [await aNode(), await aNode(), await aNode()]
    await Promise.all(Array.from({ length: 30 }, (_, at) => put(nodes[at % 3], record(`app-${at}`))))
    const records = await readAppRecordsInRedis(nodes[0].link)
    expect((records as AppRecord[]).map(({ app_id: id }) => id)).toEqual(
      Array.from({ length: 30 }, (_, at) => `app-${at}`).sort(),
    )
  })

  it('of one app at the same moment as others builds on each of them', async () => {
    const nodes = [await aNode(), await aNode(), await aNode()]
    await put(nodes[0], record('a', { events_per_day: 1 }))
    const more = (node: Node) =>
      editAppRecordsInRedis(node.link, ([{ events_per_day: count = 0 }]) => [
        record('a', { events_per_day: count + 1 }),
      ])
    await Promise.all(Array.from({ length: 30 }, (_, at) => more(nodes[at % 3])))
    expect(await readAppRecordsInRedis(nodes[0].link)).toEqual([record('a', { events_per_day: 31 })])
  })

  it('that would leave two apps with one id or one key is not made', async () => {
    const node = await aNode()
    await put(node, record('a'))
    const added = (more: AppRecord) => editAppRecordsInRedis(node.link, (present) => [...present, more])
    await expect(added(record('a', { app_key: 'ak_other' }))).rejects.toThrow('same as apps[0].app_id')
    await expect(added(record('b', { app_key: 'ak_a' }))).rejects.toThrow('same as apps[0].app_key')
    await expect(added({ ...record('b'), plan: 'x' as never })).rejects.toThrow('plan: must be one of')
    const refused = new Error('refused by the command')
    await expect(
      editAppRecordsInRedis(node.link, () => {
        throw refused
      }),
    ).rejects.toThrow(refused)
    expect(await readAppRecordsInRedis(node.link)).toEqual([record('a')])
  })

  it('that changes nothing is no edit', async () => {
    const node = await aNode()
    await put(node, record('a'))
    const version = await direct.get('sluice:{apps}:version')
    await put(node, record('a'))
    expect(await direct.get('sluice:{apps}:version')).toBe(version)
  })

  it('and reading say that Redis is away', async () => {
    const node = await aNode()
    await server.kill()
    await eventually('Redis is away', () => !node.link.isUp)
    expect(await editAppRecordsInRedis(node.link, (present) => present)).toBe('away')
    expect(await readAppRecordsInRedis(node.link)).toBe('away')
  })
})

describe('a spray of keys that nobody has', () => {
  it('does not become a spray of calls, one after the other or all at once', async () => {
    const node = await aNode()
    await put(node, record('a'))
    await find(node, 'ak_a')
    await direct.config('RESETSTAT')
    const startedAtMs = performance.now()
    let asked = 0
    while (performance.now() - startedAtMs < 1000) expect(await find(node, `ak_made_up_${asked++}`)).toBe('unknown')
    // 10 ms between calls: a hundred in a second, and a few that were not spaced.
    const seconds = (performance.now() - startedAtMs) / 1000
    expect((await commandCalls(direct))['hmget']).toBeLessThanOrEqual(100 * seconds + 15)
    expect(asked).toBeGreaterThan(20)

    await direct.config('RESETSTAT')
    const found = await Promise.all(Array.from({ length: 5000 }, (_, at) => find(node, `ak_at_once_${at}`)))
    expect(new Set(found)).toEqual(new Set(['unknown']))
    expect((await commandCalls(direct))['hmget']).toBeLessThanOrEqual(5000 / 500 + 2)
    expect(node.apps.find('ak_a')).toMatchObject({ appId: 'a' })
  })

  it('larger than what may wait is answered, though not known', async () => {
    const node = await aNode()
    const found: AppLookup[] = await Promise.all(Array.from({ length: 21_000 }, (_, at) => find(node, `ak_many_${at}`)))
    expect(found.filter((lookup) => lookup === 'unavailable')).toHaveLength(1000)
    expect(found.filter((lookup) => lookup === 'unknown')).toHaveLength(20_000)
  })
})

describe('while Redis is away', () => {
  it('known records stay in force however old, and a key never seen is no answer', async () => {
    const node = await aNode()
    await put(node, record('a'))
    await find(node, 'ak_a')
    server.freeze()
    node.pass(31_000)
    // The first to ask finds out that Redis is away, and is answered from what there is.
    expect(await find(node, 'ak_a')).toMatchObject({ appId: 'a' })
    expect(node.link.isUp).toBe(false)
    node.pass(3_600_000)
    expect(node.apps.find('ak_a')).toMatchObject({ appId: 'a' })
    expect(node.apps.find('ak_new')).toBe('unavailable')
    server.resume()
    await eventually('Redis is back', () => node.link.isUp)
    expect(await find(node, 'ak_new')).toBe('unknown')
  })

  it('a key that is being asked for is no answer either', async () => {
    const node = await aNode()
    server.freeze()
    expect(await Promise.all(['ak_a', 'ak_b', 'ak_a'].map((key) => find(node, key)))).toEqual([
      'unavailable',
      'unavailable',
      'unavailable',
    ])
    server.resume()
  })

  it('edits are not missed: they are in force within 1 s of its return', async () => {
    const proxy = await startProxy(server.port)
    toStop.push(() => proxy.stop())
    const [one, other] = [await aNode(), await aNode(`redis://127.0.0.1:${proxy.port}`)]
    await put(one, record('a'))
    await find(other, 'ak_a')
    await sleep(700)
    proxy.cut()
    await put(one, record('a', { plan: '5m' }))
    await eventually('Redis is away', () => !other.link.isUp)
    expect(other.apps.find('ak_a')).toMatchObject({ plan: '10k' })
    proxy.heal()
    await eventually('Redis is back', () => other.link.isUp)
    await sleep(1000)
    expect(await find(other, 'ak_a')).toMatchObject({ plan: '5m' })
  })
})

describe('a Redis that has lost its records', () => {
  it('refuses no key until the next edit, and known records stay in force', async () => {
    const node = await aNode()
    await put(node, record('a'), record('b'))
    await find(node, 'ak_a')
    await sleep(700)
    await server.restart({ empty: true })
    await eventually('Redis is back', () => node.link.isUp)
    await eventually('the loss is known', () => node.notices.length > 0)
    expect(node.notices[0]).toMatch(/^Redis has lost edits of app records/)
    for (const forMs of [0, 2000, 60_000]) {
      node.pass(forMs)
      expect(await find(node, 'ak_a')).toMatchObject({ appId: 'a' })
      expect(await find(node, 'ak_b')).toBe('unavailable')
      expect(await find(node, 'ak_never')).toBe('unavailable')
    }
    await put(node, record('b'))
    await eventually('it is whole again', () => node.notices.length > 1)
    expect(await find(node, 'ak_b')).toMatchObject({ appId: 'b' })
    expect(await find(node, 'ak_never')).toBe('unknown')
    await eventually('what is gone is gone', async () => (await find(node, 'ak_a')) === 'unknown')
    expect(node.notices).toHaveLength(2)
  })

  it('and has others, older than those seen, is told from one that is up to date', async () => {
    const node = await aNode()
    await put(node, record('a'))
    const saved = await direct.get('sluice:{apps}:version')
    await put(node, record('b'))
    await find(node, 'ak_b')
    await sleep(700)
    await direct.multi().set('sluice:{apps}:version', String(saved)).hdel(RECORDS, 'ak_b').exec()
    await eventually('the loss is known', () => node.notices.length > 0)
    expect(await find(node, 'ak_b')).toMatchObject({ appId: 'b' })
    expect(await find(node, 'ak_c')).toBe('unavailable')
  })

  it('is found out by the first request that asks, before the next look', async () => {
    const node = await aNode()
    await put(node, record('a'))
    await find(node, 'ak_a')
    await direct.flushall()
    expect(await find(node, 'ak_b')).toBe('unavailable')
  })
})

describe('a record that cannot be used', () => {
  it('is no answer and told once a change, and the last good one stays in force', async () => {
    const node = await aNode()
    await put(node, record('a'))
    await find(node, 'ak_a')
    await direct.hset(RECORDS, 'ak_a', JSON.stringify({ ...record('a'), plan: 'huge' }), 'ak_b', '{"secret')
    await direct.hset(RECORDS, 'ak_c', JSON.stringify(record('a')))
    node.pass(31_000)
    for (let times = 0; times < 3; times++) {
      expect(await find(node, 'ak_a')).toMatchObject({ plan: '10k' })
      expect(await find(node, 'ak_b')).toBe('unavailable')
      expect(await find(node, 'ak_c')).toBe('unavailable')
      node.pass(31_000)
    }
    expect(node.notices).toEqual([
      expect.stringMatching(
        /^the app record of a in Redis cannot be used: plan: must be one of .*; the last good one stays in force$/,
      ),
      'the app record under ak_b… in Redis cannot be used: not JSON',
      'the app record of a in Redis cannot be used: app_key: not the key it is stored under',
    ])
    expect(node.apps.badRecords).toBe(3)
    await direct.hset(RECORDS, 'ak_b', '{')
    await find(node, 'ak_b')
    expect(node.apps.badRecords).toBe(4)
    await expect(readAppRecordsInRedis(node.link)).rejects.toThrow(/of a: plan[^]*under ak_b…: not JSON/)
  })

  it('and a version that is no number end nobody', async () => {
    const node = await aNode()
    await put(node, record('a'))
    await direct.set('sluice:{apps}:version', 'abc')
    expect(await find(node, 'ak_a')).toMatchObject({ appId: 'a' })
    expect(await find(await aNode(), 'ak_a')).toMatchObject({ appId: 'a' })
  })

  it('and a hash that is none are no answer', async () => {
    const node = await aNode()
    await direct.set(RECORDS, 'text')
    for (let times = 0; times < 3; times++) expect(await find(node, 'ak_a')).toBe('unavailable')
    expect(node.notices).toHaveLength(1)
    expect(node.notices[0]).toMatch(/^Redis refuses to give app records: WRONGTYPE/)
  })

  it('and changes that are none are told once, though records are given', async () => {
    const node = await aNode()
    await put(node, record('a'))
    await find(node, 'ak_a')
    await direct.set('sluice:{apps}:changes', 'text')
    await direct.incr('sluice:{apps}:version')
    await eventually('it is told', () => node.notices.length > 0)
    for (let times = 0; times < 5; times++) {
      expect(await find(node, `ak_x${times}`)).toBe('unknown')
      await sleep(400)
    }
    expect(node.notices).toEqual([expect.stringMatching(/^Redis refuses to give app records: WRONGTYPE/)])
  })
})

describe('a Redis that does not know the command', () => {
  it('is told of once a kind of call, and no notice holds the key that was asked for', async () => {
    const limited = await startRedis(['--rename-command', 'EVALSHA', ''])
    toStop.push(() => limited.stop())
    const node = await aNode(limited.url)
    for (let times = 0; times < 5; times++) expect(await find(node, `ak_secret${times}`)).toBe('unavailable')
    await sleep(1000)
    const told = "Redis refuses to give app records: ERR unknown command 'evalsha'"
    // One for those asked for, one for the look for changes.
    expect(node.notices).toEqual([told, told])
  })
})

describe('beside records that cannot be used', () => {
  const good = record('good')
  const planted = {
    ak_cut: '{"app_key":',
    ak_plan: JSON.stringify(record('plan', { plan: 'x' as never })),
    ak_copy: JSON.stringify(good),
  }
  let node: Node

  beforeEach(async () => {
    node = await aNode()
    await put(node, good)
    await direct.hset(RECORDS, planted)
  })

  it('edits are made, and leave them as they are', async () => {
    await put(node, record('good', { plan: '1m' }), record('new'))
    await remove(node, 'new')
    expect(await direct.hgetall(RECORDS)).toEqual({
      ...planted,
      ak_good: JSON.stringify(record('good', { plan: '1m' })),
    })
  })

  it('none is added with the key of one or the id of one', async () => {
    await expect(put(node, record('new', { app_key: 'ak_cut' }))).rejects.toThrow('under ak_cut… in Redis cannot be')
    await expect(put(node, record('plan', { app_key: 'ak_new' }))).rejects.toThrow('it has to be removed first')
    expect(await direct.hgetall(RECORDS)).toEqual({ ...planted, ak_good: JSON.stringify(good) })
  })

  it('one is removed by its key or its id, and an id that can be used never means the bad one', async () => {
    expect(await removeAppRecordsInRedis(node.link, { appKey: 'ak_cut' })).toBe('done')
    expect(await removeAppRecordsInRedis(node.link, { appId: 'plan' })).toBe('done')
    expect((await direct.hkeys(RECORDS)).toSorted()).toEqual(['ak_copy', 'ak_good'])
    expect(await removeAppRecordsInRedis(node.link, { appId: 'good' })).toBe('done')
    expect(await direct.hkeys(RECORDS)).toEqual(['ak_copy'])
    expect(await removeAppRecordsInRedis(node.link, { appId: 'good' })).toBe('done')
    expect(await direct.hkeys(RECORDS)).toEqual([])
    await expect(removeAppRecordsInRedis(node.link, { appId: 'good' })).rejects.toThrow('there is no app good')
    await expect(removeAppRecordsInRedis(node.link, { appKey: 'ak_cut' })).rejects.toThrow('no app with this key')
  })
})

describe('a store that is stopped', () => {
  it('answers those who wait, and asks no more', async () => {
    const node = await aNode()
    await put(node, record('a'))
    const waiting = node.apps.find('ak_a')
    node.apps.stop()
    expect(await waiting).toBe('unavailable')
    await direct.config('RESETSTAT')
    await sleep(700)
    const { 'config|resetstat': _, ...calls } = await commandCalls(direct)
    expect(calls).toEqual({})
    expect(await find(node, 'ak_a')).toBe('unavailable')
  })
})

// App records in a real bucket, as a node watches them and as commands edit them, with NATS away, killed, emptied and
// put back, and with entries that are not app records.

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { jetstreamManager } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { AppRecord } from '../../src/apps/app-record.ts'
import { type BucketApps, openBucketApps } from '../../src/apps/bucket/bucket-apps.ts'
import { editRecords, readRecords, removeEntry } from '../../src/apps/bucket/bucket-edit.ts'
import { systemTimers as timers } from '../../src/lib/timers.ts'
import { Bucket } from '../../src/nats/bucket.ts'
import { watchBucket } from '../../src/nats/bucket-watch.ts'
import { connectNats } from '../../src/nats/connection.ts'
import { APPS_BUCKET } from '../../src/nats/store-names.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { type Proxy, startProxy } from '../support/proxy.ts'
import { eventually } from '../support/service.ts'

const STREAM = 'KV_SLUICE_APPS'
const WATCHER = join(import.meta.dirname, '../support/app-store-memory.mjs')
const EDIT = { timers, replicas: 1 }
const record = (id: string, parts: Partial<AppRecord> = {}): AppRecord => ({
  app_key: `ak_${id}`,
  app_id: id,
  plan: '10k',
  subscription: 'active',
  ...parts,
})

let server: NatsServer
/** Nodes go through it. */
let proxy: Proxy
const toStop: (() => unknown)[] = []

beforeEach(async () => {
  server = await startNats()
  proxy = await startProxy(server.port)
})

afterEach(async () => {
  for (const stop of toStop.splice(0).reverse()) await stop()
  await proxy.stop()
  await server.stop()
})

interface Node {
  readonly apps: BucketApps
  readonly notices: string[]
}

function startNode(): Node {
  const notices: string[] = []
  const url = `nats://127.0.0.1:${proxy.port}`
  const apps = openBucketApps({ nats: url, replicas: 1, timers, onNotice: (message) => void notices.push(message) })
  toStop.push(() => apps.stop())
  return { apps, notices }
}

async function loadedNode(): Promise<Node> {
  const node = startNode()
  await eventually('all records are there', () => node.apps.isLoaded)
  return node
}

async function connected<T>(use: (connection: NatsConnection) => Promise<T>): Promise<T> {
  const connection = await connectNats(server.url)
  try {
    return await use(connection)
  } finally {
    await connection.close()
  }
}

const bucketOf = (connection: NatsConnection) => new Bucket(connection, APPS_BUCKET)

/** Puts records in, in place of those with the same id. */
function put(...records: AppRecord[]): Promise<void> {
  const ids = new Set(records.map(({ app_id: id }) => id))
  return connected((connection) =>
    editRecords(
      bucketOf(connection),
      (present) => [...present.filter(({ app_id: id }) => !ids.has(id)), ...records],
      EDIT,
    ),
  )
}

const remove = (id: string) => connected((connection) => removeEntry(bucketOf(connection), id, EDIT))
const stored = () => connected((connection) => readRecords(bucketOf(connection), timers))

/** As any other program writes: nothing is checked. */
function putRaw(key: string, text: string): Promise<number> {
  return connected(async (connection) => {
    const bucket = bucketOf(connection)
    await bucket.ensure(1)
    const entries = await bucket.open()
    return await entries.put(key, text)
  })
}

const planOf = ({ apps }: Node, key: string): string => {
  const found = apps.find(key)
  return typeof found === 'object' ? found.plan : found
}

const becomes = (node: Node, key: string, plan: string) =>
  eventually(`${key} is ${plan}`, () => planOf(node, key) === plan)

/** The keys that have come at the moment when all of them are said to be there. */
async function keysWhenRead(connection: NatsConnection): Promise<readonly string[]> {
  const bucket = bucketOf(connection)
  const report = await bucket.describe()
  if (report.kind !== 'present') throw new Error('there is no bucket')
  const keys = new Set<string>()
  const over = new AbortController()
  await watchBucket(bucket, report.facts, {
    timers,
    knownRevision: 0,
    onEntry: ({ key }) => keys.add(key),
    onAll: () => over.abort(),
    signal: over.signal,
  })
  return [...keys].toSorted()
}

describe('a node that starts', () => {
  it('knows no app until it has read all records, and then every app', async () => {
    await put(...Array.from({ length: 500 }, (_, at) => record(`app-${at}`)))
    proxy.cut()
    const node = startNode()
    expect(node.apps.status).toEqual({ state: 'starting', reason: null })
    expect(node.apps.find('ak_app-0')).toBe('unavailable')
    expect(node.apps.find('ak_none')).toBe('unavailable')
    await eventually('NATS is known to be away', () => node.notices.length > 0)
    expect(node.notices).toEqual([expect.stringMatching(/^app records cannot be read: .*; until they are, .* 503$/)])
    expect(node.apps.status).toEqual({ state: 'unread', reason: expect.any(String) })
    proxy.heal()
    await eventually('all records are there', () => node.apps.isLoaded)
    expect(node.apps.status).toEqual({ state: 'ok', reason: null })
    expect([...node.apps.all()]).toHaveLength(500)
    expect(planOf(node, 'ak_app-499')).toBe('10k')
    expect(planOf(node, 'ak_none')).toBe('unknown')
  })

  it('has every app when it reports so, even if records change while it reads them', async () => {
    const ids = ['a', 'b', 'c', 'd', 'e']
    await put(...ids.map((id) => record(id)))
    const over = new AbortController()
    const writing = connected(async (connection) => {
      const entries = await bucketOf(connection).open()
      for (let at = 0; !over.signal.aborted; at++) {
        const id = ids[at % ids.length]
        await entries.put(id, JSON.stringify(record(id, { events_per_day: at + 1 })))
      }
    })
    try {
      for (let reading = 0; reading < 100; reading++) expect(await connected(keysWhenRead)).toEqual(ids)
    } finally {
      over.abort()
      await writing
    }
  })

  it('creates the bucket if there is none, and does not change an existing one', async () => {
    const node = await loadedNode()
    expect(planOf(node, 'ak_none')).toBe('unknown')
    const config = () =>
      connected(async (connection) => (await (await jetstreamManager(connection)).streams.info(STREAM)).config)
    expect(await config()).toMatchObject({ max_msgs_per_subject: 1, storage: 'file', num_replicas: 1 })
    await connected(async (connection) =>
      (await jetstreamManager(connection)).streams.update(STREAM, { max_bytes: 9e6 }),
    )
    const before = await config()
    await loadedNode()
    await put(record('a'))
    expect(await config()).toEqual(before)
  })
})

describe('a change', () => {
  it('reaches every node while it is up', async () => {
    const nodes = [await loadedNode(), await loadedNode()]
    await put(record('a'), record('b'))
    for (const node of nodes) await becomes(node, 'ak_b', '10k')
    await put(record('a', { plan: '5m' }))
    await remove('b')
    for (const node of nodes) {
      await becomes(node, 'ak_b', 'unknown')
      expect(planOf(node, 'ak_a')).toBe('5m')
    }
  })

  it('that a node missed reaches it once NATS is back, also a removal', async () => {
    await put(record('a'), record('b'), record('c'))
    const node = await loadedNode()
    proxy.cut()
    await eventually('it knows', () => !node.apps.isUp)
    await put(record('a', { plan: '5m' }), record('d'))
    await remove('b')
    expect(['ak_a', 'ak_b', 'ak_c', 'ak_d'].map((key) => planOf(node, key))).toEqual(['10k', '10k', '10k', 'unknown'])
    proxy.heal()
    await becomes(node, 'ak_d', '10k')
    await eventually('it knows', () => node.apps.isUp)
    expect(['ak_a', 'ak_b', 'ak_c'].map((key) => planOf(node, key))).toEqual(['5m', 'unknown', '10k'])
    await put(record('b'))
    await becomes(node, 'ak_b', '10k')
  })

  it('at the same moment as others loses none of the changes', async () => {
    await Promise.all(Array.from({ length: 20 }, (_, at) => put(record(`app-${at}`))))
    expect((await stored()).records.map(({ app_id: id }) => id)).toEqual(
      Array.from({ length: 20 }, (_, at) => `app-${at}`).toSorted(),
    )
  })

  it('of one app at the same moment as others builds on each of them', async () => {
    await put(record('a', { events_per_day: 1 }))
    const more = () =>
      connected((connection) =>
        editRecords(
          bucketOf(connection),
          ([{ events_per_day: count = 0 }]) => [record('a', { events_per_day: count + 1 })],
          EDIT,
        ),
      )
    await Promise.all(Array.from({ length: 10 }, more))
    expect((await stored()).records).toEqual([record('a', { events_per_day: 11 })])
  })
})

describe('known records', () => {
  it('stay in force while NATS is away, killed and started again', async () => {
    await put(record('a'))
    const node = await loadedNode()
    await server.kill()
    await eventually('it knows', () => !node.apps.isUp)
    expect(planOf(node, 'ak_a')).toBe('10k')
    expect(planOf(node, 'ak_none')).toBe('unknown')
    expect(node.apps.status).toEqual({ state: 'away', reason: expect.any(String) })
    await server.restart()
    await eventually('it is back', () => node.apps.isUp)
    await put(record('a', { plan: '5m' }))
    await becomes(node, 'ak_a', '5m')
    expect(node.notices.filter((notice) => notice.includes('stay in force'))).toHaveLength(1)
  })

  it('stay in force when NATS lost its data, and follow new entries, whatever their revisions', async () => {
    await put(record('a'), record('b'), record('c'))
    await put(record('a', { plan: '100k' }))
    const node = await loadedNode()
    await server.restart({ empty: true })
    await eventually('it says so', () =>
      node.notices.some((notice) => notice.includes('is gone: restore its records with')),
    )
    expect(['ak_a', 'ak_b', 'ak_c'].map((key) => planOf(node, key))).toEqual(['100k', '10k', '10k'])
    await put(record('a', { plan: '5m' }))
    await becomes(node, 'ak_a', '5m')
    expect(['ak_b', 'ak_c'].map((key) => planOf(node, key))).toEqual(['10k', '10k'])
    await eventually('it says so', () =>
      node.notices.some((notice) => /^2 app records are missing from SLUICE_APPS .* until it ends: b, c;/.test(notice)),
    )
    await put(record('b', { plan: '5m' }))
    await becomes(node, 'ak_b', '5m')
    await remove('b')
    await becomes(node, 'ak_b', 'unknown')
  })

  it('stay in force when the bucket is deleted while the connection stays, and follow the next bucket', async () => {
    await put(record('a'), record('b'))
    const node = await loadedNode()
    await connected(async (connection) => (await jetstreamManager(connection)).streams.delete(STREAM))
    // More than the last one ever had, so that revisions alone tell nothing.
    await put(record('b', { plan: '5m' }), ...['c', 'd', 'e', 'f'].map((id) => record(id)))
    await becomes(node, 'ak_b', '5m')
    expect(planOf(node, 'ak_a')).toBe('10k')
  })

  it('stay in force when the bucket is purged', async () => {
    await put(record('a'), record('b'))
    const node = await loadedNode()
    await connected(async (connection) => (await jetstreamManager(connection)).streams.purge(STREAM))
    await put(record('c'))
    await becomes(node, 'ak_c', '10k')
    await server.kill()
    await server.restart()
    await eventually('it is back', () => node.apps.isUp)
    expect(['ak_a', 'ak_b', 'ak_c'].map((key) => planOf(node, key))).toEqual(['10k', '10k', '10k'])
  })
})

describe('an entry that is not an app record', () => {
  it('is skipped, counted once per change and logged without its keys, and the last good one stays in force', async () => {
    await put(record('a'))
    const node = await loadedNode()
    await putRaw('a', '{"app_key":"ak_a","app_id":"a","plan":"x"}')
    await putRaw('b', '{"app_key":"ak_secret')
    await putRaw('c', JSON.stringify(record('d')))
    await putRaw('e', JSON.stringify(record('e')))
    await becomes(node, 'ak_e', '10k')
    expect(['ak_a', 'ak_d', 'ak_secret'].map((key) => planOf(node, key))).toEqual(['10k', 'unknown', 'unknown'])
    expect(node.apps.badRecords).toBe(3)
    const bad = node.notices.filter((notice) => notice.includes('is not an app record'))
    expect(bad).toEqual([
      expect.stringMatching(
        /^the entry a of SLUICE_APPS is not an app record and is skipped: plan: must be .*; subscription/,
      ),
      'the entry b of SLUICE_APPS is not an app record and is skipped: not JSON',
      'the entry c of SLUICE_APPS is not an app record and is skipped: app_id: not the key it is stored under',
    ])
    expect((await stored()).complaints).toEqual(bad)
    proxy.cut()
    await eventually('it knows', () => !node.apps.isUp)
    proxy.heal()
    await eventually('it is back', () => node.apps.isUp)
    expect(node.apps.badRecords).toBe(3)
  })

  it('is one of at most 100 lines a reading or a minute, and the others are counted', async () => {
    const early = await loadedNode()
    await connected(async (connection) => {
      const entries = await bucketOf(connection).open()
      for (let at = 0; at < 3000; at += 50) {
        await Promise.all(Array.from({ length: 50 }, (_, index) => entries.put(`bad${at + index}`, 'no record')))
      }
    })
    await eventually('it has had them', () => early.apps.badRecordsNow === 3000)
    expect(early.notices.filter((notice) => notice.includes('is not an app record'))).toHaveLength(100)
    const late = await loadedNode()
    const told = late.notices.filter((notice) => notice.includes('entr'))
    expect(told).toHaveLength(101)
    expect(told[100]).toMatch(/^2900 more entries of SLUICE_APPS cannot be used/)
    expect(late.apps.badRecordsNow).toBe(3000)
  })

  it('blocks an app of its id until it is removed, or overwritten on purpose', async () => {
    await putRaw('a', 'no record')
    await expect(put(record('a'))).rejects.toThrow(
      'the entry a of SLUICE_APPS is not an app record; run sluice apps remove a first',
    )
    await put(record('b'))
    await connected((connection) =>
      editRecords(bucketOf(connection), (present) => [...present, record('a')], { ...EDIT, replaceBad: true }),
    )
    expect(await stored()).toMatchObject({ records: [record('a'), record('b')], complaints: [] })
    await putRaw('a', 'no record')
    await remove('a')
    await put(record('a', { plan: '5m' }))
    expect((await stored()).records[0]).toEqual(record('a', { plan: '5m' }))
    await expect(remove('none')).rejects.toThrow('there is no app none')
  })

  it('and shares its app key leaves the key to the older entry, on every node', async () => {
    const early = await loadedNode()
    await putRaw('first', JSON.stringify(record('first', { app_key: 'ak_shared' })))
    await putRaw('second', JSON.stringify(record('second', { app_key: 'ak_shared' })))
    await eventually('it says so', () =>
      early.notices.some((notice) => notice.includes('shares an app key with first')),
    )
    const late = await loadedNode()
    for (const { apps } of [early, late]) expect(apps.find('ak_shared')).toMatchObject({ appId: 'first' })
    expect((await stored()).complaints).toEqual([
      'the entry second of SLUICE_APPS shares an app key with first: the oldest of them gets it',
    ])
    await remove('first')
    for (const { apps } of [early, late]) {
      await eventually('the other has the key', () => (apps.find('ak_shared') as { appId?: string }).appId === 'second')
    }
    await remove('second')
    for (const node of [early, late]) await becomes(node, 'ak_shared', 'unknown')
  })
})

describe('100,000 apps', () => {
  it('take at most 100 MB of a node', async () => {
    const apps = Array.from({ length: 100_000 }, (_, at) =>
      record(`app-${at}`, {
        app_key: `ak_app-${at}_${at.toString(16).padStart(24, '0')}`,
        name: `Application number ${at}`,
        billing_cycle_anchor: '2026-11-17T00:00:00Z',
        events_per_day: 20_000,
      }),
    )
    await put(...apps)
    const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', WATCHER, server.url])
    const { apps: count, grownBytes } = JSON.parse(stdout) as { apps: number; grownBytes: number }
    expect(count).toBe(100_000)
    expect(grownBytes).toBeLessThanOrEqual(100e6)
  })
})

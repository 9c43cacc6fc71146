// The contract of every store of app records: the file and the NATS bucket.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { AppLookup, AppStore } from '../../src/apps/app.ts'
import type { AppRecord } from '../../src/apps/app-record.ts'
import { openBucketApps } from '../../src/apps/bucket/bucket-apps.ts'
import { editRecords, readRecords } from '../../src/apps/bucket/bucket-edit.ts'
import { openAppsFile } from '../../src/apps/file/apps-file.ts'
import { readAppRecords, writeAppRecords } from '../../src/apps/file/apps-file-edit.ts'
import { systemTimers } from '../../src/lib/timers.ts'
import { Bucket } from '../../src/nats/bucket.ts'
import { connectNats } from '../../src/nats/connection.ts'
import { APPS_BUCKET } from '../../src/nats/store-names.ts'
import { startNats } from '../support/nats.ts'
import { eventually } from '../support/service.ts'

/** The stores' clock, which only tests move. */
let nowMs = Date.UTC(2026, 10, 20)
const clock = () => nowMs

const record = (id: string, parts: Partial<AppRecord> = {}): AppRecord => ({
  app_key: `ak_${id}`,
  app_id: id,
  plan: '10k',
  subscription: 'active',
  ...parts,
})

interface Made {
  readonly store: AppStore
  edit(change: (records: readonly AppRecord[]) => readonly AppRecord[]): Promise<void>
  read(): Promise<readonly AppRecord[]>
  stop(): Promise<void>
}

async function inFile(): Promise<Made> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-apps-'))
  const path = join(folder, 'apps.json')
  writeAppRecords(path, [])
  const store = await openAppsFile({ path, clock, onReload: () => {}, onBadFile: () => {} })
  return {
    store,
    edit: async (change) => writeAppRecords(path, change(readAppRecords(path))),
    read: async () => readAppRecords(path),
    stop: async () => {
      store.stop()
      rmSync(folder, { recursive: true })
    },
  }
}

async function inBucket(): Promise<Made> {
  const server = await startNats()
  const timers = { ...systemTimers, nowMs: clock }
  const store = openBucketApps({ nats: server.url, replicas: 1, timers })
  const connection = await connectNats(server.url)
  const bucket = new Bucket(connection, APPS_BUCKET)
  await eventually('the bucket is loaded', () => store.isLoaded)
  return {
    store,
    edit: (change) => editRecords(bucket, change, { timers, replicas: 1 }),
    read: async () => (await readRecords(bucket, timers)).records,
    stop: async () => {
      await store.stop()
      await connection.close()
      await server.stop()
    },
  }
}

describe.each([
  { name: 'in a file', make: inFile },
  { name: 'in the bucket', make: inBucket },
])('a store of apps $name', ({ make }) => {
  let made: Made
  beforeAll(async () => {
    made = await make()
  })
  afterAll(() => made.stop())

  const find = (key: string): AppLookup => made.store.find(key)
  const becomes = (key: string, what: string, is: (lookup: AppLookup) => boolean) =>
    eventually(`${key} is ${what}`, () => is(find(key)), 5000)
  const isKnown = (lookup: AppLookup) => typeof lookup === 'object'
  const add = (...added: AppRecord[]) => made.edit((records) => [...records, ...added])

  it('finds no app if there is none', async () => {
    expect(find('ak_nobody')).toBe('unknown')
    expect([...made.store.all()]).toEqual([])
    expect(await made.read()).toEqual([])
  })

  it('finds an added app with all members, and answers at once from then on', async () => {
    await add(
      record('whole', {
        name: 'Ünïcode "quoted"',
        plan: '2m',
        subscription: 'trialing',
        trial_ends_at: '2026-12-31T00:00:00Z',
        billing_cycle_anchor: '2026-01-31T12:00:00+01:00',
        events_per_day: 1,
        events_per_minute: 2,
        events_per_month: 3,
        alerts: [50, 90],
        origins: ['https://shop.example'],
      }),
    )
    await becomes('ak_whole', 'known', isKnown)
    expect(made.store.find('ak_whole')).toEqual({
      appKey: 'ak_whole',
      previousKeys: [],
      appId: 'whole',
      name: 'Ünïcode "quoted"',
      plan: '2m',
      subscription: 'trialing',
      trialEndsAtMs: Date.UTC(2026, 11, 31),
      billingAnchorMs: Date.UTC(2026, 0, 31, 11),
      eventsPerMinute: 2,
      eventsPerDay: 1,
      eventsPerMonth: 3,
      bytesPerMinute: 2 * 1024 * 1024,
      alertSteps: [50, 90],
      readKeys: [],
      origins: ['https://shop.example'],
    })
    expect([...made.store.all()].map(({ appId }) => appId)).toContain('whole')
  })

  it('follows a change, and a removal', async () => {
    await add(record('changing'), record('leaving'))
    await becomes('ak_changing', 'known', isKnown)
    await becomes('ak_leaving', 'known', isKnown)
    await made.edit((records) =>
      records
        .filter(({ app_id: id }) => id !== 'leaving')
        .map((one) => (one.app_id === 'changing' ? record('changing', { subscription: 'paused' }) : one)),
    )
    await becomes(
      'ak_changing',
      'paused',
      (lookup) => isKnown(lookup) && (lookup as { subscription: string }).subscription === 'paused',
    )
    await becomes('ak_leaving', 'unknown', (lookup) => lookup === 'unknown')
    expect([...made.store.all()].map(({ appId }) => appId)).not.toContain('leaving')
  })

  it('accepts a rotated key, and no longer the old one', async () => {
    await add(record('rotating'))
    await becomes('ak_rotating', 'known', isKnown)
    await made.edit((records) =>
      records.map((one) => (one.app_id === 'rotating' ? record('rotating', { app_key: 'ak_rotated' }) : one)),
    )
    await becomes('ak_rotated', 'known', isKnown)
    await becomes('ak_rotating', 'unknown', (lookup) => lookup === 'unknown')
    expect(find('ak_rotated')).toMatchObject({ appId: 'rotating', previousKeys: [] })
  })

  it('finds an app by a previous key until that expires', async () => {
    const previous = { app_key: 'ak_previous', valid_until: new Date(nowMs + 60_000).toISOString() }
    await add(record('overlapping', { previous_keys: [previous] }))
    await becomes('ak_previous', 'known', isKnown)
    expect(find('ak_previous')).toMatchObject({ appId: 'overlapping', appKey: 'ak_overlapping' })
    nowMs += 59_999
    expect(find('ak_previous')).toMatchObject({ appId: 'overlapping' })
    nowMs += 1
    expect(find('ak_previous')).toBe('unknown')
    expect(find('ak_overlapping')).toMatchObject({ appId: 'overlapping' })
  })

  it('returns the records that were written', async () => {
    const before = await made.read()
    const added = [record('read-a', { name: 'Bé', events_per_day: 5 }), record('read-b')]
    await add(...added)
    expect(await made.read()).toEqual(expect.arrayContaining([...before, ...added]))
  })

  it('refuses a record that is not valid, and two with the same id or key', async () => {
    await add(record('only'))
    const before = await made.read()
    const old = [{ app_key: 'ak_only', valid_until: '2026-12-31T00:00:00Z' }]
    await expect(add(record('only', { app_key: 'ak_only_2' }))).rejects.toThrow('app_id: same as')
    await expect(add(record('only-2', { app_key: 'ak_only' }))).rejects.toThrow('app_key: same as')
    await expect(add(record('only-2', { previous_keys: old }))).rejects.toThrow('previous_keys: same as')
    await expect(add(record('only-3', { plan: 'x' as never }))).rejects.toThrow('plan: must be one of')
    expect(await made.read()).toEqual(before)
  })
})

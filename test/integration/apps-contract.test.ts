// What every store of app records does, whether they lie in a file or in Redis.

import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { AppRecord } from '../../src/admit/app-record.ts'
import type { AppLookup, AppStore } from '../../src/admit/app.ts'
import { openAppsFile } from '../../src/admit/apps-file.ts'
import { readAppRecords, writeAppRecords } from '../../src/admit/apps-file-edit.ts'
import { editAppRecordsInRedis, readAppRecordsInRedis } from '../../src/admit/redis-app-records.ts'
import { openRedisApps } from '../../src/admit/redis-apps.ts'
import { startRedis } from '../support/redis.ts'
import { connectedLink } from '../support/redis-nodes.ts'
import { eventually } from '../support/service.ts'

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
  const store = await openAppsFile({ path, onReload: () => {}, onBadFile: () => {} })
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

async function inRedis(): Promise<Made> {
  const server = await startRedis()
  const [storeLink, editLink] = await Promise.all([connectedLink(server.url), connectedLink(server.url)])
  const store = openRedisApps({ link: storeLink })
  return {
    store,
    edit: async (change) => expect(await editAppRecordsInRedis(editLink, change)).toBe('done'),
    read: async () => {
      const records = await readAppRecordsInRedis(editLink)
      if (records === 'away') throw new Error('Redis is away')
      return records
    },
    stop: async () => {
      store.stop()
      await storeLink.stop()
      await editLink.stop()
      await server.stop()
    },
  }
}

describe.each([
  { name: 'in a file', make: inFile },
  { name: 'in Redis', make: inRedis },
])('a store of apps $name', ({ make }) => {
  let made: Made
  beforeAll(async () => {
    made = await make()
  })
  afterAll(() => made.stop())

  const find = async (key: string): Promise<AppLookup> => made.store.find(key)
  const becomes = (key: string, what: string, is: (lookup: AppLookup) => boolean) =>
    eventually(`${key} is ${what}`, async () => is(await find(key)), 5000)
  const isKnown = (lookup: AppLookup) => typeof lookup === 'object'
  const add = (...added: AppRecord[]) => made.edit((records) => [...records, ...added])

  it('knows no app where there is none', async () => {
    expect(await find('ak_nobody')).toBe('unknown')
    expect([...made.store.all()]).toEqual([])
    expect(await made.read()).toEqual([])
  })

  it('finds an app that was added, whole, and answers at once from then on', async () => {
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
      }),
    )
    await becomes('ak_whole', 'known', isKnown)
    expect(made.store.find('ak_whole')).toEqual({
      appKey: 'ak_whole',
      appId: 'whole',
      name: 'Ünïcode "quoted"',
      plan: '2m',
      subscription: 'trialing',
      trialEndsAtMs: Date.UTC(2026, 11, 31),
      billingAnchorMs: Date.UTC(2026, 0, 31, 11),
      eventsPerMinute: 2,
      eventsPerDay: 1,
      eventsPerMonth: 3,
    })
    expect([...made.store.all()].map(({ appId }) => appId)).toContain('whole')
  })

  it('takes a change up, and a removal', async () => {
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
  })

  it('lets a new key in and the old one no more, where it was rotated', async () => {
    await add(record('rotating'))
    await becomes('ak_rotating', 'known', isKnown)
    await made.edit((records) =>
      records.map((one) => (one.app_id === 'rotating' ? record('rotating', { app_key: 'ak_rotated' }) : one)),
    )
    await becomes('ak_rotated', 'known', isKnown)
    await becomes('ak_rotating', 'unknown', (lookup) => lookup === 'unknown')
  })

  it('gives back the records that were written', async () => {
    const before = await made.read()
    const added = [record('read-a', { name: 'Bé', events_per_day: 5 }), record('read-b')]
    await add(...added)
    expect(await made.read()).toEqual(expect.arrayContaining([...before, ...added]))
  })

  it('takes no record that it would not read, nor two with one id or one key', async () => {
    await add(record('only'))
    const before = await made.read()
    await expect(add(record('only', { app_key: 'ak_only_2' }))).rejects.toThrow('app_id: same as')
    await expect(add(record('only-2', { app_key: 'ak_only' }))).rejects.toThrow('app_key: same as')
    await expect(add(record('only-3', { plan: 'x' as never }))).rejects.toThrow('plan: must be one of')
    expect(await made.read()).toEqual(before)
  })
})

// The stores of a single node in real folders: what a restart restores, what the settings do, and what a failed start
// leaves behind.

import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import type { App } from '../../src/apps/app.ts'
import type { Log } from '../../src/observe/log.ts'
import { createMetrics } from '../../src/observe/metrics.ts'
import type { Journal } from '../../src/queue/journal/journal.ts'
import { journalDirectory, segmentPath } from '../../src/queue/journal/segments.ts'
import { readConfig } from '../../src/settings/config.ts'
import { openStores } from '../../src/start/open-stores.ts'
import { Started } from '../../src/start/started.ts'
import { type Stores } from '../../src/start/stores.ts'
import { makeRecord, publish, type RecordWish } from '../support/journal.ts'
import { journalFiles } from '../support/journal-files.ts'
import { type AppRecord, appRecord, eventually, makeFolder, writeApps } from '../support/service.ts'
import { storedBytes } from '../support/stored-bytes.ts'
import { usageOf } from '../support/usage.ts'

const NOW_MS = Date.parse('2026-11-20T12:00:00Z')
const HOUR_MS = 3_600_000
/** No snapshot is written while a test runs. */
const NEVER_MS = 2_000_000_000

interface Opening {
  readonly env?: Readonly<Record<string, string>>
  readonly clock?: () => number
  readonly snapshotIntervalMs?: number
  readonly adminAddress?: { host: string; port: number }
}

type OpenStores = Stores & Pick<Started, 'stop'>

/** Opens the stores of a folder, and collects their log lines. */
async function open(folder: string, opening: Opening = {}): Promise<{ stores: OpenStores; lines: string[] }> {
  const { env = {}, clock = () => NOW_MS, snapshotIntervalMs = NEVER_MS, ...admin } = opening
  const lines: string[] = []
  const say = (level: string) => (parts: unknown, message: string) =>
    void lines.push(`${level} ${message} ${JSON.stringify(parts)}`)
  const log = { info: say('info'), warn: say('warn'), error: say('error') } as unknown as Log
  const metrics = createMetrics({ version: 'test', runtime: false })
  const started = new Started()
  try {
    const config = readConfig({ SLUICE_DATA_DIR: folder, ...env })
    const stores = await openStores(
      config,
      {
        log,
        clock,
        turnClock: { nowMs: clock },
        metrics,
        bytes: storedBytes(),
        onAlert: () => {},
        snapshotIntervalMs,
        ...admin,
      },
      started,
    )
    return { stores: { ...stores, stop: () => started.stop() }, lines }
  } catch (error) {
    await started.stop()
    throw error
  }
}

/** What the journal does every few seconds, an hour from now: a start with nothing but old segments holds them as long. */
async function sweepAfterAnHour({ queue }: Stores): Promise<void> {
  const time = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + HOUR_MS)
  await (queue as Journal).sweep()
  time.mockRestore()
}

async function folderWith(apps: readonly AppRecord[]): Promise<string> {
  const folder = await makeFolder()
  await writeApps(join(folder, 'apps.json'), apps)
  return folder
}

function appOf(stores: Stores, id: string): App {
  const found = stores.apps.find(`ak_${id}`)
  if (typeof found !== 'object' || found instanceof Promise) throw new Error(`no app ${id}`)
  return found
}

/** Accepts one batch like a request: admits, stores and ends it. */
async function accept(stores: Stores, id: string, wish: RecordWish = {}): Promise<string> {
  const app = appOf(stores, id)
  const events = wish.events ?? 1
  const record = makeRecord({ receivedAtMs: NOW_MS, ...wish, appId: id })
  const key = record.keyed ? record.batchId : null
  const admitted = await stores.admission.admit(app, events, key, null)
  if (admitted.kind !== 'taken') throw new Error(`not admitted: ${admitted.kind}`)
  expect(await publish(stores.queue as Parameters<typeof publish>[0], record)).toBe('durable')
  stores.admission.end(app, admitted.charge, key, 'stored', events)
  return record.batchId
}

async function used(stores: Stores, id: string): Promise<{ minute: number; day: number; month: number }> {
  const { minute, day, month } = await usageOf(stores.admission, appOf(stores, id))
  return { minute: minute.used, day: day.used, month: month.used }
}

const readSnapshot = async (
  folder: string,
): Promise<{ usage: { apps: { appId: string; dayUsed: number }[] } } | null> =>
  JSON.parse(await readFile(join(folder, 'snapshot.json'), 'utf8').catch(() => 'null'))

describe('snapshots', () => {
  test('are written while the service runs, each with the usage so far', async () => {
    const folder = await folderWith([appRecord('a')])
    const { stores } = await open(folder, { snapshotIntervalMs: 20 })
    for (const dayUsed of [3, 6]) {
      await accept(stores, 'a', { events: 3 })
      await eventually(`a snapshot has ${dayUsed}`, async () => {
        return (await readSnapshot(folder))?.usage.apps[0]?.dayUsed === dayUsed
      })
    }
    await stores.stop()
  })

  test('the last one is written at the stop, so that the next start counts no record again', async () => {
    const folder = await folderWith([appRecord('a')])
    const { stores } = await open(folder)
    await accept(stores, 'a', { events: 3 })
    expect(await readSnapshot(folder)).toBeNull()
    await stores.stop()
    expect((await readSnapshot(folder))?.usage.apps).toMatchObject([{ appId: 'a', dayUsed: 3 }])
    const again = await open(folder)
    expect(again.lines.find((line) => line.includes('journal read'))).toContain('"records":0')
    expect(await used(again.stores, 'a')).toEqual({ minute: 3, day: 3, month: 3 })
    await again.stores.stop()
  })

  const misfits = {
    'of another version of the limits': { version: 99 },
    'without sense for the limits': { version: 1, newestMs: 'x' },
  }
  for (const [claim, usage] of Object.entries(misfits)) {
    test(`one ${claim} is ignored with a warning, and the counters come from the whole journal`, async () => {
      const folder = await folderWith([appRecord('a')])
      const { stores } = await open(folder)
      for (const events of [2, 3]) await accept(stores, 'a', { events })
      await stores.stop()
      const path = join(folder, 'snapshot.json')
      const snapshot = JSON.parse(await readFile(path, 'utf8')) as object
      await writeFile(path, JSON.stringify({ ...snapshot, usage }))
      const again = await open(folder)
      expect(again.lines.filter((line) => line.startsWith('warn'))).toEqual([
        expect.stringContaining('snapshot.json was not used'),
      ])
      expect(await used(again.stores, 'a')).toEqual({ minute: 5, day: 5, month: 5 })
      await accept(again.stores, 'a', { events: 1 })
      await again.stores.stop()
      expect((await readSnapshot(folder))?.usage.apps).toMatchObject([{ dayUsed: 6 }])
    })
  }
})

describe('a start', () => {
  for (const source of ['journal', 'snapshot']) {
    test(`restores the usage of the app's own billing cycle (from the ${source})`, async () => {
      const folder = await folderWith([
        appRecord('a', { billing_cycle_anchor: '2026-10-19T00:00:00Z' }),
        appRecord('b'),
      ])
      // The calendar month has both; the cycle that began on the 19th has only the second.
      const lines = [
        makeRecord({ appId: 'a', events: 40, receivedAtMs: Date.parse('2026-11-18T23:59:59Z') }).line,
        makeRecord({ appId: 'a', events: 2, receivedAtMs: Date.parse('2026-11-19T00:00:01Z') }).line,
        makeRecord({ appId: 'b', events: 7, receivedAtMs: Date.parse('2026-11-02T00:00:00Z') }).line,
      ]
      await mkdir(journalDirectory(folder))
      await writeFile(segmentPath(journalDirectory(folder), 1), Buffer.concat(lines))
      let { stores } = await open(folder)
      if (source === 'snapshot') {
        await stores.stop()
        ;({ stores } = await open(folder))
      }
      expect((await used(stores, 'a')).month).toBe(2)
      expect((await used(stores, 'b')).month).toBe(7)
      await stores.stop()
    })
  }

  test('restores the keys of the last 300 s, and no older ones', async () => {
    const folder = await folderWith([appRecord('a')])
    let nowMs = NOW_MS - 301_000
    const { stores } = await open(folder, { clock: () => nowMs })
    const old = await accept(stores, 'a', { keyed: true, receivedAtMs: nowMs })
    nowMs = NOW_MS - 299_000
    const young = await accept(stores, 'a', { keyed: true, events: 4, receivedAtMs: nowMs })
    await stores.stop()
    const again = await open(folder)
    const app = appOf(again.stores, 'a')
    expect(await again.stores.admission.replayOf(app, young)).toEqual({ kind: 'replay', events: 4 })
    expect(await again.stores.admission.replayOf(app, old)).toBe(null)
    await again.stores.stop()
  })

  test('that fails because of a bad app file releases the folder for the next one', async () => {
    const folder = await makeFolder()
    const path = join(folder, 'apps.json')
    await writeFile(path, '{"apps": [')
    for (let n = 0; n < 2; n++) await expect(open(folder)).rejects.toThrow(`${path} cannot be used`)
    await writeApps(path, [appRecord('a')])
    const { stores } = await open(folder)
    await accept(stores, 'a')
    await stores.stop()
  })

  test('that fails because it cannot open the journal releases the folder too', async () => {
    const folder = await folderWith([appRecord('a')])
    const env = { SLUICE_DATA_DIR: folder }
    const path = journalDirectory(folder)
    await writeFile(path, 'a file where a folder belongs')
    for (let n = 0; n < 2; n++) await expect(open(folder, { env })).rejects.not.toThrow('is in use')
  })

  test('of a second process in the same folder is refused until the first one has ended', async () => {
    const folder = await folderWith([appRecord('a')])
    const { stores } = await open(folder)
    await expect(open(folder)).rejects.toThrow('is in use')
    await accept(stores, 'a')
    await stores.stop()
    await (await open(folder)).stores.stop()
  })
})

describe('settings of the stores', () => {
  test('expired keys are forgotten even if nobody asks for them', async () => {
    const folder = await folderWith([appRecord('a')])
    let nowMs = NOW_MS
    const { stores } = await open(folder, { clock: () => nowMs })
    for (let n = 0; n < 5; n++) await accept(stores, 'a', { keyed: true })
    expect(stores.gauges.keysRemembered?.()).toBe(5)
    nowMs += 300_001
    await eventually('the keys are forgotten', () => stores.gauges.keysRemembered?.() === 0, 10_000)
    await stores.stop()
  })

  test('SLUICE_MAX_KEYS bounds the remembered keys', async () => {
    const folder = await folderWith([appRecord('a')])
    const { stores } = await open(folder, { env: { SLUICE_MAX_KEYS: '2' } })
    for (let n = 0; n < 2; n++) await accept(stores, 'a', { keyed: true })
    const more = makeRecord({ keyed: true }).batchId
    expect(await stores.admission.admit(appOf(stores, 'a'), 1, more, null)).toEqual({
      kind: 'overloaded',
      reason: 'keys_full',
    })
    await stores.stop()
  })

  /** Three segments, two of which are older than some hours, and no sign of the version that wrote them. */
  async function writeSegments(folder: string, agesHours: readonly number[]): Promise<void> {
    const directory = journalDirectory(folder)
    await mkdir(directory)
    for (const [index, ageHours] of agesHours.entries()) {
      const { line } = makeRecord({ appId: 'a', receivedAtMs: NOW_MS - ageHours * HOUR_MS })
      await writeFile(segmentPath(directory, index + 1), line)
    }
  }
  const segments = (folder: string, numbers: readonly number[]): string[] =>
    numbers.map((number) => segmentPath(journalDirectory(folder), number))

  test.each([
    ['2', [2, 3], 2 * 3600],
    ['all', [1, 2, 3], null],
  ] as const)(
    'SLUICE_JOURNAL_KEEP_HOURS of %s holds for a journal of an earlier version too, without a word',
    async (hours, left, keep) => {
      const folder = await folderWith([appRecord('a')])
      await writeSegments(folder, [2.1, 1.9, 0])
      const { stores, lines } = await open(folder, { env: { SLUICE_JOURNAL_KEEP_HOURS: hours } })
      expect(journalFiles(folder)).toEqual(segments(folder, left))
      expect((await used(stores, 'a')).day).toBe(3)
      expect(stores.gauges.journalKeepSeconds?.()).toBe(keep)
      expect(lines.filter((line) => line.includes('SLUICE_JOURNAL_KEEP_HOURS'))).toEqual([])
      await stores.stop()
    },
  )

  test('a journal of an earlier version keeps all until the setting is named, and each start says what 72 hours would remove', async () => {
    const folder = await folderWith([appRecord('a')])
    await writeSegments(folder, [240, 100, 1, 0])
    for (let start = 0; start < 2; start++) {
      const { stores, lines } = await open(folder)
      await sweepAfterAnHour(stores)
      expect(lines.filter((line) => line.includes('SLUICE_JOURNAL_KEEP_HOURS'))).toEqual([
        expect.stringMatching(
          /^warn an earlier version made this journal, so all of it is kept: 72 hours, the default of new folders, would remove 2 segments \(\d+ B, up to 10 days old\)\. Choose with SLUICE_JOURNAL_KEEP_HOURS=72 or SLUICE_JOURNAL_KEEP_HOURS=all /,
        ),
      ])
      expect(stores.gauges.journalKeepSeconds?.()).toBeNull()
      await stores.stop()
      expect(journalFiles(folder)).toEqual(segments(folder, [1, 2, 3, 4]))
    }
  })

  test('a new journal removes what is older than 72 hours, at a later start too', async () => {
    const folder = await folderWith([appRecord('a')])
    const first = await open(folder)
    await accept(first.stores, 'a')
    expect(first.stores.gauges.journalKeepSeconds?.()).toBe(72 * 3600)
    await first.stores.stop()
    // As if it had been written by then.
    const { line } = makeRecord({ appId: 'a', receivedAtMs: NOW_MS })
    await writeFile(segmentPath(journalDirectory(folder), 2), line)
    const second = await open(folder, { clock: () => NOW_MS + 73 * HOUR_MS })
    expect(journalFiles(folder)).toEqual(segments(folder, [1, 2]))
    await sweepAfterAnHour(second.stores)
    expect(journalFiles(folder)).toEqual(segments(folder, [2]))
    expect(second.lines.join('\n')).toMatch(
      /^info removed 1 old segment of the journal \(\d+ B\), whose last records /m,
    )
    expect(second.lines.join()).not.toContain('SLUICE_JOURNAL_KEEP_HOURS')
    await second.stores.stop()
  })

  test('a new journal that cannot be marked keeps all, and each start says so', async () => {
    const folder = await folderWith([appRecord('a')])
    await mkdir(journalDirectory(folder))
    // A link, which no file is written through.
    await symlink(join(folder, 'none', 'mark'), join(journalDirectory(folder), 'removes-old-segments'))
    const { stores, lines } = await open(folder)
    expect(lines.filter((line) => line.includes('removes-old-segments'))).toEqual([
      expect.stringMatching(
        /^warn all of this journal is kept until SLUICE_JOURNAL_KEEP_HOURS is set: journal\/removes-old-segments cannot be made .*EEXIST/,
      ),
    ])
    expect(stores.gauges.journalKeepSeconds?.()).toBeNull()
    await accept(stores, 'a')
    await stores.stop()
    const next = await open(folder, { clock: () => NOW_MS + 1000 * HOUR_MS })
    await sweepAfterAnHour(next.stores)
    expect(journalFiles(folder)).toHaveLength(1)
    expect(next.lines.join()).toContain('all of it is kept')
    await next.stores.stop()
    const named = await open(folder, { env: { SLUICE_JOURNAL_KEEP_HOURS: '5' } })
    expect(named.stores.gauges.journalKeepSeconds?.()).toBe(5 * 3600)
    await named.stores.stop()
  })

  test('a start does not fail where the address of the admin port cannot be written for commands', async () => {
    const folder = await folderWith([appRecord('a')])
    await mkdir(join(folder, 'admin.json.new'))
    const { stores, lines } = await open(folder, { adminAddress: { host: '127.0.0.1', port: 9091 } })
    expect(lines.join('\n')).toMatch(/^warn commands such as sluice usage need SLUICE_ADMIN_PORT: .*admin\.json\.new/m)
    await accept(stores, 'a')
    await stores.stop()
  })
})

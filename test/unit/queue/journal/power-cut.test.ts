// The journal and its snapshots on a disk that loses what was not synced.

import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { expect, test, vi } from 'vitest'
import { MemoryLimiter } from '../../../../src/limits/own/memory-limiter.ts'
import { recoverLimiter } from '../../../../src/limits/own/recovered.ts'
import { createMetrics } from '../../../../src/observe/metrics.ts'
import { type Disk, RealDisk } from '../../../../src/queue/journal/disk.ts'
import { type Journal, openJournal } from '../../../../src/queue/journal/journal.ts'
import { type JournalPosition, journalDirectory } from '../../../../src/queue/journal/segments.ts'
import { writeSnapshot } from '../../../../src/queue/journal/snapshot.ts'
import { readConfig } from '../../../../src/settings/config.ts'
import { openEmbeddedStores } from '../../../../src/start/embedded.ts'
import { Started } from '../../../../src/start/started.ts'
import { makeRecord, publish, readNaively, timersWithoutIntervals } from '../../../support/journal.ts'
import type { PowerCutDisk } from '../../../support/power-cut.ts'
import { makeFolder } from '../../../support/service.ts'
import { storedBytes } from '../../../support/stored-bytes.ts'
import { anApp } from '../../apps/apps.ts'

const { disk } = await vi.hoisted(async (): Promise<{ disk: PowerCutDisk }> => {
  const support = await import('../../../support/power-cut.ts')
  return { disk: new support.PowerCutDisk() }
})
vi.mock('node:fs', async (importActual) => disk.watched(await importActual()))
vi.mock('node:fs/promises', async (importActual) => disk.watchedPromises(await importActual()))

const NOW_MS = 1_800_000_000_000
const SEGMENT_BYTES = 300_000
const LARGE_BYTES = 70_000
/** The first ends at a block, and those behind it can be written directly. */
const LARGE_IN_A_ROW = 3
const app = anApp({ appId: 'demo', eventsPerMinute: 1e6, eventsPerDay: null, eventsPerMonth: 1e6 })

/** A service with one app, and what a power cut may not take from it. */
class Life {
  readonly limiter = new MemoryLimiter()
  readonly journal: Journal
  readonly #folder: string
  /** By the batch id. */
  readonly #answered = new Set<string>()
  /** By the last snapshot. */
  #covered: JournalPosition | null = null
  #cuts = 0

  private constructor(folder: string, journal: Journal) {
    this.#folder = folder
    this.journal = journal
  }

  static async start(folder: string): Promise<Life> {
    disk.keep(folder)
    const options = { maxBytes: 1e8, keepHours: null, segmentBytes: SEGMENT_BYTES, clock: () => NOW_MS }
    const timers = timersWithoutIntervals
    return new Life(folder, await openJournal({ directory: journalDirectory(folder), ...options, timers }))
  }

  async take(events: number, fillBytes: number): Promise<void> {
    const record = makeRecord({ events, receivedAtMs: NOW_MS, fillBytes })
    const takenAtMs = this.limiter.take(app, events, NOW_MS)
    if (typeof takenAtMs !== 'number') throw new Error(takenAtMs)
    await new Promise<void>((resolve) => {
      this.journal.publish(record, (ack) => {
        assert.equal(ack, 'durable')
        this.limiter.commit(app, events, takenAtMs)
        this.#answered.add(record.batchId)
        resolve()
      })
    })
  }

  async writeSnapshot(): Promise<void> {
    const { journal, limiter } = this
    const position = journal.position()
    const keysFrom = journal.keysFrom(NOW_MS)
    await writeSnapshot(this.#folder, { writtenAtMs: NOW_MS, position, keysFrom, usage: limiter.dump() })
    this.#covered = position
  }

  /** A power cut now: all that was answered is there, and the limits count just what is there. */
  async survivesCut(): Promise<void> {
    const found = join(`${this.#folder}-cut`, String(++this.#cuts))
    disk.cut(this.#folder, found)
    const stored = await readNaively(journalDirectory(found), true)
    assert.deepEqual(new Set(stored.map((record) => record.batch_id)), this.#answered)
    const { limiter, recovery } = await recoverLimiter({
      dataDirectory: found,
      nowMs: NOW_MS,
      apps: [app],
      onDamage: ({ path, offset }) => assert.fail(`${path} is damaged at ${offset}`),
    })
    const { snapshotProblem, resumeAfter } = recovery
    assert.deepEqual({ snapshotProblem, resumeAfter }, { snapshotProblem: null, resumeAfter: this.#covered })
    const events = stored.reduce((sum, record) => sum + record.events.length, 0)
    assert.equal(limiter.usage(app, NOW_MS).month.used, events)
  }
}

test.runIf(process.platform === 'linux')(
  'a power cut takes nothing that was answered, and miscounts nothing',
  async () => {
    const outer = await makeFolder()
    const folder = join(outer, 'data')
    await mkdir(folder)
    const life = await Life.start(folder)
    for (let round = 0; round < 6; round++) {
      // One by one, several at once, and so large that they are written past the page cache.
      await life.take(1, 100)
      await life.survivesCut()
      await Promise.all([life.take(2, 300), life.take(3, 50), life.take(4, 0)])
      await life.survivesCut()
      for (let large = 0; large < LARGE_IN_A_ROW; large++) await life.take(1, LARGE_BYTES)
      await life.survivesCut()
      await life.writeSnapshot()
      await life.survivesCut()
    }
    expect(life.journal.position().segment).toBeGreaterThan(3)
    await life.journal.stop()
  },
)

test.runIf(process.platform === 'linux')(
  'a power cut takes nothing of a first start, which made the folder',
  async () => {
    const outer = await makeFolder()
    disk.keep(outer)
    const folder = join(outer, 'of', 'the', 'first', 'start')
    const started = new Started()
    try {
      const context = {
        log: pino({ level: 'silent' }),
        clock: () => NOW_MS,
        turnClock: { nowMs: () => NOW_MS },
        metrics: createMetrics({ version: '0', runtime: false }),
        bytes: storedBytes(),
        onAlert: () => {},
      }
      const { queue } = await openEmbeddedStores(readConfig({ SLUICE_DATA_DIR: folder }), context, started)
      const record = makeRecord({ events: 3, receivedAtMs: NOW_MS })
      await new Promise<void>((resolve) => {
        queue.publish(record, (ack) => {
          assert.equal(ack, 'durable')
          resolve()
        })
      })
      const found = join(outer, 'found')
      disk.cut(outer, found)
      const stored = await readNaively(journalDirectory(join(found, 'of', 'the', 'first', 'start')))
      expect(stored.map((stored) => stored.batch_id)).toEqual([record.batchId])
    } finally {
      await started.stop()
    }
  },
)

test('the journal moves its position in the turn in which it settles the records before it', async () => {
  const folder = await makeFolder()
  let settledBytes = 0
  const seen: number[] = []
  const positions: number[] = []
  const look = (): void => {
    seen.push(settledBytes)
    positions.push(journal.position().offset)
  }
  class LookingDisk extends RealDisk {
    override append(...[file, lines, done]: Parameters<Disk['append']>): void {
      super.append(file, lines, (error, bytes) => {
        done(error, bytes)
        look()
        setImmediate(look)
      })
    }
  }
  const journal = await openJournal({
    directory: folder,
    maxBytes: 1e8,
    keepHours: null,
    disk: new LookingDisk(),
    timers: timersWithoutIntervals,
  })
  for (let round = 0; round < 5; round++) {
    const record = makeRecord({ fillBytes: round })
    const settled = publish(journal, record).then(look)
    const other = makeRecord({ fillBytes: 100 })
    journal.publish(other, () => (settledBytes += record.line.length + other.line.length))
    await settled
  }
  await journal.stop()
  expect(positions).toEqual(seen)
  expect(settledBytes).toBeGreaterThan(0)
})

import { describe, expect, it } from 'vitest'
import { type Journal, type JournalOptions, openJournal } from '../../../../src/queue/journal/journal.ts'
import { makeRecord, publish, readNaively } from '../../../support/journal.ts'
import { Time } from '../../../support/opened-journal.ts'
import { makeFolder } from '../../../support/service.ts'

const HOUR_MS = 3_600_000
/** Each record has a segment of its own. */
const SMALL = { segmentBytes: 200, keepHours: 2 }

const isoOf = (timeMs: number) => new Date(timeMs).toISOString()

/** A folder, and what happens to the journals that are opened in it one after the other. */
class Kept extends Time {
  readonly #directory: string
  readonly #notices: string[] = []
  journal!: Journal

  private constructor(directory: string) {
    super()
    this.#directory = directory
  }

  static async open(changes: Partial<JournalOptions> = SMALL): Promise<Kept> {
    const kept = new Kept(await makeFolder())
    await kept.reopen(changes)
    return kept
  }

  async reopen(changes: Partial<JournalOptions> = SMALL): Promise<void> {
    await this.journal?.stop()
    const onNotice = (message: string, level = 'warning') => void this.#notices.push(`${level}: ${message}`)
    const own = { directory: this.#directory, clock: this.clock, timers: this.timers, onNotice }
    this.journal = await openJournal({ ...own, maxBytes: 64_000_000, keepHours: null, ...changes })
  }

  /** Stores one record after the other, a second apart; returns when each was received. */
  async store(records: number): Promise<string[]> {
    const times: string[] = []
    for (let record = 0; record < records; record += 1) {
      const receivedAtMs = this.clock()
      // The pace of commits goes by the same clock.
      this.nowMs += 1000
      const ack = await publish(this.journal, makeRecord({ receivedAtMs }))
      if (ack !== 'durable') throw new Error(`a record was refused: ${ack}`)
      times.push(isoOf(receivedAtMs))
    }
    return times
  }

  /** When each record that is there was received. */
  async stored(): Promise<string[]> {
    return (await readNaively(this.#directory)).map((each) => each.received_at)
  }

  async storedAfterSweep(): Promise<string[]> {
    await this.journal.sweep()
    return await this.stored()
  }

  takeNotices(): string[] {
    return this.#notices.splice(0)
  }
}

describe('old segments', () => {
  it('are named in one line of the log when they are removed', async () => {
    const kept = await Kept.open()
    const stored: string[] = []
    for (let hour = 0; hour < 5; hour += 1) {
      stored.push(...(await kept.store(1)))
      kept.nowMs += HOUR_MS
    }
    const before = kept.journal.sizeBytes
    expect(await kept.storedAfterSweep()).toEqual(stored.slice(4))
    const bytes = before - kept.journal.sizeBytes
    expect(kept.takeNotices()).toEqual([
      `info: removed 4 old segments of the journal (${bytes} B), whose last records were received from ${stored[0]} to ${stored[3]}`,
    ])
    await kept.journal.sweep()
    expect(kept.takeNotices()).toEqual([])
    await kept.journal.stop()
  })

  it('go at a start where a record is younger, or the hours are named', async () => {
    const kept = await Kept.open()
    const stored = await kept.store(2)
    kept.nowMs += 3 * HOUR_MS
    stored.push(...(await kept.store(2)))
    await kept.reopen()
    expect(await kept.stored()).toEqual(stored.slice(2))
    kept.nowMs += 1000 * HOUR_MS
    await kept.reopen({ ...SMALL, isKeepNamed: true })
    expect(await kept.stored()).toEqual(stored.slice(3))
    expect(kept.takeNotices()).toEqual([
      expect.stringMatching(/^info: removed 2 old segments of the journal/),
      expect.stringMatching(/^info: removed 1 old segment of the journal/),
    ])
    await kept.journal.stop()
  })

  it('stay for an hour after a start that finds all of them too old', async () => {
    const kept = await Kept.open()
    const stored = await kept.store(2)
    await kept.journal.stop()
    kept.nowMs += 1000 * HOUR_MS
    await kept.reopen()
    kept.nowMs += HOUR_MS - 1
    expect(await kept.storedAfterSweep()).toEqual(stored)
    kept.nowMs += 1
    expect(await kept.storedAfterSweep()).toEqual(stored.slice(1))
    expect(kept.takeNotices()).toEqual([expect.stringMatching(/^info: removed 1 old segment of the journal/)])
    await kept.journal.stop()
  })

  it('stay where the clock jumps ahead, until what was stored before is as old as it says', async () => {
    const kept = await Kept.open()
    kept.nowMs += HOUR_MS
    const old = await kept.store(2)
    kept.jumpedMs += 1000 * HOUR_MS
    expect(await kept.storedAfterSweep()).toEqual(old)
    expect(kept.takeNotices()).toEqual([
      `warning: the clock jumped ahead by 41.7 days: by it no segment of the journal is removed until ${isoOf(kept.clock() + 2 * HOUR_MS)}, ` +
        'since none is so old: set it right if it is wrong',
    ])
    const young = await kept.store(2)
    kept.nowMs += HOUR_MS
    expect(await kept.storedAfterSweep()).toEqual([...old, ...young])
    kept.nowMs += HOUR_MS - 2001
    expect(await kept.storedAfterSweep()).not.toContain(old[0])
    kept.nowMs += 1
    expect(await kept.storedAfterSweep()).toEqual(young)
    kept.nowMs += HOUR_MS
    expect(await kept.storedAfterSweep()).toEqual([young[1]])
    await kept.journal.stop()
  })

  it('stay where the clock jumps ahead and back', async () => {
    const kept = await Kept.open()
    kept.nowMs += HOUR_MS
    const stored = await kept.store(2)
    for (const jumpMs of [1000 * HOUR_MS, -1000 * HOUR_MS, -HOUR_MS]) {
      kept.jumpedMs += jumpMs
      stored.push(...(await kept.store(1)))
      expect(await kept.storedAfterSweep()).toEqual(stored)
    }
    // Received at what the clock says: only by that time it grows old.
    kept.nowMs += 2 * HOUR_MS
    expect((await kept.storedAfterSweep()).slice(-2)).toEqual(stored.slice(-2))
    await kept.journal.stop()
  })

  it('stay where no hours are configured', async () => {
    const kept = await Kept.open({ segmentBytes: 500, keepHours: null })
    await kept.store(24)
    kept.nowMs += 1000 * HOUR_MS
    await kept.reopen({})
    expect(await kept.storedAfterSweep()).toHaveLength(24)
    await kept.journal.stop()
  })

  it('stay while one of their keys may be remembered, however few hours are configured', async () => {
    const kept = await Kept.open({ segmentBytes: 500, keepHours: 0.001 })
    await kept.store(20)
    // The first is as old as a key is remembered.
    kept.nowMs += 300_000 - 20_000
    expect(await kept.storedAfterSweep()).toHaveLength(20)
    await kept.journal.stop()
  })

  it('never include the one being written', async () => {
    const kept = await Kept.open({ keepHours: 1 })
    await kept.store(1)
    kept.nowMs += 100 * HOUR_MS
    expect(await kept.storedAfterSweep()).toHaveLength(1)
    await kept.journal.stop()
  })
})

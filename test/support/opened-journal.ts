// A journal of its own for one test, which moves its time and its disk; it is stopped with the test.

import { onTestFinished } from 'vitest'
import { type JournalOptions, openJournal } from '../../src/queue/journal/journal.ts'
import { FailingDisk, makeRecord, publish, type RecordWish, readNaively, timersWithoutIntervals } from './journal.ts'
import { makeFolder } from './service.ts'

export class Time {
  nowMs = 1_800_000_000_000
  /** How far the clock jumped, which is no time that passed. */
  jumpedMs = 0
  readonly clock = () => this.nowMs + this.jumpedMs
  readonly timers = { ...timersWithoutIntervals, monotonicMs: () => this.nowMs }
}

interface Wishes extends Partial<JournalOptions> {
  readonly time?: Time
}

export async function openedJournal({ time = new Time(), ...changes }: Wishes = {}) {
  const directory = changes.directory ?? (await makeFolder())
  const disk = new FailingDisk()
  const notices: string[] = []
  const onNotice = (message: string) => void notices.push(message)
  const own = { directory, disk, onNotice, clock: time.clock, timers: timersWithoutIntervals }
  const journal = await openJournal({ ...own, maxBytes: 64_000_000, keepHours: null, ...changes })
  onTestFinished(() => journal.stop())
  const stored = async () => {
    await journal.stop()
    return await readNaively(directory)
  }
  return {
    journal,
    directory,
    time,
    disk,
    notices,
    send: (wish?: RecordWish) => publish(journal, makeRecord(wish)),
    /** Once it has stopped. */
    stored,
    storedIds: async () => (await stored()).map(({ batch_id }) => batch_id),
  }
}

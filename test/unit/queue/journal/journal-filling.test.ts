import { describe, expect, it } from 'vitest'
import { watchFilling } from '../../../../src/queue/journal/journal-filling.ts'
import { ManualTimers } from '../../../support/timers.ts'

const MIB = 1024 ** 2
const MAX_BYTES = 100 * MIB

class Stage {
  readonly timers = new ManualTimers()
  readonly lines: string[] = []
  readonly journal = { sizeBytes: 0 }
  freeBytes: number | null = 1000 * MIB
  asked = 0
  readonly filling = watchFilling(this.journal, {
    directory: '/data/journal',
    maxBytes: MAX_BYTES,
    onNotice: (message) => void this.lines.push(message),
    timers: this.timers,
    freeBytes: async () => {
      this.asked += 1
      if (this.freeBytes === null) throw new Error('ENOENT')
      return this.freeBytes
    },
  })

  /** A commit takes room on the disk. */
  commit(sizeMib: number): void {
    this.freeBytes = (this.freeBytes ?? 0) - (sizeMib * MIB - this.journal.sizeBytes)
    this.journal.sizeBytes = sizeMib * MIB
    this.filling.look()
  }

  taken(): string[] {
    return this.lines.splice(0)
  }
}

describe('a journal that fills', () => {
  it('is logged in the commit that reaches a step, not with the next measurement', async () => {
    const stage = new Stage()
    await stage.filling.measure()
    stage.commit(79)
    expect(stage.taken()).toEqual([])
    stage.commit(80)
    expect(stage.taken()).toEqual([
      expect.stringMatching(
        /^the journal is 80% full \(80 MiB of 100 MiB\).*; when full, requests get 503: raise SLUICE_JOURNAL_MAX_MB or lower SLUICE_JOURNAL_KEEP_HOURS$/,
      ),
    ])
    stage.commit(81)
    expect(stage.taken()).toEqual([])
  })

  it('by its disk is measured against what the disk has left, and says what to do there', async () => {
    const stage = new Stage()
    expect(stage.filling.maxBytes()).toBe(MAX_BYTES)
    stage.freeBytes = 50 * MIB
    await stage.filling.measure()
    stage.commit(40)
    expect(stage.filling.maxBytes()).toBe(50 * MIB)
    expect(stage.taken()).toEqual([
      expect.stringMatching(
        /^the journal is 80% full \(40 MiB of 50 MiB\).*: its disk has 10 MiB free: make room there or lower SLUICE_JOURNAL_KEEP_HOURS$/,
      ),
    ])
  })

  it('that is small on a full disk stays full until a batch of the largest size has room', async () => {
    const stage = new Stage()
    stage.freeBytes = 0
    await stage.filling.measure()
    expect(stage.taken()).toEqual([expect.stringMatching(/^the journal is full \(0 B of 0 B\)/)])
    stage.filling.refused()
    stage.freeBytes = 4096
    await stage.timers.pass(10_000)
    expect(stage.taken()).toEqual([])
    stage.freeBytes = 50 * MIB
    await stage.timers.pass(5000)
    expect(stage.taken()).toEqual([expect.stringMatching(/^the journal has room again/)])
  })

  it('without a record more is logged where something else takes the room of its disk, and where it is given back', async () => {
    const stage = new Stage()
    stage.journal.sizeBytes = 40 * MIB
    await stage.filling.measure()
    stage.freeBytes = 2 * MIB
    await stage.timers.pass(5000)
    expect(stage.taken()).toEqual([expect.stringMatching(/95% full \(40 MiB of 42 MiB\) and will be full on 1970-/)])
    stage.freeBytes = 0
    await stage.timers.pass(5000)
    expect(stage.taken()).toEqual([
      'the journal is full (40 MiB of 40 MiB): answering 503 until there is room: ' +
        'its disk has 0 B free: make room there or lower SLUICE_JOURNAL_KEEP_HOURS',
    ])
    stage.freeBytes = 500 * MIB
    await stage.timers.pass(5000)
    expect(stage.taken()).toEqual(['the journal has room again (40 MiB of 100 MiB): requests get 202 as before'])
  })

  it('is full as soon as it refuses a record, and is not asked about again for each one', async () => {
    const stage = new Stage()
    await stage.filling.measure()
    stage.commit(70)
    for (let record = 0; record < 100; record += 1) stage.filling.refused()
    await stage.timers.pass(0)
    expect(stage.asked).toBe(2)
    expect(stage.taken()).toEqual([
      expect.stringMatching(/^the journal is full \(70 MiB of 100 MiB\).*SLUICE_JOURNAL_MAX_MB/),
    ])
    const { asked } = stage
    await stage.timers.pass(1000)
    for (let record = 0; record < 100; record += 1) stage.filling.refused()
    await stage.timers.pass(0)
    expect(stage.asked).toBe(asked)
    // A commit of a small record does not mean that there is room for all.
    stage.commit(70)
    await stage.timers.pass(4000)
    expect(stage.taken()).toEqual([])
    await stage.timers.pass(5000)
    expect(stage.taken()).toEqual([expect.stringContaining('has room again')])
  })

  it('says what its disk has free when it says it, not what it had before', async () => {
    const stage = new Stage()
    stage.freeBytes = 50 * MIB
    await stage.filling.measure()
    stage.commit(46)
    expect(stage.taken()).toEqual([expect.stringContaining(': its disk has 4 MiB free: ')])
    // Another program takes the rest: a record is refused, and a smaller one is written while the disk is asked.
    stage.freeBytes = 0
    stage.filling.refused()
    stage.filling.look()
    await stage.timers.pass(0)
    expect(stage.taken()).toEqual([expect.stringMatching(/^the journal is full .*: its disk has 0 B free: /)])
  })

  it('goes on with the last measurement where its folder cannot be asked, and ends with the service', async () => {
    const stage = new Stage()
    stage.freeBytes = 50 * MIB
    await stage.filling.measure()
    stage.freeBytes = null
    await stage.timers.pass(5000)
    stage.journal.sizeBytes = 40 * MIB
    stage.filling.look()
    expect(stage.taken()).toHaveLength(1)
    stage.filling.stop()
    const { asked } = stage
    await stage.timers.pass(60_000)
    expect(stage.asked).toBe(asked)
  })
})

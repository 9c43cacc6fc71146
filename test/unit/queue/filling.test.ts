import { describe, expect, it } from 'vitest'
import { Filling } from '../../../src/queue/filling.ts'
import { ManualTimers } from '../../support/timers.ts'

const GIB = 1024 ** 3
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const ADVICE = 'raise SLUICE_JOURNAL_MAX_MB'
const LARGEST_BYTES = 532_480

class Stage {
  readonly timers = new ManualTimers()
  readonly lines: string[] = []
  readonly levels: (string | undefined)[] = []
  most = ''
  /** What those who fill it were told. */
  readonly holds: boolean[] = []
  readonly filling = new Filling({
    store: 'the journal',
    fillers: { hold: (_store, isHeld) => void this.holds.push(isHeld), mostText: () => this.most },
    largestBytes: LARGEST_BYTES,
    onNotice: (message, level) => {
      this.lines.push(message)
      this.levels.push(level)
    },
    timers: this.timers,
  })

  /** The lines that a look at this level adds. */
  at(usedBytes: number, maxBytes = 10 * GIB): string[] {
    this.lines.length = 0
    this.filling.look(usedBytes, maxBytes, () => ADVICE)
    return [...this.lines]
  }

  /** A look each minute on the way from one level to the other, both in GiB. */
  async pass(ms: number, fromGib: number, toGib: number): Promise<string[]> {
    const lines: string[] = []
    for (let passedMs = 0; passedMs <= ms; passedMs += MINUTE_MS) {
      lines.push(...this.at((fromGib + ((toGib - fromGib) * passedMs) / ms) * GIB))
      if (passedMs < ms) await this.timers.pass(MINUTE_MS)
    }
    return lines
  }
}

describe('those who fill a store', () => {
  it('are held from 80% on until it is below 70%', () => {
    const stage = new Stage()
    const heldAt = [79.9, 80, 100, 79, 70, 69.9, 79.9, 80].map((percent) => {
      stage.at((percent / 10) * GIB)
      return stage.holds.at(-1) === true
    })
    expect(heldAt).toEqual([false, true, true, true, true, false, false, true])
    expect(stage.holds).toEqual([true, false, true])
  })

  it('are free once it has no maximum any more', () => {
    const stage = new Stage()
    stage.at(9 * GIB)
    stage.filling.unbound()
    stage.filling.unbound()
    expect(stage.holds).toEqual([true, false])
  })

  it('are named at the end of each line about what fills', () => {
    const stage = new Stage()
    stage.most = '; most of it is of shop'
    expect(stage.at(8 * GIB)).toEqual([expect.stringMatching(/ 80% full .*_MB; most of it is of shop$/)])
    expect(stage.at(10 * GIB)).toEqual([expect.stringMatching(/is full .*_MB; most of it is of shop$/)])
    stage.holds.length = 0
    expect(stage.at(5 * GIB)).toEqual([expect.stringMatching(/as before$/)])
    expect(stage.holds).toEqual([false])
  })
})

describe('a store that fills', () => {
  it('is logged at 80, 90 and 95%, with the date on which it is full and what to do, and once when it is full', async () => {
    const stage = new Stage()
    await stage.timers.pass(Date.UTC(2026, 10, 27))
    // A tenth of it in an hour.
    expect(await stage.pass(10 * HOUR_MS, 0, 10)).toEqual([
      'the journal is 80% full (8 GiB of 10 GiB) and will be full on 2026-11-27T10:00Z at the rate of the last hour; ' +
        'when full, requests get 503: raise SLUICE_JOURNAL_MAX_MB',
      'the journal is 90% full (9 GiB of 10 GiB) and will be full on 2026-11-27T10:00Z at the rate of the last hour; ' +
        'when full, requests get 503: raise SLUICE_JOURNAL_MAX_MB',
      'the journal is 95% full (9.5 GiB of 10 GiB) and will be full on 2026-11-27T10:00Z at the rate of the last hour; ' +
        'when full, requests get 503: raise SLUICE_JOURNAL_MAX_MB',
      'the journal is full (10 GiB of 10 GiB): answering 503 until there is room: raise SLUICE_JOURNAL_MAX_MB',
    ])
    expect(stage.at(10 * GIB)).toEqual([])
    expect(stage.levels).toEqual([undefined, undefined, undefined, undefined])
  })

  it('is forecast at the rate of the last hour alone, or since the start where that is shorter', async () => {
    const slow = new Stage()
    await slow.pass(10 * HOUR_MS, 0, 7)
    const lines = await slow.pass(HOUR_MS, 7, 8)
    expect(lines).toEqual([
      expect.stringMatching(/80% full .* full on 1970-01-01T13:00Z at the rate of the last hour;/),
    ])
    const young = new Stage()
    expect(await young.pass(10 * MINUTE_MS, 7, 8)).toEqual([
      expect.stringMatching(/80% full .* full on 1970-01-01T00:30Z at the rate of the last 10 min;/),
    ])
  })

  it('has no date where it does not grow, or where that day is ten years off', async () => {
    const stage = new Stage()
    expect(stage.at(8 * GIB)).toEqual([
      'the journal is 80% full (8 GiB of 10 GiB); when full, requests get 503: raise SLUICE_JOURNAL_MAX_MB',
    ])
    await stage.timers.pass(HOUR_MS)
    const creeping = new Stage()
    creeping.at(8 * GIB - 1)
    await creeping.timers.pass(HOUR_MS)
    expect(creeping.at(8 * GIB)).toEqual([expect.stringMatching(/80% full \(8 GiB of 10 GiB\); when full/)])
  })

  it('is logged again only after it fell clearly below the step', () => {
    const stage = new Stage()
    expect(stage.at(8.1 * GIB)).toHaveLength(1)
    for (const gib of [7.9, 8.1, 7.6, 8.5, 7.51, 8.9]) expect(stage.at(gib * GIB)).toEqual([])
    expect(stage.at(9.1 * GIB)).toEqual([expect.stringContaining('90% full')])
    expect(stage.at(7.4 * GIB)).toEqual([])
    expect(stage.at(8.1 * GIB)).toEqual([expect.stringContaining('80% full')])
    expect(stage.at(9.1 * GIB)).toEqual([expect.stringContaining('90% full')])
  })

  it('that passes several steps at once is logged at the highest', () => {
    const stage = new Stage()
    expect(stage.at(GIB)).toEqual([])
    expect(stage.at(9.6 * GIB)).toEqual([expect.stringContaining('95% full')])
    expect(stage.at(9.6 * GIB)).toEqual([])
  })

  it('is forecast anew after its maximum was raised', async () => {
    const stage = new Stage()
    await stage.pass(HOUR_MS, 8, 9)
    expect(stage.at(9 * GIB, 20 * GIB)).toEqual([])
    await stage.timers.pass(MINUTE_MS)
    stage.at(10 * GIB, 20 * GIB)
    await stage.timers.pass(6 * MINUTE_MS)
    // 1 GiB a minute, of which 4 are left, at 01:07.
    expect(stage.at(16 * GIB, 20 * GIB)).toEqual([
      expect.stringMatching(/80% full .* full on 1970-01-01T01:11Z at the rate of the last 7 min;/),
    ])
  })
})

describe('a full store', () => {
  it('is one without room for the largest batch, also at the start', () => {
    expect(new Stage().at(10 * GIB - LARGEST_BYTES)).toEqual([expect.stringContaining('95% full')])
    expect(new Stage().at(10 * GIB - LARGEST_BYTES + 1)).toEqual([expect.stringContaining('is full')])
  })

  it('is one that refused a batch a moment ago, whatever its level, and is logged once however many it refuses', async () => {
    const stage = new Stage()
    for (let time = 0; time < 3; time += 1) {
      stage.filling.noteRefusal()
      expect(stage.at(7 * GIB)).toEqual(
        time === 0 ? [expect.stringContaining('the journal is full (7 GiB of 10 GiB)')] : [],
      )
    }
    expect(stage.at(8.5 * GIB)).toEqual([])
    await stage.timers.pass(4999)
    expect(stage.at(7 * GIB)).toEqual([])
    await stage.timers.pass(1)
    expect(stage.at(7 * GIB)).toEqual(['the journal has room again (7 GiB of 10 GiB): requests get 202 as before'])
    expect(stage.levels.at(-1)).toBe('info')
  })

  it('has room again once a little of it is free, and the steps that it is still above are not logged anew', () => {
    const stage = new Stage()
    expect(stage.at(10 * GIB)).toHaveLength(1)
    // One segment less.
    expect(stage.at(10 * GIB - 64 * 1024 ** 2)).toEqual([])
    expect(stage.at(10 * GIB)).toEqual([])
    expect(stage.at(9.7 * GIB)).toEqual([expect.stringContaining('has room again (9.7 GiB of 10 GiB)')])
    expect(stage.at(9.8 * GIB)).toEqual([])
    expect(stage.at(10 * GIB)).toEqual([expect.stringContaining('is full')])
  })

  it('that is smaller than the largest batch has room again too', () => {
    const stage = new Stage()
    expect(stage.at(39_900, 40_000)).toEqual([expect.stringContaining('is full')])
    expect(stage.at(25_000, 40_000)).toEqual([])
    expect(stage.at(15_000, 40_000)).toEqual([expect.stringContaining('has room again')])
  })
})

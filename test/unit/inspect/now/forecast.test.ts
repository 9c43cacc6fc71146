// Forecasts of a queue and of an app over simulated time: from the second minute on within a factor of two of what comes,
// and none before.

import { describe, expect, it } from 'vitest'
import type { LastHourPiece } from '../../../../src/contract/admin/peers.ts'
import { AcceptedCounts } from '../../../../src/inspect/activity/accepted-counts.ts'
import { lastHourPiece, seenOf } from '../../../../src/inspect/last-hour.ts'
import { LocalNode } from '../../../../src/inspect/now/local-node.ts'
import { Refusals } from '../../../../src/inspect/refusals/refusals.ts'
import type { Sampler } from '../../../../src/observe/gauges.ts'
import { createMetrics } from '../../../../src/observe/metrics.ts'
import { storedBytes } from '../../../support/stored-bytes.ts'
import { ManualTimers } from '../../../support/timers.ts'

const MINUTE = 60
const BATCH_EVENTS = 10
const EVENT_BYTES = 100
const MAX_BYTES = 200_000_000

/** The clock of a machine is never near its zero. */
function startedTimers(): ManualTimers {
  const timers = new ManualTimers()
  timers.block(86_400_000)
  return timers
}

/** One node that counts an app's events and stores them. */
class Stage {
  readonly timers = startedTimers()
  bytes = 0
  #node = this.#start()
  #owed = 0

  #start(gauges: Sampler = {}) {
    const accepted = new AcceptedCounts()
    const node = new LocalNode({
      node: 'n1',
      version: 'test',
      metrics: createMetrics({ version: 'test', runtime: false }),
      gauges: () => ({
        ready: () => true,
        journalBytes: () => this.bytes,
        journalMaxBytes: () => MAX_BYTES,
        ...gauges,
      }),
      parts: () => [],
      queueKind: 'journal',
      refusedLastHour: () => [],
      timers: this.timers,
    })
    node.start()
    const counted = { accepted, refusals: new Refusals(), bytes: storedBytes() }
    return { accepted, node, counted }
  }

  restart(gauges?: Sampler): void {
    this.#node.node.stop()
    this.#node = this.#start(gauges)
  }

  send(events: number): void {
    this.#node.accepted.add('shop', events, this.timers.nowMs())
    this.bytes += events * EVENT_BYTES
  }

  /** In batches, in the middle of each second. */
  async run(seconds: number, eventsPerSecond: number, each: (second: number) => unknown = () => {}): Promise<void> {
    for (let second = 1; second <= seconds; second++) {
      await this.timers.pass(400)
      this.#owed += eventsPerSecond
      while (this.#owed >= BATCH_EVENTS) {
        this.send(BATCH_EVENTS)
        this.#owed -= BATCH_EVENTS
      }
      await this.timers.pass(600)
      await each(second)
    }
  }

  piece(): Promise<LastHourPiece> {
    return lastHourPiece(null, this.#node.counted, this.timers.nowMs())
  }

  async appRate(): Promise<number | null> {
    return seenOf('shop', [await this.piece()]).events_per_second
  }

  get fullInSeconds(): number | null {
    return this.#node.node.report(null).queue.full_in_seconds
  }
}

/** Both are within a factor of two of what this rate makes true. */
async function expectRight(stage: Stage, eventsPerSecond: number): Promise<void> {
  const rate = await stage.appRate()
  const leftSeconds = (MAX_BYTES - stage.bytes) / EVENT_BYTES / eventsPerSecond
  const factors = { app: (rate ?? 0) / eventsPerSecond, queue: (stage.fullInSeconds ?? 0) / leftSeconds }
  const wrong = Object.entries(factors).filter(([, factor]) => factor <= 0.5 || factor >= 2)
  expect(wrong).toEqual([])
}

async function expectNone(stage: Stage): Promise<void> {
  // Of an app that sends nothing there is none either.
  expect([(await stage.appRate()) || null, stage.fullInSeconds]).toEqual([null, null])
}

describe('a forecast', () => {
  it.each([0.3, 7, 400])(
    'of constant traffic of %s events/s is right from the second minute on, and none before',
    async (rate) => {
      const stage = new Stage()
      expect.hasAssertions()
      await stage.run(20 * MINUTE, rate, async (second) => {
        if (second < MINUTE) await expectNone(stage)
        if (second >= 2 * MINUTE) await expectRight(stage, rate)
      })
    },
  )

  it('of traffic that starts long after the process, or again after a pause, goes by the time since', async () => {
    const stage = new Stage()
    expect.hasAssertions()
    for (let round = 0; round < 2; round++) {
      await stage.run(47 * MINUTE, 0)
      await stage.run(10 * MINUTE, 7, async (second) => {
        if (second < MINUTE) await expectNone(stage)
        if (second >= 2 * MINUTE) await expectRight(stage, 7)
      })
    }
  })

  it('holds over a burst, at the start and later', async () => {
    const stage = new Stage()
    expect.hasAssertions()
    stage.send(400)
    await stage.run(10 * MINUTE, 7, async (second) => {
      if (second === 7 * MINUTE) stage.send(1000)
      if (second >= 2 * MINUTE) await expectRight(stage, 7)
    })
  })

  it('is there again a minute after a restart', async () => {
    const stage = new Stage()
    expect.hasAssertions()
    await stage.run(10 * MINUTE, 7)
    stage.restart()
    await stage.run(3 * MINUTE, 7, async (second) => {
      if (second < MINUTE) await expectNone(stage)
      if (second >= 2 * MINUTE) await expectRight(stage, 7)
    })
  })

  it('is none where nothing comes any more', async () => {
    const stage = new Stage()
    expect.hasAssertions()
    await stage.run(10 * MINUTE, 7)
    await stage.run(6 * MINUTE, 0)
    expect([await stage.appRate(), stage.fullInSeconds]).toEqual([0, null])
  })
})

describe('the rate of an app on many nodes', () => {
  it('is that of all, also while one of them has just started', async () => {
    const [one, other] = [new Stage(), new Stage()]
    expect.hasAssertions()
    const rate = async () => seenOf('shop', [await one.piece(), await other.piece()]).events_per_second
    await one.run(10 * MINUTE, 10)
    await other.run(10 * MINUTE, 20)
    expect(await rate()).toBeCloseTo(30, 0)
    other.restart()
    await other.run(30, 20)
    expect(await rate()).toBeGreaterThan(15)
    expect(await rate()).toBeLessThan(60)
  })
})

describe('a queue that removes what is old', () => {
  it('is never full at a rate whose kept time fits into it', async () => {
    const stage = new Stage()
    expect.hasAssertions()
    const keepSeconds = MAX_BYTES / EVENT_BYTES / 10
    stage.restart({ journalKeepSeconds: () => keepSeconds })
    await stage.run(3 * MINUTE, 9)
    expect(stage.fullInSeconds).toBe(null)
    await stage.run(6 * MINUTE, 20)
    await expectRight(stage, 20)
  })

  it('and has removed a segment goes by what came since', async () => {
    const stage = new Stage()
    expect.hasAssertions()
    await stage.run(5 * MINUTE, 20)
    stage.bytes -= 500_000
    await stage.run(1 * MINUTE - 10, 20)
    expect(stage.fullInSeconds).toBe(null)
    await stage.run(1 * MINUTE, 20)
    await expectRight(stage, 20)
  })
})

import { describe, expect, it } from 'vitest'
import type { Range } from '../../../../src/contract/admin/words.ts'
import { type Part, type PartKind, viewOf } from '../../../../src/contract/health.ts'
import { LocalNode } from '../../../../src/inspect/now/local-node.ts'
import type { Sampler } from '../../../../src/observe/gauges.ts'
import { createMetrics } from '../../../../src/observe/metrics.ts'
import { ManualTimers } from '../../../support/timers.ts'

class Stage {
  readonly timers = new ManualTimers()
  readonly metrics = createMetrics({ version: 'test', runtime: false })
  gauges: Sampler = { ready: () => true, draining: () => false }
  parts: Part[] = [{ part: 'queue', kind: 'journal', state: 'ok', reason: null }]
  readonly node = new LocalNode({
    node: 'n1',
    version: 'test',
    metrics: this.metrics,
    gauges: () => this.gauges,
    parts: () => this.parts,
    queueKind: 'journal',
    refusedLastHour: () => [],
    timers: this.timers,
  })

  report(range: Range = '15m') {
    return this.node.report(range)
  }

  accept(events: number): void {
    this.metrics.requestsReceived += events
    this.metrics.events.track += events
    for (let count = 0; count < events; count++) this.metrics.answerSeconds.observe(0.002)
  }
}

describe('rates', () => {
  it('are those of the last seconds, and cells those of each five seconds', async () => {
    const stage = new Stage()
    stage.node.start()
    stage.accept(50)
    await stage.timers.pass(5000)
    stage.metrics.overloaded('ring_full')
    stage.metrics.outcome('invalid_json')
    for (const code of ['trial_expired', 'rate_limit_exceeded'] as const) stage.metrics.outcome(code)
    await stage.timers.pass(5000)
    const { cells, rates } = stage.report()
    expect(cells.map((cell) => cell.accepted_per_second)).toEqual([10, 0])
    expect(cells.map((cell) => [cell.ours_per_second, cell.client_per_second, cell.limits_per_second])).toEqual([
      [0, 0, 0],
      [0.2, 0.2, 0.4],
    ])
    expect(rates.refused_per_second).toEqual({
      service_overloaded: 0.2,
      invalid_json: 0.2,
      trial_expired: 0.2,
      rate_limit_exceeded: 0.2,
    })
    expect(rates.events_accepted_per_second).toBe(0)
  })

  it('forget what is older than 15 minutes', async () => {
    const stage = new Stage()
    stage.node.start()
    await stage.timers.pass(1_200_000)
    expect(stage.report().cells).toHaveLength(180)
  })

  it('of a day are kept by the minute, from the start on, and no longer', async () => {
    const stage = new Stage()
    await stage.timers.pass(100_000)
    stage.node.start()
    for (let minute = 0; minute < 30; minute++) {
      stage.accept(60)
      await stage.timers.pass(60_000)
    }
    const hour = stage.report('1h').cells
    expect(hour.map(({ step }) => step)).toEqual(Array.from({ length: 31 }, (_, at) => at + 2))
    expect(hour.reduce((sum, cell) => sum + cell.accepted_per_second, 0)).toBeGreaterThan(29)
    expect(stage.report('24h').cells.map(({ accepted_per_second: rate }) => Math.round(rate * 10) / 10)).toEqual(
      expect.arrayContaining([1]),
    )
    await stage.timers.pass(30 * 3_600_000)
    expect(stage.report('24h').cells).toHaveLength(180)
    expect(stage.report('24h').cells.every(({ accepted_per_second: rate }) => rate === 0)).toBe(true)
  })

  it('count for the latency what was answered in the last minute', async () => {
    const stage = new Stage()
    stage.node.start()
    stage.accept(10)
    await stage.timers.pass(30_000)
    const total = () => stage.report().buckets.reduce((sum, count) => sum + count, 0)
    expect(total()).toBe(10)
    await stage.timers.pass(60_000)
    expect(total()).toBe(0)
  })

  it('cost nothing after the stop', async () => {
    const stage = new Stage()
    stage.node.start()
    stage.node.stop()
    await stage.timers.pass(60_000)
    expect(stage.report().cells).toEqual([])
  })
})

describe('the state', () => {
  const queue: Part = { part: 'queue', kind: 'jetstream', state: 'ok', reason: null }
  const redis: Part = { part: 'limits', kind: 'redis', state: 'ok', reason: null }

  it('says which part is not up, and for how long', async () => {
    const stage = new Stage()
    stage.parts = [queue, redis]
    stage.node.start()
    expect(stage.report()).toMatchObject({ state: 'serving', state_reason: null, reasons: [] })
    stage.parts = [queue, { ...redis, state: 'away', reason: 'connection refused' }]
    await stage.timers.pass(5000)
    stage.parts = [queue, { ...redis, state: 'away', reason: 'no answer' }]
    await stage.timers.pass(12_000)
    expect(stage.report()).toMatchObject({ state: 'degraded', state_reason: 'Redis away for 12 s', reasons: [] })
    stage.parts = [queue, redis]
    await stage.timers.pass(5000)
    expect(stage.report()).toMatchObject({ state: 'serving', state_reason: null })
    stage.parts = [queue, { ...redis, state: 'away', reason: 'connection refused' }]
    expect(stage.report()).toMatchObject({ state: 'degraded', state_reason: 'Redis away for 0 s' })
  })

  it('says what a start waits for, and that it stops', () => {
    const stage = new Stage()
    stage.parts = [{ part: 'queue', kind: 'jetstream', state: 'starting', reason: null }]
    stage.gauges = { ready: () => false }
    expect(stage.report()).toMatchObject({ state: 'starting', state_reason: 'connecting to NATS for 0 s' })
    stage.gauges = { ready: () => false, draining: () => true }
    expect(stage.report()).toMatchObject({ state: 'stopping', state_reason: null })
    stage.parts = [{ part: 'service', kind: 'process', state: 'starting', reason: null }]
    stage.gauges = { ready: () => false }
    expect(stage.report()).toMatchObject({ state: 'starting', state_reason: null })
  })

  it('is refusing while requests get 503, and some seconds longer, with the rate of each reason', async () => {
    const stage = new Stage()
    stage.node.start()
    await stage.timers.pass(10_000)
    for (let count = 0; count < 10; count++) stage.metrics.overloaded('ring_full')
    stage.metrics.overloaded('nats_slow')
    await stage.timers.pass(1000)
    const { state, state_reason, reasons } = stage.report()
    expect([state, state_reason]).toEqual(['refusing', 'ring full, NATS slow'])
    expect(reasons.map(({ reason }) => reason)).toEqual(['ring_full', 'nats_slow'])
    expect(reasons[0].per_second).toBeCloseTo(10 / 6)
    await stage.timers.pass(10_000)
    expect(stage.report()).toMatchObject({ state: 'serving', reasons: [] })
  })

  it('is not refusing for a part that is up again, whatever was refused in the last seconds', async () => {
    const stage = new Stage()
    const queue = { part: 'queue', kind: 'jetstream' } as const
    stage.parts = [{ ...queue, state: 'away', reason: 'connection refused' }]
    stage.node.start()
    for (let count = 0; count < 10; count++) stage.metrics.overloaded('nats_away')
    stage.metrics.overloaded('evicted')
    expect(stage.report()).toMatchObject({ state: 'refusing', state_reason: 'NATS away for 0 s, evicted' })
    stage.parts = [{ ...queue, state: 'ok', reason: null }]
    expect(stage.report()).toMatchObject({
      state: 'refusing',
      state_reason: 'evicted',
      reasons: [{ reason: 'evicted' }],
    })
    await stage.timers.pass(10_000)
    for (let count = 0; count < 10; count++) stage.metrics.overloaded('nats_away')
    expect(stage.report()).toMatchObject({ state: 'serving', state_reason: null, reasons: [] })
    // It is connected, and does not know its stream yet.
    stage.parts = [{ ...queue, state: 'starting', reason: null }]
    expect(stage.report()).toMatchObject({ state: 'refusing', reasons: [{ reason: 'nats_away' }] })
  })

  it.each<[PartKind, string, string]>([
    ['journal', 'full', 'journal_full'],
    ['journal', 'disk_full', 'journal_full'],
    ['journal', 'disk_error', 'journal_error'],
    ['journal', 'stuck', 'journal_stuck'],
    ['jetstream', 'away', 'nats_away'],
    ['jetstream', 'silent', 'nats_away'],
    ['jetstream', 'no_stream', 'nats_away'],
    ['jetstream', 'full', 'stream_full'],
    ['jetstream', 'refusing', 'stream_refused'],
    ['bucket', 'unread', 'apps_unread'],
  ])(
    'with %s in the state %s is refusing, though nobody sends, and does not name the reason twice',
    (kind, of, reason) => {
      const stage = new Stage()
      const part = { part: 'queue', kind, state: of, reason: 'a detail' } as Part
      expect(viewOf(part).text).toContain('503')
      stage.parts = [part]
      expect(stage.report()).toMatchObject({ state: 'refusing', reasons: [{ reason, per_second: 0 }] })
      const before = stage.report().state_reason
      stage.node.start()
      stage.metrics.overloaded(reason as 'fault')
      expect(stage.report()).toMatchObject({
        state: 'refusing',
        state_reason: before,
        reasons: [{ reason, per_second: 1 }],
      })
    },
  )
})

describe('the parts', () => {
  it('are shown as values and in words, with the latency of the last minute', async () => {
    const stage = new Stage()
    stage.parts = [
      { part: 'queue', kind: 'jetstream', state: 'slow', reason: null },
      { part: 'limits', kind: 'redis', state: 'away', reason: 'no answer' },
      { part: 'apps', kind: 'bucket', state: 'ok', reason: null },
    ]
    stage.node.start()
    stage.metrics.stageSeconds.publish.observe(0.5)
    stage.metrics.redisCallSeconds.observe(0.25)
    expect(stage.report().parts).toEqual([
      { ...stage.parts[0], up: true, latency_seconds: 0.5, text: expect.stringMatching(/^NATS slow: /) },
      { ...stage.parts[1], up: false, latency_seconds: 0.25, text: expect.stringMatching(/^Redis away: no answer: /) },
      { ...stage.parts[2], up: true, latency_seconds: null, text: 'in NATS' },
    ])
  })
})

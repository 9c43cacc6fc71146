import { describe, expect, it } from 'vitest'
import { LocalNode } from '../../../src/console/local-node.ts'
import { createMetrics } from '../../../src/observe/metrics.ts'
import type { Sampler } from '../../../src/observe/sampler.ts'
import { ManualTimers } from '../../support/timers.ts'

class Stage {
  readonly timers = new ManualTimers()
  readonly metrics = createMetrics({ version: 'test', runtime: false })
  gauges: Sampler = { ready: () => true, draining: () => false }
  parts: Record<string, string> = { queue: 'journal ok' }
  readonly node = new LocalNode({
    node: 'n1',
    version: 'test',
    metrics: this.metrics,
    gauges: () => this.gauges,
    health: { ready: () => true, parts: () => this.parts },
    queueKind: 'journal',
    journalKeepSeconds: 7200,
    refusedLastHour: () => [],
    timers: this.timers,
  })

  report() {
    return this.node.report({ withHistory: true })
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
    stage.metrics.outcome('service_overloaded')
    stage.metrics.outcome('invalid_json')
    await stage.timers.pass(5000)
    const { cells, rates } = await stage.report()
    expect(cells.map((cell) => cell.accepted_per_second)).toEqual([10, 0])
    expect(cells.map((cell) => [cell.ours_per_second, cell.rule_per_second])).toEqual([
      [0, 0],
      [0.2, 0.2],
    ])
    expect(rates.refused_per_second).toEqual({ service_overloaded: 0.2, invalid_json: 0.2 })
    expect(rates.events_accepted_per_second).toBe(0)
  })

  it('forget what is older than 15 minutes', async () => {
    const stage = new Stage()
    stage.node.start()
    await stage.timers.pass(1_200_000)
    expect((await stage.report()).cells).toHaveLength(180)
  })

  it('count for the latency what was answered in the last minute', async () => {
    const stage = new Stage()
    stage.node.start()
    stage.accept(10)
    await stage.timers.pass(30_000)
    const total = async () => (await stage.report()).buckets.reduce((sum, count) => sum + count, 0)
    expect(await total()).toBe(10)
    await stage.timers.pass(60_000)
    expect(await total()).toBe(0)
  })

  it('cost nothing after the stop', async () => {
    const stage = new Stage()
    stage.node.start()
    stage.node.stop()
    await stage.timers.pass(60_000)
    expect((await stage.report()).cells).toEqual([])
  })
})

describe('the state', () => {
  it('says what is away, and for how long', async () => {
    const stage = new Stage()
    stage.gauges = { ready: () => true, redisUp: () => true, natsUp: () => true }
    stage.parts = { queue: 'JetStream connected', limits: 'Redis connected' }
    stage.node.start()
    expect((await stage.report()).state).toBe('serving')
    stage.gauges = { ...stage.gauges, redisUp: () => false, degraded: () => ({ limits: true }) }
    await stage.timers.pass(5000)
    await stage.timers.pass(12_000)
    const { state, state_reason: reason, parts } = await stage.report()
    expect([state, reason]).toEqual(['degraded', 'Redis away for 12 s'])
    expect(parts).toEqual([
      { part: 'NATS', state: 'connected', up: true, latency_seconds: null },
      { part: 'Redis', state: 'connected', up: false, latency_seconds: null },
    ])
  })

  it('says what a start waits for, and that a drain goes on', async () => {
    const stage = new Stage()
    stage.gauges = { ready: () => false, natsUp: () => false }
    expect(await stage.report()).toMatchObject({ state: 'not ready', state_reason: 'waiting for NATS' })
    stage.gauges = { ready: () => false, draining: () => true }
    expect(await stage.report()).toMatchObject({ state: 'draining', state_reason: null })
  })
})

describe('the queue', () => {
  it('is full at the present rate after some time, and never where it does not grow', async () => {
    const stage = new Stage()
    let bytes = 0
    stage.gauges = { ready: () => true, journalBytes: () => bytes, journalMaxBytes: () => 10_000 }
    stage.node.start()
    await stage.timers.pass(100_000)
    expect((await stage.report()).queue).toMatchObject({ bytes: 0, full_in_seconds: null, keep_seconds: 7200 })
    bytes = 1000
    expect((await stage.report()).queue.full_in_seconds).toBe(900)
  })
})

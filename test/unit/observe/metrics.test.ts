import { describe, expect, it } from 'vitest'
import { OVERLOAD_REASONS, STATUS_OF_REFUSAL } from '../../../src/contract/outcome.ts'
import type { StreamSample } from '../../../src/observe/gauges.ts'
import { createMetrics } from '../../../src/observe/metrics.ts'
import { MetricsPage } from '../../../src/observe/page.ts'
import { METRIC_NAMES } from '../../cases/metric-names.ts'

const quiet = () => createMetrics({ version: '1.2.3', runtime: false })

/** The page as a map from a line's start to its number. */
async function samples(metrics: { scrape(): Promise<string> }): Promise<Map<string, number>> {
  const lines = (await metrics.scrape()).split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    lines.map((line) => {
      const space = line.lastIndexOf(' ')
      return [line.slice(0, space), Number(line.slice(space + 1))]
    }),
  )
}

describe('metrics', () => {
  it('names every family once, from the first scrape on, before anything has happened', async () => {
    const page = await quiet().scrape()
    const families = [...page.matchAll(/^# TYPE (\S+) /gm)].map(([, name]) => name)
    expect(families).toEqual([...new Set(families)])
    expect(families).toEqual(expect.arrayContaining(METRIC_NAMES))
  })

  it('follows the rules of its names: prefix, and the unit or _total last', async () => {
    const page = await quiet().scrape()
    for (const [, name, type] of page.matchAll(/# TYPE (\S+) (\S+)/g)) {
      expect(name).toMatch(
        type === 'counter' ? /^sluice_[a-z_]+_total$/ : /^(sluice_[a-z_]+(?<!_total)|process_(open|max)_fds)$/,
      )
    }
  })

  it('has every outcome at 0 from the start, under the status of its answer', async () => {
    const page = await samples(quiet())
    expect(page.get('sluice_requests_total{status="202",code="accepted"}')).toBe(0)
    expect(page.get('sluice_requests_total{status="202",code="replayed"}')).toBe(0)
    expect(page.get('sluice_requests_total{status="204",code="preflight"}')).toBe(0)
    expect(page.get('sluice_requests_total{status="499",code="aborted"}')).toBe(0)
    for (const [code, status] of Object.entries(STATUS_OF_REFUSAL)) {
      expect([...page]).toContainEqual([`sluice_requests_total{status="${status.slice(0, 3)}",code="${code}"}`, 0])
    }
  })

  it('counts each outcome under its own name', async () => {
    const metrics = quiet()
    metrics.outcome('accepted')
    metrics.outcome('accepted')
    metrics.outcome('validation_failed')
    metrics.events.track += 3
    metrics.limitCalls.slow += 1
    const page = await samples(metrics)
    expect(page.get('sluice_requests_total{status="202",code="accepted"}')).toBe(2)
    expect(page.get('sluice_requests_total{status="400",code="validation_failed"}')).toBe(1)
    expect(page.get('sluice_events_accepted_total{type="track"}')).toBe(3)
    expect(page.get('sluice_limit_calls_total{result="slow"}')).toBe(1)
    expect(metrics.outcomeTotals()).toMatchObject({ accepted: 2, validation_failed: 1, aborted: 0 })
  })

  it('has every reason of a 503 at 0 from the start, and the count of 503s as their sum', async () => {
    const metrics = quiet()
    const before = await samples(metrics)
    for (const reason of OVERLOAD_REASONS) expect(before.get(`sluice_overloaded_total{reason="${reason}"}`)).toBe(0)
    for (const [index, reason] of OVERLOAD_REASONS.entries()) {
      for (let count = 0; count <= index; count += 1) metrics.overloaded(reason)
    }
    const page = await samples(metrics)
    for (const [index, reason] of OVERLOAD_REASONS.entries()) {
      expect(page.get(`sluice_overloaded_total{reason="${reason}"}`)).toBe(index + 1)
    }
    const sum = (OVERLOAD_REASONS.length * (OVERLOAD_REASONS.length + 1)) / 2
    expect(page.get('sluice_requests_total{status="503",code="service_overloaded"}')).toBe(sum)
    // The older counter of the queue's reasons, the last ones.
    expect(page.get('sluice_publish_errors_total')).toBe(sum - 45)
  })

  it('shows received requests as the sum of outcomes and requests in flight', async () => {
    const metrics = quiet()
    let inFlight = 0
    metrics.sampleFrom({ requestsInFlight: () => inFlight })
    for (let index = 0; index < 10; index++) {
      metrics.requestsReceived += 1
      inFlight += 1
      if (index % 3 === 0) continue
      metrics.outcome(index % 2 ? 'accepted' : 'aborted')
      inFlight -= 1
    }
    const page = await samples(metrics)
    const ended = [...page]
      .filter(([line]) => line.startsWith('sluice_requests_total'))
      .reduce((sum, [, n]) => sum + n, 0)
    expect(page.get('sluice_requests_received_total')).toBe(10)
    expect(ended + (page.get('sluice_requests_in_flight') as number)).toBe(10)
  })

  it('shows cumulative buckets, a sum and a count for each histogram', async () => {
    const metrics = quiet()
    for (const bytes of [100, 512, 600, 1e9]) metrics.bodyBytes.observe(bytes)
    metrics.stageSeconds.admit.observe(0.00002)
    const page = await samples(metrics)
    expect(page.get('sluice_body_bytes_bucket{le="512"}')).toBe(2)
    expect(page.get('sluice_body_bytes_bucket{le="1024"}')).toBe(3)
    expect(page.get('sluice_body_bytes_bucket{le="524288"}')).toBe(3)
    expect(page.get('sluice_body_bytes_bucket{le="+Inf"}')).toBe(4)
    expect(page.get('sluice_body_bytes_count')).toBe(4)
    expect(page.get('sluice_body_bytes_sum')).toBe(1e9 + 1212)
    expect(page.get('sluice_stage_duration_seconds_count{stage="admit"}')).toBe(1)
    expect(page.get('sluice_stage_duration_seconds_count{stage="parse"}')).toBe(0)
  })

  it('reads gauges at the scrape, and has no series for a missing part', async () => {
    const metrics = quiet()
    let used = 1
    metrics.sampleFrom({
      ringUsedBytes: () => used,
      redisUp: () => false,
      degraded: () => ({ redis: true, nats: false }),
    })
    used = 77
    const page = await samples(metrics)
    expect(page.get('sluice_ring_used_bytes')).toBe(77)
    expect(page.get('sluice_redis_up')).toBe(0)
    for (const name of ['sluice_nats_up', 'sluice_connections', 'sluice_journal_max_bytes', 'sluice_keys_max']) {
      expect(page.has(name)).toBe(false)
    }
    expect(page.get('sluice_degraded{part="redis"}')).toBe(1)
    expect(page.get('sluice_degraded{part="nats"}')).toBe(0)
  })

  it('shows the stream, without a maximum or an age where it has none, and no series where it is not known', async () => {
    const metrics = quiet()
    const names = ['bytes', 'max_bytes', 'oldest_seconds', 'keep_seconds'].map((name) => `sluice_stream_${name}`)
    const shown = async (stream: StreamSample | null) => {
      metrics.sampleFrom({ stream: () => stream })
      const page = await samples(metrics)
      return names.map((name) => page.get(name))
    }
    const full = { bytes: 5, maxBytes: 10, oldestSeconds: 60.5, keepSeconds: 3600, consumerLagSeconds: { 'a"b': 1.5 } }
    expect(await shown(full)).toEqual([5, 10, 60.5, 3600])
    expect((await samples(metrics)).get('sluice_stream_consumer_lag_seconds{consumer="a\\"b"}')).toBe(1.5)
    const bare = { bytes: 0, maxBytes: null, oldestSeconds: 0, keepSeconds: null, consumerLagSeconds: {} }
    expect(await shown(bare)).toEqual([0, undefined, 0, undefined])
    expect(await shown(null)).toEqual([undefined, undefined, undefined, undefined])
  })

  it('shows the copies of the stream by their state, and no series where they are not known', async () => {
    const metrics = quiet()
    const shown = async (replicas: Readonly<Record<string, number>> | null) => {
      metrics.sampleFrom({ replicas: () => replicas })
      const page = await samples(metrics)
      return ['current', 'lagging', 'offline'].map((state) => page.get(`sluice_stream_replicas{state="${state}"}`))
    }
    expect(await shown({ current: 1, lagging: 0, offline: 2 })).toEqual([1, 0, 2])
    expect(await shown(null)).toEqual([undefined, undefined, undefined])
  })

  it('adds Node’s own metrics: event-loop lag, heap, garbage collection', async () => {
    const page = await createMetrics({ version: '1.2.3' }).scrape()
    expect(page).toMatch(/^nodejs_eventloop_lag_p99_seconds \d/m)
    expect(page).toMatch(/^nodejs_heap_size_used_bytes \d/m)
    expect(page).toContain('# TYPE nodejs_gc_duration_seconds histogram')
    expect(page).toMatch(/^process_resident_memory_bytes \d/m)
    const names = [...page.matchAll(/# TYPE (\S+) /g)].map(([, name]) => name)
    expect(new Set(names).size).toBe(names.length)
    expect(page).not.toContain('NaN')
  })

  it('escapes a label’s value', () => {
    const page = new MetricsPage()
    page.numbers('a', 'gauge', 'help', [{ labels: { path: 'c:\\x"\n' }, read: () => 1 }])
    expect(page.text()).toBe('# HELP a help\n# TYPE a gauge\na{path="c:\\\\x\\"\\n"} 1\n')
  })
})

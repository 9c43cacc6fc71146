import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Sampler } from '../../../src/observe/gauges.ts'
import {
  countedIn,
  EMPTY_PAGE,
  mergePages,
  PAGE_CONTENT_TYPE,
  type Page,
  readPage,
} from '../../../src/observe/merged-page.ts'
import { createMetrics } from '../../../src/observe/metrics.ts'

const family = (type: string, name: string, ...samples: string[]): string =>
  [`# HELP ${name} About ${name}.`, `# TYPE ${name} ${type}`, ...samples, ''].join('\n')

/** The page of a slot whose first worker process has answered. */
const answering = (...families: string[]): Page => countedIn(EMPTY_PAGE, readPage(families.join('')), true)

/** The value of one sample on a page. */
function valueOf(page: string, start: string): number | null {
  const line = page.split('\n').find((candidate) => candidate.startsWith(`${start} `))
  return line === undefined ? null : Number(line.slice(start.length + 1))
}

describe('worker processes that answer', () => {
  test('have their counters and histograms added up, series by series', () => {
    const page = (accepted: number, refused: number, below: number) => [
      family(
        'counter',
        'requests_total',
        `requests_total{code="a b"} ${accepted}`,
        `requests_total{code="c"} ${refused}`,
      ),
      family(
        'histogram',
        'took',
        `took_bucket{le="1"} ${below}`,
        `took_bucket{le="+Inf"} 9`,
        'took_sum 0.5',
        'took_count 9',
      ),
    ]
    const merged = mergePages([answering(...page(1, 2, 3)), answering(...page(10, 20, 30))])
    expect(merged).toBe(
      [
        family('counter', 'requests_total', 'requests_total{code="a b"} 11', 'requests_total{code="c"} 22'),
        family(
          'histogram',
          'took',
          'took_bucket{le="1"} 33',
          'took_bucket{le="+Inf"} 18',
          'took_sum 1',
          'took_count 18',
        ),
      ].join(''),
    )
  })

  test('show the clock that is farthest off, ahead or behind', () => {
    const name = 'sluice_clock_skew_seconds{of="redis"}'
    const page = (seconds: number) => answering(family('gauge', 'sluice_clock_skew_seconds', `${name} ${seconds}`))
    expect(valueOf(mergePages([page(3), page(-5), page(4)]), name)).toBe(-5)
    expect(valueOf(mergePages([page(-5), page(6)]), name)).toBe(6)
  })

  test('report the same stream, whose values are not added up', () => {
    const page = (bytes: number, oldest: number) => [
      family('gauge', 'sluice_stream_bytes', `sluice_stream_bytes ${bytes}`),
      family('gauge', 'sluice_stream_max_bytes', 'sluice_stream_max_bytes 1000'),
      family('gauge', 'sluice_stream_oldest_seconds', `sluice_stream_oldest_seconds ${oldest}`),
      family('gauge', 'sluice_stream_keep_seconds', 'sluice_stream_keep_seconds 3600'),
    ]
    const merged = mergePages([answering(...page(500, 60)), answering(...page(510, 50))])
    const names = ['bytes', 'max_bytes', 'oldest_seconds', 'keep_seconds']
    expect(names.map((name) => valueOf(merged, `sluice_stream_${name}`))).toEqual([510, 1000, 60, 3600])
  })

  test('have amounts added up, and the worst state shown', () => {
    const page = (used: number, draining: number, up: number, lag: number, start: number) => [
      family('gauge', 'sluice_ring_used_bytes', `sluice_ring_used_bytes ${used}`),
      family('gauge', 'sluice_draining', `sluice_draining ${draining}`),
      family('gauge', 'sluice_degraded', `sluice_degraded{part="limits"} ${draining}`),
      family('gauge', 'sluice_redis_up', `sluice_redis_up ${up}`),
      family('gauge', 'nodejs_eventloop_lag_max_seconds', `nodejs_eventloop_lag_max_seconds ${lag}`),
      family('gauge', 'process_start_time_seconds', `process_start_time_seconds ${start}`),
      family('gauge', 'sluice_build_info', 'sluice_build_info{version="1"} 1'),
    ]
    const merged = mergePages([answering(...page(5, 0, 1, 0.1, 1000)), answering(...page(7, 1, 0, 0.3, 900))])
    expect(merged).toBe(
      [
        family('gauge', 'sluice_ring_used_bytes', 'sluice_ring_used_bytes 12'),
        family('gauge', 'sluice_draining', 'sluice_draining 1'),
        family('gauge', 'sluice_degraded', 'sluice_degraded{part="limits"} 1'),
        family('gauge', 'sluice_redis_up', 'sluice_redis_up 0'),
        family('gauge', 'nodejs_eventloop_lag_max_seconds', 'nodejs_eventloop_lag_max_seconds 0.3'),
        family('gauge', 'process_start_time_seconds', 'process_start_time_seconds 900'),
        family('gauge', 'sluice_build_info', 'sluice_build_info{version="1"} 1'),
      ].join(''),
    )
  })

  test('may each have series that the others lack, and a family without any', () => {
    const merged = mergePages([
      answering(family('gauge', 'handles', 'handles{type="Pipe"} 1'), family('gauge', 'journal')),
      answering(family('gauge', 'handles', 'handles{type="Socket"} 2'), family('gauge', 'journal')),
    ])
    const both = family('gauge', 'handles', 'handles{type="Pipe"} 1', 'handles{type="Socket"} 2')
    expect(merged).toBe(both + family('gauge', 'journal'))
  })

  test('do not turn a sum into NaN by a value that is not known yet', () => {
    const page = (value: string) => answering(family('gauge', 'delay', `delay ${value}`))
    expect(valueOf(mergePages([page('Nan'), page('2')]), 'delay')).toBe(2)
  })
})

describe('a worker process that does not answer', () => {
  test('keeps the counters of its last page, and has no gauges', () => {
    const said = family('counter', 'requests_total', 'requests_total 4') + family('gauge', 'ring', 'ring 3')
    const silent = countedIn(EMPTY_PAGE, readPage(said), false)
    const merged = mergePages([silent, answering(family('gauge', 'ring', 'ring 2'))])
    expect([valueOf(merged, 'requests_total'), valueOf(merged, 'ring')]).toEqual([4, 2])
  })
})

describe('a worker process in the slot of one that ended', () => {
  test('continues its counters, even before it has the same series', () => {
    const first = readPage(family('counter', 'gc_total', 'gc_total{kind="major"} 2', 'gc_total{kind="minor"} 3'))
    const second = readPage(family('counter', 'gc_total', 'gc_total{kind="minor"} 1'))
    const merged = mergePages([countedIn(countedIn(EMPTY_PAGE, first, false), second, true)])
    expect([valueOf(merged, 'gc_total{kind="major"}'), valueOf(merged, 'gc_total{kind="minor"}')]).toEqual([2, 4])
  })

  const PLACES = 3
  const step = fc.record({
    slot: fc.nat(PLACES - 1),
    does: fc.constantFrom('counts', 'is asked', 'ends'),
    // Tenths, whose sums depend on their order.
    by: fc.integer({ min: 1, max: 1000 }).map((tenths) => tenths / 10),
  })

  test('never lets a counter go back, not even by its last digit, and loses only what was never reported', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
        const slots = Array.from({ length: PLACES }, () => ({
          past: EMPTY_PAGE,
          last: EMPTY_PAGE,
          now: 0,
          reported: 0,
          kept: 0,
        }))
        let before = 0
        for (const { slot, does, by } of steps) {
          const at = slots[slot]
          if (does === 'counts') at.now += by
          if (does === 'is asked') {
            at.last = readPage(family('counter', 'n_total', `n_total ${at.now}`))
            at.reported = at.now
          }
          if (does === 'ends') {
            at.past = countedIn(at.past, at.last, false)
            at.last = EMPTY_PAGE
            at.kept += at.reported
            at.now = 0
            at.reported = 0
          }
          const merged = mergePages(slots.map(({ past, last }) => countedIn(past, last, true)))
          const value = valueOf(merged, 'n_total') ?? 0
          expect(value).toBeGreaterThanOrEqual(before)
          expect(value).toBeCloseTo(
            slots.reduce((sum, { kept, reported }) => sum + kept + reported, 0),
            3,
          )
          before = value
        }
      }),
      { numRuns: 300 },
    )
  })
})

describe('the page of the real service', () => {
  const sampler: Sampler = {
    ringUsedBytes: () => 1,
    ringSizeBytes: () => 1,
    ringRequests: () => 1,
    parserQueue: () => 1,
    requestsInFlight: () => 1,
    keysRemembered: () => 1,
    journalBytes: () => 1,
    draining: () => true,
    redisUp: () => true,
    natsUp: () => true,
    degraded: () => ({ limits: true }),
  }
  const metrics = createMetrics({ version: '1.2.3' })
  metrics.sampleFrom(sampler)
  metrics.outcome('accepted')
  metrics.requestSeconds.observe(0.25)

  test('is not changed by merging it alone', async () => {
    const text = await metrics.scrape()
    expect(mergePages([answering(text)])).toBe(text.replaceAll(/\n\n/g, '\n'))
    expect(PAGE_CONTENT_TYPE).toBe(metrics.contentType)
  })

  /** A gauge that is missing here is new: decide whether its values are added up. */
  const AMOUNTS = [
    /^sluice_(requests_in_flight|ring_used_bytes|ring_size_bytes|ring_requests|parser_queue|keys_remembered|journal_bytes)$/,
    /^process_(resident|virtual)_memory_bytes$/,
    /^process_heap_bytes$/,
    /^nodejs_active_(resources|handles|requests)(_total)?$/,
    /^nodejs_heap_(space_)?size_(total|used|available)_bytes$/,
    /^nodejs_external_memory_bytes$/,
  ]

  test('has only gauges for which it was decided whether they are added up', async () => {
    const text = await metrics.scrape()
    const merged = readPage(mergePages([answering(text), answering(text)]))
    const doubled: string[] = []
    for (const [name, { type, samples }] of readPage(text)) {
      if (type !== 'gauge') continue
      for (const [start, value] of samples) {
        const total = merged.get(name)?.samples.get(start)
        expect([value, 2 * value], start).toContain(total)
        if (value > 0 && total === 2 * value) doubled.push(name)
      }
    }
    expect(doubled.filter((name) => !AMOUNTS.some((amount) => amount.test(name)))).toEqual([])
    expect(doubled).toContain('sluice_ring_used_bytes')
  })
})

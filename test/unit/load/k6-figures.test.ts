// The parts of the load scripts that reckon and write: no k6 in them, so they are tested without it.

import { describe, expect, it } from 'vitest'
import { codeOf, faultsOf, parseBody } from '../../../load/k6/shared/answers.js'
import { findBreakingPoint, type Step, voidsOf } from '../../../load/k6/shared/breaking.js'
import { hasRestarted, judgeGrowth } from '../../../load/k6/shared/growth.js'
import { outcomesOf, parsePage, percentileMs, sumOf } from '../../../load/k6/shared/metrics-page.js'
import { parseDurationMs, readSettings } from '../../../load/k6/shared/settings.js'

describe('growth of memory', () => {
  it('does not take what a process grows at its start for growth', () => {
    const limits = { percentPerHour: 5, bytes: 10, durationMs: 1_800_000 }
    const valueAt = (minute: number): number => Math.min(1000, 100 * minute)
    const settled = Array.from({ length: 30 }, (_, minute) => ({ atMs: minute * 60_000, value: valueAt(minute) }))
    expect(judgeGrowth(settled, limits)).toMatchObject({ isFlat: true, percentPerHour: 0 })
  })

  it('finds growth by its slope and, in a short run, by its size, and holds what has no samples not to be flat', () => {
    // 0.1 a minute: 6 an hour, of 1,000.
    const samples = Array.from({ length: 31 }, (_, index) => ({ atMs: index * 60_000, value: 1000 + index * 0.1 }))
    const judged = (percent: number, bytes: number, minutes = 29) =>
      judgeGrowth(samples, { percentPerHour: percent, bytes, durationMs: minutes * 60_000 })
    expect(judged(0, 0).percentPerHour).toBeCloseTo(0.6, 2)
    expect(judged(0, 0).bytes).toBeCloseTo(2, 5)
    expect(judged(0.5, 1.9).isFlat).toBe(false)
    expect(judged(0.7, 1.9).isFlat).toBe(true)
    expect(judged(0.5, 2.1).isFlat).toBe(true)
    expect(judged(0.5, 2.1, 30).isFlat, 'half an hour is long enough for a slope').toBe(false)
    expect(judged(0.7, 0, 30).isFlat).toBe(true)
    expect(judgeGrowth([], { percentPerHour: 100, bytes: 100, durationMs: 1 }).isFlat).toBe(false)
  })

  it('says nothing of a process that was started again on the way', () => {
    const restarted = (...starts: number[]) =>
      hasRestarted(starts.map((startedAt, index) => ({ atMs: index, value: 1, startedAt })))
    expect([restarted(7, 7, 8), restarted(7, 7), restarted(Number.NaN, Number.NaN)]).toEqual([true, false, false])
  })
})

describe('the breaking point', () => {
  const calm = { p99Ms: 5, failed: 0, dropped: 0, nodeP99Ms: 4, nodeLagMs: 1, nodeCores: 0.3 }
  const step = (rate: number, changes: Partial<Step> = {}): Step => ({ rate, ...calm, ...changes })

  it('is the last step before the first that did not hold, even where a later one did', () => {
    const found = findBreakingPoint([step(10), step(20), step(40, { failed: 1 }), step(80)], 50)
    expect(found).toMatchObject({ best: { rate: 20 }, broken: { rate: 40 }, cause: 'service' })
    expect(findBreakingPoint([step(10), step(20)], 50)).toMatchObject({ best: { rate: 20 }, broken: null, cause: null })
    expect(findBreakingPoint([step(10, { dropped: 1 })], 50)).toMatchObject({ best: null, broken: { rate: 10 } })
    expect(findBreakingPoint([step(10, { p99Ms: 900 })], null)).toMatchObject({ broken: null })
    expect(findBreakingPoint([step(10, { p99Ms: 50 })], 50)).toMatchObject({ broken: { rate: 10 } })
  })

  it('is laid to whoever ran out', () => {
    const causeOf = (changes: Partial<Step>): string | null => findBreakingPoint([step(1), step(2, changes)], 50).cause
    expect(causeOf({ p99Ms: 80, nodeCores: 0.97 })).toBe('service')
    expect(causeOf({ dropped: 9, failed: 2 })).toBe('service')
    expect(causeOf({ dropped: 9 })).toBe('k6')
    expect(causeOf({ p99Ms: 200, nodeP99Ms: 150, nodeLagMs: 60 })).toBe('machine')
    expect(causeOf({ p99Ms: 200, nodeP99Ms: 150 })).toBe('waiting')
    expect(causeOf({ p99Ms: 80, nodeCores: Number.NaN, nodeP99Ms: Number.NaN })).toBe('unknown')
  })
})

describe('a ramp', () => {
  const calm = { rate: 10, p99Ms: 5, failed: 0, dropped: 0, nodeP99Ms: 4, nodeLagMs: 1, nodeCores: 0.3 }
  const voids = (...steps: Step[]) => voidsOf(steps, findBreakingPoint(steps, 50))

  it('says nothing where the machine or k6 ran out at the first step, and fails where the service did', () => {
    expect(voids({ ...calm, p99Ms: 80, nodeLagMs: 30 }).join()).toContain('the machine ran out')
    expect(voids({ ...calm, p99Ms: 80 }).join()).toContain('k6 or the machine ran out')
    expect(voids({ ...calm, dropped: 1 }).join()).toContain('begin lower')
    expect(voids({ ...calm, failed: 1 })).toEqual([])
    expect(voids({ ...calm, p99Ms: 80, nodeP99Ms: 60 })).toEqual([])
    expect(voids(calm, { ...calm, rate: 20, p99Ms: 80, nodeLagMs: 30 })).toEqual([])
  })
})

describe('a page of metrics', () => {
  const PAGE = `# HELP sluice_requests_total how requests ended
# TYPE sluice_requests_total counter
sluice_requests_total{status="202",code="accepted"} 40
sluice_requests_total{status="400",code="invalid_json"} 2
odd{text="a \\"b\\" \\\\ {c}, d=\\"e\\"",le="+Inf"} 1.5e3 1700000000000

process_cpu_seconds_total 0.25
nan_value NaN
`
  const bucket = (counts: readonly number[]) =>
    parsePage(['0.01', '0.05', '0.1', '+Inf'].map((le, index) => `t_bucket{le="${le}"} ${counts[index]}`).join('\n'))

  it('is read as it is written, escapes and all', () => {
    const page = parsePage(PAGE)
    expect(page).toHaveLength(5)
    expect(outcomesOf(page)).toEqual({ accepted: 40, invalid_json: 2 })
    expect(page[2]).toMatchObject({ name: 'odd', labels: { text: 'a "b" \\ {c}, d="e"', le: '+Inf' }, value: 1500 })
    expect(sumOf(page, 'sluice_requests_total')).toBe(42)
    expect(sumOf([...page, ...page], 'process_cpu_seconds_total')).toBe(0.5)
    expect(sumOf(page, 'sluice_requests_total', { code: 'accepted' })).toBe(40)
    expect(sumOf(page, 'none')).toBeNaN()
    expect(sumOf(page, 'nan_value')).toBeNaN()
  })

  it('gives percentiles of what was counted between two readings', () => {
    const [before, after] = [bucket([100, 100, 100, 100]), bucket([150, 190, 200, 200])]
    expect(percentileMs(before, after, 't', 0.25)).toBeCloseTo(5)
    expect(percentileMs(before, after, 't', 0.7)).toBeCloseTo(30)
    expect(percentileMs(before, after, 't', 0.99)).toBeCloseTo(95)
    expect(percentileMs(before, bucket([100, 100, 100, 101]), 't', 0.99)).toBe(100)
    expect(percentileMs(before, before, 't', 0.99)).toBeNaN()
  })
})

describe('settings', () => {
  it('take times as k6 does, and nothing that is none', () => {
    expect(['90s', '1h30m', '250ms', '1.5m'].map(parseDurationMs)).toEqual([90_000, 5_400_000, 250, 90_000])
    for (const text of ['', '90', 's', '5 s', '1h30', 'x5s', '-1s']) expect(parseDurationMs(text), text).toBeNaN()
  })

  it('come from the environment, then from the script, then from what all have in common', () => {
    const place = { BASE_URL: 'http://a:1/, http://b:2', APP_KEY: 'ak_x' }
    const read = readSettings(
      { ...place, RATE: '7', VUS: '' },
      { script: 's', defaults: { RATE: 3, VUS: 9, OWN: '2s' } },
    )
    expect(readSettings(place, { script: 'spike' })).toMatchObject({ rate: 20, events: 100, body: 'large', seed: 1 })
    expect(read).toMatchObject({ rate: 7, vus: 9, events: 10, latencyObjectiveMs: 50, isLocal: false })
    expect(read.baseUrls).toEqual(['http://a:1', 'http://b:2'])
    expect(read.readDurationMs('OWN')).toBe(2000)
    expect(() => read.check()).not.toThrow()
  })
})

describe('an answer', () => {
  const NOW = 1_700_000_030
  const limits = { 'X-Ratelimit-Limit': '10', 'X-Ratelimit-Remaining': '3', 'X-Ratelimit-Reset': '1700000040' }
  const json = { 'Content-Type': 'application/json', ...limits }
  const batch = { 'X-Batch-Id': '018f0000-0000-7000-8000-000000000000' }
  const faults = (status: number, body: string, headers: Record<string, string>): string[] =>
    faultsOf({ status, headers, body }, parseBody(body), { nowSeconds: NOW, events: 2 })

  it('as the contract says has no fault', () => {
    expect(faults(202, '{"status":"accepted","events":2}', { ...json, ...batch })).toEqual([])
    expect(faults(503, '{"error":"service_overloaded","message":"m"}', { ...json, 'Retry-After': '3' })).toEqual([])
    expect(faults(405, '{"error":"method_not_allowed","message":"m"}', { ...json, Allow: 'POST' })).toEqual([])
    expect(faults(0, '', {})).toEqual([])
  })

  it.each([
    ['status and error code', 400, '{"error":"invalid_app_key","message":"m"}', json],
    ['status and error code', 500, 'oops', json],
    ['JSON object', 500, 'oops', json],
    ['Content-Type', 400, '{"error":"invalid_json","message":"m"}', limits],
    ['X-RateLimit', 400, '{"error":"invalid_json","message":"m"}', { 'Content-Type': 'application/json' }],
    ['at most', 400, '{"error":"invalid_json","message":"m"}', { ...json, 'X-Ratelimit-Remaining': '11' }],
    ['UTC minute', 400, '{"error":"invalid_json","message":"m"}', { ...json, 'X-Ratelimit-Reset': '1700000041' }],
    ['UTC minute', 400, '{"error":"invalid_json","message":"m"}', { ...json, 'X-Ratelimit-Reset': '1700000160' }],
    ['Retry-After', 503, '{"error":"service_overloaded","message":"m"}', json],
    ['Retry-After', 503, '{"error":"service_overloaded","message":"m"}', { ...json, 'Retry-After': '0' }],
    ['Retry-After', 400, '{"error":"invalid_json","message":"m"}', { ...json, 'Retry-After': '3' }],
    ['message', 400, '{"error":"invalid_json"}', json],
    ['Allow', 405, '{"error":"method_not_allowed","message":"m"}', json],
    ['202 only', 400, '{"error":"invalid_json","message":"m"}', { ...json, ...batch }],
    ['UUID', 202, '{"status":"accepted","events":2}', json],
    ['number that was sent', 202, '{"status":"accepted","events":1}', { ...json, ...batch }],
  ])('is found out: %s, status %i', (fault, status, body, headers) => {
    expect(faults(status, body, headers).join('\n')).toContain(fault)
  })

  it('has a code of the closed set', () => {
    const code = (status: number, body: string) => codeOf({ status, headers: {}, body }, parseBody(body))
    expect(code(202, '{"deduplicated":true}')).toBe('replayed')
    expect(code(0, '')).toBe('no_answer')
    expect(code(400, '{"error":"toString"}')).toBe('other')
    expect(code(500, '')).toBe('other')
  })
})

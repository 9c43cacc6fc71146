import { describe, expect, it } from 'vitest'
import { mergeNow, type NodeReport } from '../../../src/console/now.ts'
import { type Cell, HISTORY_CELLS, quantile } from '../../../src/console/totals.ts'
import { BOUNDS, QUEUE, report } from './reports.ts'

const NOW_MS = Date.parse('2026-11-22T10:00:02.000Z')
const LAST_STEP = Math.floor(NOW_MS / 5000)

function cell(step: number, changes: Partial<Cell> = {}): Cell {
  return {
    step,
    accepted_per_second: 1,
    ours_per_second: 0,
    rule_per_second: 0,
    buckets: [0, 0, 0, 0],
    slowest_consumer_seconds: null,
    ...changes,
  }
}

function merge(reports: NodeReport[], silent: NodeReport[] = [], problem: string | null = null) {
  const gathered = { reports, silent: silent.map((one) => ({ report: one, silentSeconds: 7 })), problem }
  return mergeNow(gathered, { nowMs: NOW_MS, withHistory: true })
}

describe('the state', () => {
  it('is serving while all nodes are', () => {
    expect(merge([report('a'), report('b')])).toMatchObject({ state: 'serving', state_reason: null })
  })

  it('is degraded while one node is, or is not ready, or is silent, or others cannot be asked', () => {
    const away = report('b', { state: 'degraded', state_reason: 'Redis away for 12 s' })
    expect(merge([report('a'), away])).toMatchObject({ state: 'degraded', state_reason: 'Redis away for 12 s' })
    const unready = report('b', { state: 'not ready' })
    expect(merge([report('a'), unready])).toMatchObject({ state: 'degraded', state_reason: 'b is not ready' })
    expect(merge([report('a')], [report('b')])).toMatchObject({
      state: 'degraded',
      state_reason: '1 of 2 nodes does not answer',
    })
    expect(merge([report('a')], [], 'NATS is away')).toMatchObject({ state: 'degraded', state_reason: 'NATS is away' })
  })

  it('is draining only when all nodes are, and not ready when none serves', () => {
    const draining = report('a', { state: 'draining' })
    expect(merge([draining, report('b')]).state).toBe('serving')
    expect(merge([draining]).state).toBe('draining')
    const waiting = report('a', { state: 'not ready', state_reason: 'waiting for NATS' })
    expect(merge([waiting])).toMatchObject({ state: 'not ready', state_reason: 'waiting for NATS' })
    expect(merge([])).toMatchObject({ state: 'not ready', state_reason: 'no node answers' })
  })
})

describe('figures', () => {
  it('of all nodes are added up', () => {
    const refusing = {
      requests_per_second: 5,
      events_accepted_per_second: 0,
      refused_per_second: { not_found: 2 },
      replays_per_second: 0,
    }
    const now = merge([
      report('a', { rates: refusing }),
      report('b', { rates: { ...refusing, refused_per_second: { not_found: 1, invalid_json: 1 } } }),
    ])
    expect(now.rates).toEqual({
      requests_per_second: 10,
      events_accepted_per_second: 0,
      refused_per_second: { not_found: 3, invalid_json: 1 },
      replays_per_second: 0,
    })
    expect(now.ring).toEqual({ used_bytes: 2_097_152, size_bytes: 134_217_728, requests: 4 })
    expect(now.parts.slice(0, 2)).toEqual([
      { part: 'http', state: '20 connections', up: true, latency_seconds: null },
      { part: 'ring', state: '2% of 128 MB', up: true, latency_seconds: null },
    ])
    expect(merge([report('a', { connections: 1 })]).parts[0]).toMatchObject({ state: '1 connection' })
  })

  it('latency comes from the observations of all nodes', () => {
    const fast = report('a', { buckets: [98, 0, 0, 0] })
    const slow = report('b', { buckets: [0, 0, 2, 0] })
    const { latency_seconds: latency } = merge([fast, slow])
    expect(latency?.p50).toBeCloseTo(0.00051, 5)
    expect(latency?.p99).toBeCloseTo(0.055, 5)
    expect(merge([report('a')]).latency_seconds).toBe(null)
  })

  it('a part is down where one node says so, and names it', () => {
    const down = { part: 'Redis', state: 'disconnected', up: false, latency_seconds: 0.25 }
    expect(merge([report('a'), report('b', { parts: [down] })]).parts[2]).toEqual({
      part: 'Redis',
      state: 'disconnected (b)',
      up: false,
      latency_seconds: 0.25,
    })
  })

  it('the stream is counted once, with the slowest of what nodes saw', () => {
    const one = { ...QUEUE, consumers: [{ name: 'warehouse', lag_seconds: 1 }], full_in_seconds: 500 }
    const other = {
      ...QUEUE,
      consumers: [
        { name: 'warehouse', lag_seconds: 3 },
        { name: 'a', lag_seconds: 0 },
      ],
      audit_lag_seconds: 9,
    }
    expect(merge([report('a', { queue: one }), report('b', { queue: other })]).queue).toEqual({
      ...QUEUE,
      full_in_seconds: 500,
      consumers: [
        { name: 'a', lag_seconds: 0 },
        { name: 'warehouse', lag_seconds: 3 },
      ],
      audit_lag_seconds: 9,
    })
  })

  it('the five codes and apps with the most refusals are named', () => {
    const counts = Array.from({ length: 8 }, (_, at) => ({ app_id: `app${at}`, code: 'invalid_json', count: at + 1 }))
    const { refused_last_hour: refused } = merge([
      report('a', { refused_last_hour: counts }),
      report('b', { refused_last_hour: [{ app_id: null, code: 'not_found', count: 50 }, ...counts] }),
    ])
    expect(refused.by_code).toEqual([
      { code: 'invalid_json', count: 72 },
      { code: 'not_found', count: 50 },
    ])
    expect(refused.by_app.map(({ app_id: id, count }) => [id, count])).toEqual([
      [null, 50],
      ['app7', 16],
      ['app6', 14],
      ['app5', 12],
      ['app4', 10],
    ])
  })

  it('nodes stand in order of their names, a silent one with its time', () => {
    const { nodes } = merge([report('c'), report('a')], [report('b')])
    expect(nodes.map(({ node, state, silent_seconds: seconds }) => [node, state, seconds])).toEqual([
      ['a', 'serving', 0],
      ['b', 'silent', 7],
      ['c', 'serving', 0],
    ])
  })
})

describe('the history', () => {
  it('has 180 cells that end with the last whole step, and null where no node knows', () => {
    const first = report('a', { cells: [cell(LAST_STEP - 1), cell(LAST_STEP, { ours_per_second: 2 })] })
    const second = report('b', { cells: [cell(LAST_STEP, { accepted_per_second: 4, slowest_consumer_seconds: 3 })] })
    const history = merge([first, second]).history
    expect(history?.accepted_events_per_second).toHaveLength(HISTORY_CELLS)
    expect(history?.accepted_events_per_second.slice(-3)).toEqual([null, 1, 5])
    expect(history?.refused_ours_per_second.slice(-2)).toEqual([0, 2])
    expect(history?.slowest_consumer_lag_seconds.slice(-2)).toEqual([null, 3])
    expect(history?.p99_seconds.at(-1)).toBe(null)
    expect(Date.parse(history?.from ?? '')).toBe((LAST_STEP - HISTORY_CELLS) * 5000)
  })

  it('leaves out cells that are too old or ahead of this clock', () => {
    const history = merge([report('a', { cells: [cell(LAST_STEP - 400), cell(LAST_STEP + 5)] })]).history
    expect(history?.accepted_events_per_second.every((value) => value === null)).toBe(true)
  })
})

describe('a quantile', () => {
  it('lies between the bounds of its bucket, and is the last bound beyond all of them', () => {
    expect(quantile(0.5, BOUNDS, [0, 10, 0, 0])).toBeCloseTo(0.0055, 6)
    expect(quantile(1, BOUNDS, [10, 0, 0, 0])).toBe(0.001)
    expect(quantile(0.99, BOUNDS, [0, 0, 0, 5])).toBe(0.1)
    expect(quantile(0.5, BOUNDS, [0, 0, 0, 0])).toBe(null)
  })
})

import { describe, expect, it } from 'vitest'
import type { Cell, NodeReport, PartFacts } from '../../../../src/contract/admin/now.ts'
import type { Range } from '../../../../src/contract/admin/words.ts'
import { mergeNow } from '../../../../src/inspect/now/now.ts'
import { quantile, RANGES } from '../../../../src/inspect/now/totals.ts'
import { BOUNDS, QUEUE, report } from '../reports.ts'

const NOW_MS = Date.parse('2026-11-22T10:00:02.000Z')
const LAST_STEP = Math.floor(NOW_MS / 5000)

function cell(step: number, changes: Partial<Cell> = {}): Cell {
  return {
    step,
    accepted_per_second: 1,
    ours_per_second: 0,
    client_per_second: 0,
    limits_per_second: 0,
    buckets: [0, 0, 0, 0],
    slowest_consumer_seconds: null,
    ...changes,
  }
}

function merge(reports: NodeReport[], silent: NodeReport[] = [], problem: string | null = null, range: Range = '15m') {
  const gathered = { reports, silent: silent.map((one) => ({ report: one, silentSeconds: 7 })), problem }
  return mergeNow(gathered, { nowMs: NOW_MS, range })
}

describe('the state', () => {
  it('is serving while all nodes are', () => {
    expect(merge([report('a'), report('b')])).toMatchObject({ state: 'serving', state_reason: null })
  })

  it('is degraded while one node is, or starts, or is silent, or others cannot be asked', () => {
    const away = report('b', { state: 'degraded', state_reason: 'Redis away for 12 s' })
    expect(merge([report('a'), away])).toMatchObject({ state: 'degraded', state_reason: 'b: Redis away for 12 s' })
    expect(merge([away])).toMatchObject({ state: 'degraded', state_reason: 'Redis away for 12 s' })
    expect(merge([report('a'), report('b', { state: 'starting' })])).toMatchObject({
      state: 'degraded',
      state_reason: 'b is starting',
    })
    expect(merge([report('a')], [report('b')])).toMatchObject({
      state: 'degraded',
      state_reason: '1 of 2 nodes does not answer',
    })
    expect(merge([report('a')], [], 'NATS is away')).toMatchObject({ state: 'degraded', state_reason: 'NATS is away' })
  })

  it('is refusing where one node refuses, which is named, with the rates of all', () => {
    const refusing = (node: string, per_second: number): NodeReport =>
      report(node, {
        state: 'refusing',
        state_reason: 'ring full',
        reasons: [
          { reason: 'evicted', per_second: 1 },
          { reason: 'ring_full', per_second },
        ],
      })
    expect(
      merge([report('a', { state: 'degraded', state_reason: 'Redis away for 1 s' }), refusing('b', 3)]),
    ).toMatchObject({ state: 'refusing', state_reason: 'b: ring full' })
    expect(merge([refusing('a', 2), refusing('b', 3)])).toMatchObject({
      state: 'refusing',
      state_reason: 'ring full',
      reasons: [
        { reason: 'ring_full', per_second: 5 },
        { reason: 'evicted', per_second: 2 },
      ],
    })
    const many = Array.from({ length: 9 }, (_, at) => refusing(`n${at}`, 1))
    expect(merge([report('a'), ...many]).state_reason).toBe('n0: ring full; n1: ring full; n2: ring full; and 6 more')
  })

  it.each(['starting', 'stopping'] as const)('is refusing where only a node that is %s refuses', (state) => {
    const reasons = [{ reason: 'apps_unread', per_second: 3 }]
    const degraded = report('b', { state: 'degraded', state_reason: 'Redis away for 1 s' })
    for (const other of [report('b'), degraded]) {
      expect(merge([report('a', { state, reasons }), other])).toMatchObject({
        state: 'refusing',
        state_reason: 'apps unread',
        reasons,
      })
    }
    const unasked = report('a', { state, reasons: [{ reason: 'apps_unread', per_second: 0 }] })
    expect(merge([unasked, degraded]).state).toBe('degraded')
  })

  it('is stopping only when all nodes are, and starting when none serves', () => {
    const stopping = report('a', { state: 'stopping' })
    expect(merge([stopping, report('b')]).state).toBe('serving')
    expect(merge([stopping]).state).toBe('stopping')
    const waiting = report('a', { state: 'starting', state_reason: 'connecting to NATS for 3 s' })
    expect(merge([waiting])).toMatchObject({ state: 'starting', state_reason: 'connecting to NATS for 3 s' })
    expect(merge([])).toMatchObject({ state: 'starting', state_reason: 'no node answers' })
    expect(merge([], [report('a')])).toMatchObject({ state: 'refusing', state_reason: 'no node answers' })
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
    const down: PartFacts = {
      part: 'limits',
      kind: 'redis',
      state: 'away',
      reason: 'no answer',
      up: false,
      latency_seconds: 0.25,
      text: 'Redis away: no answer',
    }
    const one = report('b', { parts: [down] })
    expect(merge([report('a'), one]).parts).toEqual([{ ...down, node: 'b' }])
    expect(merge([one]).parts).toEqual([{ ...down, node: null }])
    expect(merge([report('a'), report('b')]).parts).toEqual([{ ...report('a').parts[0], node: null }])
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

  it('the five codes and apps with the most refusals are named, 503s by their reason', () => {
    const of = (app_id: string | null, code: string, count: number, reason: string | null = null) => {
      return { app_id, code, reason, count }
    }
    const counts = Array.from({ length: 8 }, (_, at) => of(`app${at}`, 'invalid_json', at + 1))
    const overloads = [of(null, 'service_overloaded', 5, 'ring_full'), of('app7', 'service_overloaded', 2, 'in_doubt')]
    const { refused_last_hour: refused } = merge([
      report('a', { refused_last_hour: counts }),
      report('b', { refused_last_hour: [of(null, 'not_found', 43), ...overloads, ...counts] }),
    ])
    expect(refused.by_code).toEqual([
      { code: 'invalid_json', reason: null, count: 72 },
      { code: 'not_found', reason: null, count: 43 },
      { code: 'service_overloaded', reason: 'ring_full', count: 5 },
      { code: 'service_overloaded', reason: 'in_doubt', count: 2 },
    ])
    expect(refused.by_app.map(({ app_id: id, count }) => [id, count])).toEqual([
      [null, 48],
      ['app7', 18],
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
    const first = report('a', {
      cells: [cell(LAST_STEP - 1), cell(LAST_STEP, { ours_per_second: 2, limits_per_second: 3, client_per_second: 4 })],
    })
    const second = report('b', { cells: [cell(LAST_STEP, { accepted_per_second: 4, slowest_consumer_seconds: 3 })] })
    const history = merge([first, second]).history
    expect(history?.accepted_events_per_second).toHaveLength(RANGES['15m'].cells)
    expect(history?.accepted_events_per_second.slice(-3)).toEqual([null, 1, 5])
    expect(history?.refused_ours_per_second.slice(-2)).toEqual([0, 2])
    expect(history?.refused_limits_per_second.slice(-2)).toEqual([0, 3])
    expect(history?.refused_client_per_second.slice(-2)).toEqual([0, 4])
    expect(history?.slowest_consumer_lag_seconds.slice(-2)).toEqual([null, 3])
    expect(history?.p99_seconds.at(-1)).toBe(null)
    expect(Date.parse(history?.from ?? '')).toBe((LAST_STEP - RANGES['15m'].cells) * 5000)
  })

  it('of a day ends with the step that runs', () => {
    const step = Math.ceil(NOW_MS / 480_000)
    const history = merge([report('a', { cells: [cell(step)] })], [], null, '24h').history
    expect(history).toMatchObject({ step_seconds: 480, from: new Date((step - 180) * 480_000).toISOString() })
    expect(history?.accepted_events_per_second.slice(-2)).toEqual([null, 1])
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

import { describe, expect, it } from 'vitest'
import {
  mergeRefusals,
  type RefusalQuestion,
  readRefusalQuestion,
  refusalsPiece,
  refusedCounts,
} from '../../../../src/inspect/refusals/refusal-view.ts'
import { Refusals } from '../../../../src/inspect/refusals/refusals.ts'
import { narrowed } from '../../../../src/inspect/scope.ts'
import { aRefusal } from '../reports.ts'

const ALL: RefusalQuestion = { app: null, code: null, limit: 100 }
const MINUTE_MS = 60_000

function add(refusals: Refusals, timeMs: number, app: string | null, code = 'invalid_json', id = `${timeMs}`): void {
  refusals.add(aRefusal({ time_ms: timeMs, request_id: id, app_id: app, code }))
}

describe('refusals of several nodes', () => {
  it('stand together, newest first, up to the limit', () => {
    const [one, other] = [new Refusals(), new Refusals()]
    add(one, 1000, 'a')
    add(other, 2000, 'a')
    add(one, 3000, 'b')
    const pieces = [
      refusalsPiece(one, ALL, { node: 'n1', nowMs: 3000, startedAtMs: 0 }),
      refusalsPiece(other, ALL, { node: 'n2', nowMs: 3000, startedAtMs: 0 }),
    ]
    expect(mergeRefusals(pieces, 2)).toMatchObject({
      refusals: [
        { app_id: 'b', node: 'n1', time: '1970-01-01T00:00:03.000Z' },
        { app_id: 'a', node: 'n2' },
      ],
      groups: [
        { app_id: 'a', count: 2, first_at: '1970-01-01T00:00:01.000Z', last_at: '1970-01-01T00:00:02.000Z' },
        { app_id: 'b', count: 1 },
      ],
    })
  })

  it('count in the same minutes, where one node answers a minute later', () => {
    const refusals = new Refusals()
    add(refusals, 5 * MINUTE_MS, 'a')
    const early = refusalsPiece(refusals, ALL, { node: 'n1', nowMs: 5 * MINUTE_MS, startedAtMs: 0 })
    const late = refusalsPiece(refusals, ALL, { node: 'n2', nowMs: 6 * MINUTE_MS, startedAtMs: 0 })
    const { groups } = mergeRefusals([early, late], 1)
    expect(groups[0].per_minute).toHaveLength(60)
    expect(groups[0].per_minute.slice(-3)).toEqual([0, 2, 0])
  })
})

it('count from the start of the node that started last, at most an hour', () => {
  const refusals = new Refusals()
  const nowMs = 90 * MINUTE_MS
  const since = (...startedAtMs: number[]): string => {
    const pieces = startedAtMs.map((ms) => refusalsPiece(refusals, ALL, { node: 'n', nowMs, startedAtMs: ms }))
    return mergeRefusals(pieces, 1).since
  }
  expect(since(0, 1000)).toBe('1970-01-01T00:30:00.000Z')
  expect(since(0, 80 * MINUTE_MS)).toBe('1970-01-01T01:20:00.000Z')
})

it('a cause has the message of its newest request, on whichever node', () => {
  const [one, other] = [new Refusals(), new Refusals()]
  one.add(aRefusal({ time_ms: 1000, message: 'events[0].name: required' }))
  one.add(aRefusal({ time_ms: 3000, message: 'events[0].name: must be a string' }))
  other.add(aRefusal({ time_ms: 2000, message: 'events[0].name: length must be 1 to 200' }))
  const pieces = [one, other].map((of) => refusalsPiece(of, ALL, { node: 'n', nowMs: 3000, startedAtMs: 0 }))
  for (const inOrder of [pieces, pieces.toReversed()]) {
    expect(mergeRefusals(inOrder, 1).groups.map(({ message }) => message)).toEqual(['events[0].name: must be a string'])
  }
})

it('groups that differ only in the SDK’s version are one, with all versions', () => {
  const refusals = new Refusals()
  for (const sdk_version of ['2.0', '2.1', null, '2.1', '2.0', '2.1']) refusals.add(aRefusal({ sdk_version }))
  refusals.add(aRefusal({ sdk_version: '2.0', path: 'events[0].name' }))
  const piece = refusalsPiece(refusals, ALL, { node: 'n1', nowMs: 0, startedAtMs: 0 })
  const [one, other, ...more] = mergeRefusals([piece, piece], 10).groups
  expect([one.count, one.sdk_version, one.sdk_versions]).toEqual([12, '2.1', ['2.1', '2.0', null]])
  expect(one.per_minute.reduce((sum, count) => sum + count, 0)).toBe(12)
  expect([other.count, other.sdk_versions, more]).toEqual([2, ['2.0'], []])
})

it('groups of one code are apart by their reason', () => {
  const refusals = new Refusals()
  refusals.add(aRefusal({ code: 'service_overloaded', reason: 'nats_away' }))
  refusals.add(aRefusal({ code: 'service_overloaded', reason: 'in_doubt' }))
  const piece = refusalsPiece(refusals, ALL, { node: 'n1', nowMs: 0, startedAtMs: 0 })
  const { groups } = mergeRefusals([piece, piece], 10)
  expect(groups.map(({ reason, count }) => [reason, count])).toEqual([
    ['nats_away', 2],
    ['in_doubt', 2],
  ])
})

describe('a question', () => {
  it('of the developers of an app that is called as no app is shows what is of their app alone', () => {
    const refusals = new Refusals()
    add(refusals, 1000, '-', 'invalid_json', 'own')
    add(refusals, 2000, null, 'invalid_json', 'of none')
    const idsOf = (question: RefusalQuestion) => {
      const piece = refusalsPiece(refusals, question, { node: 'n', nowMs: 3000, startedAtMs: 0 })
      return { ids: piece.refusals.map(({ request_id: id }) => id), groups: piece.groups.map(({ app_id: app }) => app) }
    }
    const asked = { ...ALL, app: '-' }
    expect(idsOf(narrowed(asked, { appId: '-' }))).toEqual({ ids: ['own'], groups: ['-'] })
    expect(idsOf(narrowed({ ...asked, request_id: 'of none' }, { appId: '-' }))).toEqual({ ids: [], groups: [] })
    expect(idsOf(asked)).toEqual({ ids: ['of none'], groups: [null] })
  })

  it('asks for an app, for none, or for a code', () => {
    const refusals = new Refusals()
    add(refusals, 1000, 'a', 'invalid_json')
    add(refusals, 2000, null, 'not_found')
    const idsOf = (query: string) => {
      const question = readRefusalQuestion(new URLSearchParams(query))
      if (typeof question === 'string') throw new Error(question)
      return refusalsPiece(refusals, question, { node: 'n', nowMs: 3000, startedAtMs: 0 }).refusals.map(
        ({ request_id: id }) => id,
      )
    }
    expect(idsOf('')).toEqual(['2000', '1000'])
    expect(idsOf('app=a')).toEqual(['1000'])
    expect(idsOf('app=-')).toEqual(['2000'])
    expect(idsOf('code=not_found&app=')).toEqual(['2000'])
    expect(idsOf('limit=1')).toEqual(['2000'])
  })

  it('asks for the one with an id, in any letter case, and gets no groups', () => {
    const refusals = new Refusals()
    const id = '0199f3a0-7c1e-7d2a-9f5b-3e8c1a2b4c6d'
    add(refusals, 1000, 'a', 'invalid_json', id)
    add(refusals, 2000, 'a')
    const question = readRefusalQuestion(new URLSearchParams({ request_id: id.toUpperCase() }))
    if (typeof question === 'string') throw new Error(question)
    const piece = refusalsPiece(refusals, question, { node: 'n', nowMs: 3000, startedAtMs: 0 })
    expect(piece).toMatchObject({ refusals: [{ request_id: id, time: '1970-01-01T00:00:01.000Z' }], groups: [] })
    expect(refusalsPiece(refusals, ALL, { node: 'n', nowMs: 3000, startedAtMs: 0 }).groups).toHaveLength(1)
  })

  it('is refused with a sentence where it is wrong', () => {
    for (const query of ['limit=0', 'limit=1001', 'limit=x', `app=${'x'.repeat(101)}`, 'request_id=7']) {
      expect(readRefusalQuestion(new URLSearchParams(query))).toMatch(/^(limit|app|request_id): must/)
    }
  })
})

it('counts of the last hour are by app and code, the most frequent first', () => {
  const refusals = new Refusals()
  refusals.add(aRefusal({ time_ms: 1, app_id: 'a', path: 'events[0].name' }))
  refusals.add(aRefusal({ time_ms: 2, app_id: 'a', path: 'events[0].type' }))
  add(refusals, 3, 'b')
  expect(refusedCounts(refusals, 4)).toEqual([
    { app_id: 'a', code: 'validation_failed', reason: null, count: 2 },
    { app_id: 'b', code: 'invalid_json', reason: null, count: 1 },
  ])
})

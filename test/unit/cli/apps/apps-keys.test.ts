import { expect, test } from 'vitest'
import { overlapOf } from '../../../../src/cli/apps/apps-edit.ts'
import { rotated } from '../../../../src/records/app-keys.ts'

const NOON_MS = Date.UTC(2026, 10, 20, 12)
const DAY_MS = 86_400_000
const shop = { app_key: 'ak_1', app_id: 'shop', plan: '100k', subscription: 'active' } as const
const until = (app_key: string, time: string) => ({ app_key, valid_until: time })
const rotate = (record: object, key: string, overlapMs: number, nowMs = NOON_MS) =>
  rotated(record, { key, overlapMs, nowMs })

test('an overlap is days, hours or none, and nothing else', () => {
  expect(['30d', '12h', '0', '3650d'].map(overlapOf)).toEqual([30 * DAY_MS, DAY_MS / 2, 0, 3650 * DAY_MS])
  for (const text of ['', '30', '1m', '-1d', '1.5d', '3651d', '999999999d', 'd']) {
    expect(() => overlapOf(text), text).toThrow('--overlap: must be')
  }
})

test('the old key stays valid for the overlap, and is removed without one', () => {
  expect(rotate(shop, 'ak_2', DAY_MS)).toEqual({
    record: { ...shop, app_key: 'ak_2', previous_keys: [until('ak_1', '2026-11-21T12:00:00Z')] },
    olderValidUntil: '2026-11-21T12:00:00Z',
    dropped: 0,
  })
  expect(rotate(shop, 'ak_2', DAY_MS, NOON_MS + 1).record.previous_keys).toEqual([
    until('ak_1', '2026-11-21T12:00:01Z'),
  ])
  expect(rotate(shop, 'ak_2', 0)).toEqual({
    record: { ...shop, app_key: 'ak_2' },
    olderValidUntil: null,
    dropped: 0,
  })
})

test('no older key outlives the overlap, and expired ones are removed', () => {
  const previous = [until('ak_over', '2026-11-20T12:00:00Z'), until('ak_soon', '2026-11-20T13:00:00Z')]
  const record = { ...shop, previous_keys: [...previous, until('ak_late', '2026-12-20T00:00:00Z')] }
  expect(rotate(record, 'ak_2', DAY_MS).record.previous_keys).toEqual([
    previous[1],
    until('ak_late', '2026-11-21T12:00:00Z'),
    until('ak_1', '2026-11-21T12:00:00Z'),
  ])
  expect(rotate(record, 'ak_2', 0).record.previous_keys).toBeUndefined()
})

test('the oldest of more than four older keys is removed, which is reported', () => {
  const previous = ['a', 'b', 'c', 'd'].map((id) => until(`ak_${id}`, '2026-11-21T00:00:00Z'))
  const { record, dropped } = rotate({ ...shop, previous_keys: previous }, 'ak_2', DAY_MS)
  expect((record.previous_keys as { app_key: string }[]).map(({ app_key: key }) => key)).toEqual([
    'ak_b',
    'ak_c',
    'ak_d',
    'ak_1',
  ])
  expect(dropped).toBe(1)
})

import { expect, test } from 'vitest'
import { addedText, changedText, removeQuestion, rotatedText } from '../../../../src/cli/apps/apps-text.ts'

const shop = { app_key: 'ak_shop_1', app_id: 'shop', plan: '10k', subscription: 'active' } as const

test('a change is told with the old and the new value of each member that changed', () => {
  expect(changedText(shop, { ...shop, plan: '100k' })).toBe('app shop: plan 10k → 100k\n')
  const after = { ...shop, subscription: 'paused', events_per_day: 20_000, name: 'Shop "1"\u001B[2J' }
  expect(changedText(shop, after)).toBe(
    'app shop: subscription active → paused, events per day none → 20,000, name none → "Shop \\"1\\"\\u001b[2J"\n',
  )
  expect(changedText({ ...shop, events_per_day: 5 }, shop)).toBe('app shop: events per day 5 → none\n')
})

test('bytes of the minute below what each node allows are told as such', () => {
  const least = '; but each node lets it store at least 1,048,576 bytes a minute\n'
  const set = { ...shop, bytes_per_minute: 1000 }
  expect(changedText(shop, set)).toBe(`app shop: bytes per minute none → 1,000${least}`)
  expect(addedText(set)).toBe(`app shop: added, plan 10k, active${least}`)
  expect(changedText(set, { ...set, plan: '100k' })).toBe('app shop: plan 10k → 100k\n')
  expect(changedText(set, { ...shop, bytes_per_minute: 1_048_576 })).not.toContain('each node')
})

test('a change that changes nothing says so', () => {
  expect(changedText(shop, { ...shop })).toBe('app shop: nothing changed, it was so already\n')
})

test('a month of its own is told with the 10% that a paid plan may go over it', () => {
  expect(changedText(shop, { ...shop, events_per_month: 5000 })).toBe('app shop: events per month none → 5,000 +10%\n')
  const trial = { ...shop, plan: 'trial', events_per_month: 5000 }
  expect(changedText(trial, { ...trial, plan: '10k', events_per_month: 6000 })).toBe(
    'app shop: plan trial → 10k, events per month 5,000 → 6,000 +10%\n',
  )
})

test('the steps of alerts are told, and the same ones are no change', () => {
  const set = { ...shop, alerts: [50, 90] }
  expect(changedText(shop, set)).toBe('app shop: alerts none → 50, 90\n')
  expect(changedText(set, { ...shop, alerts: [] })).toBe('app shop: alerts 50, 90 → never\n')
  expect(changedText(set, { ...shop, alerts: [50, 90] })).toMatch(/nothing changed/)
})

test('a rotation says how long the key before it is valid', () => {
  expect(rotatedText('shop', { olderValidUntil: '2026-12-22T00:00:00Z', dropped: 0 })).toBe(
    'app shop: has a new key, the one before it is valid until 2026-12-22T00:00:00Z\n',
  )
  expect(rotatedText('shop', { olderValidUntil: null, dropped: 1 })).toMatch(
    /no longer valid; it had too many older keys/,
  )
})

test('no sentence holds a key', () => {
  const rotated = { ...shop, app_key: 'ak_shop_2', previous_keys: [{ app_key: 'ak_shop_1', valid_until: '' }] }
  for (const text of [addedText(shop), changedText(shop, rotated), removeQuestion('shop', shop)]) {
    expect(text).not.toContain('ak_')
  }
})

test('the question before a removal says what is removed', () => {
  expect(removeQuestion('shop', shop)).toContain('app shop, plan 10k, active?')
  expect(removeQuestion('shop', undefined)).toContain('whose record cannot be used')
})

import { expect, test } from 'vitest'
import { changeOne, checked, formatApps, withMembers } from '../../../src/cli/apps.ts'

const shop = { app_key: 'ak_shop_1', app_id: 'shop', plan: '100k', subscription: 'active' } as const
const blog = { app_key: 'ak_blog_1', app_id: 'blog', plan: 'trial', subscription: 'trialing', name: 'Blog' } as const

test('flags become members, figures numbers, and an empty value removes its member', () => {
  const flags = { name: '', plan: '1m', 'events-per-day': '20000', 'trial-ends-at': '2026-12-31T00:00:00Z' }
  expect(withMembers(blog, flags)).toEqual({
    app_key: 'ak_blog_1',
    app_id: 'blog',
    plan: '1m',
    subscription: 'trialing',
    events_per_day: 20_000,
    trial_ends_at: '2026-12-31T00:00:00Z',
  })
})

test('one record is changed, and the others stay in their order', () => {
  expect(changeOne([shop, blog], 'shop', (record) => ({ ...record, plan: '5m' }))).toEqual([
    { ...shop, plan: '5m' },
    blog,
  ])
  expect(() => changeOne([shop], 'sohp', (record) => record)).toThrow('there is no app sohp')
})

test('every mistake is named, and figures that are none come back as such', () => {
  const draft = withMembers(shop, { plan: 'huge', 'events-per-minute': 'many', 'billing-cycle-anchor': 'today' })
  expect(() => checked([draft])).toThrow(
    /plan: must be one of[^]*billing_cycle_anchor: must be[^]*events_per_minute: must be/,
  )
})

test('two apps never share an id or a key', () => {
  expect(() => checked([shop, { ...blog, app_id: 'shop' }])).toThrow('there is an app shop already')
  expect(() => checked([shop, { ...blog, app_key: 'ak_shop_1' }])).toThrow('another app has this key')
  expect(checked([shop, blog])).toEqual([shop, blog])
})

test('the list shows the figures that hold: the app’s own, or its plan’s', () => {
  const [, first, second] = formatApps([{ ...shop, events_per_minute: 9, events_per_day: 1000 }, blog]).split('\n')
  expect(first).toMatch(/^shop +100k +active +9 +1,000 +100,000 +ak_shop_1$/)
  expect(second).toMatch(/^blog +trial +trialing +200 +none +10,000 +ak_blog_1 +Blog$/)
})

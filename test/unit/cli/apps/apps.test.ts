import { expect, test } from 'vitest'
import { formatApps } from '../../../../src/cli/apps/apps.ts'
import { checked, withMembers } from '../../../../src/records/app-draft.ts'
import { repeatedMembers } from '../../../../src/records/repeated-members.ts'

const shop = { app_key: 'ak_shop_1', app_id: 'shop', plan: '100k', subscription: 'active' } as const
const blog = { app_key: 'ak_blog_1', app_id: 'blog', plan: 'trial', subscription: 'trialing', name: 'Blog' } as const

test('flags become members, digits become numbers, and an empty value removes its member', () => {
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

test('a list has commas, and none empties it', () => {
  const origins = ['https://a.example', 'https://b.example']
  expect(withMembers(shop, { origins: 'https://a.example, https://b.example' })).toEqual({ ...shop, origins })
  expect(withMembers({ ...shop, origins }, { origins: 'none' })).toEqual({ ...shop, origins: [] })
  expect(withMembers({ ...shop, origins }, { origins: '' })).toEqual(shop)
})

test('checking reads each record a fixed number of times, however many there are', () => {
  const reads = (count: number): number => {
    let looks = 0
    const draft = (id: string) => ({
      app_key: `ak_${id}`,
      plan: '10k',
      subscription: 'active',
      get app_id() {
        looks++
        return id
      },
    })
    checked(Array.from({ length: count }, (_, index) => draft(`app-${index}`)))
    return looks
  }
  expect(reads(2000) / 2000).toBeLessThanOrEqual(10)
  expect(reads(4000)).toBe(2 * reads(2000))
})

test('a record that was read before is not checked again, but its id and key are', () => {
  const odd = { ...shop, plan: 'gone' }
  expect(checked([odd, blog], [odd])).toEqual([odd, blog])
  expect(() => checked([odd, { ...blog, app_id: 'shop' }], [odd])).toThrow('there is an app shop already')
  expect(() => checked([{ ...odd }, blog], [odd])).toThrow('plan: must be one of')
})

test('the list shows the app’s own limits or its plan’s, and the 10% that a paid plan may go over its month', () => {
  const own = { ...shop, app_id: 'own', events_per_month: 5000 }
  const [, first, second, third] = formatApps([
    { ...shop, events_per_minute: 9, events_per_day: 1000 },
    blog,
    own,
  ]).split('\n')
  expect(first).toMatch(/^shop +100k +active +9 +1,000 +100,000 \+10% +ak_shop_1$/)
  expect(second).toMatch(/^blog +trial +trialing +200 +none +10,000 +ak_blog_1 +Blog$/)
  expect(third).toMatch(/^own .* 5,000 \+10% /)
})

test('a member that is repeated is named by its path, wherever it stands', () => {
  const record = '{"app_key":"ak_a","app_id":"a","plan":"5m","pl\\u0061n":"10k","subscription":"active"'
  const keys = '"previous_keys":[{"app_key":"ak_b","valid_until":"2026-01-01T00:00:00Z","app_key":"ak_c"}]'
  expect(repeatedMembers(`{"apps":[],"apps":[{"app_id":"b"},${record},${keys}}]}`)).toEqual([
    'apps: stands twice in its object',
    'apps[1].plan: stands twice in its object',
    'apps[1].previous_keys[0].app_key: stands twice in its object',
  ])
  expect(repeatedMembers(`{"apps":[${record.replace('"pl\\u0061n":"10k",', '')}}]}`)).toEqual([])
  const many = repeatedMembers(`{${'"\u202e":1,'.repeat(100_000)}"\u202e":1}`)
  expect([many.length, many[0]]).toEqual([101, '?: stands twice in its object'])
})

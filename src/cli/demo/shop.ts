// Users of a made-up shop, and what their apps would send while they look around in it, buy, and leave.

import { randomUUID } from 'node:crypto'
import type { EVENT_TYPES } from '../../contract/bounds.ts'

type Text = Readonly<Record<string, string | number | boolean>>

export interface DemoEvent {
  readonly type: (typeof EVENT_TYPES)[number]
  readonly name: string
  readonly hashed_daily_id: string
  readonly hashed_monthly_id: string
  readonly session_id: string
  readonly timestamp: string
  readonly context: Text
  readonly properties?: Text
  readonly revenue?: Text
}

export interface DemoBatch {
  readonly key: string
  /** `wrong`: the last event does not fit the schema. `repeat`: the batch before it, once more, as after a lost answer. */
  readonly kind: 'good' | 'wrong' | 'repeat'
  readonly events: readonly DemoEvent[]
}

interface User {
  readonly id: string
  readonly context: Text
  session: string
  /** Of PATH. */
  step: number
}

type Step = Pick<DemoEvent, 'type' | 'name' | 'properties' | 'revenue'>

const DEVICES: readonly Text[] = [
  { os: 'ios', os_version: '26.1', app_version: '4.2.0', locale: 'en_GB', device_type: 'iPhone17,2' },
  { os: 'android', os_version: '16', app_version: '4.2.0', locale: 'de_DE', device_type: 'Pixel 10' },
  { os: 'web', os_version: 'Firefox 147', app_version: '4.1.3', locale: 'fr_FR' },
  { os: 'ios', os_version: '18.7', app_version: '4.1.3', locale: 'ja_JP', device_type: 'iPhone15,4' },
  { os: 'android', os_version: '14', app_version: '3.9.8', locale: 'pt_BR', device_type: 'SM-A546B' },
  { os: 'web', os_version: 'Chrome 143', app_version: '4.2.0', locale: 'en_US' },
]
const PRODUCTS = [
  { product: 'Kettle', price: 39.9 },
  { product: 'Desk lamp', price: 64.5 },
  { product: 'Wool socks', price: 12 },
  { product: 'Tea, 200 g', price: 8.75 },
]
/** One visit. Some leave before its end. */
const PATH: readonly ((product: (typeof PRODUCTS)[number]) => Step)[] = [
  () => ({ type: 'screen', name: 'home' }),
  () => ({ type: 'track', name: 'search', properties: { query_length: 6, results: 14 } }),
  (product) => ({ type: 'screen', name: 'product', properties: product }),
  (product) => ({ type: 'track', name: 'add_to_cart', properties: { ...product, count: 1 } }),
  () => ({ type: 'screen', name: 'checkout' }),
  ({ price }) => ({ type: 'revenue', name: 'purchase', revenue: { amount: price, currency: 'EUR' } }),
]
/** What makes an event wrong: each as an SDK's mistake would. */
const MISTAKES: readonly ((event: DemoEvent, nowMs: number) => object)[] = [
  (event) => ({ ...event, context: {} }),
  (event, nowMs) => ({ ...event, timestamp: new Date(nowMs - 4 * 86_400_000).toISOString() }),
  (event) => ({ ...event, name: '' }),
  (event) => ({ ...event, hashed_daily_id: 'user-17' }),
  (event) => ({ ...event, properties: { note: 'x'.repeat(501) } }),
]
const LEAVES = 0.2
/** In a batch. */
export const MOST_EVENTS = 3
/** One batch in so many. Fewer than a tenth are wrong. */
const WRONG_EVERY = 12
const REPEATED_EVERY = 17

/** Batches without end. `random`: from 0 to 1, as Math.random. */
export function* visits(random: () => number, clock: () => number): Generator<DemoBatch, never> {
  const users = DEVICES.map((context): User => {
    return { id: randomUUID().replaceAll('-', ''), context, session: randomUUID(), step: 0 }
  })
  let before: DemoBatch | null = null
  for (let sent = 1; ; sent++) {
    if (before !== null && sent % REPEATED_EVERY === 0) {
      yield { ...before, kind: 'repeat' }
      continue
    }
    const user = users[Math.floor(random() * users.length)]
    const events = Array.from({ length: 1 + Math.floor(random() * MOST_EVENTS) }, () =>
      nextEvent(user, random, clock()),
    )
    const batch = { key: randomUUID(), kind: 'good', events } as const
    if (sent % WRONG_EVERY === 0) {
      const mistake = MISTAKES[(sent / WRONG_EVERY) % MISTAKES.length]
      const wrong = mistake(events[events.length - 1], clock()) as DemoEvent
      yield { ...batch, kind: 'wrong', events: [...events.slice(0, -1), wrong] }
    } else {
      before = batch
      yield batch
    }
  }
}

function nextEvent(user: User, random: () => number, nowMs: number): DemoEvent {
  const step = PATH[user.step](PRODUCTS[Math.floor(random() * PRODUCTS.length)])
  const { id, context, session } = user
  const isLast = user.step === PATH.length - 1 || random() < LEAVES
  user.step = isLast ? 0 : user.step + 1
  if (isLast) user.session = randomUUID()
  const ids = { hashed_daily_id: `day${id}`, hashed_monthly_id: `month${id}`, session_id: session }
  return { ...step, ...ids, timestamp: new Date(nowMs).toISOString(), context }
}

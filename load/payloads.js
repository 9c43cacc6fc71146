// @ts-check
// Bodies for tests under load, made from a seed: `uniform` ones of a single layout, `varied` ones as SDKs of many makes
// would send them, and `large` ones. Plain JavaScript with no imports, so that Node and k6 both run it.

/** @typedef {() => number} Rng A number from 0 up to 1. */
/** @typedef {{ rng: Rng, appKey: string, events: number, nowMs: number }} BodyOptions */

/** A seeded generator (mulberry32): one seed gives one sequence, on every machine. @param {number} seed @returns {Rng} */
export function createRng(seed) {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296
  }
}

/** A random UUID, version 4. @param {Rng} rng */
export function uuid(rng) {
  const digits = hex(rng, 32)
  const variant = '89ab'[Math.floor(rng() * 4)]
  return `${digits.slice(0, 8)}-${digits.slice(8, 12)}-4${digits.slice(13, 16)}-${variant}${digits.slice(17, 20)}-${digits.slice(20)}`
}

/** @param {(rng: Rng, nowMs: number) => unknown} makeEvent @returns {(options: BodyOptions) => string} */
const bodiesOf =
  (makeEvent) =>
  ({ rng, appKey, events, nowMs }) => {
    const list = Array.from({ length: events }, () => makeEvent(rng, nowMs))
    return JSON.stringify({ app_key: appKey, sdk_version: '3.12.0', events: list })
  }

/** ASCII, every member in the same place: about 615 bytes for 1 event, 5.6 KB for 10, 56 KB for 100. */
export const uniformBody = bodiesOf(uniformEvent)

/** Nine SDKs by turns, each with an order of members and a device of its own, the same in all its events. */
export const mixedBody = bodiesOf((rng, nowMs) => pick(rng, SDKS)(uniformEvent(rng, nowMs)))

/**
 * ASCII, as large as events commonly get: about 4.9 KB each, so that 100 of them nearly fill the 512 KB that a body may
 * have. They cost the service far more than whoever sends them.
 */
export const largeBody = bodiesOf((rng, nowMs) => {
  const event = uniformEvent(rng, nowMs)
  return { ...event, properties: { ...event.properties, ...longProperties(rng) } }
})

/**
 * Random order of members, escapes, text beyond ASCII, nested properties, members left out or added,
 * all three types, sizes from a few hundred bytes to about two thousand for an event. @param {BodyOptions} options
 */
export function variedBody({ rng, appKey, events, nowMs }) {
  /** @type {Record<string, unknown>} */
  const body = { app_key: appKey, events: [] }
  body.events = Array.from({ length: events }, () => variedEvent(rng, nowMs))
  if (rng() < 0.7) body.sdk_version = pick(rng, ['1.0.0', '2.4.11', '3.12.0-beta.2'])
  if (rng() < 0.2) body.sent_at = isoTime(rng, nowMs)
  return encode(rng, body, rng() < 0.1 ? ' ' : '')
}

/** By name. @type {Readonly<Record<string, (options: BodyOptions) => string>>} */
export const MAKERS = { uniform: uniformBody, mixed: mixedBody, varied: variedBody, large: largeBody }

const TEXTS = [
  'plan_selected',
  'Checkout: step 2 of 4',
  'said "maybe later"\nand left',
  'C:\\Users\\public\\cache',
  'Écran d’accueil',
  'Größe geändert – 42 %',
  '購入が完了しました',
  'Оформление заказа',
  'عملية شراء',
  'party 🎉 time 👩‍👩‍👧',
  '</script>\t<b>&amp;',
]
const SYSTEMS = ['iOS', 'Android', 'iPadOS', 'macOS', 'Windows', 'Web']
const DEVICES = ['iPhone15,2', 'Pixel 8 Pro', 'SM-S918B', 'MacBookPro18,3', 'Redmi Note 12']
const LOCALES = ['en_US', 'de_DE', 'fr_CA', 'ja_JP', 'pt_BR', 'ar_EG']
const CURRENCIES = ['USD', 'EUR', 'JPY', 'BRL']

/** @param {Rng} rng @param {number} nowMs */
function uniformEvent(rng, nowMs) {
  return {
    type: 'track',
    name: 'button_clicked',
    hashed_daily_id: hex(rng, 32),
    hashed_monthly_id: hex(rng, 32),
    hashed_retention_id: hex(rng, 32),
    session_id: uuid(rng),
    timestamp: new Date(nowMs - Math.floor(rng() * 3_600_000)).toISOString(),
    context: {
      os: 'iOS',
      os_version: '17.4.1',
      app_version: '3.12.0',
      locale: 'en_US',
      device_type: 'iPhone15,2',
      screen_width: 1179,
      screen_height: 2556,
    },
    properties: {
      button: 'subscribe',
      screen: 'paywall',
      variant: 'annual_discount_b',
      position: 10 + Math.floor(rng() * 90),
    },
  }
}

const ORDERS = createRng(9)
const SDKS = Array.from({ length: 9 }, (_, index) => {
  const event = uniformEvent(ORDERS, 0)
  const device = { ...event.context, device_type: `device ${index}`, screen_width: 720 + 40 * index }
  const [names, inner, keys] = [event, device, event.properties].map((one) => shuffle(ORDERS, Object.keys(one)))
  return (/** @type {ReturnType<typeof uniformEvent>} */ { properties, ...others }) =>
    inOrder(names, { ...others, context: inOrder(inner, device), properties: inOrder(keys, properties) })
})

/** @param {string[]} names @param {Record<string, unknown>} members */
function inOrder(names, members) {
  return Object.fromEntries(names.map((name) => [name, members[name]]))
}

/** @param {Rng} rng @param {number} nowMs */
function variedEvent(rng, nowMs) {
  const type = pick(rng, ['track', 'track', 'track', 'screen', 'screen', 'revenue'])
  const hashLength = pick(rng, [16, 32, 64, 128])
  /** @type {Record<string, unknown>} */
  const event = {
    type,
    name: text(rng, 1 + Math.floor(rng() * 3)),
    hashed_daily_id: hex(rng, hashLength),
    hashed_monthly_id: hex(rng, hashLength),
    session_id: uuid(rng),
    timestamp: isoTime(rng, nowMs),
    context: variedContext(rng),
  }
  if (rng() < 0.5) event.hashed_retention_id = hex(rng, hashLength)
  if (rng() < 0.4) event.user_id = rng() < 0.5 ? uuid(rng) : `${text(rng, 1)}@example.com`
  if (rng() < 0.8) event.properties = variedProperties(rng)
  if (rng() < 0.1) event.library = { name: 'sluice-load', build: Math.floor(rng() * 1000) }
  if (type === 'revenue') {
    event.revenue = {
      amount: Math.round(rng() * 1e6) / 100,
      currency: pick(rng, CURRENCIES),
      product_id: `com.example.${pick(rng, ['monthly', 'yearly', 'lifetime'])}`,
      quantity: 1 + Math.floor(rng() * 3),
    }
  }
  return event
}

/** @param {Rng} rng */
function variedContext(rng) {
  /** @type {Record<string, unknown>} */
  const context = { os: pick(rng, SYSTEMS) }
  if (rng() < 0.9) context.os_version = `${Math.floor(rng() * 18)}.${Math.floor(rng() * 10)}`
  if (rng() < 0.9) context.app_version = `${Math.floor(rng() * 9)}.${Math.floor(rng() * 30)}.${Math.floor(rng() * 10)}`
  if (rng() < 0.8) context.locale = pick(rng, LOCALES)
  if (rng() < 0.7) context.device_type = pick(rng, DEVICES)
  if (rng() < 0.6) {
    context.screen_width = Math.floor(320 + rng() * 2000)
    context.screen_height = rng() < 0.1 ? 2556.5 : Math.floor(480 + rng() * 3000)
  }
  return context
}

/** @param {Rng} rng */
function variedProperties(rng) {
  /** @type {Record<string, unknown>} */
  const properties = {}
  const count = Math.floor(rng() * rng() * 20)
  for (let index = 0; index < count; index++) {
    const key = rng() < 0.1 ? `ключ_${index}` : `${pick(rng, ['item', 'source', 'flag', 'value', 'list'])}_${index}`
    properties[key] = pick(rng, [
      () => text(rng, 1 + Math.floor(rng() * 4)),
      () => Math.floor(rng() * 100000),
      () => (rng() - 0.5) * 1e-7,
      () => rng() < 0.5,
      () => null,
      () => [1, text(rng, 1), { deep: [rng() < 0.5] }],
      () => ({ sku: hex(rng, 8), price: { amount: 9.99, currency: 'EUR' } }),
    ])()
  }
  return properties
}

const LONG_PROPERTIES = 38

/** @param {Rng} rng */
function longProperties(rng) {
  return Object.fromEntries(Array.from({ length: LONG_PROPERTIES }, (_, index) => [`detail_${index}`, hex(rng, 96)]))
}

/** ISO 8601 in the forms that clients send. @param {Rng} rng @param {number} nowMs */
function isoTime(rng, nowMs) {
  const atMs = nowMs - Math.floor(rng() * 3_600_000)
  const form = rng()
  if (form < 0.6) return new Date(atMs).toISOString()
  if (form < 0.8) return `${new Date(atMs).toISOString().slice(0, 19)}Z`
  if (form < 0.9) return `${new Date(atMs + 7_200_000).toISOString().slice(0, 23)}+02:00`
  return `${new Date(atMs - 12_600_000).toISOString().slice(0, 19)}.123456-0330`
}

/** JSON with members in random order, and now and then a character as \u escape. @param {Rng} rng @param {unknown} value @param {string} gap @returns {string} */
function encode(rng, value, gap) {
  if (typeof value === 'string') return encodeText(rng, value)
  if (Array.isArray(value)) return `[${value.map((item) => encode(rng, item, gap)).join(`,${gap}`)}]`
  if (value === null || typeof value !== 'object') return JSON.stringify(value)
  const members = shuffle(rng, Object.entries(value))
  return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${gap}${encode(rng, member, gap)}`).join(`,${gap}`)}}`
}

/** @param {Rng} rng @param {string} value */
function encodeText(rng, value) {
  const json = JSON.stringify(value)
  if (rng() < 0.9) return json
  return json.replace(/[^\x20-\x7e]/g, (unit) => `\\u${`000${unit.charCodeAt(0).toString(16)}`.slice(-4)}`)
}

/** @param {Rng} rng @param {number} pieces */
function text(rng, pieces) {
  return Array.from({ length: pieces }, () => pick(rng, TEXTS)).join(' ')
}

/** @param {Rng} rng @param {number} length */
function hex(rng, length) {
  let digits = ''
  while (digits.length < length) digits += `0000000${Math.floor(rng() * 4294967296).toString(16)}`.slice(-8)
  return digits.slice(0, length)
}

/** @template T @param {Rng} rng @param {readonly T[]} list @returns {T} */
function pick(rng, list) {
  return list[Math.floor(rng() * list.length)]
}

/** @template T @param {Rng} rng @param {T[]} list */
function shuffle(rng, list) {
  for (let index = list.length - 1; index > 0; index--) {
    const other = Math.floor(rng() * (index + 1))
    const kept = list[index]
    list[index] = list[other]
    list[other] = kept
  }
  return list
}

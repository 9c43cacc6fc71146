import { describe, expect, test } from 'vitest'
import type { App } from '../../../../src/apps/app.ts'
import { format } from '../../../../src/cli/explain/explain.ts'
import type { OverloadReason } from '../../../../src/contract/outcome.ts'
import { OVERLOAD_ADVICE } from '../../../../src/contract/overload-advice.ts'
import {
  type ExplainStores,
  type Explanation,
  explain,
  judgeBody,
  toJson,
  violationText,
} from '../../../../src/inspect/explain.ts'
import { MemoryLimiter } from '../../../../src/limits/own/memory-limiter.ts'

const NOW_MS = Date.parse('2026-11-20T12:00:15.000Z')
const app: App = {
  appKey: 'ak_shop_1',
  previousKeys: [],
  readKeys: [],
  appId: 'shop',
  name: 'Shop',
  plan: '100k',
  subscription: 'active',
  trialEndsAtMs: null,
  billingAnchorMs: null,
  eventsPerMinute: 10,
  eventsPerDay: 12,
  eventsPerMonth: 14,
  bytesPerMinute: 2 * 1024 * 1024,
  alertSteps: [],
  origins: null,
}
const event = {
  type: 'track',
  name: 'tap',
  hashed_daily_id: '0123456789abcdef',
  hashed_monthly_id: '0123456789abcdef',
  session_id: 's',
  timestamp: '2026-11-20T12:00:00Z',
  context: { os: 'x' },
}
const bodyOf = (events: readonly object[], key: unknown = app.appKey): Buffer =>
  Buffer.from(JSON.stringify({ app_key: key, events }))

function ask(
  body: Buffer,
  its: Partial<App> = {},
  limiter: MemoryLimiter = new MemoryLimiter(),
  changes: Partial<ExplainStores> = {},
  origin: string | null = null,
): Promise<Explanation> {
  const known = { ...app, ...its }
  const stores: ExplainStores = {
    findApp: async (appKey) => (appKey === known.appKey ? known : 'unknown'),
    usageOf: async () => limiter.usage(known, NOW_MS),
    bytesOf: async () => null,
    queueRefusal: async () => null,
    ...changes,
  }
  return explain({ bodyBytes: body.length, verdict: judgeBody(body, null, NOW_MS), nowMs: NOW_MS, origin, stores })
}

test('a page that the app does not name may not send, and any other may', async () => {
  const named = { origins: ['https://a.example'] }
  const said = async (origin: string | null) => {
    const { status, outcome, message } = await ask(bodyOf([event]), named, undefined, {}, origin)
    return [status, outcome, message]
  }
  const refusal = [401, 'invalid_app_key', 'app_key: the page may not send with this key']
  expect(await said('https://b.example')).toEqual(refusal)
  expect(await said('https://a.example')).toEqual([202, 'accepted', null])
  expect(await said(null)).toEqual([202, 'accepted', null])
})

describe('the outcome', () => {
  test.each([
    [202, 'accepted', bodyOf([event]), {}],
    [202, 'accepted', bodyOf([]), {}],
    [202, 'accepted', bodyOf([]), { eventsPerMonth: 0, eventsPerDay: 0 }],
    [429, 'rate_limit_exceeded', bodyOf([]), { eventsPerMinute: 0 }],
    [413, 'payload_too_large', Buffer.alloc(524_289, 0x20), {}],
    [400, 'invalid_json', Buffer.from('{'), {}],
    [400, 'validation_failed', bodyOf([event], 7), {}],
    [401, 'invalid_app_key', bodyOf([{}], 'ak_other'), {}],
    [402, 'subscription_inactive', bodyOf([{}]), { subscription: 'paused' }],
    [402, 'trial_expired', bodyOf([{}]), { subscription: 'trialing', trialEndsAtMs: NOW_MS }],
    [400, 'validation_failed', bodyOf([{}]), { eventsPerMonth: 0 }],
    [429, 'monthly_limit_exceeded', bodyOf([event]), { eventsPerMonth: 0, eventsPerDay: 0, eventsPerMinute: 0 }],
    [429, 'daily_limit_exceeded', bodyOf([event]), { eventsPerDay: 0, eventsPerMinute: 0 }],
    [429, 'rate_limit_exceeded', bodyOf([event]), { eventsPerMinute: 0 }],
  ] as const)('is %i %s at the first check that fails', async (status, outcome, body, its) => {
    expect(await ask(body, its)).toMatchObject({ status, outcome })
  })

  test.each<[OverloadReason, Partial<ExplainStores>]>([
    ['apps_unread', { findApp: async () => 'unavailable' }],
    ['stream_full', { queueRefusal: async () => 'stream_full' }],
  ])('is 503 where the node cannot take it, with the reason (%s)', async (reason, changes) => {
    const explanation = await ask(bodyOf([event]), {}, new MemoryLimiter(), changes)
    expect(explanation).toMatchObject({ status: 503, outcome: 'service_overloaded', reason })
    expect(toJson(explanation)).toMatchObject({ reason })
    const { happened, todo } = OVERLOAD_ADVICE[reason]
    expect(format(explanation, { colour: false })).toMatch(
      /^503 service_overloaded: the service cannot take this batch/,
    )
    expect(format(explanation, { colour: false })).toContain(`${reason}: ${happened}`)
    expect(format(explanation, { colour: false })).toContain(todo)
  })

  test('is what the client has wrong, or the limit, before the queue is asked; an empty batch is not stored', async () => {
    const full = { queueRefusal: async () => 'journal_full' as const }
    const askFull = (body: Buffer, its: Partial<App> = {}) => ask(body, its, new MemoryLimiter(), full)
    expect(await askFull(bodyOf([{}]))).toMatchObject({ outcome: 'validation_failed', reason: null })
    expect(await askFull(bodyOf([event]), { eventsPerMinute: 0 })).toMatchObject({ outcome: 'rate_limit_exceeded' })
    expect(await askFull(bodyOf([]))).toMatchObject({ outcome: 'accepted', reason: null })
  })

  test('has the seconds until a window has room', async () => {
    expect((await ask(bodyOf([event]), { eventsPerMinute: 0 })).retryAfterSeconds).toBe(45)
    expect((await ask(bodyOf([event]))).retryAfterSeconds).toBeNull()
  })
})

test('every invalid member is named, even where an earlier check decides', async () => {
  const { outcome, violations } = await ask(
    bodyOf([
      { ...event, name: '' },
      { ...event, context: {} },
    ]),
    { subscription: 'unpaid' },
  )
  expect(outcome).toBe('subscription_inactive')
  expect(violations).toHaveLength(2)
})

describe('the limits', () => {
  test('tell the 10% that a paid plan may go over its month, and none on the trial', async () => {
    const paid = await ask(bodyOf([event]))
    expect(format(paid, { colour: false })).toMatch(
      /^month +0 +13 \+10% +14 [^]*\n\+10%: so far may a paid plan go over its month .*\n$/m,
    )
    expect(toJson(paid)).toMatchObject({ limits: { month: { tolerance_percent: 10 } } })
    const trial = await ask(bodyOf([event]), { plan: 'trial' })
    expect(format(trial, { colour: false })).not.toContain('+10%')
    expect(toJson(trial)).toMatchObject({ limits: { month: { tolerance_percent: 0 } } })
  })

  test('that do not exist are shown as none', async () => {
    const explanation = await ask(bodyOf([event]), { eventsPerDay: null })
    expect(format(explanation, { colour: false })).toMatch(/^day +0 +none +2026-11-21/m)
    expect(toJson(explanation)).toMatchObject({ limits: { day: { limit: null, remaining: null } } })
  })
})

describe('what is wrong in many places in the same way', () => {
  const lines = async (events: readonly object[]): Promise<string> => {
    const text = format(await ask(bodyOf(events)), { colour: false })
    return text.slice(text.indexOf('Offending'), text.indexOf('\n\nwindow'))
  }
  const long = 'x'.repeat(501)

  test('is one line, in the order of the first of each', async () => {
    const bad = { ...event, type: undefined, properties: { colour: long } }
    const events = [
      { ...event, name: '' },
      ...Array.from({ length: 98 }, () => bad),
      { ...bad, revenue: { [long]: long } },
    ]
    expect(await lines(events)).toBe(
      [
        'Offending members: 200',
        '  events[0].name: length must be 1 to 200',
        '  events[*].properties.colour: at most 500 characters (99 times)',
        '  events[*].type: required (99 times)',
        `  events[99].revenue["${'x'.repeat(60)}…"]: at most 500 characters`,
      ].join('\n'),
    )
  })

  test('keeps the event that it is all in', async () => {
    const body = JSON.stringify({ app_key: app.appKey, events: [event, event] })
    const repeated = Buffer.from(`${body.slice(0, -3)}${',"name":"x"'.repeat(1200)}}]}`)
    const explanation = await ask(repeated)
    expect(explanation.violations).toHaveLength(1000)
    expect(format(explanation, { colour: false })).toContain(
      'Offending members: 1,000 or more\n  events[1].name: must appear once (1,000 times)\n',
    )
  })

  test('has the message of the service, which names no property', async () => {
    const { message, violations } = await ask(bodyOf([{ ...event, properties: { a: 1, colour: long } }]))
    expect(message).toBe('events[0].properties[1]: at most 500 characters')
    expect(violations.map(violationText)).toEqual(['events[0].properties.colour: at most 500 characters'])
  })
})

describe('another key', () => {
  const judged = (body: string) => judgeBody(Buffer.from(body), 'ak_new', NOW_MS)
  const texts = (body: string): readonly string[] => {
    const verdict = judged(body)
    return verdict === null || verdict.code === null ? [] : verdict.found.map(violationText)
  }

  test.each([
    ['a key', '"ak_old"'],
    ['no text', '{"a":"}"}'],
    ['nothing', null],
  ])('takes the place of %s', (_what, key) => {
    const members = key === null ? '' : `"app\\u005fkey": ${key}, `
    expect(judged(`{${members}"events":[${JSON.stringify(event)}]}`)).toEqual({
      code: null,
      appKey: 'ak_new',
      events: 1,
    })
    expect(judged(`{${members}"events":[{}, 1]}`)).toMatchObject({ code: 'validation_failed', appKey: 'ak_new' })
    expect(texts(`{${members}"events":7}`)).toEqual(['events: must be an array'])
  })

  test('takes the place of one alone', () => {
    expect(texts('{"app_key":1,"app_key":2,"events":[]}')).toEqual(['app_key: must appear once'])
  })

  test.each([
    ['[{"app_key":"a"}]', 'body: must be an object'],
    ['12', 'body: must be an object'],
    ['{"app_key":', 'body: not valid JSON at byte 11'],
    ['', 'body: empty'],
  ])('changes nothing of %s, which is no object', (body, text) => {
    expect(judged(body)).toMatchObject({ appKey: null })
    expect(texts(body)).toEqual([text])
  })
})

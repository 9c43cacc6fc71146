import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checkRecords, readApp, subscriptionRefusal } from '../../../src/apps/app-record.ts'
import { SUBSCRIPTIONS } from '../../../src/apps/record-members.ts'
import { anApp } from './apps.ts'

const FULL_RECORD = {
  app_key: 'ak_demo_2f6c1d',
  app_id: 'demo',
  name: 'Demo',
  plan: '100k',
  subscription: 'active',
  trial_ends_at: '2026-12-31T00:00:00Z',
  billing_cycle_anchor: '2026-11-17T00:00:00Z',
  events_per_day: 20_000,
  events_per_minute: 700,
  events_per_month: 1_005,
}
const RECORD = { app_key: 'ak_', app_id: 'a', plan: 'trial', subscription: 'trialing' }
const NOW_MS = Date.UTC(2026, 10, 20, 12)

function mistakesOf(parts: object, path = ''): readonly string[] {
  const read = readApp({ ...RECORD, ...parts }, path)
  return read.kind === 'mistakes' ? read.mistakes : []
}

function appOf(parts: object) {
  const read = readApp({ ...RECORD, ...parts }, '')
  if (read.kind === 'mistakes') throw new Error(read.mistakes.join())
  return read.app
}

describe('a record', () => {
  it('becomes an app, with its own limits instead of the plan’s', () => {
    expect(readApp(FULL_RECORD, '')).toEqual({
      kind: 'app',
      record: FULL_RECORD,
      app: {
        appKey: 'ak_demo_2f6c1d',
        previousKeys: [],
        origins: null,
        readKeys: [],
        appId: 'demo',
        name: 'Demo',
        plan: '100k',
        subscription: 'active',
        trialEndsAtMs: Date.UTC(2026, 11, 31),
        billingAnchorMs: Date.UTC(2026, 10, 17),
        eventsPerMinute: 700,
        eventsPerDay: 20_000,
        eventsPerMonth: 1_105,
        bytesPerMinute: 4096 * 700,
        alertSteps: [50, 80, 100],
      },
    })
  })

  it('with only the required members has its plan’s limits, and no trial end, anchor or daily limit', () => {
    expect(appOf({ plan: '2m' })).toEqual({
      appKey: 'ak_',
      previousKeys: [],
      origins: null,
      readKeys: [],
      appId: 'a',
      name: null,
      plan: '2m',
      subscription: 'trialing',
      trialEndsAtMs: null,
      billingAnchorMs: null,
      eventsPerMinute: 8_000,
      eventsPerDay: null,
      eventsPerMonth: 2_200_000,
      bytesPerMinute: 4096 * 8_000,
      alertSteps: [50, 80, 100],
    })
    expect(appOf({}).eventsPerMonth).toBe(10_000)
    expect(appOf({ events_per_month: 77 }).eventsPerMonth).toBe(77)
  })

  it.each([
    [{ plan: 'trial' }, 2_097_152],
    [{ plan: '100k' }, 2_097_152],
    [{ plan: '5m' }, 61_440_000],
    [{ plan: 'trial', events_per_minute: 513 }, 2_101_248],
    [{ plan: '5m', events_per_minute: 1 }, 2_097_152],
    [{ events_per_minute: Number.MAX_SAFE_INTEGER }, Number.MAX_SAFE_INTEGER],
    [{ plan: '5m', bytes_per_minute: 77 }, 77],
  ])('%j may store %i bytes a minute: 4 KiB for each event, at least 2 MiB, or its own figure', (parts, bytes) => {
    expect(appOf(parts).bytesPerMinute).toBe(bytes)
  })

  it('reports every mistake with its path', () => {
    const read = readApp({ app_key: 'key', plan: '100K', subscription: 7, name: null, events_per_dya: 5 }, 'apps[2]')
    expect(read).toEqual({
      kind: 'mistakes',
      mistakes: [
        'apps[2].app_key: must start with ak_ and hold at most 256 printable ASCII characters, no space',
        'apps[2].app_id: required',
        'apps[2].name: must not be null: leave it out instead',
        'apps[2].plan: must be one of trial, 10k, 100k, 500k, 1m, 2m, 5m',
        'apps[2].subscription: must be one of trialing, active, past_due, canceled, unpaid, paused',
        'apps[2].events_per_dya: unknown member',
      ],
    })
  })

  it('that is not an object is a mistake', () => {
    for (const value of [null, 1, 'app', [], undefined]) {
      expect(readApp(value, 'apps[0]')).toEqual({ kind: 'mistakes', mistakes: ['apps[0]: must be an object'] })
    }
    expect(readApp(null, '')).toEqual({ kind: 'mistakes', mistakes: ['record: must be an object'] })
  })

  it('has only own members: nothing inherited, nothing special', () => {
    expect(readApp(JSON.parse('{"__proto__": {"app_key": "ak_"}}'), '')).toMatchObject({
      mistakes: expect.arrayContaining(['app_key: required', '__proto__: unknown member']),
    })
    expect(mistakesOf({ constructor: 1 })).toEqual(['constructor: unknown member'])
    expect(mistakesOf({ plan: 'toString' })).toHaveLength(1)
  })

  it('has a key of at most 256 printable ASCII characters after and with ak_', () => {
    for (const key of ['ak_', 'ak_!~', `ak_${'x'.repeat(253)}`])
      expect([key, ...mistakesOf({ app_key: key })]).toEqual([key])
    for (const key of ['', 'AK_x', 'xak_', 'ak_ x', 'ak_\n', 'ak_x\n', 'ak_é', `ak_${'x'.repeat(254)}`, 5, null]) {
      expect([key, mistakesOf({ app_key: key }).length]).toEqual([key, 1])
    }
  })

  it('has at most four previous keys, each with its end, without repeats', () => {
    const key = (id: number | string, rest: object = {}) => ({
      app_key: `ak_${id}`,
      valid_until: '2026-12-31T00:00:00Z',
      ...rest,
    })
    for (const keys of [[], [key(1)], [key(1), key(2), key(3), key(4)]]) {
      expect(mistakesOf({ app_key: 'ak_own', previous_keys: keys })).toEqual([])
    }
    for (const keys of [
      [key(1), key(2), key(3), key(4), key(5)],
      [key(1), key(1)],
      [key('own')],
      [key(1, { app_key: 'x' })],
      [key(1, { valid_until: 'soon' })],
      [key(1, { valid_until: undefined })],
      [key(1, { more: 1 })],
      [{ app_key: 'ak_1' }],
      [null],
      ['ak_1'],
      {},
      null,
    ]) {
      expect([keys, mistakesOf({ app_key: 'ak_own', previous_keys: keys }).length]).toEqual([keys, 1])
    }
  })

  it('names the steps of its alerts, as different multiples of 10', () => {
    for (const alerts of [[], [10], [100, 90, 10], [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]])
      expect([alerts, ...mistakesOf({ alerts })]).toEqual([alerts])
    for (const alerts of [
      [0],
      [110],
      [-10],
      [55],
      [50, 50],
      ['50'],
      [50.5],
      [Number.NaN],
      [[50]],
      [null],
      {},
      '50',
      50,
      null,
    ])
      expect([alerts, mistakesOf({ alerts }).length]).toEqual([alerts, 1])
    expect(appOf({ alerts: [100, 90, 10] }).alertSteps).toEqual([10, 90, 100])
    expect(appOf({ alerts: [] }).alertSteps).toEqual([])
  })

  it('names the pages that may send, as browsers write their origins', () => {
    for (const origins of [
      ['*'],
      ['null'],
      ['https://a.example/'],
      ['https://a.example/path'],
      ['a.example'],
      ['https://*.a.example'],
      [''],
      [7],
      [null],
      [`https://${'a'.repeat(300)}.example`],
      Array.from({ length: 101 }, (_, number) => `https://a${number}.example`),
      'https://a.example',
      null,
      {},
    ])
      expect([origins, mistakesOf({ origins }).length]).toEqual([origins, 1])
    expect(appOf({ origins: [] }).origins).toEqual([])
    const written = ['HTTPS://App.Example.com:443', 'http://localhost:3000', 'capacitor://localhost']
    expect(appOf({ origins: written }).origins).toEqual(['https://app.example.com', ...written.slice(1)])
  })

  it('has an id of 1 to 64 letters, digits, _ and -', () => {
    for (const id of ['a', 'A-Z_09', '__proto__', 'x'.repeat(64)])
      expect([id, ...mistakesOf({ app_id: id })]).toEqual([id])
    for (const id of ['', 'x'.repeat(65), 'a:b', 'a b', 'a\n', 'é', 1])
      expect(mistakesOf({ app_id: id })).toHaveLength(1)
  })

  it('has positive integers as limits', () => {
    for (const member of ['events_per_day', 'events_per_minute', 'events_per_month']) {
      expect(mistakesOf({ [member]: 1 })).toEqual([])
      expect(mistakesOf({ [member]: Number.MAX_SAFE_INTEGER })).toEqual([])
      for (const value of [0, -1, 1.5, '5', 2 ** 53, Number.NaN, true, null]) {
        expect([member, value, mistakesOf({ [member]: value }).length]).toEqual([member, value, 1])
      }
    }
  })

  it('has a name of at most 200 characters', () => {
    expect(mistakesOf({ name: '' })).toEqual([])
    expect(mistakesOf({ name: 'n'.repeat(200) })).toEqual([])
    expect(mistakesOf({ name: 'n'.repeat(201) })).toHaveLength(1)
    expect(mistakesOf({ name: 5 })).toHaveLength(1)
  })

  it('has dates and times with a zone, on days that exist', () => {
    const moments: [string, number][] = [
      ['2026-12-31T00:00:00Z', Date.UTC(2026, 11, 31)],
      ['2026-12-31T00:00Z', Date.UTC(2026, 11, 31)],
      ['2028-02-29T23:59:59.9999Z', Date.UTC(2028, 1, 29, 23, 59, 59, 999)],
      ['2026-01-01T00:00:00.5+05:30', Date.UTC(2025, 11, 31, 18, 30, 0, 500)],
      ['2026-01-01T00:00:00-0800', Date.UTC(2026, 0, 1, 8)],
      ['0000-01-01T00:00:00Z', -62167219200000],
    ]
    for (const [text, ms] of moments) expect([text, appOf({ trial_ends_at: text }).trialEndsAtMs]).toEqual([text, ms])
    const none = ['2026-12-31', '2026-12-31T00:00:00', '2026-12-31 00:00:00Z', '2026-02-29T00:00:00Z', 'soon', '', 5]
    none.push('2026-13-01T00:00:00Z', '2026-00-10T00:00:00Z', '2026-01-00T00:00:00Z', '2026-04-31T00:00:00Z')
    none.push('2026-01-01T24:00:00Z', '2026-01-01T00:60:00Z', '2026-01-01T00:00:60Z', '2026-01-01T00:00:00+24:00')
    none.push('26-01-01T00:00:00Z', '2026-1-1T00:00:00Z', '2026-01-01T00:00:00z', '2026-01-01T00:00:00.Z')
    for (const text of none) expect([text, mistakesOf({ billing_cycle_anchor: text }).length]).toEqual([text, 1])
  })

  it('reads every date and time that a clock can write', () => {
    const dates = fc.date({ min: new Date('1970-01-01'), max: new Date('9999-12-31'), noInvalidDate: true })
    fc.assert(
      fc.property(dates, (date) => {
        expect(appOf({ trial_ends_at: date.toISOString() }).trialEndsAtMs).toBe(date.getTime())
      }),
    )
  })
})

describe('a document', () => {
  it('gives its records in order', () => {
    expect(checkRecords({ apps: [FULL_RECORD, RECORD] })).toEqual({ kind: 'records', records: [FULL_RECORD, RECORD] })
    expect(checkRecords({ apps: [] })).toEqual({ kind: 'records', records: [] })
  })

  it('without an array of apps is a mistake', () => {
    for (const value of [null, [], {}, { apps: {} }, 'apps', 1]) {
      expect(checkRecords(value)).toMatchObject({ mistakes: [expect.stringContaining('apps: ')] })
    }
  })

  it('reports the mistakes of every record, and unknown members', () => {
    const read = checkRecords({ app: [], apps: [{ ...RECORD, plan: 'x' }, 5] })
    expect(read).toMatchObject({
      mistakes: ['app: unknown member', expect.stringContaining('apps[0].plan: '), 'apps[1]: must be an object'],
    })
  })

  it('may not repeat a key or an id, also among records with other mistakes', () => {
    const again = { ...RECORD, plan: 'x' }
    expect(checkRecords({ apps: [RECORD, { ...RECORD, app_key: 'ak_b' }, again] })).toMatchObject({
      mistakes: [
        'apps[1].app_id: same as apps[0].app_id',
        expect.stringContaining('apps[2].plan: '),
        'apps[2].app_key: same as apps[0].app_key',
        'apps[2].app_id: same as apps[0].app_id',
      ],
    })
  })
})

describe('a document with more mistakes than a log should hold', () => {
  it('reports the first hundred and counts the others', () => {
    const read = checkRecords({ apps: Array.from({ length: 150 }, () => 5) })
    expect(read).toMatchObject({ kind: 'mistakes' })
    const { mistakes } = read as { mistakes: readonly string[] }
    expect(mistakes).toHaveLength(101)
    expect(mistakes.slice(-2)).toEqual(['apps[99]: must be an object', 'and 50 more'])
  })

  it('stops checking at 10,000 mistakes', () => {
    let looked = 0
    const record = new Proxy({}, { ownKeys: () => (looked++, []) })
    const checked = checkRecords({ apps: Array.from({ length: 100_000 }, () => record) })
    if (checked.kind !== 'mistakes') expect.fail('they were taken')
    expect(checked.mistakes.at(-1)).toMatch(/^and 9\d{3} more at least$/)
    expect(looked).toBeLessThan(10_000)
  })
})

describe('a subscription', () => {
  it('that is canceled, unpaid or paused may not send; every other may', () => {
    const refusals = SUBSCRIPTIONS.map((subscription) => subscriptionRefusal(anApp({ subscription }), NOW_MS))
    expect(refusals).toEqual([null, null, null, ...Array(3).fill('subscription_inactive')])
  })

  it('on trial may send until the trial has ended, to the millisecond', () => {
    for (const trial of [anApp({ subscription: 'trialing' }), anApp({ plan: 'trial' })]) {
      expect(subscriptionRefusal({ ...trial, trialEndsAtMs: NOW_MS + 1 }, NOW_MS)).toBe(null)
      expect(subscriptionRefusal({ ...trial, trialEndsAtMs: NOW_MS }, NOW_MS)).toBe('trial_expired')
      expect(subscriptionRefusal({ ...trial, trialEndsAtMs: null }, NOW_MS)).toBe(null)
    }
  })

  it('that is paid has no trial to end', () => {
    expect(subscriptionRefusal(anApp({ trialEndsAtMs: NOW_MS - 1 }), NOW_MS)).toBe(null)
    expect(subscriptionRefusal(anApp({ trialEndsAtMs: NOW_MS - 1, subscription: 'past_due' }), NOW_MS)).toBe(null)
  })

  it('that is canceled and whose trial has ended is inactive first', () => {
    const app = anApp({ plan: 'trial', subscription: 'canceled', trialEndsAtMs: NOW_MS - 1 })
    expect(subscriptionRefusal(app, NOW_MS)).toBe('subscription_inactive')
  })
})

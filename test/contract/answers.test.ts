// What every answer looks like, and which check answers first where two would refuse.

import { randomUUID } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { test as base, describe, expect } from 'vitest'
import {
  batch,
  bodyOfSize,
  event,
  expectAccepted,
  expectRefused,
  figures,
  MARK,
  MAX_BODY_BYTES,
  post,
  type Sending,
  send,
  single,
  uuidVersion,
} from '../support/client.ts'
import { aService } from '../support/fixture.ts'
import { readJournal } from '../support/journal-files.ts'
import { appRecord, roomInMinute } from '../support/service.ts'

const PAST = new Date(Date.now() - 86_400_000).toISOString()
const APPS = [
  appRecord('plain'),
  appRecord('past_due', { subscription: 'past_due' }),
  appRecord('trialing', { subscription: 'trialing' }),
  appRecord('canceled', { subscription: 'canceled', plan: '1m' }),
  appRecord('canceled_trial', { subscription: 'canceled', plan: 'trial', trial_ends_at: PAST }),
  appRecord('trial_ended', { plan: 'trial', subscription: 'trialing', trial_ends_at: PAST }),
  appRecord('full_minute', { events_per_minute: 5 }),
  appRecord('full_day', { events_per_day: 5, events_per_minute: 5 }),
  appRecord('full_month', { plan: 'trial', events_per_month: 5, events_per_day: 5, events_per_minute: 5 }),
]

const KEY = randomUUID()
const BAD_KEY = `${MARK}-no-uuid`
/** Refused at row 13: an unknown type, with the mark wherever a client may put it. */
const BAD_EVENT = event({ type: MARK, [MARK]: MARK, properties: { [MARK]: MARK } })
const BAD_SCHEMA = { events: [BAD_EVENT], [MARK]: MARK }
const TORN = `{"app_key":"ak_plain","${MARK}":"${MARK}`
const UNKNOWN = `ak_${MARK}`
const OVERSIZE = 'x'.repeat(MAX_BODY_BYTES + 1)

const test = base.extend('service', { scope: 'file' }, aService({ apps: APPS }))

interface Row {
  readonly claim: string
  readonly sending: Sending
  readonly status: number
  readonly code: string
}

function row(claim: string, status: number, code: string, sending: Sending): Row {
  return { claim, status, code, sending }
}

const SINGLE_REFUSALS: Row[] = [
  row('another path is not found', 404, 'not_found', { path: `/${MARK}`, body: single('ak_plain') }),
  row('the root is not found', 404, 'not_found', { path: '/', method: 'GET' }),
  row('a trailing slash is another path', 404, 'not_found', { path: '/api/v1/events/', body: single('ak_plain') }),
  row('a path below is another path', 404, 'not_found', { path: `/api/v1/events/${MARK}`, body: single('ak_plain') }),
  row('metrics are not on the public port', 404, 'not_found', { path: '/metrics', method: 'GET' }),
  row('liveness is not on the public port', 404, 'not_found', { path: '/livez', method: 'GET' }),
  ...['GET', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'].map((method) =>
    row(`${method} is not allowed`, 405, 'method_not_allowed', { method }),
  ),
  row('text is not JSON media', 415, 'unsupported_media_type', {
    body: single('ak_plain'),
    headers: { 'Content-Type': `text/${MARK}` },
  }),
  row('a body over the cap is too large', 413, 'payload_too_large', { body: OVERSIZE }),
  row('an idempotency key is a UUID', 400, 'validation_failed', {
    body: single('ak_plain'),
    headers: { 'Idempotency-Key': BAD_KEY },
  }),
  row('torn JSON is not JSON', 400, 'invalid_json', { body: TORN }),
  row('an empty body is not JSON', 400, 'invalid_json', { body: '' }),
  row('a body without app_key does not fit', 400, 'validation_failed', { body: JSON.stringify({ [MARK]: MARK }) }),
  row('an array is not a request', 400, 'validation_failed', { body: JSON.stringify([MARK]) }),
  row('a string is not a request', 400, 'validation_failed', { body: JSON.stringify(MARK) }),
  row('null is not a request', 400, 'validation_failed', { body: 'null' }),
  row('a number as app_key does not fit', 400, 'validation_failed', { body: '{"app_key":5,"events":[]}' }),
  row('app_key twice does not fit', 400, 'validation_failed', {
    body: `{"app_key":"${UNKNOWN}","app_key":"${UNKNOWN}","events":[]}`,
  }),
  row('an unknown key is refused', 401, 'invalid_app_key', { body: single(UNKNOWN) }),
  row('a key without its prefix is refused', 401, 'invalid_app_key', { body: single(MARK) }),
  row('an empty key is refused', 401, 'invalid_app_key', { body: single('') }),
  row('the bare prefix is refused', 401, 'invalid_app_key', { body: single('ak_') }),
  row('the prefix in capitals is refused', 401, 'invalid_app_key', { body: single('AK_plain') }),
  row('a known key with a space after it is refused', 401, 'invalid_app_key', { body: single('ak_plain ') }),
  row('a canceled subscription is inactive', 402, 'subscription_inactive', { body: single('ak_canceled') }),
  row('an ended trial is expired', 402, 'trial_expired', { body: single('ak_trial_ended') }),
  row('an unknown type does not fit', 400, 'validation_failed', { body: batch('ak_plain', 1, BAD_SCHEMA) }),
]

describe('one check fails', () => {
  for (const { claim, sending, status, code } of SINGLE_REFUSALS) {
    test(claim, async ({ service }) => {
      expectRefused(await send(service, sending), status, code)
    })
  }

  test('the answer to a refused method names the allowed one', async ({ service }) => {
    for (const method of ['GET', 'PUT', 'DELETE', 'OPTIONS', 'PATCH']) {
      expect((await send(service, { method })).headers['allow']).toBe('POST')
    }
  })

  test('a query string does not change the path', async ({ service }) => {
    expectAccepted(await send(service, { path: '/api/v1/events?x=1', body: single('ak_plain') }), 1)
  })
})

const gzipped = { 'Content-Encoding': 'gzip' }
const badType = { 'Content-Type': 'text/plain' }
const badKey = { 'Idempotency-Key': BAD_KEY }

const PAIRS: Row[] = [
  row('path before method', 404, 'not_found', { path: '/nowhere', method: 'DELETE' }),
  row('path before media type', 404, 'not_found', { path: '/nowhere', body: 'x', headers: badType }),
  row('method before media type', 405, 'method_not_allowed', { method: 'PUT', body: 'x', headers: badType }),
  row('method before size', 405, 'method_not_allowed', { method: 'PUT', body: OVERSIZE }),
  row('media type before size', 415, 'unsupported_media_type', { body: OVERSIZE, headers: badType }),
  row('content encoding before size', 415, 'unsupported_media_type', {
    body: OVERSIZE,
    headers: { 'Content-Encoding': 'zstd' },
  }),
  row('media type before idempotency key', 415, 'unsupported_media_type', {
    body: single('ak_plain'),
    headers: { ...badType, ...badKey },
  }),
  row('size before idempotency key', 413, 'payload_too_large', { body: OVERSIZE, headers: badKey }),
  row('size, counted as it streams, before idempotency key', 413, 'payload_too_large', {
    body: OVERSIZE,
    headers: badKey,
    chunked: true,
  }),
  row('size after decoding before idempotency key', 413, 'payload_too_large', {
    body: gzipSync(OVERSIZE),
    headers: { ...badKey, ...gzipped },
  }),
  row('size before JSON', 413, 'payload_too_large', { body: gzipSync(OVERSIZE), headers: gzipped }),
  row('idempotency key before JSON', 400, 'validation_failed', { body: TORN, headers: badKey }),
  row('idempotency key before a body that is not what its encoding says', 400, 'validation_failed', {
    body: `${MARK} is no gzip`,
    headers: { ...badKey, ...gzipped },
  }),
  row('idempotency key before app key', 400, 'validation_failed', { body: single(UNKNOWN), headers: badKey }),
  row('JSON before app_key', 400, 'invalid_json', { body: `{"events":[],"${MARK}":tru}` }),
  row('JSON before schema', 400, 'invalid_json', { body: `${batch('ak_plain', 1, BAD_SCHEMA)} ${MARK}` }),
  row('JSON before unknown app', 400, 'invalid_json', { body: `${single(UNKNOWN)}}` }),
  row('missing app_key before schema', 400, 'validation_failed', { body: JSON.stringify(BAD_SCHEMA) }),
  row('app_key twice before unknown app', 400, 'validation_failed', {
    body: `{"app_key":"${UNKNOWN}","events":[],"app_key":"ak_plain"}`,
  }),
  row('unknown app before schema', 401, 'invalid_app_key', { body: batch(UNKNOWN, 1, BAD_SCHEMA) }),
  row('malformed app key before schema', 401, 'invalid_app_key', { body: batch(MARK, 1, BAD_SCHEMA) }),
  row('unknown app before too many events', 401, 'invalid_app_key', { body: batch(UNKNOWN, 101) }),
  row('subscription before trial', 402, 'subscription_inactive', { body: single('ak_canceled_trial') }),
  row('subscription before schema', 402, 'subscription_inactive', { body: batch('ak_canceled', 1, BAD_SCHEMA) }),
  row('trial before schema', 402, 'trial_expired', { body: batch('ak_trial_ended', 1, BAD_SCHEMA) }),
]

describe('two checks fail: the earlier one answers', () => {
  for (const { claim, sending, status, code } of PAIRS) {
    test(claim, async ({ service }) => {
      expectRefused(await send(service, sending), status, code)
    })
  }

  test('a replay comes before the schema', async ({ service }) => {
    const headers = { 'Idempotency-Key': KEY }
    const first = expectAccepted(await post(service, batch('ak_plain', 2), headers), 2)
    const second = expectAccepted(await post(service, batch('ak_plain', 1, BAD_SCHEMA), headers), 2, true)
    expect(second).toBe(first)
  })

  test('JSON and app_key come before a replay', async ({ service }) => {
    const headers = { 'Idempotency-Key': KEY }
    expectRefused(await post(service, TORN, headers), 400, 'invalid_json')
    expectRefused(await post(service, '{"events":[]}', headers), 400, 'validation_failed')
    expectRefused(await post(service, single(UNKNOWN), headers), 401, 'invalid_app_key')
  })

  const FULL = [
    { id: 'full_minute', code: 'rate_limit_exceeded', claim: 'a full minute' },
    { id: 'full_day', code: 'daily_limit_exceeded', claim: 'a full day comes before a full minute, and' },
    { id: 'full_month', code: 'monthly_limit_exceeded', claim: 'a full month comes before a full day and minute, and' },
  ]
  for (const { id, code, claim } of FULL) {
    test(`${claim} comes after a replay and after the schema`, async ({ service }) => {
      await roomInMinute(5)
      const headers = { 'Idempotency-Key': KEY }
      expectAccepted(await post(service, batch(`ak_${id}`, 5), headers), 5)
      expectRefused(await post(service, batch(`ak_${id}`, 1)), 429, code)
      expectRefused(await post(service, batch(`ak_${id}`, 1, BAD_SCHEMA)), 400, 'validation_failed')
      const replay = await post(service, batch(`ak_${id}`, 5), headers)
      expectAccepted(replay, 5, true)
      expect(figures(replay)).toMatchObject({ limit: 5, remaining: 0 })
    })
  }
})

describe('rate limit headers', () => {
  test('before the app is known they show an untouched trial', async ({ service }) => {
    for (const { status, sending, code } of SINGLE_REFUSALS) {
      if (status === 402 || (status === 400 && sending.body === batch('ak_plain', 1, BAD_SCHEMA))) continue
      const answer = await send(service, sending)
      expect({ code, ...figures(answer) }).toMatchObject({ limit: 200, remaining: 200 })
    }
  })

  test('once the app is known they show the app', async ({ service }) => {
    const refused = await post(service, batch('ak_plain', 1, BAD_SCHEMA))
    expect(figures(refused).limit).toBe(15_000)
    expect(figures(await post(service, single('ak_canceled')))).toMatchObject({ limit: 5_000, remaining: 5_000 })
    expect(figures(await post(service, single('ak_trial_ended')))).toMatchObject({ limit: 200, remaining: 200 })
  })
})

describe('accepted', () => {
  test('active, past due and trialing subscriptions may send', async ({ service }) => {
    for (const id of ['plain', 'past_due', 'trialing']) expectAccepted(await post(service, batch(`ak_${id}`, 3)), 3)
  })

  test('an unkeyed batch has a fresh UUIDv7, a keyed one a UUIDv5 that its replay shows again', async ({ service }) => {
    const first = expectAccepted(await post(service, single('ak_plain')), 1)
    const second = expectAccepted(await post(service, single('ak_plain')), 1)
    expect([uuidVersion(first), uuidVersion(second)]).toEqual([7, 7])
    expect(second).not.toBe(first)
    const headers = { 'Idempotency-Key': randomUUID() }
    const keyed = expectAccepted(await post(service, single('ak_plain'), headers), 1)
    expect(uuidVersion(keyed)).toBe(5)
    expect(expectAccepted(await post(service, single('ak_plain'), headers), 1, true)).toBe(keyed)
  })

  test('100 events are accepted and 101 are not', async ({ service }) => {
    expectAccepted(await post(service, batch('ak_plain', 100)), 100)
    expectRefused(await post(service, batch('ak_plain', 101)), 400, 'validation_failed')
  })

  test('a body of exactly the cap is accepted', async ({ service }) => {
    expectAccepted(await post(service, bodyOfSize('ak_plain', MAX_BODY_BYTES)), 1)
    expectRefused(await post(service, bodyOfSize('ak_plain', MAX_BODY_BYTES + 1)), 413, 'payload_too_large')
  })

  test('of apps that may not send nothing is stored', async ({ service }) => {
    for (const id of ['canceled', 'canceled_trial', 'trial_ended']) {
      expect((await post(service, single(`ak_${id}`))).status).toBe(402)
    }
    expectAccepted(await post(service, single('ak_plain')), 1)
    const senders = new Set(readJournal(service.dataDir).map((record) => record.app_id))
    expect([...senders].filter((id) => /canceled|ended/.test(id))).toEqual([])
    expect(senders).toContain('plain')
  })
})

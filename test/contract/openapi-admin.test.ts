// Holds openapi-admin.yaml and the console's API together: each path answers as the document says, and each documented
// path is asked.

import { test as base, describe, expect } from 'vitest'
import { COMPONENTS } from '../../src/contract/admin/components.ts'
import { type Answer, post, send, single } from '../support/client.ts'
import { type Asked, operationsOf, readDocument } from '../support/documented.ts'
import { openEventStream } from '../support/event-stream.ts'
import { aService } from '../support/fixture.ts'
import { appRecord, eventually, type Service } from '../support/service.ts'

const PAGE = readDocument('openapi-admin.yaml', COMPONENTS)

const UUID = '0199f3a0-7c1e-7d2a-9f5b-3e8c1a2b4c6d'
const TOKEN = 'a-token-of-twenty-characters'
const apps = [appRecord('shop'), appRecord('paused', { subscription: 'paused' })]
const withService = base.extend('service', { scope: 'file' }, aService({ apps }))
const withGuarded = withService.extend(
  'guarded',
  { scope: 'file' },
  aService({ apps, env: { SLUICE_CONSOLE_TOKEN: TOKEN } }),
)
const test = withGuarded.extend('off', { scope: 'file' }, aService({ apps, env: { SLUICE_ADMIN_HOST: '0.0.0.0' } }))

/** Asks and holds the answer to the document. `path` is the documented one. */
async function expectDocumented(
  service: Service,
  [method, path]: readonly [string, string],
  asked: { query?: string; body?: string; headers?: Record<string, string> },
  status: number,
): Promise<Answer> {
  const { query = '', body, headers = {} } = asked
  const address = path.replace('{batch_id}', UUID).replace('{app_id}', 'shop').replace('{name}', 'web') + query
  const answer = await send(
    { port: service.adminPort },
    { method: method.toUpperCase(), path: address, headers, ...(body === undefined ? {} : { body }) },
  )
  expect([method, address, answer.status, answer.text]).toEqual([method, address, status, answer.text])
  PAGE.expectDocumented(answer, path, method)
  return answer
}

const GOOD: Asked = [
  ['get', '/api/session', '', undefined, 200],
  ['post', '/api/session', '', JSON.stringify({ token: TOKEN }), 204],
  ['delete', '/api/session', '', undefined, 204],
  ['get', '/api/now', '', undefined, 200],
  ['get', '/api/now', '?range=1h', undefined, 200],
  ['get', '/api/now', '?range=24h', undefined, 200],
  ['get', '/api/events', '?limit=10', undefined, 200],
  ['get', '/api/search', '?q=user-1', undefined, 200],
  ['get', '/api/example', '', undefined, 200],
  ['get', '/api/refusals', '?app=paused&limit=10', undefined, 200],
  ['get', '/api/refusals', `?request_id=${UUID}`, undefined, 200],
  ['get', '/api/batches', `?app=shop&key=${UUID}&since=2h`, undefined, 200],
  ['get', '/api/batches', `?app=shop&key=${UUID}&before=2h`, undefined, 200],
  ['get', '/api/batches/{batch_id}', '?events=1', undefined, 200],
  ['get', '/api/apps', '?top=10', undefined, 200],
  ['get', '/api/alerts', '?app=shop&since=2026-11-20T00:00:00Z&limit=5', undefined, 200],
  ['post', '/api/explain', '?app_key=ak_shop', '{"events":[{"type":"click"}]}', 200],
  ['post', '/api/explain', '', '{', 200],
  ['get', '/api/codes', '', undefined, 200],
]
/** With the token. */
const WRITES: Asked = [
  ['put', '/api/apps/{app_id}', '', '{"plan":"10k","subscription":"active"}', 200],
  ['get', '/api/apps/{app_id}', '', undefined, 200],
  ['post', '/api/apps/{app_id}/rotate', '', '{"overlap":"0"}', 200],
  ['get', '/api/apps/{app_id}/usage', '', undefined, 200],
  ['get', '/api/apps/{app_id}/usage', '?days=3', undefined, 200],
  ['get', '/api/apps/{app_id}/usage', '?days=36', undefined, 400],
  ['post', '/api/apps/{app_id}/read-keys', '', '{"name":"web"}', 201],
  ['post', '/api/apps/{app_id}/read-keys', '', '{"name":"web"}', 409],
  ['get', '/api/apps/{app_id}/read-keys', '', undefined, 200],
  ['delete', '/api/apps/{app_id}/read-keys/{name}', '', undefined, 204],
  ['delete', '/api/apps/{app_id}/read-keys/{name}', '', undefined, 404],
  ['put', '/api/apps/{app_id}', '', '{"plan":"7m"}', 400],
  ['delete', '/api/apps/{app_id}', '', undefined, 204],
  ['get', '/api/apps/{app_id}', '', undefined, 404],
  ['put', '/api/apps/{app_id}', '', '{"plan":"10k","subscription":"active"}', 201],
]
const STREAMS = ['/api/now/stream', '/api/events/stream', '/api/refusals/stream', '/api/alerts/stream']
const BAD: Asked = [
  ['post', '/api/session', '', 'no JSON', 400],
  ['post', '/api/session', '', JSON.stringify({ token: 'x'.repeat(5000) }), 413],
  ['get', '/api/now', '?range=2h', undefined, 400],
  ['get', '/api/events', '?limit=201', undefined, 400],
  ['get', '/api/events', '?type=click', undefined, 400],
  ['get', '/api/search', '?q=+', undefined, 400],
  ['get', '/api/search', `?q=${'x'.repeat(257)}`, undefined, 400],
  ['get', '/api/refusals', '?limit=0', undefined, 400],
  ['get', '/api/refusals', '?request_id=7', undefined, 400],
  ['get', '/api/batches', '?app=shop', undefined, 400],
  ['get', '/api/batches/{batch_id}', '?since=yesterday', undefined, 400],
  ['get', '/api/apps', '?top=10001', undefined, 400],
  ['get', '/api/alerts', '?since=yesterday', undefined, 400],
  ['get', '/api/alerts', '?limit=0', undefined, 400],
  ['get', '/api/alerts', '?after=7', undefined, 400],
  ['get', '/api/alerts/stream', `?app=${'x'.repeat(201)}`, undefined, 400],
  ['post', '/api/explain', '', 'x'.repeat(524_289), 413],
  ['get', '/api/events/stream', '?type=click', undefined, 400],
  ['get', '/api/refusals/stream', `?app=${'x'.repeat(101)}`, undefined, 400],
  ['get', '/api/refusals/stream', '?from_start=true', undefined, 400],
  ['get', '/api/batches/{batch_id}', '?events=true', undefined, 400],
]

test('it has the schemas of the code and the version of the package', () => {
  expect(PAGE.asItIs).toEqual(PAGE.asItShouldBe)
})

test('a comma ends no sentence and begins no member in it', () => {
  const empty: string[] = []
  JSON.stringify(PAGE.document, (name, value: unknown) => (value === null ? empty.push(name) : value))
  expect(empty).toEqual([])
})

test('each documented path is asked below', () => {
  const documented = PAGE.operations.map((one) => one.join(' ')).toSorted()
  expect(operationsOf([...GOOD, ...WRITES], STREAMS)).toEqual(documented)
})

test('each path answers as it says', async ({ service }) => {
  await post(service, single('ak_paused'))
  for (const [method, path, query, body, status] of GOOD) {
    await expectDocumented(service, [method, path], { query, ...(body === undefined ? {} : { body }) }, status)
  }
})

test('each change of an app answers as it says', async ({ guarded }) => {
  const headers = { Authorization: `Bearer ${TOKEN}` }
  for (const [method, path, query, body, status] of WRITES) {
    await expectDocumented(guarded, [method, path], { query, headers, ...(body === undefined ? {} : { body }) }, status)
  }
})

test('the id of a refused request is answered with its refusal, as it says', async ({ service }) => {
  const refused = await post(service, single('ak_paused'))
  const address = `/api/batches/${String(refused.headers['x-request-id'])}`
  const answer = await send({ port: service.adminPort }, { method: 'GET', path: address })
  expect(answer.json).toMatchObject({ found: true, refusal: { app_id: 'paused', code: 'subscription_inactive' } })
  PAGE.expectDocumented(answer, '/api/batches/{batch_id}', 'get')
})

test('each mistake is answered as it says', async ({ service }) => {
  for (const [method, path, query, body, status] of BAD) {
    await expectDocumented(service, [method, path], { query, ...(body === undefined ? {} : { body }) }, status)
  }
})

test('each path but the session wants the token', async ({ guarded }) => {
  for (const [method, path] of PAGE.operations) {
    if (path !== '/api/session') await expectDocumented(guarded, [method, path], {}, 401)
  }
  await expectDocumented(guarded, ['post', '/api/session'], { body: JSON.stringify({ token: `${TOKEN}x` }) }, 401)
  await expectDocumented(guarded, ['get', '/api/now'], { headers: { Authorization: `Bearer ${TOKEN}` } }, 200)
})

test('each path that may answer 401 may answer 429 to one wrong token among many', () => {
  for (const [path, methods] of Object.entries(PAGE.document.paths)) {
    for (const [method, { responses }] of Object.entries(methods)) {
      expect([method, path, '429' in responses]).toEqual([method, path, '401' in responses])
    }
  }
})

test('each path is off where others reach the port and no token is set', async ({ off }) => {
  for (const operation of PAGE.operations) {
    const answer = await expectDocumented(off, operation, {}, 403)
    expect(answer.json).toMatchObject({
      error: 'console_off',
      message: expect.stringContaining('SLUICE_CONSOLE_TOKEN'),
    })
  }
  const list = await send({ port: off.adminPort }, { method: 'GET', path: '/' })
  expect([list.status, list.text]).toEqual([200, expect.stringContaining('/metrics')])
})

test('each path tells nothing by a foreign Host', async ({ guarded }) => {
  const headers = { Host: 'evil.example', Authorization: `Bearer ${TOKEN}` }
  for (const operation of PAGE.operations) await expectDocumented(guarded, operation, { headers }, 421)
})

test('the eleventh wrong token of a second gets a 429', async ({ guarded }) => {
  const body = JSON.stringify({ token: 'not the token of this service' })
  await eventually('one is answered 429', async () => {
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => send({ port: guarded.adminPort }, { path: '/api/session', body })),
    )
    const late = answers.find(({ status }) => status === 429)
    if (late !== undefined) PAGE.expectSchema('Error', late.json)
    return late !== undefined && answers.every(({ status }) => status === 401 || status === 429)
  })
})

describe('streams send what they say', () => {
  const SCHEMAS: Readonly<Record<string, string>> = {
    now: 'Now',
    event: 'StoredEvent',
    rate: 'EventRate',
    refusal: 'Refusal',
  }

  test.for([
    ['/api/now/stream', 'now', 'ak_shop'],
    ['/api/events/stream', 'event', 'ak_shop'],
    ['/api/refusals/stream', 'refusal', 'ak_paused'],
  ])('%s', async ([path, name, key], { service }) => {
    const stream = await openEventStream(service.adminPort, path)
    try {
      await eventually('it has sent something', async () => {
        await post(service, single(key))
        return stream.events.some(({ event }) => event === name)
      })
      for (const { event, data } of stream.events) PAGE.expectSchema(SCHEMAS[event], data)
    } finally {
      stream.close()
    }
  })
})

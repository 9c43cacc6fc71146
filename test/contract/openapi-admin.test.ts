// Holds openapi-admin.yaml and the console's API together: each path answers as the document says, and each documented
// path is asked.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { test as base, describe, expect } from 'vitest'
import { parse } from 'yaml'
import { COMPONENTS } from '../../src/contract/admin/components.ts'
import { packageVersion } from '../../src/lib/version.ts'
import { withSchemas } from '../../tools/api-page.js'
import { type Answer, post, send, single } from '../support/client.ts'
import { openEventStream } from '../support/event-stream.ts'
import { aService } from '../support/fixture.ts'
import { appRecord, eventually, type Service } from '../support/service.ts'

interface Operation {
  readonly responses: Readonly<Record<string, object>>
}

const PAGE = readFileSync(resolve(import.meta.dirname, '../../openapi-admin.yaml'), 'utf8')
const DOCUMENT = parse(PAGE) as {
  info: { version: string }
  paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
}
const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false })
ajv.addSchema(DOCUMENT, 'admin')

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

/** Where the document says what this answer holds, `$ref`s followed; null: it has no body. */
function schemaAt(path: string, method: string, status: number): string | null {
  const response = DOCUMENT.paths[path]?.[method]?.responses[status]
  if (response === undefined) throw new Error(`openapi-admin.yaml has no ${status} of ${method} ${path}`)
  const escaped = path.replaceAll('~', '~0').replaceAll('/', '~1').replaceAll('{', '%7B').replaceAll('}', '%7D')
  const place = '$ref' in response ? String(response.$ref) : `#/paths/${escaped}/${method}/responses/${status}`
  const content = '$ref' in response ? true : 'content' in response
  return content ? `admin${place}/content/application~1json/schema` : null
}

function expectSchema(pointer: string, value: unknown): void {
  const validate = ajv.compile({ $ref: pointer })
  expect([pointer, validate(value) ? [] : validate.errors]).toEqual([pointer, []])
}

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
  const schema = schemaAt(path, method, status)
  if (schema === null) expect(answer.text).toBe('')
  else expectSchema(schema, answer.json)
  return answer
}

const GOOD: readonly (readonly [string, string, string, string | undefined, number])[] = [
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
const WRITES: readonly (readonly [string, string, string, string | undefined, number])[] = [
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
const BAD: readonly (readonly [string, string, string, string | undefined, number])[] = [
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
]

test('its schemas are those that the code has its types and checks from (npm run docs:api)', () => {
  expect(PAGE).toBe(withSchemas(PAGE, COMPONENTS))
})

test('its version is that of the package', () => {
  expect(DOCUMENT.info.version).toBe(packageVersion())
})

test('a comma ends no sentence and begins no member in it', () => {
  const empty: string[] = []
  JSON.stringify(DOCUMENT, (name, value: unknown) => (value === null ? empty.push(name) : value))
  expect(empty).toEqual([])
})

test('each documented path is asked below', () => {
  const documented = Object.entries(DOCUMENT.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method} ${path}`),
  )
  const asked = new Set([
    ...[...GOOD, ...WRITES].map(([method, path]) => `${method} ${path}`),
    ...STREAMS.map((path) => `get ${path}`),
  ])
  expect([...asked].toSorted()).toEqual(documented.toSorted())
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
  expectSchema(schemaAt('/api/batches/{batch_id}', 'get', 200) ?? '', answer.json)
})

test('each mistake is answered as it says', async ({ service }) => {
  for (const [method, path, query, body, status] of BAD) {
    await expectDocumented(service, [method, path], { query, ...(body === undefined ? {} : { body }) }, status)
  }
})

test('each path but the session wants the token', async ({ guarded }) => {
  for (const [path, methods] of Object.entries(DOCUMENT.paths)) {
    for (const method of Object.keys(methods)) {
      if (path !== '/api/session') await expectDocumented(guarded, [method, path], {}, 401)
    }
  }
  await expectDocumented(guarded, ['post', '/api/session'], { body: JSON.stringify({ token: `${TOKEN}x` }) }, 401)
  await expectDocumented(guarded, ['get', '/api/now'], { headers: { Authorization: `Bearer ${TOKEN}` } }, 200)
})

test('each path that may answer 401 may answer 429 to one wrong token among many', () => {
  for (const [path, methods] of Object.entries(DOCUMENT.paths)) {
    for (const [method, { responses }] of Object.entries(methods)) {
      expect([method, path, '429' in responses]).toEqual([method, path, '401' in responses])
    }
  }
})

test('each path is off where others reach the port and no token is set', async ({ off }) => {
  for (const [path, methods] of Object.entries(DOCUMENT.paths)) {
    for (const method of Object.keys(methods)) {
      const answer = await expectDocumented(off, [method, path], {}, 403)
      expect(answer.json).toMatchObject({
        error: 'console_off',
        message: expect.stringContaining('SLUICE_CONSOLE_TOKEN'),
      })
    }
  }
  const list = await send({ port: off.adminPort }, { method: 'GET', path: '/' })
  expect([list.status, list.text]).toEqual([200, expect.stringContaining('/metrics')])
})

test('each path tells nothing by a foreign Host', async ({ guarded }) => {
  const headers = { Host: 'evil.example', Authorization: `Bearer ${TOKEN}` }
  for (const [path, methods] of Object.entries(DOCUMENT.paths)) {
    for (const method of Object.keys(methods)) await expectDocumented(guarded, [method, path], { headers }, 421)
  }
})

test('the eleventh wrong token of a second gets a 429', async ({ guarded }) => {
  const body = JSON.stringify({ token: 'not the token of this service' })
  await eventually('one is answered 429', async () => {
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => send({ port: guarded.adminPort }, { path: '/api/session', body })),
    )
    const late = answers.find(({ status }) => status === 429)
    if (late !== undefined) expectSchema(`admin#/components/schemas/Error`, late.json)
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
      for (const { event, data } of stream.events) expectSchema(`admin#/components/schemas/${SCHEMAS[event]}`, data)
    } finally {
      stream.close()
    }
  })
})

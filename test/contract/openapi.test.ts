// Holds openapi.yaml and the service together: every documented status and error code is provoked for real, and every
// answer fits what is documented for it. Requests that the document calls good are accepted.

import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { packageVersion } from '../../src/lib/version.ts'
import { type Answer, batch, bodyOfSize, event, events, MAX_BODY_BYTES, post, send, single } from '../support/client.ts'
import { readJournal } from '../support/journal-files.ts'
import { appRecord, type Service, startService } from '../support/service.ts'

interface Documented {
  readonly headers: Record<string, unknown>
  readonly content: {
    'application/json': { schema: { $ref: string }; example?: unknown; examples?: Record<string, { value: unknown }> }
  }
}

interface Operation {
  readonly requestBody: {
    content: { 'application/json': { examples: Record<string, { value: Record<string, unknown> }> } }
  }
  readonly responses: Record<string, Documented>
}

const DOCUMENT = parse(readFileSync(resolve(import.meta.dirname, '../../openapi.yaml'), 'utf8')) as {
  info: { version: string }
  components: { schemas: Record<string, { required: string[]; properties: { error: { enum: string[] } } }> }
  paths: { '/api/v1/events': { post: Operation; options: Operation } }
}
const PATH = DOCUMENT.paths['/api/v1/events']
const OPERATION = PATH.post
const AT = '#/paths/~1api~1v1~1events/post'
const PAGE = 'https://app.example.com'

const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false })
ajv.addSchema(DOCUMENT, 'openapi')

function faults(pointer: string, value: unknown): unknown[] {
  const validate = ajv.getSchema(`openapi${pointer}`)
  if (!validate) throw new Error(`openapi.yaml has nothing at ${pointer}`)
  return validate(value) ? [] : (validate.errors ?? [])
}

/** Follows a `$ref` to its place in the document. */
function pointerOf(value: unknown, fallback: string): string {
  return (value as { $ref?: string }).$ref ?? fallback
}

function examplesOf(response: Documented): unknown[] {
  const { example, examples } = response.content['application/json']
  return examples ? Object.values(examples).map((one) => one.value) : [example]
}

const PAST = new Date(Date.now() - 1000).toISOString()
const APPS = [
  appRecord('plain'),
  appRecord('canceled', { subscription: 'canceled' }),
  appRecord('ended', { plan: 'trial', trial_ends_at: PAST }),
  appRecord('minute', { events_per_minute: 1 }),
  appRecord('day', { events_per_day: 1 }),
  appRecord('month', { plan: 'trial', events_per_month: 1 }),
]

let service: Service
let full: Service

beforeAll(async () => {
  service = await startService({ apps: APPS })
  full = await startService({
    apps: APPS,
    env: { SLUICE_JOURNAL_MAX_MB: '1', SLUICE_CORS_ORIGINS: PAGE },
  })
  const body = bodyOfSize('ak_plain', 400_000)
  for (let i = 0; i < 5; i++) await post(full, body)
})

const KEY = { 'Idempotency-Key': randomUUID() }
const PROVOKED: Record<string, () => Promise<Answer>> = {
  '202 accepted': () => post(service, batch('ak_plain', 3), KEY),
  '202 deduplicated': () => post(service, batch('ak_plain', 3), KEY),
  '400 validation_failed': () => post(service, single('ak_plain', { name: '' })),
  '400 invalid_json': () => post(service, '{'),
  '401 invalid_app_key': () => post(service, single('ak_nobody')),
  '402 subscription_inactive': () => post(service, single('ak_canceled')),
  '402 trial_expired': () => post(service, single('ak_ended')),
  '404 not_found': () => send(service, { path: '/other', body: '' }),
  '405 method_not_allowed': () => send(service, { method: 'GET' }),
  '413 payload_too_large': () => post(service, bodyOfSize('ak_plain', MAX_BODY_BYTES + 1)),
  '415 unsupported_media_type': () => post(service, single('ak_plain'), { 'Content-Type': 'text/plain' }),
  '429 rate_limit_exceeded': () => post(service, batch('ak_minute', 2)),
  '429 daily_limit_exceeded': () => post(service, batch('ak_day', 2)),
  '429 monthly_limit_exceeded': () => post(service, batch('ak_month', 2)),
  '503 service_overloaded': () => post(full, bodyOfSize('ak_plain', 400_000)),
}

/** Of the apps that are provoked here, none is near a limit. */
function isExpected(name: string, { status, json }: Answer): boolean {
  if (name.startsWith('RateLimit')) return status === 429
  return name !== 'Sluice-Replay' || json['deduplicated'] === true
}

function expectHeaders(answer: Answer, operation: string, headers: Record<string, unknown>): void {
  for (const [name, header] of Object.entries(headers)) {
    const value = answer.headers[name.toLowerCase()]
    const isWanted = isExpected(name, answer)
    expect(value !== undefined, name).toBe(isWanted)
    if (!isWanted) continue
    const at = pointerOf(header, `${operation}/responses/${answer.status}/headers/${name}`)
    expect(faults(`${at}/schema`, value), name).toEqual([])
  }
}

function expectDocumented(answer: Answer): void {
  const documented = OPERATION.responses[String(answer.status)]
  expect(documented, `status ${answer.status} is documented`).toBeDefined()
  expect(faults(`${AT}/responses/${answer.status}/content/application~1json/schema`, answer.json)).toEqual([])
  expectHeaders(answer, AT, documented?.headers ?? {})
  const undocumented = Object.keys(answer.headers).filter(
    (name) =>
      /^(x-|sluice-|retry-after|allow)/.test(name) &&
      !Object.keys(documented?.headers ?? {}).some((one) => one.toLowerCase() === name),
  )
  expect(undocumented).toEqual([])
}

describe('a real answer fits the document', () => {
  for (const [claim, provoke] of Object.entries(PROVOKED)) {
    test(`of ${claim}`, async () => {
      const answer = await provoke()
      const outcome = answer.json['error'] ?? (answer.json['deduplicated'] ? 'deduplicated' : answer.json['status'])
      expect(`${answer.status} ${String(outcome)}`).toBe(claim)
      expectDocumented(answer)
      // Messages of 400 name a member or a place, so that each is its own.
      if (answer.status >= 401) expect(examplesOf(OPERATION.responses[answer.status])).toContainEqual(answer.json)
    })
  }

  test('of a preflight', async () => {
    const answer = await send(full, { method: 'OPTIONS', headers: { Origin: PAGE } })
    expect(Object.keys(PATH.options.responses)).toEqual([String(answer.status)])
    expectHeaders(answer, AT.replace('post', 'options'), PATH.options.responses[answer.status].headers)
  })

  test('of many bad events', async () => {
    const answer = await post(service, batch('ak_plain', 100, { events: events(100, { name: '' }) }))
    expect(answer.json).toMatchObject({ errors: { length: 20 }, errors_total: 100 })
    expectDocumented(answer)
  })

  test('of an unknown encoding', async () => {
    const answer = await post(service, '', { 'Content-Encoding': 'zstd' })
    expect(answer.json['message']).toMatch(/^Content-Encoding:/)
    expectDocumented(answer)
    expect(examplesOf(OPERATION.responses['415'])).toContainEqual(answer.json)
  })
})

test('every documented status and error code has been provoked, and no other', () => {
  const documented = Object.entries(OPERATION.responses).flatMap(([status, response]) => {
    if (status === '202') return ['202 accepted', '202 deduplicated']
    const name = response.content['application/json'].schema.$ref.split('/').at(-1) ?? ''
    return DOCUMENT.components.schemas[name].properties.error.enum.map((code) => `${status} ${code}`)
  })
  expect(Object.keys(PROVOKED).toSorted()).toEqual(documented.toSorted())
})

test('the version is that of the package', () => {
  expect(DOCUMENT.info.version).toBe(packageVersion())
})

// Generators of clients make no class of an allOf, or one without its members, and no valid Python of a constant that is
// no string.
test('no schema is put together by allOf, and no constant is other than a string', () => {
  const text = JSON.stringify(DOCUMENT)
  expect(text).not.toContain('"allOf"')
  expect(text).not.toMatch(/"const":[^"]/)
})

describe('the examples of the document', () => {
  test('of answers fit their schemas', () => {
    for (const [status, response] of Object.entries(OPERATION.responses)) {
      const values = examplesOf(response)
      expect(values.length).toBeGreaterThan(0)
      for (const value of values) {
        expect(faults(`${AT}/responses/${status}/content/application~1json/schema`, value)).toEqual([])
      }
    }
  })

  for (const [name, { value }] of Object.entries(OPERATION.requestBody.content['application/json'].examples)) {
    test(`${name}: fits its schema, and is accepted once its time is now`, async () => {
      expect(faults('#/components/schemas/Batch', value)).toEqual([])
      const events = (value['events'] as object[]).map((one) =>
        Object.assign(one, { timestamp: new Date().toISOString() }),
      )
      const answer = await post(service, JSON.stringify({ ...value, app_key: 'ak_plain', events }))
      expect(answer.status).toBe(202)
      expectDocumented(answer)
    })
  }
})

test('what sluice knows and does not demand is described, and kept as it was sent', async () => {
  const { Batch, ClientReport, Event } = DOCUMENT.components.schemas
  expect(Batch.properties).toHaveProperty('client_report.$ref', '#/components/schemas/ClientReport')
  expect(ClientReport.properties).toHaveProperty('dropped.additionalProperties.type', 'integer')
  const known = { event_id: randomUUID(), client_timestamp: '2020-01-01T00:00:00Z', clock_correction_ms: 86_400_000 }
  for (const name of Object.keys(known)) {
    expect(Event.properties).toHaveProperty(name)
    expect(Event.required).not.toContain(name)
  }
  const client_report = { dropped: { expired: 3 } }
  const body = { app_key: 'ak_plain', client_report, events: [event(known)] }
  expect(faults('#/components/schemas/Batch', body)).toEqual([])
  const answer = await post(service, JSON.stringify(body))
  const stored = readJournal(service.dataDir).find((record) => record.batch_id === answer.headers['x-batch-id'])
  expect(stored).toMatchObject({ events: [known], extra: { client_report } })
})

describe('the schema of requests agrees with the service', () => {
  const long = 'x'.repeat(501)
  const bodies: Record<string, unknown> = {
    'a plain event': { events: [event()] },
    'no events': { events: [] },
    '101 events': { events: Array.from({ length: 101 }, () => event()) },
    'no events member': {},
    'sdk_version as null': { sdk_version: null, events: [] },
    'an unknown type': { events: [event({ type: 'x' })] },
    'a missing name': { events: [event({ name: undefined })] },
    'a name of 201': { events: [event({ name: 'x'.repeat(201) })] },
    'a hash of 15': { events: [event({ hashed_daily_id: 'x'.repeat(15) })] },
    'a user of 257': { events: [event({ user_id: 'x'.repeat(257) })] },
    'a context without os': { events: [event({ context: {} })] },
    'an empty os': { events: [event({ context: { os: '' } })] },
    'a width in words': { events: [event({ context: { os: 'x', screen_width: '1' } })] },
    'revenue without revenue': { events: [event({ type: 'revenue' })] },
    'revenue with revenue': { events: [event({ type: 'revenue', revenue: {} })] },
    '51 properties': {
      events: [event({ properties: Object.fromEntries(Array.from({ length: 51 }, (_, i) => [`k${i}`, 1])) })],
    },
    'a property of 501': { events: [event({ properties: { a: long } })] },
    'a revenue value of 501': { events: [event({ revenue: { a: long } })] },
    'a date alone': { events: [event({ timestamp: new Date().toISOString().slice(0, 10) })] },
    'unknown members': { x: 1, events: [event({ y: 2, context: { os: 'z', w: [] } })] },
  }
  for (const [claim, body] of Object.entries(bodies)) {
    test(`on ${claim}`, async () => {
      const text = JSON.stringify({ app_key: 'ak_plain', ...(body as object) })
      const answer = await post(service, text)
      const fits = faults('#/components/schemas/Batch', JSON.parse(text)).length === 0
      expect(answer.status).toBe(fits ? 202 : 400)
      expectDocumented(answer)
    })
  }
})

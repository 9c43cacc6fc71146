// What was sent is what is stored: numbers as text, members in their order, escapes, and members nobody named.

import { randomUUID } from 'node:crypto'
import { test as base, describe, expect } from 'vitest'
import { batch, event, expectAccepted, post } from '../support/client.ts'
import { aService } from '../support/fixture.ts'
import { memberText, readJournal, type StoredRecord, withoutSpaces } from '../support/journal-files.ts'
import { appRecord, type Service } from '../support/service.ts'

const test = base.extend(
  'service',
  { scope: 'file' },
  aService({ apps: [appRecord('plain'), appRecord('other', { app_id: 'Other_1-x' })] }),
)

async function store(
  service: Service,
  body: string,
  count: number,
  headers: Record<string, string> = {},
): Promise<StoredRecord> {
  const batchId = expectAccepted(await post(service, body, headers), count)
  const found = readJournal(service.dataDir).filter((record) => record.batch_id === batchId)
  expect(found.length, 'stored once').toBe(1)
  return found[0]
}

const NOW = new Date().toISOString()
const REQUIRED =
  `"type":"track","name":"n","hashed_daily_id":"${'d'.repeat(16)}","hashed_monthly_id":"${'m'.repeat(16)}",` +
  `"session_id":"s","timestamp":"${NOW}"`
const eventText = (more: string): string => `{${REQUIRED},"context":{"os":"ios"}${more}}`

const SENT: Record<string, string> = {
  'numbers keep their text': eventText(
    ',"properties":{"a":1e999,"b":-0,"c":1.000,"d":123456789012345678901234567890,"e":0.1E+2,"f":-1E-999,"g":1E400}',
  ),
  'escapes keep their spelling': eventText(',"x":"\\u0041\\/\\b\\f\\n\\r\\t\\"\\\\ \\u00e9\\u2028 \\ud83d\\ude00"'),
  'half a surrogate pair is kept': eventText(',"user_id":"\\ud83d","properties":{"k\\udc00":"\\udc00\\ud83d"}'),
  'an escaped NUL is kept': eventText(',"user_id":"a\\u0000b","properties":{"a\\u0000b":"\\u0000"}'),
  'letters beyond ASCII are kept': eventText(',"user_id":"Zoë 東京 \u{1F600} \u2028"'),
  'members keep their order': `{"context":{"os":"ios"},"zz":1,${REQUIRED},"aa":2,"user_id":"u","10":1,"9":2}`,
  'unknown members of an event are kept': eventText(',"foo":{"bar":[1,{"baz":null}]},"":"empty"'),
  'unknown members of a context are kept': `{${REQUIRED},"context":{"carrier":"x","os":"ios","v":{"deep":[[]]}}}`,
  'repeated unknown members are kept': eventText(',"foo":1,"foo":2,"properties":{"a":1,"a":2}'),
  'members called like parts of an object are kept': eventText(
    ',"__proto__":{"a":1},"constructor":"c","hasOwnProperty":0,"toString":null,' +
      '"properties":{"__proto__":"p","constructor":1,"valueOf":2,"prototype":{}}',
  ),
  'an escaped spelling of a member is kept': `{"\\u0063ontext":{"\\u006fs":"ios"},${REQUIRED}}`,
}

describe('an event is stored as it was sent', () => {
  for (const [claim, text] of Object.entries(SENT)) {
    test(claim, async ({ service }) => {
      const record = await store(service, `{"app_key":"ak_plain","events":[${text}]}`, 1)
      expect(memberText(record.line, 'events')).toBe(`[${text}]`)
    })
  }

  test('all of them in one batch, keyed', async ({ service }) => {
    const all = Object.values(SENT).join(',')
    const count = Object.keys(SENT).length
    const record = await store(service, `{"app_key":"ak_plain","events":[${all}]}`, count, {
      'Idempotency-Key': randomUUID(),
    })
    expect(memberText(record.line, 'events')).toBe(`[${all}]`)
  })

  for (const [claim, indent, lineEnd] of [
    ['two spaces', '  ', '\n'],
    ['tabs', '\t', '\r\n'],
  ]) {
    test(`a body laid out with ${claim} is one line, and nothing but its layout changes`, async ({ service }) => {
      const text = `{"app_key":"ak_plain","note":{"a":[1,2]},"events":[${Object.values(SENT).join(',')}]}`
      // Every break stands between tokens: commas and brackets inside strings are left alone.
      const laidOut = text.replace(/("(?:[^"\\]|\\.)*")|[,{}[\]:]/g, (token, string: string | undefined) =>
        string ? token : `${lineEnd}${indent}${token}${lineEnd}${indent}`,
      )
      const record = await store(service, laidOut, Object.keys(SENT).length)
      expect(record.line).not.toContain('\r')
      expect(withoutSpaces(memberText(record.line, 'events') ?? '')).toBe(`[${Object.values(SENT).join(',')}]`)
    })
  }

  test('a line break inside a string stays an escape', async ({ service }) => {
    const text = eventText(',"user_id":"a\\nb\\r\\nc"')
    const record = await store(service, `{\n"app_key":"ak_plain",\n"events":[\n${text}\n]\n}`, 1)
    expect((record.events[0] as { user_id: string }).user_id).toBe('a\nb\r\nc')
  })
})

describe('a record', () => {
  test('says its version, batch, app and time', async ({ service }) => {
    const beforeMs = Date.now()
    const record = await store(service, batch('ak_other', 2), 2)
    expect(record.v).toBe(1)
    expect(record.app_id).toBe('Other_1-x')
    expect(record.received_at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    const receivedMs = Date.parse(record.received_at)
    expect(receivedMs).toBeGreaterThanOrEqual(beforeMs - 1000)
    expect(receivedMs).toBeLessThanOrEqual(Date.now() + 1000)
    expect(record.events.length).toBe(2)
  })

  test('never holds the app key', async ({ service }) => {
    const record = await store(service, batch('ak_other', 1), 1)
    expect(record.line).not.toContain('ak_other')
  })

  test('holds sdk_version as sent, and none where none was sent', async ({ service }) => {
    const withIt = await store(
      service,
      `{"sdk_version":"2.1\\u002e0 \\"é","app_key":"ak_plain","events":[${eventText('')}]}`,
      1,
    )
    expect(memberText(withIt.line, 'sdk_version')).toBe('"2.1\\u002e0 \\"é"')
    const without = await store(service, batch('ak_plain', 1), 1)
    expect(memberText(without.line, 'sdk_version')).toBeNull()
  })

  test('holds a well-formed traceparent, apart from a body member called trace', async ({ service }) => {
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'
    const body = `{"trace":"mine","app_key":"ak_plain","sdk_version":"2","events":[${eventText('')}]}`
    const record = await store(service, body, 1, { Traceparent: traceparent })
    expect(record.line).toContain(`"sdk_version":"2","trace":"${traceparent}","events":[`)
    expect(memberText(record.line, 'extra')).toBe('{"trace":"mine"}')
    const without = await store(service, batch('ak_plain', 1), 1, { traceparent: traceparent.toUpperCase() })
    expect(memberText(without.line, 'trace')).toBeNull()
  })

  test('holds the members of the body that nobody named', async ({ service }) => {
    const body = `{"first":1e999,"app_key":"ak_plain","events":[${eventText('')}],"l\\u0061st":{"x":["\\ud83d",-0]}}`
    const record = await store(service, body, 1)
    const extra = memberText(record.line, 'extra') ?? '{}'
    expect(memberText(extra, 'first')).toBe('1e999')
    expect(extra).toContain('{"x":["\\ud83d",-0]}')
  })

  test('keeps a body member called extra, v, batch_id or app_id apart from its own', async ({ service }) => {
    const body = JSON.stringify({
      v: 9,
      batch_id: 'mine',
      app_id: 'plain',
      received_at: 'never',
      extra: { extra: 1 },
      __proto__x: 1,
      app_key: 'ak_other',
      events: [event()],
    })
    const record = await store(service, body, 1)
    expect(record.v).toBe(1)
    expect(record.app_id).toBe('Other_1-x')
    expect(memberText(record.line, 'extra')).toBe(
      '{"v":9,"batch_id":"mine","app_id":"plain","received_at":"never","extra":{"extra":1},"__proto__x":1}',
    )
  })

  test('of an empty batch is not stored', async ({ service }) => {
    const before = readJournal(service.dataDir).length
    const batchId = expectAccepted(await post(service, '{"app_key":"ak_plain","events":[]}'), 0)
    expect(readJournal(service.dataDir).filter((record) => record.batch_id === batchId)).toEqual([])
    expect(readJournal(service.dataDir).length).toBe(before)
  })
})

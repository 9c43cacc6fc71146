// What the rows of the schema (schema.test.ts) do not show: the app that a refusal names, the list of errors, exact times.

import { describe, expect, test } from 'vitest'
import { ERROR_CODES } from '../../../src/contract/outcome.ts'
import { validate, violations } from '../../../src/decode/validator.ts'
import { bodyOf, event, NOW_MS } from './bodies.ts'
import { judge } from './oracle.ts'

/** The message of a refusal, 'accepted' where the scanner took it, 'accepted slowly' where it left that to the validator. */
function said(body: string | Uint8Array): string {
  const { validation, scanned } = judge(typeof body === 'string' ? Buffer.from(body) : body)
  if (validation.kind === 'refused') return validation.message
  return scanned ? 'accepted' : 'accepted slowly'
}

function saidOfEvent(changes: Record<string, string | null>): string {
  return said(bodyOf(event(changes)))
}

describe('the app key is checked next', () => {
  test.each([
    ['[]', 'body: must be an object'],
    ['"ak_demo"', 'body: must be an object'],
    ['null', 'body: must be an object'],
    ['{}', 'app_key: required'],
    ['{"events":7}', 'app_key: required'],
    ['{"events":7,"app_key":null}', 'app_key: must be a string'],
    ['{"app_key":["ak_demo"],"events":[]}', 'app_key: must be a string'],
    ['{"app_key":"ak_demo","events":7,"app_key":"ak_demo"}', 'app_key: must appear once'],
    ['{"app_key":"ak_demo","events":[],"app\\u005fkey":"ak_demo"}', 'app_key: must appear once'],
  ])('%s: %s, and no app is named', (body, message) => {
    expect(judge(Buffer.from(body)).validation).toMatchObject({
      kind: 'refused',
      sdkVersion: null,
      code: 'validation_failed',
      appKey: null,
      message,
      errors: { json: expect.stringContaining('"errors_total":1') },
    })
  })

  test('an app key, or its name, may be written with escapes', () => {
    for (const body of ['{"app_key":"\\u0061k_demo","events":[]}', '{"app\\u005fkey":"ak_demo","events":[]}']) {
      expect(judge(Buffer.from(body))).toEqual({
        validation: { kind: 'accepted', appKey: 'ak_demo', extras: null },
        scanned: false,
      })
    }
  })

  test.each([
    ['{"app_key":"ak_demo","sdk_version":"2.1\\u00e9"}', '2.1é'],
    ['{"sdk_version":"2","app_key":7}', '2'],
    ['{"sdk_version":"2","app_key":"ak_demo","sdk_version":"3"}', '2'],
    ['{"sdk_version":7,"app_key":"ak_demo"}', null],
    [`{"sdk_version":"${'x'.repeat(65)}","app_key":"ak_demo"}`, null],
    ['["sdk_version"]', null],
  ])('%s is refused, with the SDK version %j', (body, sdkVersion) => {
    expect(judge(Buffer.from(body)).validation).toMatchObject({ kind: 'refused', sdkVersion })
  })

  test('a refusal by the schema names the app', () => {
    expect(judge(Buffer.from('{"app_key":"ak_demo"}')).validation).toEqual({
      kind: 'refused',
      sdkVersion: null,
      code: 'validation_failed',
      appKey: 'ak_demo',
      message: 'events: required',
      errors: {
        json: '"errors":[{"path":"events","message":"required","code":"required"}],"errors_total":1',
        shape: 'absent',
      },
    })
  })
})

describe('names and messages', () => {
  test('names that only resemble a named one are allowed, at every level and any number of times', () => {
    const free = [
      '',
      'typ',
      'types',
      'Name',
      'hashed_daily',
      'hashed_weekly_id',
      'sessionid',
      'contexts',
      '__proto__',
      'constructor',
    ]
    const members = free.flatMap((name) => [`"${name}":1`, `"${name}":[]`]).join(',')
    expect(said(bodyOf(`${event().slice(0, -1)},${members}}`))).toBe('accepted')
    expect(saidOfEvent({ context: `{"os":"x",${members}}` })).toBe('accepted')
    expect(said(`{${members},"app_key":"ak_demo","events":[]}`)).toBe('accepted')
  })

  test('no answer quotes the body', () => {
    const properties = `{"secret":"${'secret'.repeat(100)}","":{"secret":[${'"secret",'.repeat(70)}1]}}`
    const body = bodyOf(event({ properties, name: '""' }), '"secret"')
    const { validation } = judge(Buffer.from(body))
    expect(validation).toMatchObject({ errors: { json: expect.stringContaining('"errors_total":4') } })
    expect(JSON.stringify(validation)).not.toContain('secret')
  })
})

describe('a timestamp', () => {
  const badForm = 'events[0].timestamp: must be an ISO 8601 date and time'
  const badRange = 'events[0].timestamp: must lie between 72 hours in the past and 1 hour in the future'
  const saidOf = (timestamp: string) => saidOfEvent({ timestamp: `"${timestamp}"` })

  test.each([
    '2026-11-17T12:00:00.000Z',
    '2026-11-20T13:00:00.000Z',
    '2026-11-20T13:00:00.0009Z',
    '2026-11-17T12:00:00.0000Z',
    '2026-11-19T12:01:00-23:59',
    '2026-11-21T11:59:00.5+23:59',
  ])('%s is taken: it is in range to the millisecond', (timestamp) => {
    expect(saidOf(timestamp)).toBe('accepted')
  })

  test.each([
    '2026-11-17T11:59:59.999Z',
    '2026-11-17T11:59:59.9999Z',
    '2026-11-20T13:00:00.001Z',
    '2026-11-20T11:31:00-01:30',
  ])('%s is out of range', (timestamp) => {
    expect(saidOf(timestamp)).toBe(badRange)
  })

  test('follows the calendar on every day of every month, leap years too', () => {
    for (const year of [1972, 1999, 2000, 2023, 2024, 2026, 2100, 2400]) {
      for (let month = 1; month <= 12; month++) {
        for (const day of [1, 28, 29, 30, 31, 32]) {
          const date = `${year}-${String(month).padStart(2, '0')}-${day.toString().padStart(2, '0')}`
          const timeMs = Date.UTC(year, month - 1, day, 6, 7, 8, 9)
          const exists = new Date(timeMs).getUTCDate() === day
          const body = Buffer.from(bodyOf(event({ timestamp: `"${date}T06:07:08.009Z"` })))
          const { validation } = judge(body, 0, timeMs)
          expect(validation.kind === 'accepted' ? 'exists' : validation.message).toBe(exists ? 'exists' : badForm)
          // One ms earlier or later at the ends of the range shows that the day was counted right.
          if (!exists) continue
          expect(judge(body, 0, timeMs + 72 * 3_600_000)).toMatchObject({ scanned: true })
          expect(judge(body, 0, timeMs + 72 * 3_600_000 + 1).validation.kind).toBe('refused')
          expect(judge(body, 0, timeMs - 3_600_000).validation.kind).toBe('accepted')
          expect(judge(body, 0, timeMs - 3_600_001).validation.kind).toBe('refused')
        }
      }
    }
  })

  test('is checked by itself, even where the one before has the same minute', () => {
    const second = (text: string) => event({ timestamp: `"2026-11-20T13:00${text}"` })
    expect(said(bodyOf(second('Z'), second(':00Z'), second(':00.000+00:00')))).toBe('accepted')
    expect(said(bodyOf(second('Z'), second(':01Z')))).toContain('events[1].timestamp')
    expect(said(bodyOf(second('Z'), event({ timestamp: '"2026-11-20T13:01Z"' })))).toContain('events[1].timestamp')
  })
})

describe('the errors of an answer', () => {
  const errorsOf = (...events: string[]) => {
    const { validation } = judge(Buffer.from(bodyOf(...events)))
    if (validation.kind === 'accepted' || validation.errors === null) throw new Error('it was not refused')
    const { errors, errors_total, invalid_events } = JSON.parse(`{${validation.errors.json}}`) as {
      errors: { path: string; message: string; code: string; event?: number }[]
      errors_total: number
      invalid_events?: number[]
    }
    expect(validation.message).toBe(`${errors[0].path}: ${errors[0].message}`)
    for (const { path, event } of errors) expect(event).toBe(eventIn(path))
    const first = errors.map(({ path, message }) => ({ path, message }))
    return { first, total: errors_total, codes: errors.map(({ code }) => code), invalid: invalid_events }
  }
  const bad = event({ name: '""' })
  const eventIn = (path: string): number | undefined => {
    const [, place] = /^events\[(\d+)\]/.exec(path) ?? []
    return place === undefined ? undefined : Number(place)
  }

  test.each([
    ['required', { name: null }],
    ['type', { name: '7' }],
    ['type', { type: '7' }],
    ['length', { name: '""' }],
    ['length', { properties: `{"a":"${'x'.repeat(501)}"}` }],
    ['empty', { context: '{"os":""}' }],
    ['one_of', { type: '"x"' }],
    ['format', { timestamp: '"today"' }],
    ['range', { timestamp: '"2020-11-20T11:00:00Z"' }],
    ['too_many', { properties: `{${Array.from({ length: 51 }, (_, at) => `"k${at}":1`).join(',')}}` }],
    ['repeated', { name: '"a","name":"b"' }],
  ] as const)('say %s', (code, members) => {
    expect(errorsOf(event(), event(members))).toMatchObject({ codes: [code], invalid: [1], total: 1 })
    expect(ERROR_CODES).toContain(code)
  })

  test('name all events that have any, also behind the twenty, and behind the thousand', () => {
    const many = `${event().slice(0, -1)}${',"name":"x"'.repeat(1001)}}`
    expect(errorsOf(event(), many, event(), bad, '7', event())).toMatchObject({ invalid: [1, 3, 4], total: 1000 })
    const all = Array.from({ length: 100 }, (_, at) => at)
    expect(errorsOf(...all.map(() => bad))).toMatchObject({ invalid: all, total: 100 })
  })

  test('name no events where another member does not fit either, since leaving them out helps nothing', () => {
    expect(errorsOf(...Array<string>(101).fill(bad)).invalid).toBeUndefined()
    const body = bodyOf(bad).replace('{', '{"sdk_version":7,')
    const many = bodyOf(`${event().slice(0, -1)}${',"name":"x"'.repeat(1001)}}`).replace(/\}$/, ',"sdk_version":7}')
    for (const text of [body, many]) {
      const { validation } = judge(Buffer.from(text))
      expect(validation).toMatchObject({ errors: { json: expect.not.stringContaining('invalid_events') } })
    }
  })

  test('are in document order, what is missing where its object ends', () => {
    const long = `"${'x'.repeat(501)}"`
    const first = event({ type: '7', session_id: null, context: '{"locale":1}' })
    const second = event({
      properties: `{"a":1,"b":${long},"c":[],"d":${long}}`,
      revenue: `{"${'k'.repeat(600)}":${long}}`,
    })
    const { first: listed, total } = errorsOf(first, second, '7')
    expect(listed).toEqual([
      { path: 'events[0].type', message: 'must be one of track, screen, revenue' },
      { path: 'events[0].context.locale', message: 'must be a string' },
      { path: 'events[0].context.os', message: 'required' },
      { path: 'events[0].session_id', message: 'required' },
      { path: 'events[1].properties[1]', message: 'at most 500 characters' },
      { path: 'events[1].properties[3]', message: 'at most 500 characters' },
      { path: 'events[1].revenue[0]', message: 'at most 500 characters' },
      { path: 'events[2]', message: 'must be an object' },
    ])
    expect(total).toBe(8)
  })

  test.each([1, 19, 20, 21, 100])('of %i bad events are the first 20, and their number', (count) => {
    const { first, total } = errorsOf(event(), ...Array<string>(count - 1).fill(bad), event({ user_id: '7' }))
    expect(total).toBe(count)
    expect(first).toHaveLength(Math.min(count, 20))
    expect(first.at(-1)?.path).toBe(count > 20 ? 'events[20].name' : `events[${count}].user_id`)
  })

  test.each([999, 1000, 1001])('of %i bad members are counted up to 1,000', (count) => {
    const repeated = `${event().slice(0, -1)}${',"name":"x"'.repeat(count)}}`
    expect(errorsOf(repeated)).toMatchObject({ total: Math.min(count, 1000), first: { length: 20 } })
  })

  test('a long value before and after the 50th key', () => {
    const long = `"k":"${'x'.repeat(501)}"`
    const members = [long, ...Array<string>(48).fill('"k":1'), long, long]
    expect(errorsOf(event({ properties: `{${members.join(',')}}` }))).toMatchObject({
      first: [
        { path: 'events[0].properties[0]', message: 'at most 500 characters' },
        { path: 'events[0].properties[49]', message: 'at most 500 characters' },
        { path: 'events[0].properties', message: 'at most 50 keys' },
      ],
      total: 3,
    })
  })

  test('are less than 4 KB', () => {
    const old = event({ timestamp: '"2020-11-20T11:00:00Z"' })
    const { first } = errorsOf(...Array<string>(80).fill(event()), ...Array<string>(20).fill(old))
    expect(JSON.stringify(first).length).toBeLessThan(4096)
  })

  test('are none where the body is not JSON', () => {
    expect(judge(Buffer.from('{')).validation).toMatchObject({ code: 'invalid_json', errors: null })
  })
})

describe('every invalid member is listed', () => {
  /** Each with its text, and what it marks in the body. */
  function listOf(body: string) {
    const bytes = Buffer.from(body)
    const result = violations(bytes, NOW_MS, null)
    const found = result.code === null ? [] : result.found
    const texts = found.map(({ path, message }) => `${path}: ${message}`)
    const marked = found.map(({ start, end }) => start !== null && bytes.toString('utf8', start, end ?? 0))
    return { result, texts, marked }
  }

  test('in document order, with its name and value; of a missing one the bracket', () => {
    const long = '7'.repeat(501)
    const body = bodyOf(
      event({ type: '"x"', name: '""', context: '{"é":"é", "locale" : 1}' }),
      event(),
      event({ session_id: null, properties: `{"a":${long},"b":${long}}` }),
    )
    const { result, texts, marked } = listOf(body)
    expect(result).toMatchObject({
      code: 'validation_failed',
      appKey: 'ak_demo',
      message: 'events[0].type: must be one of track, screen, revenue',
    })
    expect(texts).toEqual([
      'events[0].type: must be one of track, screen, revenue',
      'events[0].name: length must be 1 to 200',
      'events[0].context.locale: must be a string',
      'events[0].context.os: required',
      'events[2].properties.a: at most 500 characters',
      'events[2].properties.b: at most 500 characters',
      'events[2].session_id: required',
    ])
    expect(marked).toEqual(['"type":"x"', '"name":""', '"locale" : 1', '{', `"a":${long}`, `"b":${long}`, '{'])
  })

  test.each([
    ['[1]', 'body: must be an object', '['],
    ['{"events":[]}', 'app_key: required', '{'],
    ['{"app_key":7,"events":[]}', 'app_key: must be a string', '"app_key":7'],
    ['{"app_key":"a","events":[],"app_key" :"b"}', 'app_key: must appear once', '"app_key" :"b"'],
    ['{"app_key":"a","events":[3]}', 'events[0]: must be an object', '3'],
    ['{"app_key":"a","events":{}}', 'events: must be an array', '"events":{}'],
    ['{"app_key":"a"', 'body: not valid JSON at byte 14', false],
  ])('of %s: %s', (body, text, mark) => {
    expect(listOf(body)).toMatchObject({ texts: [text], marked: [mark] })
  })

  test('up to 1,000', () => {
    const lists = Array<string>(100).fill(`{${'"type":1,'.repeat(20)}"type":1}`)
    expect(listOf(bodyOf(...lists)).texts).toHaveLength(1000)
  })

  test('and a property by its own name, cut and made harmless for a terminal', () => {
    const long = '7'.repeat(501)
    const names = ['colour', 'a name', '', 'it"s', '\\u001b[31m', '\u009b31m', 'é', 'x'.repeat(200)]
    const members = names.map((name) => `${JSON.stringify(name).replaceAll('\\\\', '\\')}:${long}`)
    const { result, texts, marked } = listOf(bodyOf(event({ revenue: `{${members.join(',')}}` })))
    expect(result).toMatchObject({ message: 'events[0].revenue[0]: at most 500 characters' })
    expect(texts).toEqual(
      [
        '.colour',
        '["a name"]',
        '[""]',
        String.raw`["it\"s"]`,
        String.raw`["\u001b[31m"]`,
        '["?31m"]',
        '["é"]',
        `["${'x'.repeat(60)}…"]`,
      ].map((shown) => `events[0].revenue${shown}: at most 500 characters`),
    )
    expect(marked).toEqual(members)
  })

  test('and a valid body has none', () => {
    expect(listOf(bodyOf(event(), event())).result).toEqual({ code: null, appKey: 'ak_demo', events: 2 })
    expect(listOf('{"a":').result).toEqual({
      code: 'invalid_json',
      appKey: null,
      message: 'body: not valid JSON at byte 5',
      found: [
        { path: 'body', message: 'not valid JSON at byte 5', code: 'format', event: null, start: null, end: null },
      ],
      invalidEvents: null,
    })
  })
})

test.each([
  ['{"app_key":"ak_demo"}', [0, 0]],
  ['{"app_key":"ak_demo","events": 17 }', [31, 33]],
  ['{"events":[{}],"app_key":"ak_demo"}', [10, 14]],
  ['{"events":[]}', [0, 0]],
  ['{"events":[]', [0, 0]],
])('of a refused body the words get only where its events lie: %s', (body, [start, end]) => {
  const words = new Int32Array(9).fill(3)
  validate(Buffer.from(body), NOW_MS, words, 0)
  expect([...words]).toEqual([3, 3, 3, 3, start, end, 3, 3, 3])
})

describe('the shape of the first offending member', () => {
  test.each<[string, Record<string, string | null>, string]>([
    ['events[0].name', { name: null }, 'absent'],
    ['events[0].name', { name: '""' }, 'string of 0 characters'],
    ['events[0].user_id', { user_id: '7' }, 'number of 1 character'],
    ['events[0].hashed_daily_id', { hashed_daily_id: '"é😀"' }, 'string of 2 characters'],
    ['events[0].session_id', { session_id: 'null' }, 'null'],
    ['events[0].session_id', { session_id: 'true' }, 'boolean'],
    ['events[0].context', { context: '[1, 2]' }, 'array of 2 items'],
    ['events[0].context.os', { context: '{"os":{"a":1}}' }, 'object of 1 member'],
    ['events[0].properties[1]', { properties: `{"a":1,"b":"${'x'.repeat(501)}"}` }, 'string of 501 characters'],
  ])('%s of %j: %s', (path, changes, shape) => {
    const { validation } = judge(Buffer.from(bodyOf(event(changes))))
    expect(validation).toMatchObject({ message: expect.stringContaining(`${path}: `), errors: { shape } })
  })

  test('is that of the body, of an item, and of a list that is too long', () => {
    const shapeOf = (body: string) => judge(Buffer.from(body)).validation
    expect(shapeOf('[]')).toMatchObject({ errors: { shape: 'array of 0 items' } })
    expect(shapeOf('{"app_key":"ak_demo","events":[7]}')).toMatchObject({ errors: { shape: 'number of 1 character' } })
    expect(shapeOf(bodyOf(...Array<string>(101).fill(event())))).toMatchObject({
      errors: { shape: 'array of 101 items' },
    })
    expect(shapeOf('{')).toMatchObject({ errors: null })
  })
})

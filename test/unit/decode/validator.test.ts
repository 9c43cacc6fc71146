// The rules of the schema, row by row, through every decoder at once.

import { describe, expect, test } from 'vitest'
import { validate, violations } from '../../../src/decode/validator.ts'
import { bodyOf, event, eventMembers, HASH, NOW_MS, objectText } from './bodies.ts'
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

function nested(levels: number): string {
  return '['.repeat(levels) + ']'.repeat(levels)
}

function properties(count: number): string {
  return `{${Array.from({ length: count }, (_, index) => `"k${index}":${index}`).join(',')}}`
}

describe('the grammar is checked first', () => {
  test.each([
    ['trailing bytes', `${bodyOf()}x`],
    ['a second value', `${bodyOf()}{}`],
    ['a NUL after the body', `${bodyOf()}\0`],
    ['a trailing comma in an object', '{"app_key":"ak_demo","events":[],}'],
    ['a trailing comma in an array', '{"app_key":"ak_demo","events":[{},]}'],
    ['a body cut off', bodyOf(event()).slice(0, -1)],
    ['a raw line feed in a string', bodyOf(event({ name: '"a\nb"' }))],
    ['a raw tab in a string', bodyOf(event({ name: '"a\tb"' }))],
    ['a NUL in a string', bodyOf(event({ name: '"a\0b"' }))],
    ['an unknown escape', bodyOf(event({ name: '"\\x41"' }))],
    ['three hexadecimal digits', bodyOf(event({ name: '"\\u041"' }))],
    ['a form feed as white space', bodyOf('\f')],
    ['a no-break space as white space', bodyOf('\u00a0')],
    ['a wrong literal', bodyOf(event({ properties: '{"a":trux}' }))],
    ['a literal with a tail', bodyOf(event({ properties: '{"a":nullx}' }))],
    ['single quotes', "{'app_key':1}"],
    ['a comment', `${bodyOf()}/**/`],
  ])('%s is invalid_json', (_name, body) => {
    expect(said(body)).toMatch(/^body: not valid JSON/)
  })

  test('nothing at all and a byte-order mark are told so', () => {
    expect(said('')).toBe('body: empty')
    expect(said(`\ufeff${bodyOf()}`)).toBe('body: begins with a byte-order mark, which is not JSON')
    expect(said('\ufeff')).toBe('body: begins with a byte-order mark, which is not JSON')
    expect(said(Buffer.from([0xef, 0xbb]))).toBe('body: not valid UTF-8')
  })

  test.each(['01', '-', '+1', '1.', '.5', '1e', '1e+', '-01', '0x10', 'NaN', '-Infinity', '1.e5', '--1', '1e1.5'])(
    'the number %s is invalid_json',
    (number) => {
      expect(saidOfEvent({ properties: `{"a":${number}}` })).toMatch(/^body: not valid JSON/)
      expect(saidOfEvent({ context: `{"os":"x","screen_width":${number}}` })).toMatch(/^body: not valid JSON/)
    },
  )

  test.each(['0', '-0', '0.0', '1e999', '-1E-999', '9'.repeat(400), '1e+5', '0e0', '10.010'])(
    'the number %s is valid',
    (number) => {
      expect(saidOfEvent({ properties: `{"a":${number}}` })).toBe('accepted')
      expect(saidOfEvent({ context: `{"os":"x","screen_height":${number}}` })).toBe('accepted')
    },
  )

  test.each([
    ['an overlong form', [0xc0, 0xaf]],
    ['an overlong form of three bytes', [0xe0, 0x80, 0xaf]],
    ['a surrogate as UTF-8', [0xed, 0xa0, 0xbd]],
    ['a character cut off', [0xe6, 0x9d]],
    ['a lone continuation', [0x80]],
    ['a point beyond U+10FFFF', [0xf4, 0x90, 0x80, 0x80]],
    ['a byte that never occurs', [0xff]],
  ])('%s is invalid_json, in a value as in a name', (_name, bytes) => {
    for (const text of [bodyOf(event({ name: '"@"' })), bodyOf(event({ properties: '{"@":1}' }))]) {
      const [head, tail] = text.split('@')
      expect(said(Buffer.concat([Buffer.from(head), Buffer.from(bytes), Buffer.from(tail)]))).toBe(
        'body: not valid UTF-8',
      )
    }
  })

  test('64 levels are valid, and 65 are invalid_json', () => {
    const tooDeep = 'body: more than 64 levels deep'
    const extra = (value: string) => `{"app_key":"ak_demo","events":[],"x":${value}}`
    expect([said(extra(nested(63))), said(extra(nested(64)))]).toEqual(['accepted', tooDeep])
    expect([saidOfEvent({ x: nested(61) }), saidOfEvent({ x: nested(62) })]).toEqual(['accepted', tooDeep])
    const context = (value: string) => saidOfEvent({ context: `{"os":"x","y":${value}}` })
    expect([context(nested(60)), context(nested(61))]).toEqual(['accepted', tooDeep])
    const property = (value: string) => saidOfEvent({ properties: `{"y":${value}}` })
    expect([property(nested(60)), property(nested(61))]).toEqual(['accepted', tooDeep])
  })

  test('a hundred thousand levels are refused without recursion', () => {
    expect(said('['.repeat(100_000))).toBe('body: more than 64 levels deep')
    expect(said('{"a":'.repeat(100_000))).toBe('body: more than 64 levels deep')
    expect(saidOfEvent({ properties: `{"a":${nested(100_000)}}` })).toBe('body: more than 64 levels deep')
  })

  test('a body that is broken at its end is invalid_json even where an earlier member is invalid', () => {
    expect(said('{"app_key":1,"events":[{}]')).toMatch(/^body: not valid JSON/)
    expect(said(`${bodyOf(event({ type: '"x"' }))}]`)).toMatch(/^body: not valid JSON/)
  })
})

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
    expect(judge(Buffer.from(body)).validation).toEqual({
      kind: 'refused',
      sdkVersion: null,
      code: 'validation_failed',
      appKey: null,
      message,
      errors: { json: JSON.stringify([{ path: message.split(': ')[0], message: message.split(': ')[1] }]), total: 1 },
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
      errors: { json: '[{"path":"events","message":"required"}]', total: 1 },
    })
  })
})

describe('the first invalid member is named, in document order', () => {
  test.each([
    ['{"app_key":"ak_demo","sdk_version":2,"events":7}', 'sdk_version: must be a string'],
    ['{"sdk_version":null,"app_key":"ak_demo","events":[]}', 'sdk_version: must be a string'],
    ['{"events":{},"sdk_version":2,"app_key":"ak_demo"}', 'events: must be an array'],
    ['{"app_key":"ak_demo","events":[],"events":[]}', 'events: must appear once'],
    ['{"app_key":"ak_demo","events":[],"sdk_version":"1","sdk_version":"1"}', 'sdk_version: must appear once'],
    [bodyOf(event(), '7'), 'events[1]: must be an object'],
    [bodyOf('[]'), 'events[0]: must be an object'],
    [bodyOf('{}'), 'events[0].type: required'],
    [bodyOf('{"name":7}'), 'events[0].name: must be a string'],
    [bodyOf(event(), event({ context: '{"os_version":"1"}', name: '"x"' })), 'events[1].context.os: required'],
    [bodyOf(event({ context: '{"locale":null,"os":7}' })), 'events[0].context.locale: must be a string'],
    [bodyOf(event({ context: '{"os":""}' })), 'events[0].context.os: length must be at least 1'],
    [bodyOf(event({ context: '{"os":"x","os":"y"}' })), 'events[0].context.os: must appear once'],
    [bodyOf(event({ context: '{"os":"x","screen_width":"7"}' })), 'events[0].context.screen_width: must be a number'],
    [bodyOf(event({ context: '[]' })), 'events[0].context: must be an object'],
    [bodyOf(event({ properties: 'null' })), 'events[0].properties: must be an object'],
    [bodyOf(event({ revenue: '[]' })), 'events[0].revenue: must be an object'],
    [bodyOf(event({ user_id: 'null' })), 'events[0].user_id: must be a string'],
    [bodyOf(event({ timestamp: '1795176000' })), 'events[0].timestamp: must be a string'],
    [bodyOf(event({ type: '"Track"' })), 'events[0].type: must be one of track, screen, revenue'],
    [bodyOf(event({ type: '"trackk"' })), 'events[0].type: must be one of track, screen, revenue'],
    [bodyOf(event({ type: '7' })), 'events[0].type: must be one of track, screen, revenue'],
    [bodyOf(event({ type: '"revenue"' })), 'events[0].revenue: required'],
    [bodyOf(event({ type: '"revenue"', context: null })), 'events[0].context: required'],
  ])('%s: %s', (body, message) => {
    expect(said(body)).toBe(message)
  })

  test.each(['type', 'name', 'hashed_daily_id', 'hashed_monthly_id', 'session_id', 'timestamp', 'context'])(
    'an event without %s is refused for it',
    (name) => {
      expect(saidOfEvent({ [name]: null })).toBe(`events[0].${name}: required`)
    },
  )

  const full = eventMembers({ hashed_retention_id: `"${HASH}"`, properties: '{}', user_id: '"u"', revenue: '{}' })
  test.each(Object.keys(full))('a repeat of %s is refused, however its name is written', (name) => {
    const once = objectText(full)
    expect(said(bodyOf(once))).toBe('accepted')
    const escaped = `\\u00${name.charCodeAt(0).toString(16)}${name.slice(1)}`
    for (const again of [name, escaped]) {
      const repeated = `${once.slice(0, -1)},"${again}":${full[name]}}`
      expect(said(bodyOf(event(), repeated))).toBe(`events[1].${name}: must appear once`)
    }
  })

  test.each(['os', 'os_version', 'app_version', 'locale', 'device_type', 'screen_width', 'screen_height'])(
    'a repeat of %s in a context is refused',
    (name) => {
      const value = name.startsWith('screen') ? '7' : '"x"'
      const rest = name === 'os' ? '' : '"os":"x",'
      expect(saidOfEvent({ context: `{${rest}"${name}":${value}}` })).toBe('accepted')
      expect(saidOfEvent({ context: `{${rest}"${name}":${value},"${name}":${value}}` })).toBe(
        `events[0].context.${name}: must appear once`,
      )
    },
  )

  test('an escaped name is that name', () => {
    expect(saidOfEvent({ name: null }).replace('required', '')).toBe('events[0].name: ')
    const body = bodyOf(event()).replace('"name"', '"n\\u0061me"')
    expect(said(body)).toBe('accepted slowly')
  })

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
    expect(validation).toMatchObject({ errors: { total: 4 } })
    expect(JSON.stringify(validation)).not.toContain('secret')
  })
})

describe('limits are exact', () => {
  const writings = ['a', 'é', '東', '😀', '\\n', '\\u0041', '\\ud83d', '\\ud83d\\ude00', '\\uD83D\\uDE00']
  test.each([
    ['name', 1, 200],
    ['hashed_daily_id', 16, 128],
    ['hashed_monthly_id', 16, 128],
    ['hashed_retention_id', 16, 128],
    ['session_id', 1, 128],
    ['user_id', 1, 256],
  ])('%s has %i to %i characters, whatever bytes they take', (name, least, most) => {
    for (const writing of writings) {
      for (const count of [0, least - 1, least, most, most + 1]) {
        const fits = count >= least && count <= most
        expect(saidOfEvent({ [name]: `"${writing.repeat(count)}"` })).toBe(
          fits ? 'accepted' : `events[0].${name}: length must be ${least} to ${most}`,
        )
      }
    }
  })

  test('a string value of properties and revenue has at most 500 characters, decoded', () => {
    for (const name of ['properties', 'revenue']) {
      for (const writing of writings) {
        expect(saidOfEvent({ [name]: `{"v":"${writing.repeat(500)}"}` })).toBe('accepted')
        expect(saidOfEvent({ [name]: `{"v":"${writing.repeat(501)}"}` })).toBe(
          `events[0].${name}[0]: at most 500 characters`,
        )
      }
    }
  })

  test('a value of any other kind has at most 500 characters as sent', () => {
    const tooLong = 'events[0].properties[0]: at most 500 characters'
    for (const fill of ['a', 'é', '東', '😀']) {
      expect(saidOfEvent({ properties: `{"v":["${fill.repeat(496)}"]}` })).toBe('accepted')
      expect(saidOfEvent({ properties: `{"v":["${fill.repeat(497)}"]}` })).toBe(tooLong)
      expect(saidOfEvent({ properties: `{"v":{"${fill.repeat(494)}":1}}` })).toBe('accepted')
      expect(saidOfEvent({ properties: `{"v":{"${fill.repeat(495)}":1}}` })).toBe(tooLong)
    }
    for (const [fits, long] of [
      ['7'.repeat(500), '7'.repeat(501)],
      [`[${' '.repeat(498)}]`, `[${'\n'.repeat(499)}]`],
      [`["${'\\u0041'.repeat(82)}aaaa"]`, `["${'\\u0041'.repeat(83)}"]`],
    ]) {
      expect(saidOfEvent({ properties: `{"v": ${fits} }` })).toBe('accepted')
      expect(saidOfEvent({ properties: `{"v": ${long} }` })).toBe(tooLong)
    }
  })

  test('properties and revenue have at most 50 keys, including repeats', () => {
    for (const name of ['properties', 'revenue']) {
      expect(saidOfEvent({ [name]: properties(50) })).toBe('accepted')
      expect(saidOfEvent({ [name]: properties(51) })).toBe(`events[0].${name}: at most 50 keys`)
      expect(saidOfEvent({ [name]: `{${'"a":1,'.repeat(50)}"a":1}` })).toBe(`events[0].${name}: at most 50 keys`)
    }
  })

  test('a request has at most 100 events, and may have none', () => {
    expect(said(bodyOf())).toBe('accepted')
    expect(said(bodyOf(...Array<string>(100).fill(event())))).toBe('accepted')
    expect(said(bodyOf(...Array<string>(101).fill(event())))).toBe('events: at most 100 items')
    expect(said(bodyOf(...Array<string>(100).fill(event()), '7'))).toBe('events: at most 100 items')
    expect(said(bodyOf(...Array<string>(99).fill(event()), '7', '7'))).toBe('events[99]: must be an object')
  })
})

describe('a timestamp', () => {
  const badForm = 'events[0].timestamp: must be an ISO 8601 date and time'
  const badRange = 'events[0].timestamp: must lie between 72 hours in the past and 1 hour in the future'
  const saidOf = (timestamp: string) => saidOfEvent({ timestamp: `"${timestamp}"` })

  test.each([
    '2026-11-20T12:00',
    '2026-11-20T12:00Z',
    '2026-11-20T12:00:00',
    '2026-11-20T12:00:00.1',
    '2026-11-20T12:00:00.123456789012345678901234567890Z',
    '2026-11-20T13:30:00+01:30',
    '2026-11-20T13:30+0130',
    '2026-11-20T00:00:00-1200',
    '2026-11-21T11:59:00.5+23:59',
    '2026-11-19T12:01:00-23:59',
    '2026-11-17T12:00:00.000Z',
    '2026-11-20T13:00:00.000Z',
    '2026-11-20T13:00:00.0009Z',
    '2026-11-17T12:00:00.0000Z',
  ])('%s is taken', (timestamp) => {
    expect(saidOf(timestamp)).toBe('accepted')
  })

  test.each([
    '2026-11-17T11:59:59.999Z',
    '2026-11-17T11:59:59.9999Z',
    '2026-11-20T13:00:00.001Z',
    '2026-11-20T13:00:01Z',
    '2026-11-17T11:59Z',
    '2026-11-20T11:31:00-01:30',
    '0000-01-01T00:00:00Z',
    '0000-02-29T00:00:00Z',
    '1969-12-31T23:59:59Z',
    '9999-12-31T23:59:59Z',
  ])('%s is out of range', (timestamp) => {
    expect(saidOf(timestamp)).toBe(badRange)
  })

  test.each([
    '',
    '2026-11-20',
    '2026-11-20T12',
    '2026-11-20 12:00:00Z',
    '2026-11-20t12:00:00Z',
    '2026-11-20T12:00:00z',
    '2026-11-20T12:00:00.Z',
    '2026-11-20T12:00.5Z',
    '2026-11-20T24:00:00Z',
    '2026-11-20T12:60:00Z',
    '2026-11-20T12:00:60Z',
    '2026-11-20T12:00:00+24:00',
    '2026-11-20T12:00:00+01:60',
    '2026-11-20T12:00:00+01',
    '2026-11-20T12:00:00+1:00',
    '2026-11-20T12:00:00+01:0',
    '2026-11-20T12:00:00ZZ',
    '2026-11-20T12:00:00Z ',
    ' 2026-11-20T12:00:00Z',
    '2026-11-20T12:00:00Z\\n',
    '20261120T120000Z',
    '+002026-11-20T12:00:00Z',
    '2026-11-20T12:0a:00Z',
    '2026/11/20T12:00:00Z',
    '2026-00-20T12:00:00Z',
    '2026-13-20T12:00:00Z',
    '2026-11-00T12:00:00Z',
    '2026-11-31T12:00:00Z',
    '2026-02-30T12:00:00Z',
    '２026-11-20T12:00:00Z',
  ])('%s is no date and time', (timestamp) => {
    expect(saidOf(timestamp)).toBe(badForm)
  })

  test('may be written with escapes', () => {
    expect(saidOf('2026\\u002d11-20T12:00:00Z')).toBe('accepted slowly')
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
    const first = JSON.parse(validation.errors.json) as { path: string; message: string }[]
    expect(validation.message).toBe(`${first[0].path}: ${first[0].message}`)
    return { first, total: validation.errors.total }
  }
  const bad = event({ name: '""' })

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
    expect(errorsOf(event({ properties: `{${members.join(',')}}` }))).toEqual({
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
      found: [{ path: 'body', message: 'not valid JSON at byte 5', start: null, end: null }],
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

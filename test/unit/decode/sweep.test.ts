// Every byte at the places where a table or a mask decides, since random damage meets each of them too seldom.

import { expect, test } from 'vitest'
import { bodyOf, event, HASH, objectText } from './bodies.ts'
import { judge } from './oracle.ts'

const EVERY_MEMBER = {
  type: '"track"',
  name: '"n"',
  hashed_daily_id: `"${HASH}"`,
  hashed_monthly_id: `"${HASH}"`,
  hashed_retention_id: `"${HASH}"`,
  session_id: '"s"',
  timestamp: '"2026-11-20T11:59:30.250Z"',
  context: '{"os":"x"}',
  properties: '{}',
  user_id: '"u"',
  revenue: '{}',
}
const EVERY_CONTEXT = {
  os: '"x"',
  os_version: '"1"',
  app_version: '"1"',
  locale: '"en"',
  device_type: '"d"',
  screen_width: '1',
  screen_height: '1',
}

/** Judges a body once for every byte in the place of '@'; says for how many the body was taken. */
function takenOf256(template: string): number {
  const [head, tail] = template.split('@').map((text) => Buffer.from(text))
  let taken = 0
  for (let byte = 0; byte < 256; byte++) {
    const { validation } = judge(Buffer.concat([head, Buffer.of(byte), tail]))
    if (validation.kind === 'accepted') taken += 1
  }
  return taken
}

test.each([
  ['in a string', bodyOf(event({ name: '"a@-"' })), 94],
  ['late in a string', bodyOf(event({ name: '"abcdefgh@"' })), 94],
  ['after a backslash', bodyOf(event({ name: '"\\@"' })), 8],
  ['as the first digit of an escape', bodyOf(event({ name: '"\\u@000"' })), 22],
  ['as the second digit of an escape', bodyOf(event({ name: '"\\u0@00"' })), 22],
  ['as the third digit of an escape', bodyOf(event({ name: '"\\u00@0"' })), 22],
  ['as the fourth digit of an escape', bodyOf(event({ name: '"\\u000@"' })), 22],
  ['between tokens', bodyOf(event()).replace('"events":', '"events":@'), 4],
  ['before the body', `@${bodyOf()}`, 4],
  ['after the body', `${bodyOf()}@`, 4],
  ['as a value', bodyOf(event({ properties: '{"a":@}' })), 10],
  ['after a zero', bodyOf(event({ properties: '{"a":0@}' })), 4],
  ['after a digit', bodyOf(event({ properties: '{"a":1@}' })), 14],
  ['after a point', bodyOf(event({ properties: '{"a":1.@}' })), 10],
  ['after an exponent', bodyOf(event({ properties: '{"a":1e@}' })), 10],
  ['before a digit', bodyOf(event({ properties: '{"a":@1}' })), 14],
])('every byte %s is judged as JSON.parse does', (_place, template, taken) => {
  expect(takenOf256(template)).toBe(taken)
})

test('two surrogate escapes count as one character only as a pair', () => {
  const escapes = [
    'd7ff',
    'd800',
    'D8FF',
    'd9ab',
    'dAff',
    'daff',
    'dBff',
    'dbff',
    'dc00',
    'DC00',
    'dDff',
    'dfff',
    'DFFF',
    'e000',
    '0041',
  ]
  let pairs = 0
  for (const first of escapes) {
    for (const second of escapes) {
      const isPair = JSON.parse(`"\\u${first}\\u${second}"`).codePointAt(0) > 0xffff
      const { validation } = judge(Buffer.from(bodyOf(event({ name: `"\\u${first}\\u${second}${'a'.repeat(199)}"` }))))
      expect(validation.kind).toBe(isPair ? 'accepted' : 'refused')
      if (isPair) pairs += 1
    }
  }
  expect(pairs).toBe(7 * 5)
})

test.each([
  ...Object.keys(EVERY_MEMBER).map((name) => [name, bodyOf(event(EVERY_MEMBER))]),
  ...Object.keys(EVERY_CONTEXT).map((name) => [name, bodyOf(event({ context: objectText(EVERY_CONTEXT) }))]),
  ...['app_key', 'sdk_version', 'events'].map((name) => [name, bodyOf(event())]),
])('the name %s ends with its quote and nothing else', (name, body) => {
  expect(takenOf256(body.replace(`"${name}":`, `"${name}@:`))).toBe(1)
})

const TIMESTAMP = '2026-11-20T11:59:30.250Z'

test('every byte of a timestamp is checked the same way, whether its hour is cached or not', () => {
  for (let place = 0; place < TIMESTAMP.length; place++) {
    const changed = event({ timestamp: `"${TIMESTAMP.slice(0, place)}@${TIMESTAMP.slice(place + 1)}"` })
    const first = takenOf256(bodyOf(changed, event()))
    expect(takenOf256(bodyOf(event({ timestamp: `"${TIMESTAMP}"` }), changed))).toBe(first)
  }
})

test.each([
  ['the tens of its seconds', '2026-11-20T11:59:@0.250Z', 6],
  ['its seconds', '2026-11-20T11:59:3@.250Z', 10],
  ['its first millisecond', '2026-11-20T11:59:30.@50Z', 10],
  ['its last millisecond', '2026-11-20T11:59:30.25@Z', 10],
  ['the tens of its minutes', '2026-11-20T11:@9:30.250Z', 6],
  ['the colon before its minutes', '2026-11-20T11@59:30.250Z', 1],
])('a timestamp has the expected number of bytes for %s', (_place, timestamp, taken) => {
  expect(takenOf256(bodyOf(event({ timestamp: `"${timestamp}"` })))).toBe(taken)
})

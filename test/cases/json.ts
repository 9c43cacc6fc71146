// Rows of what is JSON and what is not: its grammar, its letters, its depth.

import { bodyOf } from '../unit/decode/bodies.ts'
import type { Bodies, Case } from './bodies.ts'

export const NOT_JSON = 'body: not valid JSON'
const NOT_UTF8 = 'body: not valid UTF-8'
const TOO_DEEP = 'body: more than 64 levels deep'
const NUMBERS = ['0', '-0', '0.0', '1e999', '-1E-999', '9'.repeat(400), '1e+5', '0e0', '10.010', '-1.5e999']
const BAD_NUMBERS = [
  '01',
  '-',
  '+1',
  '1.',
  '.5',
  '1e',
  '1e+',
  '-01',
  '0x10',
  'NaN',
  '-Infinity',
  '1.e5',
  '--1',
  '1e1.5',
]
const BAD_UTF8 = {
  'an overlong form': [0xc0, 0xaf],
  'an overlong form of three bytes': [0xe0, 0x80, 0xaf],
  'a surrogate as UTF-8': [0xed, 0xa0, 0xbd],
  'a character cut off': [0xe6, 0x9d],
  'a lone continuation': [0x80],
  'a point beyond U+10FFFF': [0xf4, 0x90, 0x80, 0x80],
  'a byte that never occurs': [0xff],
}

const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels)

export function grammar({ event, one }: Bodies): Case[] {
  return [
    ['nothing', '', 'body: empty'],
    ['a byte-order mark', `\ufeff${bodyOf()}`, 'body: begins with a byte-order mark, which is not JSON'],
    ['a byte-order mark alone', '\ufeff', 'body: begins with a byte-order mark, which is not JSON'],
    ['a part of a byte-order mark', Buffer.from([0xef, 0xbb]), NOT_UTF8],
    ['only spaces', '   ', NOT_JSON],
    ['trailing bytes', `${bodyOf()}x`, NOT_JSON],
    ['a second value', `${bodyOf()}{}`, NOT_JSON],
    ['a NUL after the body', `${bodyOf()}\0`, NOT_JSON],
    ['a trailing comma in an object', '{"app_key":"ak_demo","events":[],}', NOT_JSON],
    ['a trailing comma in an array', '{"app_key":"ak_demo","events":[{},]}', NOT_JSON],
    ['a body cut off', bodyOf(event()).slice(0, -1), NOT_JSON],
    ['a key without quotes', '{app_key:"ak_demo","events":[]}', NOT_JSON],
    ['a raw line feed in a string', one({ name: '"a\nb"' }), NOT_JSON],
    ['a raw tab in a string', one({ name: '"a\tb"' }), NOT_JSON],
    ['a NUL in a string', one({ name: '"a\0b"' }), NOT_JSON],
    ['an unknown escape', one({ name: '"\\x41"' }), NOT_JSON],
    ['three hexadecimal digits', one({ name: '"\\u041"' }), NOT_JSON],
    ['a form feed as white space', bodyOf('\f'), NOT_JSON],
    ['a no-break space as white space', bodyOf('\u00a0'), NOT_JSON],
    ['a wrong literal', one({ properties: '{"a":trux}' }), NOT_JSON],
    ['a literal in capitals', one({ properties: '{"a":True}' }), NOT_JSON],
    ['a literal with a tail', one({ properties: '{"a":nullx}' }), NOT_JSON],
    ['single quotes', "{'app_key':1}", NOT_JSON],
    ['a comment', `${bodyOf()}/**/`, NOT_JSON],
    ['UTF-16', Buffer.from(bodyOf(event()), 'utf16le'), NOT_JSON],
    ['a body that is broken behind an invalid member', '{"app_key":1,"events":[{}]', NOT_JSON],
    ['a body that is broken behind an invalid event', `${one({ type: '"x"' })}}]`, NOT_JSON],
    [
      'spaces of every kind between tokens',
      ` \t\r\n${JSON.stringify(JSON.parse(bodyOf(event())), null, '\t')}\r\n `,
      'accepted',
    ],
    ...BAD_NUMBERS.flatMap((number): Case[] => [
      [`the number ${number} in a property`, one({ properties: `{"a":${number}}` }), NOT_JSON],
      [`the number ${number} in a context`, one({ context: `{"os":"x","screen_width":${number}}` }), NOT_JSON],
    ]),
    ...NUMBERS.flatMap((number): Case[] => [
      [`the number ${number} in a property`, one({ properties: `{"a":${number}}` }), 'accepted'],
      [`the number ${number} in a context`, one({ context: `{"os":"x","screen_height":${number}}` }), 'accepted'],
    ]),
    ...Object.entries(BAD_UTF8).flatMap(([claim, bytes]): Case[] =>
      [one({ name: '"@"' }), one({ properties: '{"@":1}' })].map((text, at) => {
        const [head, tail] = text.split('@')
        const body = Buffer.concat([Buffer.from(head), Buffer.from(bytes), Buffer.from(tail)])
        return [`${claim}, in a ${['value', 'name'][at]}`, body, NOT_UTF8]
      }),
    ),
  ]
}

export function depth({ one }: Bodies): Case[] {
  return [
    ...[63, 64].map((levels): Case => {
      const body = `{"app_key":"ak_demo","events":[],"x":${nested(levels)}}`
      return [`a member of ${levels} levels`, body, levels > 63 ? TOO_DEEP : 'accepted']
    }),
    ...[61, 62].map(
      (levels): Case => [
        `an event's member of ${levels} levels`,
        one({ x: nested(levels) }),
        levels > 61 ? TOO_DEEP : 'accepted',
      ],
    ),
    ...['context', 'properties'].flatMap((name) =>
      [60, 61].map((levels): Case => {
        const body = one({ [name]: `{"os":"x","y":${nested(levels)}}` })
        return [`a member of ${name} of ${levels} levels`, body, levels > 60 ? TOO_DEEP : 'accepted']
      }),
    ),
    ['a hundred thousand arrays', '['.repeat(100_000), TOO_DEEP],
    ['a hundred thousand objects', '{"a":'.repeat(50_000), TOO_DEEP],
  ]
}

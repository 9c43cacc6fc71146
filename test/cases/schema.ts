// The schema as rows: a claim, a body, and what is said of it. Scanner, validator and decoders judge them in
// test/unit/decode/schema.test.ts, and a service over HTTP in test/contract/schema.test.ts.

// oxlint-disable oxc/no-map-spread -- a table is read more often than it is made

import { bodyOf, HASH, objectText } from '../unit/decode/bodies.ts'
import { type Bodies, bodiesAt, type Case, says } from './bodies.ts'
import { depth, grammar } from './json.ts'
import { timestamps } from './timestamps.ts'

export const APP_KEY = 'ak_demo'
/** Each character of these counts as one. */
const WRITINGS = ['a', 'é', '東', '😀', '\\n', '\\u0041', '\\ud83d', '\\ud83d\\ude00', '\\uD83D\\uDE00']
const REQUIRED = ['type', 'name', 'hashed_daily_id', 'hashed_monthly_id', 'session_id', 'timestamp', 'context']
const LENGTHS = {
  name: [1, 200],
  hashed_daily_id: [16, 128],
  hashed_monthly_id: [16, 128],
  hashed_retention_id: [16, 128],
  session_id: [1, 128],
  user_id: [1, 256],
} as const
const CONTEXT_TEXTS = ['os_version', 'app_version', 'locale', 'device_type']
const CONTEXT_NUMBERS = ['screen_width', 'screen_height']

const keys = (count: number): string =>
  `{${Array.from({ length: count }, (_, index) => `"k${index}":${index}`).join(',')}}`

/** All rows, of a service whose clock says `nowMs`, and that gets them `spareMs` later at most. */
export function schemaCases(nowMs: number, spareMs = 10_000): Case[] {
  const bodies = bodiesAt(nowMs)
  const groups = [grammar, depth, kinds, types, context, lengths, values, repeats, order]
  return [...groups.flatMap((group) => group(bodies)), ...timestamps(bodies, spareMs)]
}

function kinds({ event, one }: Bodies): Case[] {
  return ['null', '"x"', '5', '[]', 'true'].flatMap((value): Case[] => [
    ...['context', 'properties', 'revenue'].map(
      (name): Case => [`${name} as ${value}`, one({ [name]: value }), says(name, 'must be an object')],
    ),
    [`an event that is ${value}`, bodyOf(event(), value), 'events[1]: must be an object'],
  ])
}

function types({ event, one }: Bodies): Case[] {
  return [
    ...['""', '"Track"', '"TRACK"', '"trackk"', '"click"', '"track "', '5', 'null', '["track"]'].map(
      (type): Case => [`the type ${type}`, one({ type }), says('type', 'must be one of track, screen, revenue')],
    ),
    ['the type screen', one({ type: '"screen"' }), 'accepted'],
    ['a revenue event', one({ type: '"revenue"', revenue: '{"amount":9.99}' }), 'accepted'],
    ['revenue on a track event', one({ revenue: '{"amount":1}' }), 'accepted'],
    [
      'revenue before the type that wants it',
      bodyOf(`{"revenue":{},${event({ type: '"revenue"' }).slice(1)}`),
      'accepted',
    ],
    ['an escaped spelling of track', one({ type: '"\\u0074r\\u0061ck"' }), 'accepted slowly'],
    ['a revenue event without revenue', one({ type: '"revenue"' }), says('revenue', 'required')],
    [
      'a revenue event whose revenue is null',
      one({ type: '"revenue"', revenue: 'null' }),
      says('revenue', 'must be an object'),
    ],
  ]
}

function context({ one }: Bodies): Case[] {
  return [
    ['an empty os', one({ context: '{"os":""}' }), says('context.os', 'length must be at least 1')],
    ['os as a number', one({ context: '{"os":5}' }), says('context.os', 'must be a string')],
    ['a context without os', one({ context: '{"os_version":"1"}' }), says('context.os', 'required')],
    ...CONTEXT_TEXTS.flatMap((name): Case[] => [
      [`${name} that is empty`, one({ context: `{"os":"x","${name}":""}` }), 'accepted'],
      [`${name} as a number`, one({ context: `{"os":"x","${name}":5}` }), says(`context.${name}`, 'must be a string')],
      [`${name} as null`, one({ context: `{"os":"x","${name}":null}` }), says(`context.${name}`, 'must be a string')],
    ]),
    ...CONTEXT_NUMBERS.flatMap((name): Case[] => [
      [
        `${name} as a string`,
        one({ context: `{"os":"x","${name}":"390"}` }),
        says(`context.${name}`, 'must be a number'),
      ],
      [`${name} as null`, one({ context: `{"os":"x","${name}":null}` }), says(`context.${name}`, 'must be a number')],
    ]),
    ...['os', ...CONTEXT_TEXTS, ...CONTEXT_NUMBERS].map((name): Case => {
      const value = CONTEXT_NUMBERS.includes(name) ? '7' : '"x"'
      const rest = name === 'os' ? '' : '"os":"x",'
      return [
        `${name} twice`,
        one({ context: `{${rest}"${name}":${value},"${name}":${value}}` }),
        says(`context.${name}`, 'must appear once'),
      ]
    }),
  ]
}

function lengths({ one }: Bodies): Case[] {
  return Object.entries(LENGTHS).flatMap(([name, [least, most]]) => [
    ...WRITINGS.flatMap((writing) =>
      [0, least - 1, least, most, most + 1].map((count): Case => {
        const fits = count >= least && count <= most
        const message = says(name, `length must be ${least} to ${most}`)
        return [
          `${name} of ${count} times ${writing}`,
          one({ [name]: `"${writing.repeat(count)}"` }),
          fits ? 'accepted' : message,
        ]
      }),
    ),
    [`${name} as a number`, one({ [name]: '1234567890' }), says(name, 'must be a string')],
    [`${name} as null`, one({ [name]: 'null' }), says(name, 'must be a string')],
  ])
}

function values({ one }: Bodies): Case[] {
  return ['properties', 'revenue'].flatMap((name) => {
    const bag = (text: string): string => one({ [name]: text })
    const long = says(`${name}[0]`, 'at most 500 characters')
    const many = says(name, 'at most 50 keys')
    const pairs: readonly (readonly [string, string, string])[] = [
      ...WRITINGS.map(
        (writing) => [`a string of ${writing}`, `"${writing.repeat(500)}"`, `"${writing.repeat(501)}"`] as const,
      ),
      ...['a', 'é', '東', '😀'].flatMap((fill) => [
        [`an array of ${fill}`, `["${fill.repeat(496)}"]`, `["${fill.repeat(497)}"]`] as const,
        [`an object of ${fill}`, `{"${fill.repeat(494)}":1}`, `{"${fill.repeat(495)}":1}`] as const,
      ]),
      ['a number', '7'.repeat(500), '7'.repeat(501)],
      ['an array of numbers', `[${'1,'.repeat(248)}11]`, `[${'1,'.repeat(248)}111]`],
      ['spaces inside an array, as sent', `[${' '.repeat(498)}]`, `[${'\n'.repeat(499)}]`],
      ['escapes inside an array, as sent', `["${'\\u0041'.repeat(82)}aaaa"]`, `["${'\\u0041'.repeat(83)}"]`],
    ]
    return [
      ...pairs.flatMap(([claim, fits, tooLong]): Case[] => [
        [`${name}: ${claim}, of 500 characters`, bag(`{"v": ${fits} }`), 'accepted'],
        [`${name}: ${claim}, of 501`, bag(`{"v": ${tooLong} }`), long],
      ]),
      [`${name} that are empty`, bag('{}'), 'accepted'],
      [`${name} of 50 keys`, bag(keys(50)), 'accepted'],
      [`${name} of 51 keys`, bag(keys(51)), many],
      [`${name} of 51 times one key`, bag(`{${'"a":1,'.repeat(50)}"a":1}`), many],
      [
        `${name}: a nested object of 60 keys`,
        bag(`{"v":{${Array.from({ length: 60 }, (_, index) => `"${index}":1`).join(',')}}}`),
        'accepted',
      ],
      [`${name}: a key twice`, bag('{"a":1,"a":2}'), 'accepted'],
      [`${name}: spaces around a value`, bag(`{"v":${' '.repeat(600)}1${' '.repeat(600)}}`), 'accepted'],
      [
        `${name}: the 13th value, by its place`,
        bag(`{${'"a":1,'.repeat(12)}"secret":"${'secret'.repeat(90)}"}`),
        says(`${name}[12]`, 'at most 500 characters'),
      ],
      [
        `${name}: values of every kind`,
        bag('{"a":true,"b":false,"c":null,"d":[1,[2]],"e":{"f":{}},"g":-0.5e-7}'),
        'accepted',
      ],
    ]
  })
}

function repeats({ event, members }: Bodies): Case[] {
  const full = members({ hashed_retention_id: `"${HASH}"`, properties: '{}', user_id: '"u"', revenue: '{}' })
  const once = objectText(full)
  return [
    ['every member once', bodyOf(once), 'accepted'],
    ...Object.keys(full).flatMap((name) =>
      [name, `\\u00${name.charCodeAt(0).toString(16)}${name.slice(1)}`].map((again): Case => {
        const repeated = `${once.slice(0, -1)},"${again}":${full[name]}}`
        return [`${name} again, as ${again}`, bodyOf(event(), repeated), `events[1].${name}: must appear once`]
      }),
    ),
    ['events twice', '{"app_key":"ak_demo","events":[],"events":[]}', 'events: must appear once'],
    ['events twice, once escaped', '{"app_key":"ak_demo","events":[],"\\u0065vents":[]}', 'events: must appear once'],
    [
      'sdk_version twice',
      '{"app_key":"ak_demo","sdk_version":"1","sdk_version":"1","events":[]}',
      'sdk_version: must appear once',
    ],
    ['app_key twice', '{"app_key":"ak_demo","events":7,"app_key":"ak_demo"}', 'app_key: must appear once'],
    [
      'app_key twice, once escaped',
      '{"app_key":"ak_demo","events":[],"app\\u005fkey":"ak_demo"}',
      'app_key: must appear once',
    ],
    ['events alone, escaped', '{"app_key":"ak_demo","\\u0065vents":[]}', 'accepted slowly'],
    ['name alone, escaped', bodyOf(event().replace('"name"', '"n\\u0061me"')), 'accepted slowly'],
    [
      'a member that the schema does not name, twice',
      bodyOf(`${event().slice(0, -1)},"extra":1,"extra":2}`),
      'accepted',
    ],
  ]
}

function order({ event, one }: Bodies): Case[] {
  return [
    ['a body that is an array', '[]', 'body: must be an object'],
    ['a body that is a string', '"ak_demo"', 'body: must be an object'],
    ['a body that is null', 'null', 'body: must be an object'],
    ['a body without app_key', '{"events":7}', 'app_key: required'],
    ['an app_key that is null', '{"events":7,"app_key":null}', 'app_key: must be a string'],
    ['an app_key that is an array', '{"app_key":["ak_demo"],"events":[]}', 'app_key: must be a string'],
    ['a body without events', '{"app_key":"ak_demo"}', 'events: required'],
    ...['null', '{}', '"x"', '5'].map(
      (value): Case => [`events as ${value}`, `{"app_key":"ak_demo","events":${value}}`, 'events: must be an array'],
    ),
    ['sdk_version as a number', '{"app_key":"ak_demo","sdk_version":2,"events":7}', 'sdk_version: must be a string'],
    ['sdk_version as null', '{"sdk_version":null,"app_key":"ak_demo","events":[]}', 'sdk_version: must be a string'],
    ['events before sdk_version', '{"events":{},"sdk_version":2,"app_key":"ak_demo"}', 'events: must be an array'],
    ['an event without members', bodyOf('{}'), says('type', 'required')],
    ['a bad member before a missing one', bodyOf('{"name":7}'), says('name', 'must be a string')],
    [
      'a bad member before a bad member',
      one({ type: '7', name: '""' }),
      says('type', 'must be one of track, screen, revenue'),
    ],
    [
      'a bad event before a bad event',
      bodyOf(event(), event({ name: '""' }), event({ type: '7' })),
      'events[1].name: length must be 1 to 200',
    ],
    [
      'what is missing, where its object ends',
      one({ name: null, context: '{"locale":null,"os":7}' }),
      says('context.locale', 'must be a string'),
    ],
    [
      'what is missing in one event, before the next',
      bodyOf(event({ name: null }), event({ type: '7' })),
      says('name', 'required'),
    ],
    [
      'a revenue event without revenue and context',
      one({ type: '"revenue"', context: null }),
      says('context', 'required'),
    ],
    ...REQUIRED.map(
      (name): Case => [
        `the third event without ${name}`,
        bodyOf(event(), event(), event({ [name]: null })),
        `events[2].${name}: required`,
      ],
    ),
    ['no events', bodyOf(), 'accepted'],
    ['100 events', bodyOf(...Array<string>(100).fill(event())), 'accepted'],
    ['101 events', bodyOf(...Array<string>(101).fill(event())), 'events: at most 100 items'],
    ['100 events and a number', bodyOf(...Array<string>(100).fill(event()), '7'), 'events: at most 100 items'],
    [
      '99 events and two numbers',
      bodyOf(...Array<string>(99).fill(event()), '7', '7'),
      'events[99]: must be an object',
    ],
  ]
}

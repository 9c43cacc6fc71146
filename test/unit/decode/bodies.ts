// Bodies for the tests of decode: a seeded random, valid bodies of many shapes, and ways to damage them.

/** The server's clock in these tests. */
export const NOW_MS = Date.UTC(2026, 10, 20, 12, 0, 0)

export type Random = (below: number) => number

/** Mulberry32: the same seed gives the same numbers. */
export function seededRandom(seed: number): Random {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296) * below)
  }
}

export const HASH = 'a3'.repeat(16)

/** An event's members as JSON text by name, to be changed, dropped or joined in any order. */
export function eventMembers(changes: Record<string, string | null> = {}): Record<string, string> {
  const members: Record<string, string | null> = {
    type: '"track"',
    name: '"signup"',
    hashed_daily_id: `"${HASH}"`,
    hashed_monthly_id: `"${HASH}"`,
    session_id: '"3f2b8c1e-9d4a-4e6b-8f1a-0123456789ab"',
    timestamp: '"2026-11-20T11:59:30.250Z"',
    context: '{"os":"iOS"}',
    ...changes,
  }
  return Object.fromEntries(Object.entries(members).filter((entry): entry is [string, string] => entry[1] !== null))
}

export function objectText(members: Record<string, string>): string {
  return `{${Object.entries(members)
    .map(([name, value]) => `${JSON.stringify(name)}:${value}`)
    .join(',')}}`
}

export function event(changes: Record<string, string | null> = {}): string {
  return objectText(eventMembers(changes))
}

export function bodyOf(...events: string[]): string {
  return `{"app_key":"ak_demo","sdk_version":"2.1.0","events":[${events.join(',')}]}`
}

const CHARACTERS = [
  'a',
  'Z',
  '0',
  ' ',
  'é',
  '東',
  '😀',
  '\\n',
  '\\"',
  '\\u0041',
  '\\u00e9',
  '\\ud83d',
  '\\ud83d\\ude00',
  '\\ude00',
]

/** A JSON string with this many characters, each written in a random way. */
export function stringText(random: Random, characters: number): string {
  const plain = random(3) > 0
  let text = ''
  for (let count = 0; count < characters; count++) {
    let next = plain ? 'abcdef0123456789'[random(16)] : CHARACTERS[random(CHARACTERS.length)]
    // A low surrogate after a high one would be one character with it.
    if (next === '\\ude00' && text.endsWith('\\ud83d')) next = 'x'
    text += next
  }
  return `"${text}"`
}

export const LENGTHS = [0, 1, 2, 15, 16, 17, 127, 128, 129, 199, 200, 201, 255, 256, 257, 499, 500, 501]
/** Mostly within its limits, at times at or beyond one of them. */
function boundedText(random: Random, usual: number): string {
  return stringText(random, random(12) === 0 ? LENGTHS[random(LENGTHS.length)] : usual)
}

export const NUMBERS = ['0', '-0', '1', '12.5', '1e3', '-1.5E-7', '1e999', '12345678901234567890', '1179', '2.0E+2']
export const TIMESTAMPS = [
  '2026-11-20T11:59:30.250Z',
  '2026-11-20T11:59Z',
  '2026-11-20T11:59:00',
  '2026-11-20T13:29:00.123456789+01:30',
  '2026-11-20T06:59:00-0500',
  '2026-11-17T12:00:00Z',
  '2026-11-17T11:59:59.999Z',
  '2026-11-20T13:00:00.0009Z',
  '2026-11-20T13:00:00.001Z',
  '2026-11-31T12:00:00Z',
  '2026-11-20T24:00:00Z',
  '2026-11-20T11:60:00Z',
  '2026-11-20T11:59:60Z',
  '2026-11-20',
  '1969-12-31T23:59:59Z',
  '9999-12-31T23:59:59Z',
]
const NESTED_NAMES = ['a', 'name', 'type', '__proto__', 'constructor', '', 'é', 'os', 'x\\u0041']

export function valueText(random: Random, depth: number): string {
  const kind = random(depth > 4 ? 6 : 9)
  if (kind === 0) return 'null'
  if (kind === 1) return random(2) === 0 ? 'true' : 'false'
  if (kind === 2) return NUMBERS[random(NUMBERS.length)]
  if (kind < 6) return stringText(random, random(12))
  const values = Array.from({ length: random(4) }, () => valueText(random, depth + 1))
  if (kind === 6) return `[${values.join(',')}]`
  return `{${values.map((value) => `"${NESTED_NAMES[random(NESTED_NAMES.length)]}":${value}`).join(',')}}`
}

function shuffled<T>(random: Random, list: T[]): T[] {
  for (let last = list.length - 1; last > 0; last--) {
    const other = random(last + 1)
    ;[list[last], list[other]] = [list[other], list[last]]
  }
  return list
}

/** Members in random order, with random white space, at times one dropped, repeated or unknown. */
function randomObject(random: Random, members: Record<string, string>): string {
  const list = Object.entries(members)
  if (random(60) === 0) list.splice(random(list.length), 1)
  if (random(60) === 0) list.push([...list[random(list.length)]])
  if (random(6) === 0) list.push([['extra', 'nam', 'names', 'hashed_id', 'osx', 'é'][random(6)], valueText(random, 0)])
  if (random(2) === 0) shuffled(random, list)
  const spaces = ['', '', ' ', '\n    ', '\r\n\t', '         '][random(6)]
  return `{${spaces}${list.map(([name, value]) => `"${name}"${random(9) === 0 ? spaces : ''}:${spaces}${value}`).join(`${spaces},${spaces}`)}${spaces}}`
}

function keyValues(random: Random): string {
  const keys = random(30) === 0 ? 49 + random(3) : random(5)
  const members = Array.from({ length: keys }, (_, index) => {
    const value = random(4) === 0 ? valueText(random, 0) : boundedText(random, random(20))
    return `"${random(3) === 0 ? NESTED_NAMES[random(NESTED_NAMES.length)] : `key${index}`}":${value}`
  })
  return `{${members.join(random(4) === 0 ? ' , ' : ',')}}`
}

function randomEvent(random: Random): string {
  const members = eventMembers({
    type: ['"track"', '"screen"', '"revenue"', '"tr\\u0061ck"', '"other"'][
      random(20) === 0 ? 3 + random(2) : random(3)
    ],
    name: boundedText(random, 1 + random(30)),
    hashed_daily_id: boundedText(random, 24),
    hashed_monthly_id: boundedText(random, 16 + random(50)),
    session_id: boundedText(random, 36),
    timestamp: `"${TIMESTAMPS[random(random(3) === 0 ? TIMESTAMPS.length : 6)]}"`,
    context: randomObject(random, {
      os: boundedText(random, 3),
      os_version: stringText(random, random(6)),
      app_version: '"3.2.1"',
      locale: '"en_US"',
      device_type: stringText(random, 8),
      screen_width: NUMBERS[random(NUMBERS.length)],
      screen_height: '2556',
    }),
  })
  if (random(2) === 0) members.properties = keyValues(random)
  if (random(3) === 0) members.user_id = boundedText(random, 12)
  if (random(3) === 0) members.hashed_retention_id = boundedText(random, 32)
  if (members.type === '"revenue"' ? random(20) > 0 : random(6) === 0) members.revenue = keyValues(random)
  return randomObject(random, members)
}

export function randomBody(random: Random): string {
  const count = random(300) === 0 ? 99 + random(3) : random(3)
  const events = Array.from({ length: count }, () => (count > 10 ? event() : randomEvent(random)))
  const members: Record<string, string> = {
    app_key: random(30) === 0 ? '"\\u0061k_demo"' : '"ak_demo"',
    events: `[${events.join(random(3) === 0 ? ' , ' : ',')}]`,
  }
  if (random(2) === 0) members.sdk_version = stringText(random, random(8))
  return `${['', '', ' ', '\n'][random(4)]}${randomObject(random, members)}${['', '', ' ', '\r\n'][random(4)]}`
}

const TOKENS = [
  '"',
  '\\',
  '{',
  '}',
  '[',
  ']',
  ',',
  ':',
  '0',
  '-',
  '.',
  'e',
  'E+',
  'true',
  'false',
  'null',
  ' ',
  '\n',
  '\t',
  '\0',
  '\x1f',
  '\x7f',
  '\\u',
  '\\ud83d',
  '\\u0022',
  '\\/',
  '\\x',
  '""',
  '{}',
  '[]',
  ',,',
  '00',
  '01',
  '1.',
  '.5',
  '1e',
  '-',
  'nul',
  'tru',
  'NaN',
  '/**/',
  '"name":"x",',
  '"os":"x",',
  '"events":[],',
  '"app_key":"ak_x",',
  '"type":"revenue",',
  '"n\\u0061me":"x",',
  '"revenue":{},',
  'é',
  '😀',
  'T',
  'Z',
  '+00:00',
  '2026-02-29',
  '[[[[[[[[',
  ']]]]]]]]',
].map((token) => Buffer.from(token))
export const BAD_UTF8 = [
  [0xc0, 0x80],
  [0xed, 0xa0, 0x80],
  [0xf4, 0x90, 0x80, 0x80],
  [0xe2, 0x82],
  [0xff],
  [0x80],
  [0xef, 0xbb, 0xbf],
].map((bytes) => Buffer.from(bytes))

/** One to three small damages: a byte changed, bytes dropped or repeated, a token put in, the end cut off. */
export function damaged(random: Random, body: Buffer): Buffer {
  let result = body
  for (let times = 1 + random(3); times > 0; times--) {
    const at = random(result.length + 1)
    const until = Math.min(result.length, at + 1 + random(random(2) === 0 ? 1 : 12))
    const before = result.subarray(0, at)
    switch (random(8)) {
      case 0:
        result = Buffer.concat([before, Buffer.of(random(256)), result.subarray(at + 1)])
        break
      case 1:
        result = Buffer.concat([before, result.subarray(until)])
        break
      case 2:
        result = Buffer.concat([result.subarray(0, until), result.subarray(at)])
        break
      case 3:
      case 4:
        result = Buffer.concat([before, TOKENS[random(TOKENS.length)], result.subarray(random(2) === 0 ? at : until)])
        break
      case 5:
        result = Buffer.concat([before, BAD_UTF8[random(BAD_UTF8.length)], result.subarray(at)])
        break
      case 6:
        if (random(4) === 0) result = before
        break
      default:
        // One bit, since most near misses of a class table or a mask are one bit apart.
        result = Buffer.from(result)
        if (at < result.length) result[at] ^= 1 << random(8)
    }
  }
  return result
}

// Where many events are alike, one that breaks a rule is found, and one that only looks different is taken: each rule of
// the schema, broken once in the midst of events of one layout.

import { beforeAll, describe, expect, test } from 'vitest'
import { alike, alikeAtRandom, FULL, teach } from './alike.ts'
import { bodyOf, event, HASH, NOW_MS, objectText, seededRandom } from './bodies.ts'
import { judge } from './oracle.ts'

const CONTEXT = JSON.parse(FULL.context) as Record<string, unknown>
const PROPERTIES = { button: '"subscribe"', position: '10', first: 'true', tags: '["a",{"b":null}]' }

/** Whether a body is accepted that has this event at this place among others of one layout. */
function isTaken(changed: string, count: number, place: number): boolean {
  const events = Array.from({ length: count }, (_, index) => (index === place ? changed : alike({ build: `${index}` })))
  return judge(Buffer.from(bodyOf(...events))).validation.kind === 'accepted'
}

/** The same for every place that matters; all answers have to be alike. */
function isTakenAnywhere(changed: string): boolean {
  const answers = [
    isTaken(changed, 2, 1),
    isTaken(changed, 3, 1),
    isTaken(changed, 12, 11),
    isTaken(changed, 100, 50),
    isTaken(changed, 1, 0),
  ]
  expect(new Set(answers).size).toBe(1)
  return answers[0]
}

function without(name: string): string {
  return objectText(Object.fromEntries(Object.entries(FULL).filter(([key]) => key !== name)))
}

function withContext(changes: Record<string, unknown>): string {
  return alike({ context: JSON.stringify({ ...CONTEXT, ...changes }) })
}

function withProperties(changes: Record<string, string>): string {
  return alike({ properties: objectText({ ...PROPERTIES, ...changes }) })
}

function nested(levels: number): string {
  return '['.repeat(levels) + ']'.repeat(levels)
}

function keys(count: number): string {
  return objectText(Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, `${index}`])))
}

/** A string as JSON text. */
function text(characters: number, character = 'x'): string {
  return `"${character.repeat(characters)}"`
}

beforeAll(() => teach(alike()))

describe('in the midst of events alike, an event is refused', () => {
  test.each(['type', 'name', 'hashed_daily_id', 'hashed_monthly_id', 'session_id', 'timestamp', 'context'])(
    'without %s',
    (name) => {
      expect(isTakenAnywhere(without(name))).toBe(false)
    },
  )

  test.each(Object.keys(FULL).filter((name) => name !== 'build'))('with %s twice', (name) => {
    const member = `"${name}":${FULL[name]}`
    expect(isTakenAnywhere(alike().replace(member, `${member},${member}`))).toBe(false)
    expect(isTakenAnywhere(alike().replace('"build":17', member))).toBe(false)
  })

  test.each(
    Object.keys(FULL)
      .filter((name) => name !== 'build')
      .flatMap((name) => ['1', 'null', 'true', '[]', '"x', '', '-'].map((value) => [name, value])),
  )('whose %s is %s', (name, value) => {
    expect(isTakenAnywhere(alike({ [name]: value }))).toBe(false)
  })

  test.each([
    ['type', '"Track"'],
    ['type', '"tracks"'],
    ['type', '"trac"'],
    ['type', '""'],
    ['name', '{}'],
    ['name', text(0)],
    ['name', text(201)],
    ['name', text(201, 'é')],
    ['name', text(201, '\\n')],
    ['hashed_daily_id', text(15)],
    ['hashed_daily_id', text(129)],
    ['hashed_monthly_id', text(15)],
    ['hashed_monthly_id', text(15, 'é')],
    ['hashed_monthly_id', text(15, '\\u0041')],
    ['hashed_monthly_id', text(129)],
    ['hashed_retention_id', text(15)],
    ['hashed_retention_id', text(129)],
    ['session_id', text(0)],
    ['session_id', text(129)],
    ['user_id', text(0)],
    ['user_id', text(257)],
    ['user_id', text(257, 'é')],
    ['timestamp', '"2026-11-20T11:60:30.250Z"'],
    ['timestamp', '"2026-11-20T11:59:60.250Z"'],
    ['timestamp', '"2026-11-20T11:59:30.25:Z"'],
    ['timestamp', '"2026-11-20T11:59:30.250z"'],
    ['timestamp', '"2026-11-20T11:59:30.250ZZ"'],
    ['timestamp', '"2026-11-20T11:59:30,250Z"'],
    ['timestamp', '"2026-11-20 11:59:30.250Z"'],
    ['timestamp', '"2026-11-31T11:59:30.250Z"'],
    ['timestamp', '"2026-11-20T24:59:30.250Z"'],
    ['timestamp', '"2026-11-17T11:59:59.999Z"'],
    ['timestamp', '"2026-11-20T13:00:00.001Z"'],
    ['timestamp', '{}'],
    ['properties', '"x"'],
    ['properties', keys(51)],
    ['revenue', keys(51)],
    ['revenue', '"x"'],
    ['build', '017'],
    ['build', '1.'],
    ['build', 'tru'],
    ['build', nested(62)],
  ])('whose %s is %s', (name, value) => {
    expect(isTakenAnywhere(alike({ [name]: value }))).toBe(false)
  })

  test.each([
    [{ os: '' }],
    [{ os: 1 }],
    [{ os: null }],
    [{ os: undefined }],
    [{ os_version: 1 }],
    [{ app_version: null }],
    [{ locale: {} }],
    [{ device_type: true }],
    [{ screen_width: '1179' }],
    [{ screen_width: '' }],
    [{ screen_height: '' }],
    [{ screen_width: null }],
    [{ screen_height: [] }],
  ])('whose context has %j', (changes) => {
    expect(isTakenAnywhere(withContext(changes))).toBe(false)
  })

  test.each([
    ['screen_width', '01'],
    ['screen_width', '1.'],
    ['screen_width', '1e'],
    ['screen_height', '-'],
    ['theme', nested(61)],
    ['os', '"iOS","os":"iOS"'],
    ['locale', '"en_US","locale":"en_US"'],
  ])('whose context has %s with %s', (name, value) => {
    const changed = objectText({ ...Object.fromEntries(Object.entries(CONTEXT).map(asJson)), [name]: value })
    expect(isTakenAnywhere(alike({ context: changed }))).toBe(false)
  })

  test.each([
    ['button', text(501)],
    ['button', text(501, 'é')],
    ['button', text(501, '\\"')],
    ['button', '"a\u0001b"'],
    ['button', '"a\nb"'],
    ['button', '"a\\xb"'],
    ['button', '"a\\u12g4"'],
    ['position', '1'.repeat(501)],
    ['position', `[${'1'.repeat(500)}]`],
    ['position', '00'],
    ['position', '1 0'],
    ['position', '+1'],
    ['position', '1}'],
    ['first', 'truth'],
    ['first', 'tru'],
    ['tags', nested(61)],
    ['tags', '[1,]'],
    ['tags', '["a",{"b":null}'],
  ])('whose property %s is %s', (name, value) => {
    expect(isTakenAnywhere(withProperties({ [name]: value }))).toBe(false)
  })

  test('that is of revenue and has none', () => {
    const bare = without('revenue')
    teach(bare)
    const events = (type: string) => bodyOf(bare, bare, bare.replace('"track"', type), bare)
    expect(judge(Buffer.from(events('"screen"'))).validation.kind).toBe('accepted')
    expect(judge(Buffer.from(events('"revenue"'))).validation.kind).toBe('refused')
    // The layout of an event of revenue says nothing about one without.
    teach(alike({ type: '"revenue"' }))
    expect(judge(Buffer.from(events('"revenue"'))).validation.kind).toBe('refused')
  })

  test.each([
    [[0xff]],
    [[0x80]],
    [[0xc3]],
    [[0xc0, 0x80]],
    [[0xed, 0xa0, 0x80]],
    [[0xf4, 0x90, 0x80, 0x80]],
    [[0xe2, 0x82]],
  ])('that is not UTF-8 (%j), though an event with the same bytes was seen before', (bytes) => {
    for (const member of ['name', 'session_id', 'user_id', 'properties']) {
      const [head, tail] = alike({ [member]: member === 'properties' ? '{"@":1}' : '"abcdefgh@"' }).split('@')
      const bad = Buffer.concat([Buffer.from(head), Buffer.from(bytes), Buffer.from(tail)])
      const [start, end] = bodyOf('@').split('@')
      for (const among of ['', `${alike()},`]) {
        const body = Buffer.concat([Buffer.from(start + among), bad, Buffer.from(','), bad, Buffer.from(end)])
        expect(judge(body).validation).toMatchObject({ code: 'invalid_json' })
        expect(judge(body).validation).toMatchObject({ code: 'invalid_json' })
      }
    }
  })

  test('whose timestamp was valid when another body had it', () => {
    const body = Buffer.from(bodyOf(alike(), alike(), alike()))
    expect(judge(body, 17, NOW_MS).validation.kind).toBe('accepted')
    expect(judge(body, 17, NOW_MS + 4 * 86_400_000).validation.kind).toBe('refused')
    expect(judge(body, 17, NOW_MS - 2 * 3_600_000).validation.kind).toBe('refused')
    expect(judge(body, 17, NOW_MS).validation.kind).toBe('accepted')
    const leastMs = Date.UTC(2026, 10, 20, 11, 59, 30, 250)
    for (const [nowMs, kind] of [
      [leastMs + 3 * 86_400_000, 'accepted'],
      [leastMs + 3 * 86_400_000 + 1, 'refused'],
      [leastMs - 3_600_000, 'accepted'],
      [leastMs - 3_600_001, 'refused'],
    ] as const) {
      expect(judge(body, 17, nowMs).validation.kind).toBe(kind)
    }
  })
})

function asJson([name, value]: [string, unknown]): [string, string] {
  return [name, JSON.stringify(value)]
}

describe('in the midst of events alike, an event is taken', () => {
  test.each([
    ['type', '"screen"'],
    ['type', '"revenue"'],
    ['type', '"track" '],
    ['name', text(1)],
    ['name', text(200)],
    ['name', text(200, 'é')],
    ['name', text(200, '\\ud83d\\ude00')],
    ['name', '"plan_selected\\n"'],
    ['hashed_daily_id', text(16)],
    ['hashed_daily_id', text(128)],
    ['hashed_monthly_id', text(16, '\\u0041')],
    ['session_id', text(128)],
    ['user_id', text(256)],
    ['timestamp', '"2026-11-20T11:59Z"'],
    ['timestamp', '"2026-11-20T11:59:30+00:00"'],
    ['timestamp', '"2026-11-20T13:00:00.0009Z"'],
    ['timestamp', '"2026-11-17T12:00:00Z"'],
    ['properties', keys(50)],
    ['properties', '{}'],
    ['revenue', '{}'],
    ['build', '"seventeen"'],
    ['build', nested(61)],
    ['build', '{"é":"\\u00e9"}'],
    ['build', '17.5e-3'],
  ])('whose %s is %s', (name, value) => {
    expect(isTakenAnywhere(alike({ [name]: value }))).toBe(true)
  })

  test.each([
    ['button', text(500)],
    ['button', text(500, '\\"')],
    ['button', '12'],
    ['position', '1'.repeat(500)],
    ['position', '0'],
    ['position', '-0.5E+7'],
    ['position', '""'],
    ['position', '10 '],
    ['position', '{"a":[1,2]}'],
    ['first', 'false'],
    ['tags', nested(60)],
    ['tags', '"\\u2028"'],
  ])('whose property %s is %s', (name, value) => {
    expect(isTakenAnywhere(withProperties({ [name]: value }))).toBe(true)
  })

  test('with its members in another order, or with white space, line breaks among it', () => {
    expect(isTakenAnywhere(objectText(Object.fromEntries(Object.entries(FULL).reverse())))).toBe(true)
    for (const space of [' ', '\t', '\n', '\r\n  ']) {
      expect(isTakenAnywhere(alike().replaceAll(',"', `,${space}"`))).toBe(true)
      expect(isTakenAnywhere(withProperties({ tags: `["a",${space}{}]` }))).toBe(true)
    }
  })

  test('of any type, and its type is counted', () => {
    for (const type of ['"track"', '"screen"', '"revenue"']) {
      teach(alike({ type }))
      for (const other of ['"track"', '"screen"', '"revenue"']) {
        expect(isTakenAnywhere(alike({ type: other }))).toBe(true)
      }
    }
  })
})

test('a hundred events alike are taken, and a hundred and one are not', () => {
  const count = (events: number) => Buffer.from(bodyOf(...Array<string>(events).fill(alike())))
  expect(judge(count(100)).validation.kind).toBe('accepted')
  expect(judge(count(101)).validation.kind).toBe('refused')
})

test('events of more layouts than are kept, by turns, are all judged', () => {
  const layouts = Array.from({ length: 40 }, (_, index) =>
    event({
      name: `"n${index * 7}"`,
      properties: keys(index),
      hashed_retention_id: index % 3 === 0 ? `"${HASH}"` : null,
    }),
  )
  for (let times = 0; times < 20; times++) {
    const from = times * 3
    const some = Array.from({ length: 30 }, (_, index) => layouts[(from + index * (1 + (times % 5))) % layouts.length])
    expect(judge(Buffer.from(bodyOf(...some))).validation.kind).toBe('accepted')
  }
})

test('an event with more values or bytes than a layout holds is judged like any other', () => {
  for (const properties of [keys(50), objectText({ a: text(400), ...Object.fromEntries(longValues()) })]) {
    const members = Object.entries({ ...FULL, properties, revenue: keys(50) })
    for (const large of [members, members.toReversed()].map((list) => objectText(Object.fromEntries(list)))) {
      teach(large)
      expect(isTakenAnywhere(large)).toBe(true)
      for (const changed of [
        large.replace('"iOS"', '""'),
        large.replace('T11:59', 'T11:60'),
        large.replace('250Z', '25 Z'),
      ]) {
        expect(judge(Buffer.from(bodyOf(large, changed, large))).validation.kind).toBe('refused')
      }
    }
  }
  teach(alike())
})

function longValues(): [string, string][] {
  return Array.from({ length: 20 }, (_, index) => [`v${index}`, text(499)])
}

test('events alike in all but their values are all taken', () => {
  const random = seededRandom(3)
  for (let times = 0; times < 200; times++) {
    const events = Array.from({ length: 2 + random(8) }, () => alikeAtRandom(random))
    expect(judge(Buffer.from(bodyOf(...events)), random(40)).validation.kind).toBe('accepted')
  }
})

// What a refusal says of a body that does not fit: the first offending members and their number, and nothing of what
// was sent.

import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  type Answer,
  type BodyErrors,
  batch,
  event,
  events,
  expectAccepted,
  expectRefused,
  post,
} from '../support/client.ts'
import { appRecord, type Service, startService } from '../support/service.ts'

let service: Service

beforeAll(async () => {
  service = await startService({ apps: [appRecord('plain', { events_per_minute: 1_000_000 })] })
})

/** The errors of a body with these events. */
async function errorsOf(list: readonly unknown[]): Promise<BodyErrors> {
  const answer = await post(service, batch('ak_plain', 0, { events: list }))
  expectRefused(answer, 400, 'validation_failed')
  return answer.json as unknown as BodyErrors
}

const LONG = 'x'.repeat(501)

describe('errors', () => {
  test('names every offending member, in document order', async () => {
    const list = [
      event({ name: '', context: { locale: 5 } }),
      event(),
      event({ type: undefined, properties: { a: 1, b: LONG, c: [LONG] }, revenue: { d: LONG } }),
      null,
    ]
    expect(await errorsOf(list)).toMatchObject({
      errors: [
        { path: 'events[0].name', message: 'length must be 1 to 200' },
        { path: 'events[0].context.locale', message: 'must be a string' },
        { path: 'events[0].context.os', message: 'required' },
        { path: 'events[2].properties[1]', message: 'at most 500 characters' },
        { path: 'events[2].properties[2]', message: 'at most 500 characters' },
        { path: 'events[2].revenue[0]', message: 'at most 500 characters' },
        { path: 'events[2].type', message: 'required' },
        { path: 'events[3]', message: 'must be an object' },
      ],
      errors_total: 8,
    })
  })

  test.each([1, 20, 21, 100])('of %i bad events has the first 20, and the number of all', async (count) => {
    const { errors, errors_total: total } = await errorsOf(events(count, { session_id: '' }))
    const paths = Array.from({ length: Math.min(count, 20) }, (_, index) => `events[${index}].session_id`)
    expect(errors.map(({ path }) => path)).toEqual(paths)
    expect(total).toBe(count)
  })

  test('counts up to 1,000', async () => {
    const properties = Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`k${index}`, LONG]))
    expect((await errorsOf(events(90, { properties }))).errors_total).toBe(900)
    const bags = { properties: 5, revenue: 5, user_id: 5, context: 5, name: 5, hashed_daily_id: 5, session_id: 5 }
    const worse = { ...bags, type: 5, hashed_monthly_id: 5, timestamp: 5 }
    expect((await errorsOf(events(99, worse))).errors_total).toBe(990)
    expect((await errorsOf(events(100, worse))).errors_total).toBe(1000)
    expect((await errorsOf(events(100, { ...worse, hashed_retention_id: 5 }))).errors_total).toBe(1000)
  })

  test('lets a client drop all bad events, of which most are not listed, and send the others in one request', async () => {
    const bad = Object.fromEntries(Object.keys(event()).map((name) => [name, 5]))
    // 11 wrong members each, so that the last events come behind the thousandth.
    const worse = { ...bad, hashed_retention_id: 5, user_id: 5, properties: 5, revenue: 5 }
    const list = Array.from({ length: 100 }, (_, index) => event(index % 20 === 0 ? {} : worse))
    const { errors_total: total, invalid_events: invalid } = await errorsOf(list)
    expect(total).toBe(1000)
    const good = list.filter((_, index) => invalid?.includes(index) !== true)
    expectAccepted(await post(service, batch('ak_plain', 0, { events: good })), 5)
  })

  test('is there for what is wrong outside the events too', async () => {
    const bodies: Record<string, string> = {
      body: '[]',
      app_key: '{"events":[]}',
      sdk_version: '{"app_key":"ak_plain","sdk_version":1,"events":[]}',
      events: '{"app_key":"ak_plain"}',
    }
    for (const [path, body] of Object.entries(bodies)) {
      const answer = await post(service, body)
      expectRefused(answer, 400, 'validation_failed')
      expect(answer.json).toMatchObject({ errors: [{ path }], errors_total: 1 })
    }
  })

  test('is not there for a header, nor for a body that is not JSON, nor for an unknown app', async () => {
    const bad = batch('ak_plain', 1, { events: [{}] })
    const answers = [
      await post(service, bad, { 'Idempotency-Key': 'x' }),
      await post(service, bad.slice(1)),
      await post(service, bad.replace('ak_plain', 'ak_other')),
    ]
    expect(answers.map(({ json }) => json['error'])).toEqual(['validation_failed', 'invalid_json', 'invalid_app_key'])
    for (const { json } of answers) expect(Object.keys(json)).toEqual(['error', 'message'])
  })
})

const UNITS = ['q', 'z', 'x', 'j', 'k', 'v', 'Q', 'Z', '0', '7', 'é', '😀', '"', '\\', '<', '\u007f']
/** Text that no message of the service has a piece of. */
const word = fc.string({ unit: fc.constantFrom(...UNITS), minLength: 6, maxLength: 24 })
const number = fc.integer({ min: 1_000_000 })
const scalar = fc.oneof(
  word,
  word.map((text) => text.repeat(90)),
  number,
  fc.constantFrom(null, '', true),
)
const value = fc.oneof(scalar, fc.array(word, { maxLength: 3 }), fc.dictionary(word, scalar, { maxKeys: 60 }))
const MEMBERS = [...Object.keys(event()), 'hashed_retention_id', 'properties', 'user_id', 'revenue']
const CONTEXT = ['os', 'os_version', 'app_version', 'locale', 'device_type', 'screen_width', 'screen_height']

/** An object with members of the schema and of its own. */
const objectOf = (names: readonly string[], members: fc.Arbitrary<unknown>): fc.Arbitrary<object> =>
  fc
    .tuple(fc.dictionary(fc.constantFrom(...names), members), fc.dictionary(word, value, { maxKeys: 2 }))
    .map(([named, own]) => Object.assign(named, own))
const anyEvent = objectOf(MEMBERS, fc.oneof(value, objectOf(CONTEXT, value))).map((one) => Object.assign(event(), one))
const anyBody = fc
  .tuple(
    objectOf(['sdk_version', 'events'], fc.oneof(value, fc.array(fc.oneof(anyEvent, value), { maxLength: 4 }))),
    fc.oneof({ weight: 9, arbitrary: fc.constant('ak_plain') }, { weight: 1, arbitrary: value }),
  )
  .map(([body, key]) => Object.assign({ app_key: key }, body))

/** Every string, name and number of a body that a client made up, as they could stand in an answer. */
function piecesOf(body: unknown): string[] {
  const known = new Set([...MEMBERS, ...CONTEXT, 'app_key', 'sdk_version', 'events', 'ak_plain'])
  const pieces: string[] = []
  const add = (text: string): void => {
    if (text.length >= 6 && !known.has(text)) pieces.push(text.slice(0, 6), text.slice(-6))
  }
  JSON.stringify(body, (name, member: unknown) => {
    add(name)
    if (typeof member === 'string') add(member)
    if (typeof member === 'number') add(String(member))
    return member
  })
  return pieces.flatMap((piece) => [piece, JSON.stringify(piece).slice(1, -1)])
}

test('no answer has a piece of what was sent, whatever it is', async () => {
  const seen = new Map<number, number>()
  const property = fc.asyncProperty(anyBody, async (body) => {
    const answer: Answer = await post(service, JSON.stringify(body))
    seen.set(answer.status, (seen.get(answer.status) ?? 0) + 1)
    expect([202, 400, 401]).toContain(answer.status)
    expect(piecesOf(body).filter((piece) => answer.text.includes(piece))).toEqual([])
  })
  await fc.assert(property, { numRuns: 300 })
  expect(seen.get(400)).toBeGreaterThan(150)
})

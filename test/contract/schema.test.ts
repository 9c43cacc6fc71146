// The schema, member by member, on both sides of each boundary.

import { test as base, describe, expect } from 'vitest'
import { batch, event, expectAccepted, expectRefused, MARK, type Members, post, single } from '../support/client.ts'
import { aService } from '../support/fixture.ts'
import { appRecord } from '../support/service.ts'

const test = base.extend(
  'service',
  { scope: 'file' },
  aService({ apps: [appRecord('plain', { events_per_minute: 1_000_000 })] }),
)

function fits(claim: string, body: () => string, count = 1): void {
  test(claim, async ({ service }) => {
    expectAccepted(await post(service, body()), count)
  })
}

/** `path` is what the message begins with, before its colon. */
function refused(claim: string, path: string, body: () => string): void {
  test(claim, async ({ service }) => {
    const answer = await post(service, body())
    expectRefused(answer, 400, 'validation_failed')
    expect(String(answer.json['message']).split(': ')[0]).toBe(path)
  })
}

/** One event written by hand: `members` are JSON text and come last. */
function byHand(members: string, without: readonly string[] = []): string {
  const plain = Object.entries(event()).filter(([name]) => !without.includes(name))
  const text = plain.map(([name, value]) => `"${name}":${JSON.stringify(value)}`)
  return `{"app_key":"ak_plain","events":[{${[...text, ...(members ? [members] : [])].join(',')}}]}`
}

const one =
  (changes: Members): (() => string) =>
  () =>
    single('ak_plain', changes)

const FACE = '\u{1F600}'
/** A face as two escapes, and half of one. */
const FACE_ESCAPED = '\\ud83d\\ude00'
const HALF_ESCAPED = '\\ud83d'

describe('lengths', () => {
  const limits = [
    { name: 'name', least: 1, most: 200 },
    { name: 'hashed_daily_id', least: 16, most: 128 },
    { name: 'hashed_monthly_id', least: 16, most: 128 },
    { name: 'hashed_retention_id', least: 16, most: 128 },
    { name: 'session_id', least: 1, most: 128 },
    { name: 'user_id', least: 1, most: 256 },
  ]
  for (const { name, least, most } of limits) {
    const path = `events[0].${name}`
    fits(`${name} of ${least} fits`, one({ [name]: 'x'.repeat(least) }))
    fits(`${name} of ${most} fits`, one({ [name]: 'x'.repeat(most) }))
    fits(`${name} of ${most} faces fits: code points are counted`, one({ [name]: FACE.repeat(most) }))
    refused(`${name} of ${least - 1} is too short`, path, one({ [name]: 'x'.repeat(least - 1) }))
    refused(`${name} of ${most + 1} is too long`, path, one({ [name]: 'x'.repeat(most + 1) }))
    refused(`${name} of ${most + 1} faces is too long`, path, one({ [name]: FACE.repeat(most + 1) }))
    fits(`${name} of ${most} escaped faces fits`, () => byHand(`"${name}":"${FACE_ESCAPED.repeat(most)}"`, [name]))
    refused(`${name} of ${most + 1} escaped faces is too long`, path, () =>
      byHand(`"${name}":"${FACE_ESCAPED.repeat(most + 1)}"`, [name]),
    )
    refused(`${name} as a number is of the wrong type`, path, one({ [name]: 1_234_567_890 }))
    refused(`${name} as null is of the wrong type`, path, one({ [name]: null }))
  }
  fits('half a face counts as one', () => byHand(`"name":"${HALF_ESCAPED.repeat(200)}"`, ['name']))
  refused('201 halves are too long', 'events[0].name', () => byHand(`"name":"${HALF_ESCAPED.repeat(201)}"`, ['name']))
  fits('an escaped letter counts as one', () => byHand(`"name":"${'\\u0041'.repeat(200)}"`, ['name']))
  fits('15 letters and a face make 16', one({ hashed_daily_id: 'x'.repeat(15) + FACE }))
  refused('8 faces are not 16', 'events[0].hashed_daily_id', one({ hashed_daily_id: FACE.repeat(8) }))
})

describe('required members', () => {
  const required = ['type', 'name', 'hashed_daily_id', 'hashed_monthly_id', 'session_id', 'timestamp', 'context']
  for (const name of required) {
    test(`an event without ${name} is refused by name`, async ({ service }) => {
      const body = batch('ak_plain', 1, { events: [event(), event(), event({ [name]: undefined })] })
      expectRefused(await post(service, body), 400, 'validation_failed', `events[2].${name}: required`)
    })
  }
  test('a context without os is refused by name', async ({ service }) => {
    const body = batch('ak_plain', 1, { events: [event(), event(), event(), event({ context: {} })] })
    expectRefused(await post(service, body), 400, 'validation_failed', 'events[3].context.os: required')
  })
  test('a body without events is refused by name', async ({ service }) => {
    expectRefused(await post(service, '{"app_key":"ak_plain"}'), 400, 'validation_failed', 'events: required')
  })
  test('a body without app_key is refused by name', async ({ service }) => {
    expectRefused(await post(service, '{"events":[]}'), 400, 'validation_failed', 'app_key: required')
  })
  test('a revenue event without revenue is refused by name', async ({ service }) => {
    const answer = await post(service, single('ak_plain', { type: 'revenue' }))
    expectRefused(answer, 400, 'validation_failed', 'events[0].revenue: required')
  })
  test('a name of no length is told its limits', async ({ service }) => {
    const answer = await post(service, single('ak_plain', { name: '' }))
    expectRefused(answer, 400, 'validation_failed', 'events[0].name: length must be 1 to 200')
  })
})

describe('the first offence in the document is named', () => {
  refused('a bad member before a bad member', 'events[0].type', () =>
    batch('ak_plain', 1, { events: [event({ type: 'x', name: '' })] }),
  )
  refused('a bad event before a bad event', 'events[1].name', () =>
    batch('ak_plain', 1, { events: [event(), event({ name: '' }), event({ type: 'x' })] }),
  )
  refused('what is missing offends where its object ends', 'events[0].context.os', () =>
    batch('ak_plain', 1, { events: [event({ name: undefined, context: { os: '' } })] }),
  )
  refused('what is missing in one event comes before the next event', 'events[0].name', () =>
    batch('ak_plain', 1, { events: [event({ name: undefined }), event({ type: 'x' })] }),
  )
  refused('sdk_version before events', 'sdk_version', () =>
    JSON.stringify({ app_key: 'ak_plain', sdk_version: 5, events: 'x' }),
  )
  refused('events before sdk_version', 'events', () =>
    JSON.stringify({ app_key: 'ak_plain', events: 'x', sdk_version: 5 }),
  )
})

describe('types', () => {
  for (const type of ['track', 'screen']) fits(`${type} is an event`, one({ type }))
  fits('revenue is an event', one({ type: 'revenue', revenue: { amount: 9.99 } }))
  for (const type of ['', 'Track', 'TRACK', 'click', 'track ', MARK, 5, null, ['track']]) {
    refused(`the type ${JSON.stringify(type)} is not`, 'events[0].type', one({ type }))
  }
  fits('an escaped spelling of track is track', () => byHand('"type":"\\u0074r\\u0061ck"', ['type']))
  for (const value of [null, 'x', 5, [], true]) {
    const shown = JSON.stringify(value)
    refused(`context as ${shown} is not an object`, 'events[0].context', one({ context: value }))
    refused(`properties as ${shown} is not an object`, 'events[0].properties', one({ properties: value }))
    refused(`revenue as ${shown} is not an object`, 'events[0].revenue', one({ revenue: value }))
    refused(`an event that is ${shown} is not an object`, 'events[1]', () =>
      batch('ak_plain', 1, { events: [event(), value] }),
    )
  }
  for (const value of [null, {}, 'x', 5]) {
    refused(`events as ${JSON.stringify(value)} is not an array`, 'events', () =>
      JSON.stringify({ app_key: 'ak_plain', events: value }),
    )
  }
  fits('sdk_version is a string', () => batch('ak_plain', 1, { sdk_version: '2.1.0' }))
  refused('sdk_version as null is not', 'sdk_version', () => batch('ak_plain', 1, { sdk_version: null }))
  refused('sdk_version as a number is not', 'sdk_version', () => batch('ak_plain', 1, { sdk_version: 2 }))
})

describe('context', () => {
  refused('an empty os is refused', 'events[0].context.os', one({ context: { os: '' } }))
  refused('os as a number is refused', 'events[0].context.os', one({ context: { os: 5 } }))
  for (const name of ['os_version', 'app_version', 'locale', 'device_type']) {
    const path = `events[0].context.${name}`
    fits(`${name} may be any string`, one({ context: { os: 'ios', [name]: '' } }))
    refused(`${name} as a number is refused`, path, one({ context: { os: 'ios', [name]: 5 } }))
    refused(`${name} as null is refused`, path, one({ context: { os: 'ios', [name]: null } }))
  }
  for (const name of ['screen_width', 'screen_height']) {
    const path = `events[0].context.${name}`
    fits(`${name} may be any number`, () => byHand(`"context":{"os":"ios","${name}":-1.5e999}`, ['context']))
    refused(`${name} as a string is refused`, path, one({ context: { os: 'ios', [name]: '390' } }))
    refused(`${name} as null is refused`, path, one({ context: { os: 'ios', [name]: null } }))
  }
})

function keys(count: number): Members {
  return Object.fromEntries(Array.from({ length: count }, (_, index) => [`${MARK}${index}`, index]))
}

for (const member of ['properties', 'revenue']) {
  describe(member, () => {
    const value =
      (text: string): (() => string) =>
      () =>
        byHand(`"${member}":{"${MARK}":${text}}`)
    const bag = `events[0].${member}`
    const path = `${bag}[0]`
    fits('may be empty', one({ [member]: {} }))
    fits('of 50 keys fit', one({ [member]: keys(50) }))
    refused('of 51 keys are too many', bag, one({ [member]: keys(51) }))
    fits('a string of 500 fits', value(`"${'x'.repeat(500)}"`))
    refused('a string of 501 is too long', path, value(`"${'x'.repeat(501)}"`))
    refused('a member is named by its place', `${bag}[12]`, () =>
      byHand(`"${member}":{${'"a":1,'.repeat(12)}"${MARK}":"${MARK.repeat(100)}"}`),
    )
    fits('a string of 500 faces fits', value(`"${FACE.repeat(500)}"`))
    refused('a string of 501 faces is too long', path, value(`"${FACE.repeat(501)}"`))
    fits('a string of 500 escapes fits', value(`"${'\\u0041'.repeat(500)}"`))
    refused('a string of 501 escapes is too long', path, value(`"${'\\n'.repeat(501)}"`))
    fits('a number of 500 digits fits', value('9'.repeat(500)))
    refused('a number of 501 digits is too long', path, value('9'.repeat(501)))
    fits('an array of 500 characters fits', value(`[${'1,'.repeat(248)}11]`))
    refused('an array of 501 characters is too long', path, value(`[${'1,'.repeat(248)}111]`))
    fits('an object of 500 characters fits', value(`{"a":"${'x'.repeat(492)}"}`))
    refused('an object of 501 characters is too long', path, value(`{"a":"${'x'.repeat(493)}"}`))
    refused('spaces inside a value count, as sent', path, value(`[${' '.repeat(499)}]`))
    fits('faces inside an array count one each', value(`["${FACE.repeat(496)}"]`))
    refused('escapes inside an array count as sent', path, value(`["${'\\u0041'.repeat(83)}"]`))
    fits('spaces around a value do not count', value(`${' '.repeat(600)}1${' '.repeat(600)}`))
    fits('true, false, null, arrays and objects are values', () =>
      byHand(`"${member}":{"a":true,"b":false,"c":null,"d":[1,[2]],"e":{"f":{}},"g":-0.5e-7}`),
    )
    fits(
      'a nested object may have more than 50 keys',
      value(`{${Array.from({ length: 60 }, (_, i) => `"${i}":1`).join()}}`),
    )
  })
}

describe('revenue', () => {
  fits('is allowed on a track event', one({ revenue: { amount: 1 } }))
  refused('null is not a revenue', 'events[0].revenue', one({ type: 'revenue', revenue: null }))
  fits('may stand before the type that wants it', () =>
    batch('ak_plain', 1, { events: [{ revenue: {}, ...event({ type: 'revenue' }) }] }),
  )
})

describe('repeats', () => {
  const named: Record<string, string> = {
    type: '"track"',
    name: '"x"',
    hashed_daily_id: `"${'d'.repeat(16)}"`,
    hashed_monthly_id: `"${'m'.repeat(16)}"`,
    session_id: '"s"',
    timestamp: JSON.stringify(new Date().toISOString()),
    context: '{"os":"ios"}',
  }
  for (const [name, value] of Object.entries(named)) {
    refused(`${name} twice is refused`, `events[0].${name}`, () => byHand(`"${name}":${value}`))
  }
  for (const [name, value] of Object.entries({
    hashed_retention_id: `"${'r'.repeat(16)}"`,
    properties: '{}',
    revenue: '{}',
    user_id: '"u"',
  })) {
    refused(`${name} twice is refused`, `events[0].${name}`, () => byHand(`"${name}":${value},"${name}":${value}`))
  }
  for (const name of ['os', 'os_version', 'app_version', 'locale', 'device_type']) {
    refused(`context.${name} twice is refused`, `events[0].context.${name}`, () =>
      byHand(`"context":{"os":"a",${name === 'os' ? '' : `"${name}":"a",`}"${name}":"a"}`, ['context']),
    )
  }
  for (const name of ['screen_width', 'screen_height']) {
    refused(`context.${name} twice is refused`, `events[0].context.${name}`, () =>
      byHand(`"context":{"os":"a","${name}":1,"${name}":1}`, ['context']),
    )
  }
  refused('an escaped spelling is the same name', 'events[0].name', () => byHand('"n\\u0061me":"x"'))
  refused('events twice is refused', 'events', () => '{"app_key":"ak_plain","events":[],"events":[]}')
  refused(
    'an escaped spelling of events is the same name',
    'events',
    () => '{"app_key":"ak_plain","events":[],"\\u0065vents":[]}',
  )
  refused(
    'sdk_version twice is refused',
    'sdk_version',
    () => '{"app_key":"ak_plain","sdk_version":"1","sdk_version":"1","events":[]}',
  )
  refused('app_key twice is refused', 'app_key', () => '{"app_key":"ak_plain","app_key":"ak_plain","events":[]}')
  fits('a member the schema does not name may repeat', () => byHand('"extra":1,"extra":2'))
  fits('a property may repeat', () => byHand('"properties":{"a":1,"a":2}'))
  fits('an escaped spelling of events alone is events', () => '{"app_key":"ak_plain","\\u0065vents":[]}', 0)
})

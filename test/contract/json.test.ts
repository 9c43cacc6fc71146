// What is JSON and what is not: its grammar, its letters, its depth.

import { gzipSync } from 'node:zlib'
import { test as base, describe } from 'vitest'
import { event, expectAccepted, expectRefused, post, send, single } from '../support/client.ts'
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

/** One event written by hand: `members` are JSON text and come last. */
function byHand(members: string, without: readonly string[] = []): string {
  const plain = Object.entries(event()).filter(([name]) => !without.includes(name))
  const text = plain.map(([name, value]) => `"${name}":${JSON.stringify(value)}`)
  return `{"app_key":"ak_plain","events":[{${[...text, ...(members ? [members] : [])].join(',')}}]}`
}

describe('bodies', () => {
  test('an empty batch is accepted with no events', async ({ service }) => {
    expectAccepted(await post(service, '{"app_key":"ak_plain","events":[]}'), 0)
  })

  const depth = (levels: number): string => {
    // The body, its events, the event and the properties are four levels of their own.
    const inner = levels - 4
    return byHand(`"properties":{"deep":${'['.repeat(inner)}${']'.repeat(inner)}}`)
  }
  fits('64 levels fit', () => depth(64))
  test('65 levels are not JSON', async ({ service }) => {
    expectRefused(await post(service, depth(65)), 400, 'invalid_json')
  })
  fits(
    'spaces of every kind may stand between tokens',
    () => ` \t\r\n${JSON.stringify(JSON.parse(single('ak_plain')), null, '\t')}\r\n `,
  )

  test('an empty body has a message of its own, sent plain, in chunks or compressed', async ({ service }) => {
    const empty = 'body: empty'
    expectRefused(await post(service, ''), 400, 'invalid_json', empty)
    expectRefused(await send(service, { body: '', chunked: true }), 400, 'invalid_json', empty)
    expectRefused(await post(service, gzipSync(''), { 'Content-Encoding': 'gzip' }), 400, 'invalid_json', empty)
  })
  test('a byte-order mark has a message of its own', async ({ service }) => {
    const message = 'body: begins with a byte-order mark, which is not JSON'
    expectRefused(await post(service, `\uFEFF${single('ak_plain')}`), 400, 'invalid_json', message)
  })

  const notJson: Record<string, string | Uint8Array> = {
    'bad UTF-8': Buffer.from(single('ak_plain', { name: 'AB' }).replace('AB', '\u00ff\u00fe'), 'latin1'),
    'an overlong slash': Buffer.from(single('ak_plain', { name: 'AB' }).replace('AB', '\u00c0\u00af'), 'latin1'),
    'a surrogate in UTF-8': Buffer.from(
      single('ak_plain', { name: 'ABC' }).replace('ABC', '\u00ed\u00a0\u0080'),
      'latin1',
    ),
    'UTF-16': Buffer.from(single('ak_plain'), 'utf16le'),
    'a raw NUL': single('ak_plain', { name: 'AB' }).replace('AB', 'A\u0000B'),
    'a raw newline in a string': single('ak_plain', { name: 'AB' }).replace('AB', 'A\nB'),
    'a bad escape': byHand('"name":"\\x41"', ['name']),
    'half a \\u escape': byHand('"name":"\\u12"', ['name']),
    'a trailing comma': '{"app_key":"ak_plain","events":[],}',
    'a comment': '{"app_key":"ak_plain","events":[]/**/}',
    'single quotes': "{'app_key':'ak_plain','events':[]}",
    'a number with a leading zero': byHand('"x":01'),
    'a number with a plus': byHand('"x":+1'),
    'a bare point': byHand('"x":.5'),
    'a point without digits after it': byHand('"x":1.'),
    'an exponent without digits': byHand('"x":1e'),
    NaN: byHand('"x":NaN'),
    Infinity: byHand('"x":Infinity'),
    'a form feed': `\f${single('ak_plain')}`,
    'a no-break space': `\u00a0${single('ak_plain')}`,
    'two values': `${single('ak_plain')}${single('ak_plain')}`,
    'a NUL after the end': `${single('ak_plain')}\u0000`,
    'only spaces': '   ',
    'a key without quotes': '{app_key:"ak_plain","events":[]}',
    'an unclosed array': '{"app_key":"ak_plain","events":[',
    'true in capitals': byHand('"x":True'),
  }
  for (const [claim, body] of Object.entries(notJson)) {
    test(`${claim} is not JSON`, async ({ service }) => {
      expectRefused(await post(service, body), 400, 'invalid_json')
    })
  }
})

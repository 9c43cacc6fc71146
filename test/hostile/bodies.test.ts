// Bodies made to break a parser: each gets the answer it deserves, and the service goes on.

import { test } from 'vitest'
import { event, expectAccepted, expectRefused, post, single } from '../support/client.ts'
import { hostileService } from '../support/hostile.ts'

const hostile = hostileService()
const EVENT = JSON.stringify(event())

const notJson: Record<string, string | Uint8Array> = {
  '100,000 arrays': '['.repeat(100_000),
  '100,000 arrays, closed': `{"app_key":"ak_plain","events":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
  '100,000 objects': '{"a":'.repeat(100_000),
  '100,000 levels in a property': `{"app_key":"ak_plain","events":[${EVENT.slice(0, -1)},"properties":{"a":${'[{"a":'.repeat(50_000)}`,
  'half a megabyte of NULs': new Uint8Array(500_000),
  'half a megabyte of quotes': '"'.repeat(500_001),
  'half a megabyte of backslashes': `"${'\\'.repeat(500_001)}`,
  'half a megabyte of 0xFF': new Uint8Array(500_000).fill(255),
  'a string that never ends': `{"app_key":"${'a'.repeat(400_000)}`,
  'a number that never ends': `{"app_key":${'1'.repeat(400_000)}`,
  'a long body torn in its last byte': single('ak_plain', { x: 'y'.repeat(100_000) }).slice(0, -1),
  'a body torn inside a UTF-8 letter': Buffer.from(single('ak_plain', { name: 'é' })).subarray(0, 46),
}
for (const [claim, body] of Object.entries(notJson)) {
  test(`${claim}: not JSON`, async () => {
    expectRefused(await post(hostile.service, body), 400, 'invalid_json')
  })
}

const misfits: Record<string, string> = {
  '__proto__ as the body': '{"__proto__":{"app_key":"ak_plain","events":[]}}',
  '__proto__ as an event': '{"app_key":"ak_plain","events":[{"__proto__":{"type":"track"}}]}',
  '__proto__ brings no os': `{"app_key":"ak_plain","events":[${JSON.stringify(event({ context: undefined })).slice(0, -1)},"context":{"__proto__":{"os":"ios"}}}]}`,
  'constructor as app_key': '{"app_key":{"constructor":1},"events":[]}',
  '200,000 events that are numbers': `{"app_key":"ak_plain","events":[${'1,'.repeat(200_000)}1]}`,
  '100,000 properties': `{"app_key":"ak_plain","events":[${EVENT.slice(0, -1)},"properties":{${Array.from({ length: 40_000 }, (_, i) => `"${i}":1`).join(',')}}}]}`,
}
for (const [claim, body] of Object.entries(misfits)) {
  test(`${claim}: does not fit`, async () => {
    expectRefused(await post(hostile.service, body), 400, 'validation_failed')
  })
}

for (const key of [
  'ak___proto__',
  'ak_constructor',
  'ak_toString',
  `ak_${'x'.repeat(400_000)}`,
  'ak_\u0000',
  'ak_*',
  'ak_é',
]) {
  test(`the app key ${key.slice(0, 20)} is unknown`, async () => {
    expectRefused(await post(hostile.service, single(key)), 401, 'invalid_app_key')
  })
}

for (const key of ['__proto__', 'constructor', 'hasOwnProperty', 'toString']) {
  test(`the bare key ${key} is unknown`, async () => {
    expectRefused(await post(hostile.service, single(key)), 401, 'invalid_app_key')
  })
}

test('an escaped spelling of a known key is that key', async () => {
  expectAccepted(await post(hostile.service, single('ak_plain').replace('ak_plain', '\\u0061k_pl\\u0061in')), 1)
})

test('many unknown members are many, and are kept', async () => {
  const more = Array.from({ length: 20_000 }, (_, i) => `"k${i}":${i}`).join(',')
  expectAccepted(await post(hostile.service, `{"app_key":"ak_plain",${more},"events":[${EVENT}]}`), 1)
})

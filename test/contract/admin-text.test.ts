// Text of clients and of app records on the admin port, where each character above ASCII lies between U+0080 and U+00FF: an
// HTTP engine that keeps such a string as Latin-1 sends fewer bytes than it said, or bytes that are not UTF-8.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { test as base, expect } from 'vitest'
import { parse } from 'yaml'
import { type Answer, type Members, post, send, single } from '../support/client.ts'
import { type EventStream, openEventStream } from '../support/event-stream.ts'
import { aService } from '../support/fixture.ts'
import { appRecord, eventually, type Service } from '../support/service.ts'

const SDK = 'é'
const NAME = 'Käufe'
const MEMBER = 'größe'
const TOKEN = 'a-token-of-twenty-characters'

const apps = [appRecord('shop', { name: NAME }), appRecord('paused', { subscription: 'paused' })]
const withService = base.extend('service', { scope: 'file' }, aService({ apps }))
const test = withService.extend('guarded', { scope: 'file' }, aService({ apps, env: { SLUICE_CONSOLE_TOKEN: TOKEN } }))

const DOCUMENT = parse(readFileSync(resolve(import.meta.dirname, '../../openapi-admin.yaml'), 'utf8')) as {
  paths: Readonly<Record<string, object>>
}

function ask(service: Service, path: string, body?: string): Promise<Answer> {
  const method = body === undefined ? 'GET' : 'POST'
  return send({ port: service.adminPort }, { method, path, ...(body === undefined ? {} : { body }) })
}

/** The length that the head says is that of the text in UTF-8. */
function expectWhole(answer: Answer): void {
  expect(answer.headers['content-length']).toBe(String(Buffer.byteLength(answer.text)))
  expect(answer.json).not.toEqual({})
}

function sendNamed(service: Service, key: string): Promise<Answer> {
  return post(service, single(key, { name: NAME }).replace('{', `{"sdk_version":"${SDK}",`))
}

const SHOWN: Readonly<Record<string, (service: Service) => Promise<void>>> = {
  '/api/refusals': async (service) => {
    await sendNamed(service, 'ak_nobody')
    const answer = await ask(service, '/api/refusals?app=-')
    expectWhole(answer)
    const { refusals, groups } = answer.json as Record<string, Members[]>
    expect(refusals[0]).toMatchObject({ code: 'invalid_app_key', sdk_version: SDK })
    expect(groups[0]).toMatchObject({ sdk_version: SDK })
  },
  '/api/explain': async (service) => {
    const answer = await ask(service, '/api/explain', single('ak_shop', { properties: { [MEMBER]: 'x'.repeat(501) } }))
    expectWhole(answer)
    expect(answer.json).toMatchObject({
      code: 'validation_failed',
      errors: [{ path: `events[0].properties["${MEMBER}"]` }],
      app: { name: NAME },
    })
  },
  '/api/apps': async (service) => {
    const answer = await ask(service, '/api/apps')
    expectWhole(answer)
    expect((answer.json as Record<string, Members[]>)['apps']).toContainEqual(expect.objectContaining({ name: NAME }))
  },
  '/api/alerts': async (service) => {
    const answer = await ask(service, '/api/alerts')
    expectWhole(answer)
    expect(answer.json).toEqual({ alerts: [], more: false })
  },
  '/api/apps/{app_id}': async (service) => {
    const answer = await ask(service, '/api/apps/shop')
    expectWhole(answer)
    expect(answer.json).toMatchObject({ name: NAME })
  },
  '/api/apps/{app_id}/usage': async (service) => {
    const answer = await ask(service, '/api/apps/shop/usage')
    expectWhole(answer)
    expect(answer.json).toMatchObject({ name: NAME })
  },
  '/api/batches/{batch_id}': async (service) => {
    const accepted = await sendNamed(service, 'ak_shop')
    const answer = await ask(service, `/api/batches/${String(accepted.headers['x-batch-id'])}?events=1`)
    expectWhole(answer)
    expect(answer.json).toMatchObject({ record: { sdk_version: SDK, events: [{ name: NAME }] } })
  },
  '/api/events': async (service) => {
    await sendNamed(service, 'ak_shop')
    const answer = await ask(service, `/api/events?name=${encodeURIComponent(NAME)}`)
    expectWhole(answer)
    const { events } = answer.json as Record<string, Members[]>
    expect(events[0]).toMatchObject({ sdk_version: SDK, event: { name: NAME } })
  },
  '/api/search': async (service) => {
    const body = single('ak_shop', { name: NAME, user_id: MEMBER })
    await post(service, body.replace('{', `{"sdk_version":"${SDK}",`))
    const answer = await ask(service, `/api/search?q=${encodeURIComponent(MEMBER)}`)
    expectWhole(answer)
    const { found } = answer.json as Record<string, Members[]>
    expect(found[0]).toMatchObject({ event: { name: NAME, user_id: MEMBER } })
  },
  '/api/events/stream': (service) =>
    watching(service, `/api/events/stream?name=${encodeURIComponent(NAME)}`, async (stream) => {
      await eventually('the event is shown', async () => {
        await sendNamed(service, 'ak_shop')
        return stream.events.some(({ event }) => event === 'event')
      })
      const { data } = stream.events.find(({ event }) => event === 'event') ?? {}
      expect(data).toMatchObject({ sdk_version: SDK, event: { name: NAME } })
    }),
  '/api/refusals/stream': (service) =>
    watching(service, '/api/refusals/stream?app=paused', async (stream) => {
      await eventually('the refusal is shown', async () => {
        await sendNamed(service, 'ak_paused')
        return stream.events.some(({ event }) => event === 'refusal')
      })
      expect(stream.events[0].data).toMatchObject({ sdk_version: SDK })
    }),
}

/** What these answer comes from no client: the names of nodes, parts and codes. Each is whole all the same. */
const OWN_TEXT: Readonly<Record<string, (service: Service) => Promise<void>>> = {
  '/api/session': async (service) => expectWhole(await ask(service, '/api/session')),
  '/api/now': async (service) => expectWhole(await ask(service, '/api/now')),
  '/api/apps/{app_id}/rotate': async (service) => expectWhole(await ask(service, '/api/apps/shop/rotate', '{}')),
  '/api/apps/{app_id}/read-keys': async (service) => expectWhole(await ask(service, '/api/apps/shop/read-keys')),
  '/api/apps/{app_id}/read-keys/{name}': async (service) =>
    expectWhole(await ask(service, '/api/apps/shop/read-keys/none', '{}')),
  '/api/batches': async (service) => expectWhole(await ask(service, `/api/batches?app=${encodeURIComponent(NAME)}`)),
  '/api/codes': async (service) => expectWhole(await ask(service, '/api/codes')),
  '/api/example': async (service) => expectWhole(await ask(service, '/api/example')),
  '/api/alerts/stream': (service) =>
    watching(service, '/api/alerts/stream', (stream) =>
      eventually('it begins', () => stream.text.startsWith('retry: 2000')),
    ),
  '/api/now/stream': (service) =>
    watching(service, '/api/now/stream', (stream) =>
      eventually('a report comes', () => stream.events.some(({ event }) => event === 'now')),
    ),
}

async function watching(service: Service, path: string, use: (stream: EventStream) => Promise<void>): Promise<void> {
  const stream = await openEventStream(service.adminPort, path)
  try {
    await use(stream)
  } finally {
    stream.close()
  }
}

test('each path of the API is asked below', () => {
  expect([...Object.keys(SHOWN), ...Object.keys(OWN_TEXT)].toSorted()).toEqual(Object.keys(DOCUMENT.paths).toSorted())
})

for (const [path, expectShown] of Object.entries(SHOWN)) {
  test(`${path} shows ${SDK}, ${NAME} or ${MEMBER} as it was sent`, ({ service }) => expectShown(service))
}

for (const [path, expectAnswered] of Object.entries(OWN_TEXT)) {
  test(`${path} is whole`, ({ service }) => expectAnswered(service))
}

test.for([
  ['a wrong token', { token: NAME }, 401],
  ['a body that is none', NAME, 400],
] as const)('/api/session answers %s whole', async ([, body, status], { guarded }) => {
  const answer = await ask(guarded, '/api/session', JSON.stringify(body))
  expect(answer.status).toBe(status)
  expectWhole(answer)
})

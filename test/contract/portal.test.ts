// The portal on a running service: what openapi-portal.yaml says of each path, what a read key opens, and what it never does.

import { readFileSync } from 'node:fs'
import { test as base, describe, expect } from 'vitest'
import { PORTAL_COMPONENTS } from '../../src/contract/admin/components.ts'
import { type Answer, batch, post, send, single } from '../support/client.ts'
import { type Asked, operationsOf, readDocument } from '../support/documented.ts'
import { openEventStream } from '../support/event-stream.ts'
import { aService } from '../support/fixture.ts'
import { appRecord, eventually, runCommand, type Service } from '../support/service.ts'

const PAGE = readDocument('openapi-portal.yaml', PORTAL_COMPONENTS)
const UUID = '0199f3a0-7c1e-7d2a-9f5b-3e8c1a2b4c6d'
const KEY_UUID = '7f0e0bb2-6c3a-4d5e-9a53-2a6a4d1c9a10'
const TOKEN = 'a-token-of-twenty-characters'
const ORIGIN = 'https://usage.example.com'
const apps = ['shop', 'other', 'third', 'fourth', 'fifth'].map((id) => appRecord(id, { plan: '100k' }))
const portal = { SLUICE_PORTAL_PORT: '0', SLUICE_CONSOLE_TOKEN: TOKEN }
const withService = base.extend('service', { scope: 'file' }, aService({ apps, env: portal }))
const test = withService.extend(
  'published',
  { scope: 'file' },
  aService({ apps, env: { ...portal, SLUICE_PORTAL_ORIGIN: ORIGIN, SLUICE_TRUSTED_PROXIES: '127.0.0.1' } }),
)

const keys = new Map<string, string>()

/** One for each use, so that no test takes another's requests. */
async function readKey(service: Service, app: string, name: string): Promise<string> {
  const id = `${service.port} ${app} ${name}`
  const known = keys.get(id)
  if (known !== undefined) return known
  const env = { SLUICE_DATA_DIR: service.dataDir }
  const made = await runCommand(['apps', 'read-key', app, '--name', name], env)
  expect(made.code, made.output).toBe(0)
  const key = made.stdout.split('\n')[0] ?? ''
  expect(key).toMatch(/^rk_[0-9a-f]{40}$/)
  keys.set(id, key)
  await eventually('the service knows the read key', async () => {
    const bearer = { Authorization: `Bearer ${key}`, ...hostOf(service) }
    return (
      (await send({ port: service.portalPort }, { method: 'DELETE', path: '/api/session', headers: bearer })).status ===
      204
    )
  })
  return key
}

const published = new Set<Service>()
function hostOf(service: Service): Record<string, string> {
  return published.has(service) ? { Host: 'usage.example.com' } : {}
}

interface Asking {
  readonly method?: string
  readonly body?: string
  readonly headers?: Record<string, string>
}

function ask(service: Service, path: string, { method = 'GET', body, headers = {} }: Asking = {}): Promise<Answer> {
  const all = { ...(method === 'GET' ? { 'Content-Type': '(none)' } : {}), ...hostOf(service), ...headers }
  return send({ port: service.portalPort }, { method, path, headers: all, ...(body === undefined ? {} : { body }) })
}

function bearer(key: string): { readonly headers: Record<string, string> } {
  return { headers: { Authorization: `Bearer ${key}` } }
}

const GOOD: Asked = [
  ['get', '/api/session', '', undefined, 200],
  ['post', '/api/session', '', '{}', 400],
  ['delete', '/api/session', '', undefined, 204],
  ['get', '/api/usage', '', undefined, 200],
  ['get', '/api/usage', '?days=35', undefined, 200],
  ['get', '/api/usage', '?days=36', undefined, 400],
  ['get', '/api/alerts', '?since=2026-11-20T12:00:00Z&app=other', undefined, 200],
  ['get', '/api/alerts', '?since=yesterday', undefined, 400],
  ['get', '/api/events', '?limit=5&type=track', undefined, 200],
  ['get', '/api/events', '?limit=201', undefined, 400],
  ['get', '/api/refusals', '?limit=5', undefined, 200],
  ['get', '/api/refusals', '?limit=0', undefined, 400],
  ['get', '/api/batches', `?key=${KEY_UUID}`, undefined, 200],
  ['get', '/api/batches', '', undefined, 400],
  ['get', '/api/batches/{batch_id}', '?events=1', undefined, 200],
  ['get', '/api/batches/{batch_id}', '?events=xx', undefined, 400],
  ['get', '/api/refusals/stream', '?from_start=xx', undefined, 400],
  ['post', '/api/explain', '', '{"events":[{"type":"click"}]}', 200],
  ['post', '/api/explain', '', 'x'.repeat(524_289), 413],
]
const STREAMS = ['/api/events/stream', '/api/refusals/stream', '/api/alerts/stream']
const FIXED = Object.keys(PAGE.document.paths).map((path) => path.replace('{batch_id}', UUID))

describe('openapi-portal.yaml', () => {
  test('has the schemas of the code and the version of the package', () => {
    expect(PAGE.asItIs).toEqual(PAGE.asItShouldBe)
  })

  test('names each path that is asked below', () => {
    const documented = PAGE.operations.map((one) => one.join(' ')).toSorted()
    expect(operationsOf(GOOD, STREAMS)).toEqual(documented)
  })

  test('says what each path answers', async ({ service }) => {
    const headers = { Authorization: `Bearer ${await readKey(service, 'shop', 'documented')}` }
    await post(service, batch('ak_shop', 2), { 'Idempotency-Key': KEY_UUID })
    await post(service, '{"app_key":"ak_shop","events":[{}]}')
    for (const [method, path, query, body, status] of GOOD) {
      const address = path.replace('{batch_id}', UUID) + query
      const answer = await ask(service, address, {
        method: method.toUpperCase(),
        headers,
        ...(body === undefined ? {} : { body }),
      })
      expect([method, address, answer.status, answer.text]).toEqual([method, address, status, answer.text])
      expect([address, answer.headers['cache-control']]).toEqual([address, 'no-store'])
      PAGE.expectDocumented(answer, path, method)
    }
    for (const path of STREAMS) {
      const stream = await openEventStream(service.portalPort, path, headers)
      expect(stream.headers['content-type']).toContain('text/event-stream')
      stream.close()
    }
  })
})

describe('a read key', () => {
  test('shows the usage of its app', async ({ service }) => {
    const key = await readKey(service, 'other', 'usage')
    await post(service, batch('ak_other', 3))
    const { json } = await ask(service, '/api/usage', bearer(key))
    expect(json).toMatchObject({ app_id: 'other', month: { used: 3, limit: 110_000 }, degraded_since: null })
    expect(json).not.toHaveProperty('keys')
    const days = await ask(service, '/api/usage?days=35&app=shop', bearer(key))
    const today = { day: new Date().toISOString().slice(0, 10), events: 3 }
    expect(days.json).toMatchObject({ apps: [{ app_id: 'other', days: expect.arrayContaining([today]) }] })
    const csv = await ask(service, '/api/usage', { headers: { Authorization: `Bearer ${key}`, Accept: 'text/csv' } })
    expect(csv.headers['content-type']).toBe('text/csv; charset=utf-8')
    expect(csv.text).toMatch(/^app_id,day,events\nother,[\s\S]*,3\n$/)
  })

  test('opens a session, which ends where its browser signs out', async ({ service }) => {
    const key = await readKey(service, 'shop', 'session')
    const opened = await ask(service, '/api/session', { method: 'POST', body: JSON.stringify({ token: key }) })
    const [line = ''] = opened.headers['set-cookie'] ?? []
    expect([opened.status, line]).toEqual([
      204,
      expect.stringMatching(/^sluice_portal=[^;]+; HttpOnly; SameSite=Strict; Path=\/; Max-Age=43200$/),
    ])
    const headers = { Cookie: line.slice(0, line.indexOf(';')) }
    expect((await ask(service, '/api/session', { headers })).json).toMatchObject({
      app: { app_id: 'shop' },
      key: { name: 'session', expires_at: null },
    })
    const later = { Cookie: headers.Cookie.replace(/=(\d+)/, (_, end: string) => `=${Number(end) + 1}`) }
    // Of the wrong ones of a second, those beyond the tenth are answered 429.
    await eventually('another end opens nothing', async () => {
      const { status } = await ask(service, '/api/session', { headers: later })
      expect([401, 429]).toContain(status)
      return status === 401
    })
    expect((await ask(service, '/api/session', { method: 'DELETE', headers })).status).toBe(204)
    expect((await ask(service, '/api/session', { headers })).status).toBe(401)
  })

  test('is not in the records, shows when it was used, and ends when it is revoked, with its streams', async ({
    service,
  }) => {
    const key = await readKey(service, 'third', 'short')
    expect(readFileSync(service.appsFile, 'utf8')).not.toContain(key.slice(3))
    const env = { SLUICE_DATA_DIR: service.dataDir }
    const hour = `${new Date().toISOString().slice(0, 14)}00:00Z`
    await eventually('the last use is written', async () => {
      const { stdout } = await runCommand(['apps', 'read-keys', 'third', '--json'], env)
      return stdout.includes(hour)
    })
    expect((await runCommand(['apps', 'revoke-key', 'third', 'short'], env)).code).toBe(0)
    await eventually(
      'the key opens nothing',
      async () => (await ask(service, '/api/usage', bearer(key))).status === 401,
    )
  })

  test('that has ended opens nothing', async ({ service }) => {
    const env = { SLUICE_DATA_DIR: service.dataDir }
    const made = await runCommand(['apps', 'read-key', 'third', '--name', 'old', '--expires', '1h'], env)
    const file = readFileSync(service.appsFile, 'utf8')
    expect(made.code).toBe(0)
    const ended = file.replace(/"expires_at": "[^"]+"/, '"expires_at": "2020-01-01T00:00:00Z"')
    const { writeFile } = await import('node:fs/promises')
    await writeFile(service.appsFile, ended)
    const key = made.stdout.trim()
    await eventually(
      'the key opens nothing',
      async () => (await ask(service, '/api/usage', bearer(key))).status === 401,
    )
  })
})

describe('never shown', () => {
  test('anything without a key, or to any other credential: a known path is 401, any other is 404', async ({
    service,
  }) => {
    const others = [
      {},
      { Authorization: `Bearer ${TOKEN}` },
      { Authorization: 'Bearer ak_shop' },
      { Authorization: `Bearer rk_${'0'.repeat(40)}` },
      { Cookie: 'sluice_console=1.2.3' },
    ]
    for (const headers of others) {
      for (const path of FIXED) {
        // Ten wrong keys a second are answered so.
        await eventually(`${path} is 401`, async () => {
          const { status } = await ask(service, path, { headers })
          expect([path, [401, 429].includes(status)]).toEqual([path, true])
          return status === 401
        })
      }
      for (const path of [
        '/metrics',
        '/livez',
        '/readyz',
        '/api/now',
        '/api/apps',
        '/api/codes',
        '/api/search?q=x',
        '/apps',
      ]) {
        expect([path, (await ask(service, path, { headers })).status]).toEqual([path, 404])
      }
    }
  })

  test('what is wrong with a key: an unknown one may hold in a moment, none is wanted', async ({ service }) => {
    const told = async (headers: Record<string, string>): Promise<unknown> => {
      let json: unknown = null
      await eventually('wrong keys are not slowed', async () => {
        const answer = await ask(service, '/api/usage', { headers })
        json = answer.json
        return answer.status === 401
      })
      return json
    }
    const unknown = { error: 'key_wanted', message: expect.stringContaining('is not known, or not yet') as string }
    expect(await told({ Authorization: `Bearer rk_${'1'.repeat(40)}` })).toMatchObject(unknown)
    expect(await told({ Authorization: `Bearer ${TOKEN}` })).toMatchObject(unknown)
    const wanted = { error: 'key_wanted', message: expect.stringContaining('a read key is wanted') as string }
    expect(await told({})).toMatchObject(wanted)
    expect(await told({ Cookie: 'sluice_portal=1.2.3' })).toMatchObject(wanted)
  })

  test('metrics, probes, nodes and other apps, to a key', async ({ service }) => {
    const key = await readKey(service, 'fourth', 'paths')
    for (const path of [
      '/metrics',
      '/livez',
      '/readyz?verbose',
      '/api/now',
      '/api/now/stream',
      '/api/apps',
      '/api/example',
      '/api/search?q=x',
      '/api/codes',
      '/api/apps/shop',
    ]) {
      expect([path, (await ask(service, path, bearer(key))).status]).toEqual([path, 404])
    }
  })

  test('whose key another app has: it is explained as an unknown one', async ({ service }) => {
    const key = await readKey(service, 'fourth', 'explain')
    const explain = async (appKey: string): Promise<Answer> =>
      await ask(service, '/api/explain', { method: 'POST', body: single(appKey), ...bearer(key) })
    expect((await explain('ak_fourth')).json).toMatchObject({ status: 202, app: { app_id: 'fourth' } })
    const [foreign, unknown] = [await explain('ak_other'), await explain('ak_thing')]
    expect(foreign.json).toMatchObject({ status: 401, code: 'invalid_app_key', app: null })
    expect(foreign.text).toBe(
      unknown.text.replace(/"body_bytes":\d+/, `"body_bytes":${foreign.json['body_bytes'] as number}`),
    )
    const without = single('ak_x').replace('"app_key":"ak_x",', '')
    const asked = await ask(service, '/api/explain', { method: 'POST', body: without, ...bearer(key) })
    expect(asked.json).toMatchObject({ status: 202, app: { app_id: 'fourth' } })
  })

  test('a batch, a refusal or an event of another app, whatever the parameters name', async ({ service }) => {
    const key = await readKey(service, 'fourth', 'others')
    const stored = String(
      (await post(service, batch('ak_other', 1), { 'Idempotency-Key': UUID })).headers['x-batch-id'],
    )
    const plain = String((await post(service, batch('ak_other', 1))).headers['x-batch-id'])
    const refused = String((await post(service, '{"app_key":"ak_other","events":[{}]}')).headers['x-request-id'])
    for (const id of [stored, plain, refused]) {
      const answer = await ask(service, `/api/batches/${id}`, bearer(key))
      expect(answer.json).toEqual({ found: false, batch_id: id, complete: true, go_on_before: null })
    }
    const second = await readKey(service, 'fourth', 'others-2')
    expect((await ask(service, `/api/batches?app=other&key=${UUID}`, bearer(second))).json).toMatchObject({
      found: false,
    })
    for (const path of [
      '/api/usage?app=other',
      '/api/events?app=other&app_id=other&app_key=ak_other',
      '/api/refusals?app=other',
      '/api/refusals?app=-',
      `/api/refusals?request_id=${refused}`,
      '/api/session?app=other',
    ]) {
      const answer = await ask(service, path, bearer(second))
      expect([path, answer.status, answer.text.includes('other"')]).toEqual([path, 200, false])
    }
  })

  test('live events and refusals of another app', async ({ service }) => {
    const key = await readKey(service, 'fifth', 'live')
    const headers = { Authorization: `Bearer ${key}`, 'Last-Event-ID': 'other' }
    const events = await openEventStream(service.portalPort, '/api/events/stream?app=other', headers)
    const refusals = await openEventStream(service.portalPort, '/api/refusals/stream?app=other&from_start=1', headers)
    await eventually('its own are shown', async () => {
      await post(service, batch('ak_other', 1))
      await post(service, batch('ak_fifth', 1))
      await post(service, '{"app_key":"ak_other","events":[{}]}')
      await post(service, '{"app_key":"ak_fifth","events":[{}]}')
      return events.text.includes('"event":{') && refusals.text.includes('event: refusal')
    })
    for (const { text } of [events, refusals]) {
      expect(text).not.toContain('"app_id":"other"')
      expect(text).not.toContain('"node"')
      expect(text).not.toContain('"reason"')
    }
    events.close()
    refusals.close()
  })

  test('anything by a foreign Host or to a page of another origin', async ({ service }) => {
    const key = await readKey(service, 'fifth', 'pages')
    for (const path of ['/', '/api/usage', '/assets/x.js', '/nothing']) {
      const answer = await ask(service, path, { headers: { Authorization: `Bearer ${key}`, Host: 'rebound.example' } })
      expect([path, answer.status]).toEqual([path, 421])
    }
    for (const page of [{ Origin: 'https://evil.example' }, { 'Sec-Fetch-Site': 'cross-site' }, { Origin: 'null' }]) {
      const answer = await ask(service, '/api/usage', { headers: { Authorization: `Bearer ${key}`, ...page } })
      expect([page, answer.status, answer.headers['access-control-allow-origin']]).toEqual([page, 403, undefined])
      const opening = { method: 'POST', body: JSON.stringify({ token: key }), headers: page }
      expect((await ask(service, '/api/session', opening)).status).toBe(403)
    }
  })

  test('events to whoever has a read key alone', async ({ service }) => {
    const key = await readKey(service, 'fifth', 'sends')
    expect((await post(service, single(key))).status).toBe(401)
    const admin = {
      method: 'GET',
      path: '/api/now',
      headers: { Authorization: `Bearer ${key}`, 'Content-Type': '(none)' },
    }
    expect((await send({ port: service.adminPort }, admin)).status).toBe(401)
  })
})

describe('its bounds', () => {
  test('are 6 searches a minute, 60 requests and 2 streams for a key', async ({ service }) => {
    const key = await readKey(service, 'third', 'bounds')
    const search = () => ask(service, `/api/batches/${UUID}`, bearer(key))
    for (let at = 0; at < 6; at++) expect((await search()).status).toBe(200)
    const beyond = await search()
    expect([beyond.status, beyond.json['error']]).toEqual([429, 'too_many_searches'])
    expect(Number(beyond.headers['retry-after'])).toBeGreaterThan(0)
    const headers = { Authorization: `Bearer ${key}` }
    const streams = [
      await openEventStream(service.portalPort, '/api/events/stream', headers),
      await openEventStream(service.portalPort, '/api/refusals/stream', headers),
    ]
    const third = await ask(service, '/api/events/stream', bearer(key))
    expect([third.status, third.json['error']]).toEqual([429, 'too_many_streams'])
    for (const stream of streams) stream.close()
    let requests = 0
    let last = await ask(service, '/api/session', bearer(key))
    while (last.status === 200 && requests++ < 70) last = await ask(service, '/api/session', bearer(key))
    expect([last.status, last.json['error']]).toEqual([429, 'too_many_requests'])
    expect(Number(last.headers['retry-after'])).toBeGreaterThan(0)
    const signIn = await ask(service, '/api/session', { method: 'POST', body: JSON.stringify({ token: key }) })
    expect([signIn.status, signIn.json['error']]).toEqual([429, 'too_many_requests'])
    const other = await readKey(service, 'third', 'bounds-2')
    expect((await ask(service, '/api/session', bearer(other))).status).toBe(200)
  })

  test('slow wrong keys by the address of the client, and never a right one', async ({ published: service }) => {
    published.add(service)
    const key = await readKey(service, 'shop', 'right')
    const from = (address: string, token: string) =>
      ask(service, '/api/session', { headers: { Authorization: `Bearer ${token}`, 'X-Forwarded-For': address } })
    const wrong = `rk_${'1'.repeat(40)}`
    let slowed = 0
    await eventually('wrong keys are slowed', async () => {
      const answers = await Promise.all(Array.from({ length: 30 }, () => from('203.0.113.9', wrong)))
      slowed = answers.filter(({ status }) => status === 429).length
      for (const { status, headers } of answers) if (status === 429) expect(headers['retry-after']).toBe('1')
      expect((await from('203.0.113.9', key)).status).toBe(200)
      return slowed > 0
    })
    expect((await from('198.51.100.1', wrong)).status).toBe(401)
  })

  test('go by the address of the connection where no proxy is trusted, whatever a header says', async ({ service }) => {
    let next = 0
    await eventually('wrong keys are slowed', async () => {
      const answers = await Promise.all(
        Array.from({ length: 30 }, () => {
          const headers = {
            Authorization: `Bearer rk_${'2'.repeat(40)}`,
            'X-Forwarded-For': `203.0.113.${next++ % 250}`,
          }
          return ask(service, '/api/session', { headers })
        }),
      )
      return answers.some(({ status }) => status === 429)
    })
  })

  test('slow wrong signatures too, of which each request has two at most', async ({ published: service }) => {
    published.add(service)
    const key = await readKey(service, 'shop', 'signed')
    const body = JSON.stringify({ token: key })
    const opened = await ask(service, '/api/session', { method: 'POST', body, headers: { Origin: ORIGIN } })
    const good = opened.headers['set-cookie']?.[0]?.replace(/;.*/, '') ?? ''
    const bad = good.replace(/=(\d+)/, (_, end: string) => `=${Number(end) + 1}`)
    const from = (address: string, cookies: readonly string[]) =>
      ask(service, '/api/session', { headers: { Cookie: cookies.join('; '), 'X-Forwarded-For': address } })
    expect((await from('198.51.100.2', [bad, good])).status).toBe(200)
    expect((await from('198.51.100.3', [bad, bad, good])).status).toBe(401)
    await eventually('wrong signatures are slowed', async () => {
      const answers = await Promise.all(Array.from({ length: 30 }, () => from('203.0.113.10', [bad])))
      for (const { status } of answers) expect([401, 429]).toContain(status)
      return answers.some(({ status }) => status === 429)
    })
    expect((await from('203.0.113.10', [good])).status).toBe(200)
  })
})

test('behind https its Host is the only one, and the cookie is for it alone', async ({ published: service }) => {
  published.add(service)
  const key = await readKey(service, 'shop', 'https')
  for (const Host of ['localhost', '127.0.0.1', 'usage.example.org']) {
    expect([Host, (await ask(service, '/', { headers: { Host } })).status]).toEqual([Host, 421])
  }
  const opened = await ask(service, '/api/session', {
    method: 'POST',
    body: JSON.stringify({ token: key }),
    headers: { Origin: ORIGIN },
  })
  expect(opened.headers['set-cookie']?.[0]).toMatch(
    /^__Host-sluice_portal=[^;]+; HttpOnly; SameSite=Strict; Path=\/; Max-Age=43200; Secure$/,
  )
  const { headers } = bearer(key)
  for (const [Origin, status] of [
    [ORIGIN, 200],
    [ORIGIN.replace('https:', 'http:'), 403],
  ] as const) {
    const asked = await ask(service, '/api/session', { headers: { ...headers, Origin } })
    expect([Origin, asked.status]).toEqual([Origin, status])
  }
})

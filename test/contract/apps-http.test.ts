// App records over HTTP on the admin port: who may change them, and what each change answers.

import { execFileSync } from 'node:child_process'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test as base, describe, expect, onTestFinished } from 'vitest'
import { type Answer, post, send, single } from '../support/client.ts'
import { aService } from '../support/fixture.ts'
import { appRecord, eventually, makeFolder, type Service, startService, writeApps } from '../support/service.ts'
import { mountSmall } from '../support/small-disk.ts'

const TOKEN = 'a-token-of-twenty-characters'
const READING = 'another-one-for-reading-alone'
const apps = [appRecord('shop', { plan: '100k' }), appRecord('other')]
const env = { SLUICE_CONSOLE_TOKEN: TOKEN, SLUICE_CONSOLE_READ_TOKEN: READING }
const withService = base.extend('service', { scope: 'file' }, aService({ apps, env }))
const test = withService.extend('plain', { scope: 'file' }, aService({ apps }))

/** Every change of an app. */
const CHANGES = [
  ['PUT', '/api/apps/shop', { plan: '10k', subscription: 'active' }],
  ['PUT', '/api/apps/new', 'no JSON'],
  ['DELETE', '/api/apps/shop', undefined],
  ['POST', '/api/apps/shop/rotate', {}],
  ['POST', '/api/apps/shop/read-keys', {}],
  ['DELETE', '/api/apps/shop/read-keys/web', undefined],
] as const

/** Nothing can be changed, and all is shown. */
async function expectFixed(service: Service): Promise<void> {
  const before = readFileSync(service.appsFile, 'utf8')
  for (const [method, path, body] of CHANGES) {
    const { status, json } = await ask(service, method, path, body, full)
    expect([method, path, status, json['error']]).toEqual([method, path, 409, 'apps_in_file'])
  }
  expect(readFileSync(service.appsFile, 'utf8')).toBe(before)
  for (const path of ['/api/apps/shop', '/api/apps/shop/read-keys', '/api/apps/shop/usage']) {
    expect([path, (await ask(service, 'GET', path, undefined, full)).status]).toEqual([path, 200])
  }
}

type Headers = Record<string, string>
const JSON_TYPE: Headers = { 'Content-Type': 'application/json' }

function ask(service: Service, method: string, path: string, body?: unknown, headers: Headers = {}): Promise<Answer> {
  const text = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }
  const type: Headers = body === undefined ? { 'Content-Type': '(none)' } : JSON_TYPE
  return send({ port: service.adminPort }, { method, path, headers: { ...type, ...headers }, ...text })
}

const full: Headers = { Authorization: `Bearer ${TOKEN}` }
const reading: Headers = { Authorization: `Bearer ${READING}` }

async function cookieOf(service: Service, token: string): Promise<Headers> {
  const { headers } = await ask(service, 'POST', '/api/session', { token })
  return { Cookie: (headers['set-cookie']?.[0] ?? '').replace(/;.*/, '') }
}

describe('a record', () => {
  test('is made with a key, is used, replaced with its keys kept, and removed', async ({ service }) => {
    const made = await ask(service, 'PUT', '/api/apps/new', { plan: '10k', subscription: 'active' }, full)
    expect([made.status, made.json]).toMatchObject([201, { app_id: 'new', plan: '10k' }])
    const key = String(made.json['app_key'])
    expect(key).toMatch(/^ak_new_/)
    await eventually('the service knows it', async () => (await post(service, single(key))).status === 202)
    const got = await ask(service, 'GET', '/api/apps/new', undefined, full)
    expect([got.status, got.json['app_key'], got.headers['etag']]).toEqual([200, key, made.headers['etag']])
    const replaced = await ask(
      service,
      'PUT',
      '/api/apps/new',
      {
        plan: '100k',
        subscription: 'active',
        name: 'New',
        origins: ['https://a.example'],
        bytes_per_minute: 3_000_000,
      },
      { ...full, 'If-Match': String(got.headers['etag']) },
    )
    expect([replaced.status, replaced.json]).toMatchObject([
      200,
      { app_key: key, plan: '100k', name: 'New', origins: ['https://a.example'], bytes_per_minute: 3_000_000 },
    ])
    await eventually('other pages may not send', async () => {
      return (await post(service, single(key), { Origin: 'https://b.example' })).status === 401
    })
    expect((await post(service, single(key), { Origin: 'https://a.example' })).status).toBe(202)
    expect(readFileSync(service.appsFile, 'utf8')).toContain(key)
    expect((await ask(service, 'DELETE', '/api/apps/new', undefined, full)).status).toBe(204)
    expect((await ask(service, 'GET', '/api/apps/new', undefined, full)).status).toBe(404)
    expect((await ask(service, 'DELETE', '/api/apps/new', undefined, full)).status).toBe(404)
    expect(service.output()).toMatch(
      /"app":"new","by":"bearer token from 127\.0\.0\.1","msg":"app new was made over HTTP"/,
    )
    expect(service.output()).not.toContain(key)
  })

  test('that is not current is 412 before the body is looked at', async ({ service }) => {
    const stale = { ...full, 'If-Match': '"nothing"' }
    const written = (): bigint => statSync(service.appsFile, { bigint: true }).ino
    const before = written()
    expect((await ask(service, 'PUT', '/api/apps/shop', 'no JSON', stale)).status).toBe(412)
    expect((await ask(service, 'PUT', '/api/apps/none', 'no JSON', { ...full, 'If-Match': '*' })).status).toBe(412)
    expect((await ask(service, 'PUT', '/api/apps/shop', 'no JSON', { ...full, 'If-None-Match': '*' })).status).toBe(412)
    expect((await ask(service, 'DELETE', '/api/apps/shop', undefined, stale)).status).toBe(412)
    expect((await ask(service, 'DELETE', '/api/apps/none', undefined, full)).status).toBe(404)
    expect(written()).toBe(before)
    const made = await ask(
      service,
      'PUT',
      '/api/apps/only',
      { plan: '10k', subscription: 'active' },
      { ...full, 'If-None-Match': '*' },
    )
    expect(made.status).toBe(201)
  })

  test('that is bad is 400 with the path of what is wrong', async ({ service }) => {
    const cases: readonly (readonly [unknown, string])[] = [
      [{ plan: '7m', subscription: 'active' }, 'plan: must be one of'],
      [{ plan: '10k' }, 'subscription: required'],
      [{ plan: '10k', subscription: 'active', events_per_dya: 1 }, 'events_per_dya: unknown member'],
      [{ plan: '10k', subscription: 'active', origins: ['a.example'] }, 'origins: must be'],
      [{ plan: '10k', subscription: 'active', bytes_per_minute: 0 }, 'bytes_per_minute: must be a whole number'],
      [{ app_id: 'other', plan: '10k', subscription: 'active' }, 'app_id: must be'],
      [{ app_key: 'ak_other', plan: '10k', subscription: 'active' }, 'app_key: another app'],
      ['{"plan":"10k","subscription":"active","pl\\u0061n":"5m"}', 'plan: stands twice in its object'],
      ['{"plan":"10k","subscription":"active","alerts":{"day":[50],"day":[80]}}', 'alerts.day: stands twice'],
      ['[]', 'record: must be a JSON object'],
      ['{', 'record: must be a JSON object'],
    ]
    for (const [body, message] of cases) {
      const { status, json } = await ask(service, 'PUT', '/api/apps/bad', body, full)
      expect([status, json['error'], String(json['message']).startsWith(message)]).toEqual([400, 'bad_record', true])
    }
    const text = await ask(service, 'PUT', '/api/apps/bad', '{}', { ...full, 'Content-Type': 'text/plain' })
    expect([text.status, text.json['error']]).toEqual([415, 'unsupported_media_type'])
  })

  test('never takes a key of another app, be it as an older one, or given to two apps at once', async ({ service }) => {
    const record = { plan: '10k', subscription: 'active' }
    const previous_keys = [{ app_key: 'ak_other', valid_until: '2099-01-01T00:00:00Z' }]
    for (const keys of [{ previous_keys }, { app_key: 'ak_thief', previous_keys }]) {
      const { status, json } = await ask(service, 'PUT', '/api/apps/thief', { ...record, ...keys }, full)
      expect([status, json['message']]).toEqual([400, 'previous_keys: another app has this key'])
    }
    const names = ['one', 'two', 'three', 'four']
    const put = (name: string) => ask(service, 'PUT', `/api/apps/${name}`, { ...record, app_key: 'ak_same' }, full)
    const statuses = (await Promise.all(names.map(put))).map(({ status }) => status)
    expect(statuses.toSorted((one, other) => one - other)).toEqual([201, 400, 400, 400])
  })

  test('gets a second key, and keys that only read', async ({ service }) => {
    const rotated = await ask(service, 'POST', '/api/apps/shop/rotate', { overlap: '12h' }, full)
    expect([rotated.status, rotated.json['app_key']]).toEqual([200, expect.stringMatching(/^ak_shop_/)])
    const made = await ask(service, 'POST', '/api/apps/shop/read-keys', { name: 'web', expires: '90d' }, full)
    expect([made.status, made.json]).toMatchObject([201, { key: expect.stringMatching(/^rk_/), name: 'web' }])
    expect((await ask(service, 'POST', '/api/apps/shop/read-keys', { name: 'web' }, full)).status).toBe(409)
    expect((await ask(service, 'POST', '/api/apps/shop/read-keys', { name: 'a b' }, full)).status).toBe(400)
    const list = await ask(service, 'GET', '/api/apps/shop/read-keys', undefined, reading)
    expect(list.json).toEqual({ read_keys: [{ name: 'web', expires_at: made.json['expires_at'], last_used_at: null }] })
    for (const headers of [full, reading]) {
      const { text } = await ask(service, 'GET', '/api/apps/shop', undefined, headers)
      expect(text).not.toMatch(/hash|session_key|rk_/)
    }
    const kept = await ask(service, 'PUT', '/api/apps/shop', { plan: '10k', subscription: 'active' }, full)
    expect(kept.json).toMatchObject({ app_key: rotated.json['app_key'], previous_keys: [{ app_key: 'ak_shop' }] })
    expect(kept.json['read_keys']).toHaveLength(1)
    expect((await ask(service, 'DELETE', '/api/apps/shop/read-keys/web', undefined, full)).status).toBe(204)
    expect((await ask(service, 'DELETE', '/api/apps/shop/read-keys/web', undefined, full)).status).toBe(404)
  })

  test('keeps its keys where no app_key is given, and loses older ones where one is', async ({ service }) => {
    const record = { plan: '10k', subscription: 'active' }
    const older = (key: string) => [{ app_key: key, valid_until: '2099-01-01T00:00:00Z' }]
    const put = async (body: object) => (await ask(service, 'PUT', '/api/apps/keys', body, full)).json
    const made = await put({ ...record, previous_keys: [] })
    expect(made).not.toHaveProperty('previous_keys')
    expect(await put({ ...record, previous_keys: older('ak_keys_old') })).toEqual(made)
    const given = { ...record, app_key: made['app_key'], previous_keys: older('ak_keys_old') }
    expect(await put(given)).toMatchObject({ app_key: made['app_key'], previous_keys: older('ak_keys_old') })
    expect(await put({ ...record, previous_keys: [] })).toMatchObject({ previous_keys: older('ak_keys_old') })
    expect(await put({ ...given, previous_keys: [] })).toEqual(made)
  })

  test('shows its usage, by day too', async ({ service }) => {
    const usage = await ask(service, 'GET', '/api/apps/other/usage', undefined, reading)
    expect([usage.status, usage.json['app_id']]).toEqual([200, 'other'])
    const days = await ask(service, 'GET', '/api/apps/other/usage?days=35', undefined, reading)
    expect((days.json['apps'] as { days: unknown[] }[])[0]?.days).toHaveLength(35)
    const csv = await ask(service, 'GET', '/api/apps/other/usage?days=2', undefined, { ...reading, Accept: 'text/csv' })
    expect(csv.text).toMatch(/^app_id,day,events\nother,/)
    for (const path of ['', '/usage', '/usage?days=35']) {
      const { status, json } = await ask(service, 'GET', `/api/apps/nope${path}`, undefined, reading)
      expect([status, json]).toEqual([404, { error: 'no_such_app', message: 'there is no such app' }])
    }
  })
})

describe('who may change one', () => {
  test('not the token for reading alone, and its session neither; keys are masked for both', async ({ service }) => {
    for (const headers of [reading, { ...(await cookieOf(service, READING)), Origin: `http://localhost` }]) {
      const put = await ask(
        service,
        'PUT',
        '/api/apps/shop',
        { plan: '10k', subscription: 'active' },
        { ...headers, Host: 'localhost' },
      )
      expect([put.status, put.json['error']]).toEqual([403, 'read_only'])
      const got = await ask(service, 'GET', '/api/apps/other', undefined, { ...headers, Host: 'localhost' })
      expect([got.status, got.json['app_key']]).toEqual([200, expect.stringContaining('…')])
    }
  })

  test('the key of the demo app is shown to whoever may change it, and where no token is set', async () => {
    const demo = [appRecord('demo', { app_key: 'ak_demo_1' })]
    const [service, open] = await Promise.all([startService({ apps: demo, env }), startService({ apps: demo })])
    onTestFinished(() => [service, open].forEach((one) => one.kill()))
    const keyTo = async (one: Service, headers: Headers) => {
      const { status, json } = await ask(one, 'GET', '/api/example', undefined, { ...headers, Host: 'localhost' })
      expect([status, json['port'], json['tls']]).toEqual([200, one.port, false])
      return json['app_key']
    }
    for (const headers of [full, await cookieOf(service, TOKEN)])
      expect(await keyTo(service, headers)).toBe('ak_demo_1')
    for (const headers of [reading, await cookieOf(service, READING)]) expect(await keyTo(service, headers)).toBe(null)
    expect(await keyTo(open, {})).toBe('ak_demo_1')
  })

  test('a session, from the console’s own pages alone', async ({ service }) => {
    const cookie = { ...(await cookieOf(service, TOKEN)), Host: 'localhost' }
    const body = { plan: '10k', subscription: 'active' }
    expect((await ask(service, 'PUT', '/api/apps/page', body, cookie)).status).toBe(403)
    expect(
      (await ask(service, 'PUT', '/api/apps/page', body, { ...cookie, Origin: 'https://evil.example' })).status,
    ).toBe(403)
    expect((await ask(service, 'PUT', '/api/apps/page', body, { ...cookie, Origin: 'http://localhost' })).status).toBe(
      201,
    )
  })

  test('nobody where there is no token', async ({ plain }) => {
    const put = await ask(plain, 'PUT', '/api/apps/shop', { plan: '10k', subscription: 'active' })
    expect([put.status, put.json['error']]).toEqual([403, 'read_only'])
    expect((await ask(plain, 'GET', '/api/apps/shop')).status).toBe(200)
  })
})

test('in a file that the process may not write is 409 apps_in_file, and is shown', async ({ skip }) => {
  const folder = mountSmall('1m', () => skip('no small file system'))
  const file = join(folder, 'apps.json')
  await writeApps(file, apps)
  execFileSync('mount', ['-o', 'remount,ro', folder])
  const service = await startService({ dataDir: await makeFolder(), env: { ...env, SLUICE_APPS_FILE: file } })
  onTestFinished(() => service.kill())
  await expectFixed(service)
})

test('that cannot be read is 503 with the reason, whatever is asked of it', async ({ service }) => {
  const kept = readFileSync(service.appsFile)
  writeFileSync(service.appsFile, '{')
  const asked = [
    ['GET', '/api/apps/shop', undefined],
    ['PUT', '/api/apps/shop', { plan: '10k', subscription: 'active' }],
    ['PUT', '/api/apps/shop', { app_key: 'ak_new', plan: '10k', subscription: 'active' }],
    ['DELETE', '/api/apps/shop', undefined],
    ['POST', '/api/apps/shop/rotate', {}],
    ['GET', '/api/apps/shop/read-keys', undefined],
    ['POST', '/api/apps/shop/read-keys', {}],
    ['DELETE', '/api/apps/shop/read-keys/web', undefined],
  ] as const
  for (const [method, path, body] of asked) {
    const { status, json } = await ask(service, method, path, body, full)
    expect([method, path, status, json]).toMatchObject([method, path, 503, { error: 'unavailable' }])
    expect(json['message']).toContain(service.appsFile)
  }
  writeFileSync(service.appsFile, kept)
  expect((await ask(service, 'GET', '/api/apps/shop', undefined, full)).status).toBe(200)
})

test('hundreds of apps are made by a script, many at a time', async ({ service }) => {
  const wanted = Array.from({ length: 300 }, (_, at) => `many-${at}`)
  const statuses = new Set<number>()
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      for (let id = wanted.pop(); id !== undefined; id = wanted.pop()) {
        statuses.add(
          (await ask(service, 'PUT', `/api/apps/${id}`, { plan: '10k', subscription: 'active' }, full)).status,
        )
      }
    }),
  )
  expect([...statuses]).toEqual([201])
  const { apps: stored } = JSON.parse(readFileSync(service.appsFile, 'utf8')) as { apps: { app_id: string }[] }
  expect(stored.filter(({ app_id: id }) => id.startsWith('many-'))).toHaveLength(300)
})

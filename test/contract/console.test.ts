// The console's API on a running service: what openapi-admin.yaml says of each path, and who may ask.

import { randomUUID } from 'node:crypto'
import { test as base, describe, expect } from 'vitest'
import { OVERLOAD_REASONS } from '../../src/contract/outcome.ts'
import { type Answer, batch, event, type Members, post, send, single } from '../support/client.ts'
import { type EventStream, openEventStream } from '../support/event-stream.ts'
import { aService } from '../support/fixture.ts'
import { openRaw } from '../support/raw-http.ts'
import { appRecord, eventually, type Service } from '../support/service.ts'

const TOKEN = 'a-token-of-twenty-characters'
const apps = [
  appRecord('shop', { plan: '10k', events_per_minute: 1000 }),
  appRecord('paused', { subscription: 'paused' }),
]
const withService = base.extend('service', { scope: 'file' }, aService({ apps }))
const withGuarded = withService.extend(
  'guarded',
  { scope: 'file' },
  aService({ apps, env: { SLUICE_CONSOLE_TOKEN: TOKEN } }),
)
const PUBLIC = 'https://sluice.example.com'
const test = withGuarded.extend(
  'published',
  { scope: 'file' },
  aService({ apps, env: { SLUICE_CONSOLE_TOKEN: TOKEN, SLUICE_CONSOLE_ORIGIN: PUBLIC, SLUICE_ADMIN_HOST: '0.0.0.0' } }),
)

type Lists = Record<'refusals' | 'groups', Members[]>

const bearer = { Authorization: `Bearer ${TOKEN}` }

function ask(service: Service, path: string, headers: Record<string, string> = {}) {
  return send({ port: service.adminPort }, { method: 'GET', path, headers: { 'Content-Type': '(none)', ...headers } })
}

function tell(service: Service, method: string, path: string, body = '', headers: Record<string, string> = {}) {
  return send({ port: service.adminPort }, { method, path, body, headers })
}

async function withoutHost(service: Service, path: string): Promise<Answer> {
  const raw = await openRaw(service.adminPort)
  raw.write(`GET ${path} HTTP/1.1\r\n\r\n`)
  const answer = await raw.readAnswer()
  raw.close()
  if (answer === null) expect.fail('no answer')
  return answer
}

describe('who may ask', () => {
  test('without a token, everybody on this machine', async ({ service }) => {
    expect((await ask(service, '/api/now')).status).toBe(200)
    expect((await ask(service, '/api/session')).json).toEqual({ token_wanted: false, open: true })
  })

  test('with a token, who shows it', async ({ guarded }) => {
    const refused = await ask(guarded, '/api/now')
    expect([refused.status, refused.json['error']]).toEqual([401, 'token_wanted'])
    expect((await ask(guarded, '/api/now', bearer)).status).toBe(200)
    expect((await ask(guarded, `/api/now?token=${TOKEN}`)).status).toBe(401)
    expect((await ask(guarded, '/metrics')).status).toBe(200)
    expect((await ask(guarded, '/readyz')).status).toBe(200)
  })

  test('a session is opened by the token and ended on request', async ({ guarded }) => {
    expect((await ask(guarded, '/api/session')).json).toEqual({ token_wanted: true, open: false })
    const opened = await tell(guarded, 'POST', '/api/session', JSON.stringify({ token: TOKEN }))
    expect([opened.status, opened.text]).toEqual([204, ''])
    const [line = ''] = opened.headers['set-cookie'] ?? []
    expect(line).toMatch(/^sluice_console=[^;]+; HttpOnly; SameSite=Strict; Path=\/; Max-Age=43200$/)
    const cookie = { Cookie: line.slice(0, line.indexOf(';')) }
    expect((await ask(guarded, '/api/now', cookie)).status).toBe(200)
    expect((await ask(guarded, '/api/session', cookie)).json).toEqual({ token_wanted: true, open: true })
    const ended = await tell(guarded, 'DELETE', '/api/session', '', cookie)
    expect([ended.status, ended.headers['set-cookie']?.[0]]).toEqual([204, expect.stringContaining('Max-Age=0')])
    expect((await ask(guarded, '/api/now', cookie)).status).toBe(401)
  })

  test('a wrong token opens nothing, nor does a body that is none', async ({ guarded }) => {
    const wrong = await tell(guarded, 'POST', '/api/session', JSON.stringify({ token: `${TOKEN}x` }))
    expect([wrong.status, wrong.headers['set-cookie']]).toEqual([401, undefined])
    for (const body of ['', '{}', '[]', 'null', '{"token":7}']) {
      expect([body, (await tell(guarded, 'POST', '/api/session', body)).status]).toEqual([body, 400])
    }
    const large = await tell(guarded, 'POST', '/api/session', JSON.stringify({ token: 'x'.repeat(5000) }))
    expect(large.status).toBe(413)
  })

  test('no page of the web: a foreign Origin is refused', async ({ service }) => {
    for (const path of ['/', '/events', '/api/now', '/api/now/stream', '/api/session', '/api/codes']) {
      const origin = await ask(service, path, { Origin: 'http://evil.example' })
      expect([path, origin.status, origin.json['error']]).toEqual([path, 403, 'foreign_origin'])
      expect(origin.headers['access-control-allow-origin']).toBeUndefined()
    }
    expect((await tell(service, 'POST', '/api/explain', '{}', { Origin: 'null' })).status).toBe(403)
    const own = { Origin: `http://localhost:${service.adminPort}`, Host: `localhost:${service.adminPort}` }
    expect((await tell(service, 'POST', '/api/explain', '{}', own)).status).toBe(200)
  })

  test.for(['/', '/events', '/assets/x.js', '/api/now', '/api/now/stream', '/api/session', '/api/codes', '/nothing'])(
    'by a foreign Host nothing of %s is told, with the token or without it',
    async (path, { service, guarded, published }) => {
      const told = { error: 'foreign_host', message: expect.stringContaining('SLUICE_CONSOLE_ORIGIN') }
      for (const one of [service, guarded, published]) {
        for (const headers of [{}, bearer, { Accept: 'text/html' }]) {
          const answer = await ask(one, path, { ...headers, Host: 'evil.example' })
          expect([answer.status, answer.json]).toEqual([421, told])
        }
        expect((await tell(one, 'POST', path, '{}', { ...bearer, Host: 'pod.example:9090' })).status).toBe(421)
        expect((await withoutHost(one, path)).status).toBe(421)
      }
    },
  )

  test('metrics and probes are there whatever the Host, since they use the addresses of pods', async ({
    published,
  }) => {
    for (const path of ['/metrics', '/livez', '/readyz']) {
      for (const Host of ['10.1.2.3:9090', 'evil.example']) {
        expect([path, Host, (await ask(published, path, { Host })).status]).toEqual([path, Host, 200])
      }
      expect((await withoutHost(published, path)).status).toBe(200)
    }
  })

  test('the public address is one of its own, as Host and as Origin, and its cookie travels encrypted', async ({
    published,
  }) => {
    for (const Host of ['sluice.example.com', 'localhost']) {
      const headers = { Host, Origin: PUBLIC }
      expect((await ask(published, '/api/now', { ...headers, ...bearer })).status).toBe(200)
      const opened = await tell(published, 'POST', '/api/session', JSON.stringify({ token: TOKEN }), headers)
      expect([opened.status, opened.headers['set-cookie']]).toEqual([204, [expect.stringMatching(/; Secure$/)]])
    }
    expect((await ask(published, '/', { Host: 'sluice.example.com' })).status).toBe(200)
  })
})

describe('paths', () => {
  test('say which methods they have', async ({ service }) => {
    const refused = await tell(service, 'POST', '/api/now')
    expect([refused.status, refused.headers['allow']]).toEqual([405, 'GET, HEAD'])
    expect((await tell(service, 'DELETE', '/api/session')).status).toBe(204)
    expect((await ask(service, '/api/nothing')).json).toMatchObject({ error: 'not_found' })
    const page = await ask(service, '/nothing', { Accept: 'text/html,*/*;q=0.8' })
    expect([page.status, page.headers['content-type']]).toEqual([404, 'text/html; charset=utf-8'])
    const head = await tell(service, 'HEAD', '/api/codes')
    expect([head.status, head.text]).toEqual([200, ''])
    expect((await tell(service, 'HEAD', '/api/now/stream')).status).toBe(405)
  })

  test('/api/codes says what each code and each reason of a 503 means, and what to do', async ({ service }) => {
    const { codes, reasons } = (await ask(service, '/api/codes')).json as Record<'codes' | 'reasons', Members[]>
    expect(reasons.map(({ reason }) => reason)).toEqual(OVERLOAD_REASONS)
    for (const reason of reasons) expect(Object.keys(reason)).toEqual(['reason', 'happened', 'clients', 'todo'])
    expect(codes.find(({ code }) => code === 'service_overloaded')).toMatchObject({ status: 503, whose: 'ours' })
    for (const code of codes) {
      expect(Object.keys(code)).toEqual(['code', 'status', 'meaning', 'client_should', 'whose'])
    }
  })

  test('/api/now counts what was accepted and refused', async ({ service }) => {
    await post(service, single('ak_shop'))
    await post(service, single('ak_paused'))
    await eventually('the rates show it', async () => {
      const { rates } = (await ask(service, '/api/now')).json as { rates: Members }
      const refused = rates['refused_per_second'] as Members
      return Number(rates['events_accepted_per_second']) > 0 && Number(refused['subscription_inactive']) > 0
    })
    const now = (await ask(service, '/api/now')).json
    expect(now).toMatchObject({
      state: 'serving',
      state_reason: null,
      nodes: [{ state: 'serving', silent_seconds: 0, node_js: process.version }],
      latency_seconds: { p50: expect.any(Number), p99: expect.any(Number) },
      ring: { size_bytes: 67_108_864 },
      queue: { kind: 'journal', max_bytes: expect.any(Number) },
      history: { step_seconds: 5 },
    })
    const history = now['history'] as Record<string, unknown[]>
    expect(history['accepted_events_per_second']).toHaveLength(180)
    const up = { state: 'ok', reason: null, up: true, node: null }
    const parts = now['parts'] as { readonly part: string }[]
    // Node's own HTTP server is a part.
    expect(parts.filter(({ part }) => part !== 'http')).toEqual([
      { part: 'queue', kind: 'journal', ...up, latency_seconds: expect.any(Number), text: 'journal' },
      { part: 'limits', kind: 'memory', ...up, latency_seconds: null, text: 'in memory' },
      { part: 'apps', kind: 'file', ...up, latency_seconds: null, text: 'in a file' },
    ])
  })

  test('/api/refusals lists and groups what was refused, by app and code', async ({ service }) => {
    const answer = await post(service, single('ak_shop', { name: '' }))
    await post(service, single('ak_paused'))
    await post(service, single('ak_nobody'))
    const { refusals, groups } = (await ask(service, '/api/refusals?app=shop&code=validation_failed')).json as Lists
    expect(refusals[0]).toEqual({
      time: expect.any(String),
      request_id: answer.headers['x-request-id'],
      app_id: 'shop',
      code: 'validation_failed',
      reason: null,
      origin: null,
      path: 'events[0].name',
      shape: 'string of 0 characters',
      message: expect.any(String),
      sdk_version: null,
      node: expect.any(String),
    })
    expect(refusals.every(({ code }) => code === 'validation_failed')).toBe(true)
    const [group = {}] = groups
    expect(group).toMatchObject({ app_id: 'shop', code: 'validation_failed', path: 'events[*].name', count: 1 })
    expect(group['per_minute']).toHaveLength(60)
    const unknown = (await ask(service, '/api/refusals?app=-&limit=1')).json as Lists
    expect(unknown.refusals).toMatchObject([{ app_id: null, code: 'invalid_app_key' }])
    const { by_code: byCode } = ((await ask(service, '/api/now')).json as Record<string, Members>)['refused_last_hour']
    expect(byCode).toContainEqual({ code: 'validation_failed', reason: null, count: expect.any(Number) })
  })

  test('/api/apps tells the use of each app, with its last hour and without its key', async ({ service }) => {
    await post(service, single('ak_shop'))
    await post(service, single('ak_paused'))
    const { apps: all, total_apps: total } = (await ask(service, '/api/apps')).json as {
      apps: Members[]
      total_apps: number
    }
    expect(total).toBe(2)
    expect(all.map(({ app_id: id }) => id)).toEqual(['shop', 'paused'])
    const { last_hour: hour, keys, ...rest } = all[0]
    expect(rest).toMatchObject({ plan: '10k', month: { limit: 11_000, used: expect.any(Number) } })
    expect(Number((hour as Members)['accepted_events'])).toBeGreaterThan(0)
    expect(JSON.stringify(keys)).not.toContain('ak_shop"')
    const paused = (await ask(service, '/api/apps?app=paused')).json as { apps: Members[] }
    expect(paused.apps).toMatchObject([
      { app_id: 'paused', last_hour: { accepted_events: 0, refused: { subscription_inactive: expect.any(Number) } } },
    ])
    expect((await ask(service, '/api/apps?app=nobody')).json).toMatchObject({ apps: [] })
  })

  test('/api/explain says what would happen, with every offending member', async ({ service }) => {
    const explain = (body: string, query = '') => tell(service, 'POST', `/api/explain${query}`, body)
    expect((await explain(single('ak_shop'))).json).toMatchObject({
      status: 202,
      code: 'accepted',
      events: 1,
      errors: [],
      app: { app_id: 'shop', plan: '10k' },
      limits: { minute: { limit: 1000 }, month: { limit: 11_000, tolerance_percent: 10 } },
    })
    expect(
      (await explain(batch('x', 2, { events: [event({ type: 'click' }), event({ name: '' })] }), '?app_key=ak_shop'))
        .json,
    ).toMatchObject({
      status: 400,
      code: 'validation_failed',
      errors: [
        { path: 'events[0].type', start: expect.any(Number) },
        { path: 'events[1].name', end: expect.any(Number) },
      ],
    })
  })

  test('/api/explain reads a body that is sent in chunks, whose length no header says', async ({ service }) => {
    const chunked = { method: 'POST', path: '/api/explain', body: single('ak_shop'), chunked: true }
    expect((await send({ port: service.adminPort }, chunked)).json).toMatchObject({ code: 'accepted', events: 1 })
    const large = await send({ port: service.adminPort }, { ...chunked, body: 'x'.repeat(524_289) })
    expect(large.status).toBe(413)
  })

  test('/api/batches finds a batch by its id, and by app and key', async ({ service }) => {
    const key = randomUUID()
    const answer = await post(service, single('ak_shop', { name: 'looked for' }), { 'Idempotency-Key': key })
    const id = String(answer.headers['x-batch-id'])
    const found = { found: true, batch_id: id, app_id: 'shop', events: 1, keyed: true, place: { kind: 'journal' } }
    const byKey = (await ask(service, `/api/batches?app=shop&key=${key}`)).json
    expect(byKey).toMatchObject(found)
    expect(byKey['record']).toBeUndefined()
    expect((await ask(service, `/api/batches/${id}?events=1`)).json).toMatchObject({
      ...found,
      record: { events: [{ name: 'looked for' }] },
    })
    expect((await ask(service, `/api/batches?app=shop&key=${randomUUID()}`)).json).toMatchObject({
      found: false,
      reason: 'absent',
      complete: true,
      go_on_before: null,
    })
    expect((await ask(service, `/api/batches/${id}?before=1h`)).json).toMatchObject({
      found: false,
      reason: 'narrowed',
    })
    expect((await ask(service, '/api/batches/nonsense')).json).toMatchObject({ error: 'bad_request' })
    expect((await ask(service, `/api/batches?id=${id}`)).status).toBe(400)
  })
})

describe('what is stored', () => {
  test('/api/events begins with the newest, and has the stream’s filters', async ({ service }) => {
    const name = `stored ${randomUUID()}`
    const events = ['a', 'b'].map((end) => event({ name: `${name} ${end}` }))
    const answer = await post(service, batch('ak_shop', 2, { sdk_version: '2.1.0', events }))
    await post(service, single('ak_shop', { name: 'later' }))
    const of = async (query: string) => (await ask(service, `/api/events?${query}`)).json
    expect(await of('limit=1')).toMatchObject({ events: [{ event: { name: 'later' } }], complete: true })
    const found = await of(`app=shop&type=track&name=${encodeURIComponent(name)}*`)
    const batchId = answer.headers['x-batch-id']
    const same = { batch_id: batchId, app_id: 'shop', sdk_version: '2.1.0', node: null }
    expect(found['events']).toMatchObject([
      { ...same, index: 1, event: { name: `${name} b` } },
      { ...same, index: 0, event: { name: `${name} a` } },
    ])
    expect(await of('app=paused')).toMatchObject({ events: [], complete: true })
  })

  test('/api/search says of each kind of id what it is and where', async ({ service }) => {
    const [key, eventId, userId] = [randomUUID(), randomUUID(), `user of ${randomUUID()}`]
    const ids = { event_id: eventId, user_id: userId }
    const answer = await post(service, single('ak_shop', ids), { 'Idempotency-Key': key })
    const unkeyed = (await post(service, single('ak_shop'))).headers['x-batch-id']
    const refused = (await post(service, single('ak_paused'))).headers['x-request-id']
    const batchId = answer.headers['x-batch-id']
    const search = async (text: unknown) =>
      (await ask(service, `/api/search?q=${encodeURIComponent(String(text))}`)).json
    const shop = { app_id: 'shop', batch_id: batchId }
    for (const [text, found] of [
      [unkeyed, { kind: 'batch', batch_id: unkeyed, events: 1 }],
      [batchId, { kind: 'batch', ...shop }],
      [key.toUpperCase(), { kind: 'key', key, ...shop }],
      [`shop ${key}`, { kind: 'key', key, ...shop }],
      [eventId, { kind: 'event', index: 0, ...shop, event: ids }],
      [userId, { kind: 'user', index: 0, ...shop, event: ids }],
      [refused, { kind: 'refusal', request_id: refused, app_id: 'paused', code: 'subscription_inactive' }],
    ]) {
      expect(await search(text)).toMatchObject({ query: text, found: [found], complete: true })
    }
    expect(await search(randomUUID())).toMatchObject({ found: [], complete: true })
  })

  test('one search at a time is read, and one list of events', async ({ service }) => {
    const paths = ['/api/search?q=nobody', '/api/events']
    const answers = await Promise.all(paths.flatMap((path) => [ask(service, path), ask(service, path)]))
    expect(answers.map(({ status }) => status)).toEqual([200, 503, 200, 503])
    expect(answers[1].json['error']).toBe('busy')
  })

  test('/api/example has the port, and no key but that of the demo app', async ({ service }) => {
    expect((await ask(service, '/api/example')).json).toEqual({ port: service.port, tls: false, app_key: null })
  })
})

describe('streams', () => {
  async function watching(service: Service, path: string, use: (stream: EventStream) => Promise<void>): Promise<void> {
    const stream = await openEventStream(service.adminPort, path)
    try {
      await use(stream)
    } finally {
      stream.close()
    }
  }

  test('/api/now/stream reports each second, with the history only at first', async ({ service }) => {
    await watching(service, '/api/now/stream', async (stream) => {
      await eventually('three reports came', () => stream.events.length >= 3)
      const [first, second] = stream.events.map(({ data }) => data)
      expect(stream.headers['content-type']).toMatch(/^text\/event-stream/)
      expect(first).toHaveProperty('history')
      expect(second).not.toHaveProperty('history')
      expect(stream.text).toMatch(/^retry: 2000\n\n/)
    })
  })

  test('/api/events/stream shows stored events that fit the filter', async ({ service }) => {
    await watching(service, '/api/events/stream?app=shop&name=check*', async (stream) => {
      await post(service, single('ak_shop', { name: 'other' }))
      const answer = await post(service, single('ak_shop', { name: 'checkout' }))
      const shown = () => stream.events.filter((one) => one.event === 'event').map(({ data }) => data)
      await eventually('the event is shown', () => shown().length > 0)
      expect(shown()).toEqual([
        {
          batch_id: answer.headers['x-batch-id'],
          app_id: 'shop',
          received_at: expect.any(String),
          sdk_version: null,
          node: expect.any(String),
          index: 0,
          event: expect.objectContaining({ name: 'checkout', type: 'track' }),
        },
      ])
      await eventually('the rate counts it', () =>
        stream.events.some(({ event: name, data }) => name === 'rate' && Number(data['seen_per_second']) > 0),
      )
    })
  })

  test('/api/refusals/stream shows refusals as they come, and the earlier ones on request', async ({ service }) => {
    const earlier = await post(service, single('ak_paused'))
    await watching(service, '/api/refusals/stream?app=paused&from_start=1', async (stream) => {
      const ids = () => stream.events.map(({ data }) => data['request_id'])
      await eventually('the earlier one is there', () => ids().includes(earlier.headers['x-request-id']))
      const later = await post(service, single('ak_paused'))
      await post(service, single('ak_nobody'))
      await eventually('the later one follows', () => ids().at(-1) === later.headers['x-request-id'])
      expect(stream.events.every(({ event: name, data }) => name === 'refusal' && data['app_id'] === 'paused')).toBe(
        true,
      )
    })
  })
})

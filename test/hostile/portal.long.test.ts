// What holders of read keys, and whoever has none, may do to the portal: bounds reached by many at once, floods of refusals,
// and wrong keys by the thousand. Others are answered meanwhile, and events are taken.

import { randomUUID } from 'node:crypto'
import { test as base, expect } from 'vitest'
import { freshReadKey, secretsOf } from '../../src/apps/read-keys.ts'
import { type Answer, post, send, single } from '../support/client.ts'
import { type EventStream, openEventStream } from '../support/event-stream.ts'
import { aService } from '../support/fixture.ts'
import { startLoad, statusCounts } from '../support/load.ts'
import { appRecord, eventually, type Service } from '../support/service.ts'

const TOKEN = 'a-token-of-twenty-characters'
const MAX_STREAMS = 200
const STREAMS_OF_A_KEY = 2
/** More than the newest refusals that a node keeps of all. */
const FLOOD = 3000
const WRONG_KEYS = 10_000
const WRONG_AT_ONCE = 64
/** Within the bounds of each key. */
const RIGHT_OF_A_KEY = 20

/** One app and key for each two streams, and one more. */
const KEYS = Array.from({ length: MAX_STREAMS / STREAMS_OF_A_KEY + 1 }, freshReadKey)
const appOf = (at: number): string => `app-${at}`
const apps = KEYS.map((key, at) => ({
  ...appRecord(appOf(at), { events_per_minute: 1_000_000 }),
  read_keys: [{ name: 'web', ...secretsOf(key) }],
}))
const env = { SLUICE_PORTAL_PORT: '0', SLUICE_CONSOLE_TOKEN: TOKEN, SLUICE_TRUSTED_PROXIES: '127.0.0.1' }
const test = base.extend('service', { scope: 'test' }, aService({ apps, env }))

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` })

function ask(port: number, path: string, token: string, headers: Record<string, string> = {}): Promise<Answer> {
  return send({ port }, { method: 'GET', path, headers: { 'Content-Type': '(none)', ...bearer(token), ...headers } })
}

const refuse = (service: Service, app: string) => post(service, `{"app_key":"ak_${app}","events":[{"type":"${app}"}]}`)

/** Calls `work` so many times, of which so many at once. */
async function many(count: number, atOnce: number, work: (at: number) => Promise<unknown>): Promise<void> {
  let next = 0
  const worker = async (): Promise<void> => {
    while (next < count) await work(next++)
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
}

test('200 streams of 100 apps are open at once, each has the events of its app, and one more is told to wait', async ({
  service,
}) => {
  const { portalPort } = service
  const streams: { readonly app: string; readonly stream: EventStream }[] = []
  await many(MAX_STREAMS, 20, async (at) => {
    const own = Math.floor(at / STREAMS_OF_A_KEY)
    streams.push({
      app: appOf(own),
      stream: await openEventStream(portalPort, '/api/events/stream', bearer(KEYS[own])),
    })
  })
  const last = KEYS.length - 1
  const beyond = await ask(portalPort, '/api/events/stream', KEYS[last])
  expect([beyond.status, beyond.json['error'], Number(beyond.headers['retry-after']) > 0]).toEqual([
    429,
    'too_many_streams',
    true,
  ])
  // What is no stream is answered all the same.
  expect((await ask(portalPort, '/api/usage', KEYS[last])).status).toBe(200)
  await many(last, 8, async (at) => {
    expect((await post(service, single(`ak_${appOf(at)}`, { name: `of ${appOf(at)}.` }))).status).toBe(202)
  })
  for (const { app, stream } of streams) {
    await eventually(`the stream of ${app} has its event`, () => stream.text.includes(`"name":"of ${app}."`))
    const named = new Set(Array.from(stream.text.matchAll(/"name":"of ([^"]+)\."/g), ([, name]) => name))
    expect([...named]).toEqual([app])
  }
  streams[0].stream.close()
  await eventually('there is room for another', async () => {
    const late = await openEventStream(portalPort, '/api/events/stream', bearer(KEYS[last])).catch(() => null)
    late?.close()
    return late !== null
  })
  for (const { stream } of streams) stream.close()
})

test('a flood of refusals of one app pushes out none of another’s, in its list and live', async ({ service }) => {
  const [quiet, loud] = [0, 1]
  const live = await openEventStream(service.portalPort, '/api/refusals/stream', bearer(KEYS[quiet]))
  const ids: string[] = []
  const refuseQuiet = async (): Promise<void> => {
    ids.push(String((await refuse(service, appOf(quiet))).headers['x-request-id']))
  }
  await refuseQuiet()
  await many(FLOOD, 32, () => refuse(service, appOf(loud)))
  await refuseQuiet()
  const { json } = await ask(service.portalPort, '/api/refusals', KEYS[quiet])
  const refusals = json['refusals'] as { request_id: string; app_id: string }[]
  expect(refusals.map(({ request_id: id, app_id: app }) => [id, app])).toEqual(
    ids.toReversed().map((id) => [id, appOf(quiet)]),
  )
  expect(json['groups']).toMatchObject([{ app_id: appOf(quiet), count: 2 }])
  await eventually('both came live', () => live.events.filter(({ event }) => event === 'refusal').length === 2)
  const named = live.events.map(({ data }) => data['request_id'] ?? null).filter((id) => id !== null)
  expect(named).toEqual(ids)
  live.close()
  for (const id of ids) {
    const found = await ask(service.portalPort, `/api/batches/${id}`, KEYS[quiet])
    expect(found.json).toMatchObject({ found: true, refusal: { request_id: id } })
  }
  // The loud one has its own newest ones, and no other's.
  const { text } = await ask(service.portalPort, '/api/refusals', KEYS[loud])
  expect(text).toContain(appOf(loud))
  expect(text).not.toContain(`"${appOf(quiet)}"`)
})

test.for(['portal', 'console'] as const)(
  'ten thousand wrong tokens of the %s, from the address of a right one, which is always answered',
  async (face, { service }) => {
    const port = face === 'portal' ? service.portalPort : service.adminPort
    const path = '/api/alerts'
    const from = { 'X-Forwarded-For': '203.0.113.9' }
    const statuses = new Map<number, number>()
    const flooding = { isOver: false }
    const flood = many(WRONG_KEYS, WRONG_AT_ONCE, async () => {
      const { status, headers } = await ask(port, path, freshReadKey(), from)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      if (status === 429) expect(headers['retry-after']).toBe('1')
    }).finally(() => {
      flooding.isOver = true
    })
    const right: number[] = []
    const sent: number[] = []
    for (const key of KEYS) {
      for (let at = 0; at < RIGHT_OF_A_KEY && !flooding.isOver; at++) {
        right.push((await ask(port, path, face === 'portal' ? key : TOKEN, from)).status)
        sent.push((await post(service, single('ak_app-0'))).status)
      }
    }
    await flood
    expect([...statuses.keys()].toSorted((one, other) => one - other)).toEqual([401, 429])
    expect(statuses.get(429)).toBeGreaterThan(statuses.get(401) ?? 0)
    expect(right.length).toBeGreaterThan(0)
    expect([new Set(right), new Set(sent)]).toEqual([new Set([200]), new Set([202])])
    // Another address is not slowed for it.
    expect((await ask(port, path, freshReadKey(), { 'X-Forwarded-For': '198.51.100.1' })).status).toBe(401)
  },
)

test('searches and streams beyond their bounds take no event and no place of the console', async ({ service }) => {
  const { portalPort, adminPort } = service
  const load = startLoad({ ports: () => [service.port], appKey: 'ak_app-0', workers: 16, pauseMs: 0 })
  const searching = KEYS.slice(0, 40)
  const answers: Answer[] = []
  const ofConsole: number[] = []
  const streams: EventStream[] = []
  const searches = { areOver: false }
  const operators = (async () => {
    while (!searches.areOver) ofConsole.push((await ask(adminPort, `/api/search?q=${randomUUID()}`, TOKEN)).status)
  })()
  await many(searching.length * 10, 40, async (at) => {
    const key = searching[at % searching.length]
    answers.push(await ask(portalPort, `/api/batches?key=${randomUUID()}`, key))
    const stream = await openEventStream(portalPort, '/api/events/stream', bearer(key)).catch((error: Error) => error)
    if (stream instanceof Error) expect(stream.message).toMatch(/answered 429$/)
    else streams.push(stream)
  })
  searches.areOver = true
  await operators
  const batches = await load.stop()
  expect(Object.keys(statusCounts(batches))).toEqual(['202'])
  expect(new Set(ofConsole)).toEqual(new Set([200]))
  const told = new Map<string, number>()
  for (const { status, json, headers } of answers) {
    const what = status === 200 ? 'found' in json && 'answered' : String(json['error'])
    told.set(String(what), (told.get(String(what)) ?? 0) + 1)
    if (status !== 200) expect([status, Number(headers['retry-after']) > 0]).toEqual([429, true])
  }
  expect([...told.keys()].toSorted((one, other) => one.localeCompare(other))).toEqual([
    'answered',
    'busy',
    'too_many_searches',
  ])
  expect(streams).toHaveLength(searching.length * STREAMS_OF_A_KEY)
  for (const stream of streams) stream.close()
})

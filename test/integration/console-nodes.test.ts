// The console of many nodes: any of them shows all, live streams included, and says which node is silent.

import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Members, post, send, single } from '../support/client.ts'
import { becomesReady } from '../support/cluster.ts'
import { openEventStream } from '../support/event-stream.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { type Proxy, startProxy } from '../support/proxy.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import {
  appRecord,
  eventually,
  makeFolder,
  runCommand,
  type Service,
  startService,
  writeApps,
} from '../support/service.ts'

const TOKEN = 'a-token-of-twenty-characters'
const APPS = [appRecord('shop'), appRecord('paused', { subscription: 'paused' }), appRecord('own')]

let redis: RedisServer
let nats: NatsServer
let natsOfFirst: Proxy
let folder: string
const running: Service[] = []

beforeAll(async () => {
  ;[redis, nats, folder] = await Promise.all([startRedis(), startNats(), makeFolder()])
  natsOfFirst = await startProxy(nats.port)
  await writeApps(`${folder}/apps.json`, APPS)
})

async function start(env: Record<string, string> = {}): Promise<Service> {
  const service = await startService({
    dataDir: folder,
    env: {
      REDIS_URL: redis.url,
      NATS_URL: nats.url,
      SLUICE_APPS_FILE: `${folder}/apps.json`,
      SLUICE_ADMIN_HOST: '127.0.0.1',
      SLUICE_PARSERS: '1',
      ...env,
    },
  })
  running.push(service)
  await becomesReady(service)
  return service
}

function ask(service: Service, path: string, headers: Record<string, string> = {}) {
  return send({ port: service.adminPort }, { method: 'GET', path, headers: { 'Content-Type': '(none)', ...headers } })
}

async function nodesOf(service: Service): Promise<Members[]> {
  return (await ask(service, '/api/now')).json['nodes'] as Members[]
}

async function refusedNodes(service: Service): Promise<unknown[]> {
  const { refusals } = (await ask(service, '/api/refusals?app=paused')).json as Record<string, Members[]>
  return refusals.map(({ node }) => node)
}

describe('two nodes', () => {
  let first: Service
  let second: Service

  beforeAll(async () => {
    first = await start({ NATS_URL: `nats://127.0.0.1:${natsOfFirst.port}` })
    second = await start()
    await eventually('each shows both', async () => {
      const counts = await Promise.all([first, second].map(async (node) => (await nodesOf(node)).length))
      return counts.every((count) => count === 2)
    })
  })
  // It would answer what the next ones ask of any node.
  afterAll(() => first.stop())

  // So that those of the next service are the only ones.

  it('each shows the sum of both', async () => {
    const now = (await ask(first, '/api/now')).json as Record<string, Members>
    expect(now['ring']['size_bytes']).toBe(2 * 67_108_864)
    expect(now['state']).toBe('serving')
    expect(now['queue']['kind']).toBe('stream')
  })

  it('each shows the refusals of both, and the accepted events of both', async () => {
    await Promise.all([post(first, single('ak_paused')), post(second, single('ak_paused'))])
    for (const node of [first, second]) expect(new Set(await refusedNodes(node)).size).toBe(2)
    await Promise.all([post(first, single('ak_shop')), post(second, single('ak_shop'))])
    const { apps } = (await ask(second, '/api/apps?app=shop')).json as Record<string, Members[]>
    // Too short a time to say how many a second.
    expect(apps[0]).toMatchObject({ last_hour: { accepted_events: 2 }, events_per_second: null })
  })

  it('each shows the events of both as they come', async () => {
    const stream = await openEventStream(first.adminPort, '/api/events/stream?app=shop')
    const names = () =>
      stream.events.filter(({ event }) => event === 'event').map(({ data }) => (data['event'] as Members)['name'])
    await eventually('an event of the other node is shown', async () => {
      await post(second, single('ak_shop', { name: 'of-second' }))
      return names().includes('of-second')
    })
    await post(first, single('ak_shop', { name: 'of-first' }))
    await eventually('an own event is shown', () => names().includes('of-first'))
    stream.close()
  })

  it('each shows the refusals of both as they come', async () => {
    const stream = await openEventStream(first.adminPort, '/api/refusals/stream?app=paused')
    const nodes = () => new Set(stream.events.map(({ data }) => data['node']))
    await eventually('refusals of both are shown', async () => {
      await Promise.all([post(first, single('ak_paused')), post(second, single('ak_paused'))])
      return nodes().size === 2
    })
    stream.close()
  })

  it('finds a batch in the stream, whichever node is asked', async () => {
    const id = String((await post(first, single('ak_shop'))).headers['x-batch-id'])
    for (const node of [first, second]) {
      expect((await ask(node, `/api/batches/${id}`)).json).toMatchObject({ found: true, place: { kind: 'stream' } })
    }
  })

  it('shows what is stored by either node, and finds it by any id, whichever node is asked', async () => {
    const ids = { event_id: randomUUID(), user_id: `user of ${randomUUID()}` }
    const key = randomUUID()
    const stored = await post(first, single('ak_shop', ids), { 'Idempotency-Key': key })
    const shop = { app_id: 'shop', batch_id: stored.headers['x-batch-id'] }
    const refused = (await post(first, single('ak_paused'))).headers['x-request-id']
    for (const node of [first, second]) {
      const { events } = (await ask(node, '/api/events?app=shop&limit=1')).json as Record<string, Members[]>
      expect(events).toMatchObject([{ ...shop, index: 0, node: null, event: ids }])
      const ofAll: readonly (readonly [unknown, object])[] = [
        [stored.headers['x-batch-id'], { kind: 'batch', ...shop }],
        [key, { kind: 'key', key, ...shop }],
        [ids.event_id, { kind: 'event', ...shop, event: ids }],
        [ids.user_id, { kind: 'user', ...shop, event: ids }],
        [refused, { kind: 'refusal', request_id: refused, app_id: 'paused' }],
      ]
      for (const [text, found] of ofAll) {
        const path = `/api/search?q=${encodeURIComponent(String(text))}`
        expect((await ask(node, path)).json).toMatchObject({ query: text, found: [found], complete: true })
      }
    }
  })

  it('shows the refusal of an X-Request-Id, whichever node refused and whichever is asked', async () => {
    const id = String((await post(first, single('ak_paused'))).headers['x-request-id'])
    for (const node of [first, second]) {
      const refusal = { request_id: id, app_id: 'paused', code: 'subscription_inactive' }
      expect((await ask(node, `/api/batches/${id}`)).json).toMatchObject({ found: true, refusal })
      const { code, stdout } = await runCommand(['find', id], { SLUICE_ADMIN_PORT: String(node.adminPort) })
      expect(stdout).toContain(`Request ${id} of app paused was refused`)
      expect(code).toBe(0)
    }
  })

  it('a node without NATS still shows itself, and says that it does not see the others', async () => {
    natsOfFirst.cut()
    await eventually('it says so', async () => {
      const now = (await ask(first, '/api/now')).json
      const states = (now['nodes'] as Members[])
        .map(({ state }) => String(state))
        .toSorted((one, other) => one.localeCompare(other))
      return now['state'] === 'refusing' && states.join() === 'refusing,silent'
    })
    natsOfFirst.heal()
    await eventually('both are shown again', async () =>
      (await nodesOf(first)).every(({ silent_seconds: seconds }) => seconds === 0),
    )
  })

  it('a node that was killed is shown as silent, and one that ended as it should is not shown', async () => {
    const third = await start()
    await eventually('three are shown', async () => (await nodesOf(first)).length === 3)
    await third.stop()
    await eventually('two are shown', async () => (await nodesOf(first)).length === 2)
    await second.kill()
    await eventually('the killed one is silent', async () => {
      const now = (await ask(first, '/api/now')).json
      const silent = (now['nodes'] as Members[]).filter(({ state }) => state === 'silent')
      return silent.length === 1 && String(now['state_reason']).includes('1 of 2 nodes does not answer')
    })
  })
})

describe('SLUICE_PROCESSES', () => {
  let service: Service
  let readKey: string

  beforeAll(async () => {
    const made = await runCommand(['apps', 'read-key', 'own'], { SLUICE_APPS_FILE: `${folder}/apps.json` })
    ;[readKey] = made.stdout.split('\n')
    service = await start({
      SLUICE_PROCESSES: '2',
      SLUICE_CONSOLE_TOKEN: TOKEN,
      SLUICE_ADMIN_HOST: '0.0.0.0',
      SLUICE_PORTAL_PORT: '0',
    })
  })

  const bearer = { Authorization: `Bearer ${TOKEN}` }

  it('shows each process as a node of its own, on the port of the supervisor', async () => {
    await eventually('both are shown', async () => {
      const { nodes = [] } = (await ask(service, '/api/now', bearer)).json as { nodes?: Members[] }
      return nodes.filter(({ state }) => state === 'serving').length >= 2
    })
    expect((await ask(service, '/api/now')).status).toBe(401)
  })

  it('lets a process answer what needs stores', async () => {
    const id = String((await post(service, single('ak_shop'))).headers['x-batch-id'])
    expect((await ask(service, `/api/batches/${id}`, bearer)).json).toMatchObject({ found: true, batch_id: id })
    expect((await ask(service, `/api/search?q=${id}`, bearer)).json).toMatchObject({ found: [{ batch_id: id }] })
    const newest = (await ask(service, '/api/events?limit=1', bearer)).json
    expect(newest).toMatchObject({ events: [{ batch_id: id }], complete: true })
    const example = (await ask(service, '/api/example', bearer)).json
    expect(example).toEqual({ port: service.port, tls: false, app_key: null })
    expect((await ask(service, '/api/apps', bearer)).json).toMatchObject({ total_apps: 3 })
    const explained = await send(
      { port: service.adminPort },
      { path: '/api/explain', body: single('ak_shop'), headers: bearer },
    )
    expect(explained.json).toMatchObject({ status: 202, code: 'accepted' })
  })

  it('streams what its processes store', async () => {
    const stream = await openEventStream(service.adminPort, '/api/events/stream?name=streamed', bearer)
    await eventually('the event is shown', async () => {
      await post(service, single('ak_shop', { name: 'streamed' }))
      return stream.events.some(({ event }) => event === 'event')
    })
    stream.close()
  })

  it('has the portal on the port of the supervisor, for the events of one app from all processes, by day too', async () => {
    const headers = { Authorization: `Bearer ${readKey}`, 'Content-Type': '(none)' }
    const shown = (path: string) => send({ port: service.portalPort }, { method: 'GET', path, headers })
    const stream = await openEventStream(service.portalPort, '/api/events/stream', headers)
    const ids: string[] = []
    for (let sent = 0; sent < 20; sent++) {
      ids.push(String((await post(service, single('ak_own'))).headers['x-batch-id']))
      await post(service, single('ak_shop'))
    }
    expect((await shown('/api/session')).json).toMatchObject({ app: { app_id: 'own' }, degraded_since: null })
    expect((await shown('/api/usage')).json).toMatchObject({ app_id: 'own', day: { used: 20 }, month: { used: 20 } })
    await eventually('the day has them', async () => {
      const { json } = await shown('/api/usage?days=2')
      const [app] = json['apps'] as { app_id: string; days: { events: number }[] }[]
      expect(app.app_id).toBe('own')
      return app.days[0].events + app.days[1].events === 20
    })
    const { events } = (await shown('/api/events')).json as { events: { app_id: string; batch_id: string }[] }
    expect(new Set(events.map(({ app_id: app }) => app))).toEqual(new Set(['own']))
    expect(new Set(events.map(({ batch_id: id }) => id))).toEqual(new Set(ids))
    expect((await shown(`/api/batches/${ids[0]}`)).json).toMatchObject({ found: true, batch_id: ids[0] })
    await eventually('they came live', () => ids.every((id) => stream.text.includes(id)))
    expect(stream.text).not.toMatch(/"app_id":"shop"|"node"/)
    stream.close()
    const wrong = { ...headers, Authorization: `Bearer ${TOKEN}` }
    expect(
      (await send({ port: service.portalPort }, { method: 'GET', path: '/api/usage', headers: wrong })).status,
    ).toBe(401)
    expect((await ask(service, '/api/now', { Authorization: `Bearer ${readKey}` })).status).toBe(401)
  })
})

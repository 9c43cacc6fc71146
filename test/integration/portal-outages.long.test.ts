// The portal while Redis or NATS is away: it says since when the service is degraded, and nothing of what is away.

import { hostname } from 'node:os'
import { beforeAll, expect, it } from 'vitest'
import { batch, post, send, single } from '../support/client.ts'
import { type Cluster, startCluster } from '../support/cluster.ts'
import { openEventStream } from '../support/event-stream.ts'
import type { Proxy } from '../support/proxy.ts'
import { appRecord, eventually, runCommand, type Service } from '../support/service.ts'

const ID = '0199f3a0-7c1e-7d2a-9f5b-3e8c1a2b4c6d'
/** What the operators are told of an outage. */
const OPERATORS_WORDS =
  /redis|nats|jetstream|stream_|bucket|partition|journal|spool|leader|queue_|"node"|"reason"|"parts"|econn/i
const PATHS = [
  '/api/session',
  '/api/usage',
  '/api/usage?days=35',
  '/api/alerts',
  '/api/events',
  '/api/refusals',
  `/api/batches/${ID}`,
]

let cluster: Cluster
let node: Service
const keys: string[] = []

beforeAll(async () => {
  const apps = [appRecord('shop'), appRecord('other')]
  cluster = await startCluster({ nodes: 1, apps, env: { SLUICE_PORTAL_PORT: '0' } })
  ;[node] = cluster.nodes
  // Each test has one, so that none takes another's searches.
  for (const name of ['first', 'second', 'third']) {
    const { stdout } = await runCommand(['apps', 'read-key', 'shop', '--name', name], cluster.commandEnv)
    keys.push(stdout.split('\n')[0] ?? '')
  }
  await eventually('the read keys are known', async () => (await ask('/api/session', keys[2])).status === 200)
})

function ask(path: string, key: string) {
  const headers = { Authorization: `Bearer ${key}`, 'Content-Type': '(none)' }
  return send({ port: node.portalPort }, { method: 'GET', path, headers })
}

async function degradedSince(key: string): Promise<unknown> {
  return (await ask('/api/session', key)).json['degraded_since']
}

function expectPlain(text: string): void {
  expect(text.match(OPERATORS_WORDS)?.[0]).toBeUndefined()
  expect(text).not.toContain(`${hostname()}-${node.pid}`)
}

/** Asks everything while a part is away. Returns the status of each path. */
async function askWhileAway(key: string): Promise<Record<string, number>> {
  const statuses: Record<string, number> = {}
  for (const path of PATHS) {
    const answer = await ask(path, key)
    statuses[path] = answer.status
    expect([path, [200, 503].includes(answer.status)]).toEqual([path, true])
    expectPlain(answer.whole)
    if (answer.status !== 503) continue
    expect(answer.json).toEqual({
      error: 'unavailable',
      message: expect.stringMatching(/^degraded since \d{4}-\d\d-\d\dT[\d:.]+Z: try again in a moment$/) as string,
    })
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
  }
  return statuses
}

/** Begins with a service that is well. */
async function whileAway(proxy: () => Proxy, key: string, use: () => Promise<void>): Promise<void> {
  await eventually('nothing is degraded', async () => (await degradedSince(key)) === null, 60_000)
  proxy().cut()
  try {
    await eventually('it is said', async () => {
      await post(node, single('ak_shop'))
      return (await degradedSince(key)) !== null
    })
    await use()
  } finally {
    proxy().heal()
  }
  await eventually('it is over', async () => (await degradedSince(key)) === null, 60_000)
}

it('with Redis away it says since when, keeps its streams, and shows what needs no Redis', async () => {
  const headers = { Authorization: `Bearer ${keys[0]}` }
  const stream = await openEventStream(node.portalPort, '/api/events/stream', headers)
  try {
    await whileAway(
      () => cluster.redisProxy,
      keys[0],
      async () => {
        const statuses = await askWhileAway(keys[0])
        expect(statuses).toMatchObject({ '/api/session': 200, '/api/events': 200, '/api/refusals': 200 })
        await eventually('what is sent meanwhile comes live', async () => {
          await post(node, batch('ak_other', 1))
          await post(node, batch('ak_shop', 1))
          return stream.text.includes('event: event')
        })
      },
    )
    expect(stream.isEnded).toBe(false)
    expect(stream.text).not.toContain('"app_id":"other"')
    expectPlain(stream.text)
  } finally {
    stream.close()
  }
})

it('with NATS away it shows 503s as one cause, and what was refused meanwhile', async () => {
  const headers = { Authorization: `Bearer ${keys[1]}` }
  const stream = await openEventStream(node.portalPort, '/api/refusals/stream', headers)
  try {
    await whileAway(
      () => cluster.natsProxy,
      keys[1],
      async () => {
        expect(await askWhileAway(keys[1])).toMatchObject({ '/api/session': 200, '/api/refusals': 200 })
        await post(node, single('ak_shop'))
        const { json } = await ask('/api/refusals', keys[1])
        const groups = json['groups'] as { code: string }[]
        expect(groups.filter(({ code }) => code === 'service_overloaded')).toHaveLength(1)
      },
    )
    expect(stream.isEnded).toBe(false)
    expect(stream.text).toContain('"code":"service_overloaded"')
    expectPlain(stream.text)
  } finally {
    stream.close()
  }
})

it('a node that starts without its stores opens the portal, which says that it is degraded', async () => {
  cluster.natsProxy.cut()
  try {
    const late = await cluster.startNode({ SLUICE_PORTAL_PORT: '0' })
    const asked = { method: 'GET', path: '/api/usage', headers: { Authorization: `Bearer ${keys[2]}` } }
    const answer = await send({ port: late.portalPort }, asked)
    expect([answer.status, answer.json['message']]).toEqual([503, expect.stringMatching(/^degraded since /)])
    expectPlain(answer.whole)
    // Whether a key is wrong is not known before the records are.
    const wrong = { Authorization: `Bearer rk_${'0'.repeat(40)}` }
    expect((await send({ port: late.portalPort }, { ...asked, headers: wrong })).status).toBe(503)
    cluster.natsProxy.heal()
    await eventually('it knows the key', async () => {
      return (await send({ port: late.portalPort }, { ...asked, headers: wrong })).status === 401
    })
    await eventually('it is shown', async () => (await send({ port: late.portalPort }, asked)).status === 200)
  } finally {
    cluster.natsProxy.heal()
  }
})

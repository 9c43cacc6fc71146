// Sessions of the console and of the portal with two nodes: one that is ended on either is ended on both, its streams too.

import { writeFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { send } from '../support/client.ts'
import { becomesReady } from '../support/cluster.ts'
import { openEventStream } from '../support/event-stream.ts'
import { startNats } from '../support/nats.ts'
import { startRedis } from '../support/redis.ts'
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
const NEW_TOKEN = 'another-token-of-characters'

let nodes: readonly Service[]
let tokenFile: string
let key: string

beforeAll(async () => {
  const [redis, nats, folder] = await Promise.all([startRedis(), startNats(), makeFolder()])
  tokenFile = `${folder}/token`
  writeFileSync(tokenFile, TOKEN)
  const apps = { SLUICE_APPS_FILE: `${folder}/apps.json` }
  await writeApps(apps.SLUICE_APPS_FILE, [appRecord('shop')])
  key = (await runCommand(['apps', 'read-key', 'shop'], apps)).stdout.split('\n')[0]
  const env = {
    ...apps,
    REDIS_URL: redis.url,
    NATS_URL: nats.url,
    SLUICE_ADMIN_HOST: '127.0.0.1',
    SLUICE_CONSOLE_TOKEN_FILE: tokenFile,
    SLUICE_PORTAL_PORT: '0',
    SLUICE_PARSERS: '1',
  }
  nodes = await Promise.all([1, 2].map(() => startService({ dataDir: folder, env })))
  await Promise.all(nodes.map(becomesReady))
  await eventually('each knows the other', async () => {
    const headers = { 'Content-Type': '(none)', Authorization: `Bearer ${TOKEN}` }
    const asked = nodes.map(({ adminPort: port }) => send({ port }, { method: 'GET', path: '/api/now', headers }))
    return (await Promise.all(asked)).every(({ json }) => (json['nodes'] as unknown[]).length === 2)
  })
})

const PORTS: Readonly<Record<string, (node: Service) => number>> = {
  console: ({ adminPort }) => adminPort,
  portal: ({ portalPort }) => portalPort,
}

async function signIn(port: number, token: string): Promise<{ readonly Cookie: string }> {
  const opened = await send({ port }, { path: '/api/session', body: JSON.stringify({ token }) })
  expect(opened.status).toBe(204)
  return { Cookie: (opened.headers['set-cookie']?.[0] ?? '').replace(/;.*/, '') }
}

async function statuses(portOf: (node: Service) => number, cookie: { readonly Cookie: string }): Promise<number[]> {
  const headers = { 'Content-Type': '(none)', ...cookie }
  const asked = nodes.map((node) => send({ port: portOf(node) }, { method: 'GET', path: '/api/alerts', headers }))
  return (await Promise.all(asked)).map(({ status }) => status)
}

describe.each(['console', 'portal'])('a session of the %s', (name) => {
  const portOf = PORTS[name]

  it('that is signed out on one node ends on both with its streams, and no other one does', async () => {
    const token = name === 'console' ? TOKEN : key
    const [first, second] = nodes.map(portOf)
    const [ended, other] = [await signIn(first, token), await signIn(first, token)]
    expect(await statuses(portOf, ended)).toEqual([200, 200])
    const streams = [
      await openEventStream(second, '/api/alerts/stream', ended),
      await openEventStream(second, '/api/events/stream', other),
    ]
    const out = await send({ port: first }, { method: 'DELETE', path: '/api/session', headers: ended })
    expect(out.status).toBe(204)
    await eventually('it has ended on both', async () =>
      (await statuses(portOf, ended)).every((status) => status === 401),
    )
    expect(await statuses(portOf, other)).toEqual([200, 200])
    await eventually('its stream has ended', () => streams[0].isEnded)
    expect(streams[1].isEnded).toBe(false)
    streams[1].close()
  })
})

it('a new token in the file ends the sessions of the console on each node, and their streams', async () => {
  const session = await signIn(nodes[0].adminPort, TOKEN)
  const { console: portOf } = PORTS
  expect(await statuses(portOf, session)).toEqual([200, 200])
  const stream = await openEventStream(nodes[1].adminPort, '/api/alerts/stream', session)
  writeFileSync(tokenFile, NEW_TOKEN)
  await eventually('it has ended on both', async () =>
    (await statuses(portOf, session)).every((status) => status === 401),
  )
  await eventually('its stream has ended', () => stream.isEnded)
  expect(await statuses(portOf, await signIn(nodes[1].adminPort, NEW_TOKEN))).toEqual([200, 200])
})

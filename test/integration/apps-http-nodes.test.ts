// App records over HTTP on nodes that share Redis and NATS: two of them are asked at once, and records in a file.

import { beforeAll, expect, it } from 'vitest'
import { post, send, single } from '../support/client.ts'
import { becomesReady, type Cluster, startCluster } from '../support/cluster.ts'
import { appRecord, eventually, makeFolder, type Service, writeApps } from '../support/service.ts'

const TOKEN = 'a-token-of-twenty-characters'
const RECORD = { plan: '10k', subscription: 'active' }
const KEYS = 12

let cluster: Cluster
beforeAll(async () => {
  cluster = await startCluster({
    nodes: 2,
    apps: [appRecord('old'), appRecord('shop')],
    env: { SLUICE_CONSOLE_TOKEN: TOKEN, SLUICE_PORTAL_PORT: '0', SLUICE_PARSERS: '1' },
  })
})

const put = (node: Service, app: string, record: object) =>
  send(
    { port: node.adminPort },
    {
      method: 'PUT',
      path: `/api/apps/${app}`,
      headers: { Authorization: `Bearer ${TOKEN}` },
      body: JSON.stringify(record),
    },
  )

it('two nodes that give one new key to two apps at once: one app has it, and the other is refused', async () => {
  const winners: string[] = []
  for (let at = 0; at < KEYS; at++) {
    const app_key = `ak_wanted_${at}`
    const answers = await Promise.all(
      cluster.nodes.map(async (node, index) => ({
        app: `app-${index}-${at}`,
        answer: await put(node, `app-${index}-${at}`, { ...RECORD, app_key }),
      })),
    )
    const made = answers.filter(({ answer }) => answer.status === 201)
    const refused = answers.filter(({ answer }) => answer.status === 400)
    expect([made.length, refused.length]).toEqual([1, 1])
    expect(refused[0].answer.json).toEqual({ error: 'bad_record', message: 'app_key: another app has this key' })
    winners.push(made[0].app)
  }
  // An app that had a record keeps that, with its own key.
  const [first, second] = cluster.nodes
  const both = await Promise.all([
    put(first, 'old', { ...RECORD, app_key: 'ak_last' }),
    put(second, 'new', { ...RECORD, app_key: 'ak_last' }),
  ])
  expect(both.map(({ status }) => status)).toEqual(both[0].status === 200 ? [200, 400] : [400, 201])
  const oldKey = both[0].status === 200 ? 'ak_last' : 'ak_old'
  for (const node of cluster.nodes) {
    for (const [at, app] of winners.entries()) {
      await eventually(`${app} has its key on each node`, async () => {
        const path = `/api/apps/${app}/usage`
        await post(node, single(`ak_wanted_${at}`))
        const asked = { method: 'GET', path, headers: { Authorization: `Bearer ${TOKEN}`, 'Content-Type': '(none)' } }
        const { json } = await send({ port: node.adminPort }, asked)
        return (json['month'] as { used: number } | undefined)?.used !== 0
      })
    }
    await eventually('the old app has its key', async () => (await post(node, single(oldKey))).status === 202)
  }
})

it('two nodes that make read keys of one app at once lose none and give a name once; each key opens both portals', async () => {
  const headers = { Authorization: `Bearer ${TOKEN}` }
  const make = (name: string) =>
    Promise.all(
      cluster.nodes.map((node, at) => {
        const body = JSON.stringify({ name: name.replace('*', String(at)) })
        return send({ port: node.adminPort }, { path: '/api/apps/shop/read-keys', headers, body })
      }),
    )
  const keys: string[] = []
  for (const name of ['one-*', 'two-*', 'three-*']) {
    for (const { status, json } of await make(name)) {
      expect(status).toBe(201)
      keys.push(String(json['key']))
    }
  }
  const same = (await make('same')).map(({ status }) => status)
  expect(same.toSorted((one, other) => one - other)).toEqual([201, 409])
  for (const node of cluster.nodes) {
    for (const key of keys) {
      const asked = { method: 'GET', path: '/api/session', headers: { Authorization: `Bearer ${key}` } }
      await eventually('the key opens the portal', async () => {
        return (await send({ port: node.portalPort }, asked)).status === 200
      })
    }
  }
})

it('in a file beside Redis and NATS, none can be changed by a node: 409 apps_in_file', async () => {
  const file = `${await makeFolder()}/apps.json`
  await writeApps(file, [appRecord('shop')])
  const node = await cluster.startNode({ SLUICE_APPS_FILE: file })
  await becomesReady(node)
  const { status, json } = await put(node, 'shop', RECORD)
  expect([status, json['error']]).toEqual([409, 'apps_in_file'])
})

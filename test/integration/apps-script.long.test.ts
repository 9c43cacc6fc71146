// A thousand apps made over HTTP by a script on two nodes, whose records are in the bucket.

import { expect, it } from 'vitest'
import { post, send, single } from '../support/client.ts'
import { startCluster } from '../support/cluster.ts'
import { eventually } from '../support/service.ts'

const TOKEN = 'a-token-of-twenty-characters'
const APPS = 1000
const AT_ONCE = 20

it('a thousand apps are made by a script on two nodes, and each node takes their events', {
  timeout: 300_000,
}, async () => {
  const { nodes } = await startCluster({
    nodes: 2,
    apps: [],
    env: { SLUICE_CONSOLE_TOKEN: TOKEN, SLUICE_PARSERS: '1' },
  })
  const headers = { Authorization: `Bearer ${TOKEN}` }
  const keys: string[] = []
  const statuses = new Set<number>()
  let next = 0
  const work = async (): Promise<void> => {
    while (next < APPS) {
      const at = next++
      const body = JSON.stringify({ plan: '10k', subscription: 'active' })
      const asked = { method: 'PUT', path: `/api/apps/many-${at}`, headers, body }
      const { status, json } = await send({ port: nodes[at % 2].adminPort }, asked)
      statuses.add(status)
      keys.push(String(json['app_key']))
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  expect([[...statuses], new Set(keys).size]).toEqual([[201], APPS])
  for (const node of nodes) {
    await eventually('it has all of them', async () => {
      const asked = { method: 'GET', path: '/api/apps?top=10000', headers: { ...headers, 'Content-Type': '(none)' } }
      const { json } = await send({ port: node.adminPort }, asked)
      return (json['apps'] as unknown[]).length === APPS
    })
    for (const key of keys.filter((_, at) => at % 100 === 0)) expect((await post(node, single(key))).status).toBe(202)
  }
})

// Two installations, each with a NATS of its own, on one Redis: they are told apart, and only the first one audits.

import { beforeAll, expect, test } from 'vitest'
import { get } from '../support/client.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { appRecord, eventually, makeFolder, runCommand, type Service, startService } from '../support/service.ts'

let redis: RedisServer
let natsServers: NatsServer[] = []
const nodes: Service[] = []

beforeAll(async () => {
  ;[redis, ...natsServers] = (await Promise.all([startRedis(), startNats(), startNats()])) as [
    RedisServer,
    ...NatsServer[],
  ]
})

async function startNode(nats: NatsServer): Promise<Service> {
  const dataDir = await makeFolder()
  const env = {
    REDIS_URL: redis.url,
    NATS_URL: nats.url,
    SLUICE_ADMIN_HOST: '127.0.0.1',
    SLUICE_APPS_FILE: `${dataDir}/apps.json`,
  }
  const node = await startService({ dataDir, apps: [appRecord('shop')], env })
  nodes.push(node)
  return node
}

async function audited(node: Service): Promise<string> {
  const { text } = await get(node.adminPort, '/readyz?verbose')
  return /^audit: (.*)$/m.exec(text)?.[1] ?? ''
}

test('nodes of the second audit nothing, the first keeps all partitions, both say so, and check fails', async () => {
  const [one, two] = natsServers
  const first = await startNode(one)
  await eventually('the first audits all partitions', async () => (await audited(first)).includes('15'))
  const second = await startNode(two)
  await eventually('the second says it', () =>
    second.output().includes('REDIS_URL is the Redis of another installation'),
  )
  await eventually(
    'so does the first',
    () => first.output().includes('nodes of another installation, with another stream'),
    30_000,
  )
  for (let look = 0; look < 3; look++) {
    expect(await audited(first)).toContain('partitions 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15')
    expect(await audited(second)).toContain('no partition')
  }
  for (const nats of natsServers) {
    const check = await runCommand(['check'], { REDIS_URL: redis.url, NATS_URL: nats.url })
    expect(check.code).toBe(1)
    expect(check.output).toMatch(/^FAIL +installations +nodes of another installation/m)
  }
  const errors = first
    .output()
    .split('\n')
    .filter((line) => line.includes('with another stream'))
  expect(errors, 'once').toHaveLength(1)
  expect(first.output()).not.toContain('SluiceStoreLost')
  expect(second.output()).not.toContain('SluiceStoreLost')
})

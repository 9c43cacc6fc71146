// Passwords change without an outage, as docs/kubernetes.md and docs/redis.md have it: NATS knows two users of the nodes, Redis
// two passwords of one user, and the nodes are replaced one after the other.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { Redis } from 'ioredis'
import { expect, it, onTestFinished } from 'vitest'
import { get, post, single } from '../support/client.ts'
import { becomesReady } from '../support/cluster.ts'
import { buildKustomization } from '../support/kustomize.ts'
import { startProductionNats, urlOf } from '../support/manifest-nats.ts'
import { startRedis } from '../support/redis.ts'
import { eventually, makeFolder, runCommand, type Service, sleep, startService } from '../support/service.ts'

const APP_KEY = 'ak_rotation'
const PAUSE_MS = 5
const PAGE = readFileSync(resolve(import.meta.dirname, '../../docs/redis.md'), 'utf8')

/** What docs/redis.md gives the user, without its password. */
function rightsOfThePage(): string[] {
  const [, rights] = /^ACL SETUSER (sluice on .*) >\S+$/m.exec(PAGE) ?? []
  if (rights === undefined) throw new Error('docs/redis.md makes no user')
  return rights.split(' ')
}

async function startNode(env: Readonly<Record<string, string>>): Promise<Service> {
  const dataDir = await makeFolder()
  const node = await startService({ dataDir, env: { SLUICE_PARSERS: '1', ...env } })
  onTestFinished(() => node.kill())
  await becomesReady(node)
  return node
}

it('every batch is answered 202 while both passwords change', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const admin = new Redis(redis.port, '127.0.0.1')
  onTestFinished(() => admin.disconnect())
  await admin.call('ACL', 'SETUSER', ...rightsOfThePage(), '>old')
  const redisUrl = (password: string): string => `redis://sluice:${password}@127.0.0.1:${redis.port}`
  const nats = await startProductionNats(await buildKustomization('deploy/overlays/production'))
  onTestFinished(nats.stop)
  const both = { SLUICE_STREAM_REPLICAS: '3', SLUICE_ADMIN_HOST: '127.0.0.1' }
  const before = { ...both, REDIS_URL: redisUrl('old'), NATS_URL: urlOf(nats.servers, 'sluice') }
  const after = { ...both, REDIS_URL: redisUrl('new'), NATS_URL: urlOf(nats.servers, 'sluice2', 'pNew') }
  const operator = { REDIS_URL: redisUrl('old'), NATS_URL: urlOf(nats.servers, 'operator') }
  const flags = ['--app-id', 'rotation', '--app-key', APP_KEY, '--plan', '5m', '--subscription', 'active']
  let serving = await startNode(before)
  const added = await runCommand(['apps', 'add', ...flags], operator)
  expect(added.code, added.output).toBe(0)
  await eventually('a batch is stored', async () => (await post(serving, single(APP_KEY))).status === 202)
  const old = serving
  const answers = new Map<number, number>()
  const ending = new AbortController()
  const load = (async () => {
    while (!ending.signal.aborted) {
      const { status } = await post(serving, single(APP_KEY))
      answers.set(status, (answers.get(status) ?? 0) + 1)
      await sleep(PAUSE_MS)
    }
  })()
  const more = async (): Promise<void> => {
    const count = answers.get(202) ?? 0
    await eventually('batches are stored', () => (answers.get(202) ?? 0) > count + 10)
  }
  await more()
  await nats.reload({ sluice2: 'pNew' })
  await admin.call('ACL', 'SETUSER', 'sluice', '>new')
  await more()
  serving = await startNode(after)
  await more()
  expect((await old.stop()).code).toBe(0)
  await nats.reload({ sluice: 'pGone', sluice2: 'pNew' })
  await admin.call('ACL', 'SETUSER', 'sluice', '<old')
  await eventually('the old ones are refused', async () => {
    const { output } = await runCommand(['check'], before)
    return /FAIL +redis/.test(output) && /FAIL +nats/.test(output)
  })
  await more()
  expect([...answers.keys()]).toEqual([202])
  // What the servers say to each other: for a moment a batch may have to be sent again, while the stream's copies elect.
  await nats.reload({ sluice: 'pGone', sluice2: 'pNew', routes: 'pRoutes2' })
  for (const { monitorPort, program } of nats.servers) {
    const routes = async () =>
      (JSON.parse((await get(monitorPort, '/routez')).text) as { num_routes: number }).num_routes
    await eventually('it has routes to the two others', async () => (await routes()) >= 2)
    expect(program.output()).not.toContain('Failed to reload')
  }
  await more()
  ending.abort()
  await load
  expect([...answers.keys()].every((status) => status === 202 || status === 503)).toBe(true)
  // On a busy machine one answer of Redis may have been slow just before.
  await eventually('its limits are in Redis', async () =>
    (await get(serving.adminPort, '/readyz?verbose')).text.includes('limits: ok, in Redis'),
  )
  // The old password of `sluice check` is in it, and no command or key that the service lacks.
  const refused = (await admin.call('ACL', 'LOG')) as string[][]
  expect([...new Set(refused.map((entry) => entry[entry.indexOf('reason') + 1]))]).toEqual(['auth'])
})

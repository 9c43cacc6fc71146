// Passwords change without an outage, as docs/kubernetes.md and docs/redis.md have it: NATS knows two users of the nodes, Redis
// two passwords of one user, and the nodes are replaced one after the other.

import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { Redis } from 'ioredis'
import { expect, it, onTestFinished } from 'vitest'
import { get, post, single } from '../support/client.ts'
import { becomesReady } from '../support/cluster.ts'
import { NATS_SERVER } from '../support/nats.ts'
import { startProgram } from '../support/programs.ts'
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

async function startNatsWithUsers(passwords: Readonly<Record<string, string>>) {
  let configure: (next: Readonly<Record<string, string>>) => void = () => {}
  const nats = await startProgram({
    name: 'nats',
    command: ({ port, folder }) => {
      const file = join(folder, 'nats.conf')
      const head = `host: 127.0.0.1\nport: ${port}\njetstream { store_dir: ${JSON.stringify(join(folder, 'data'))} }\n`
      configure = (next) => {
        const users = Object.entries(next).map(([user, password]) => `{ user: ${user}, password: ${password} }`)
        writeFileSync(file, `${head}accounts { SLUICE { jetstream: enabled, users: [${users.join(', ')}] } }\n`)
      }
      configure(passwords)
      return [NATS_SERVER, '--config', file]
    },
  })
  onTestFinished(() => nats.stop())
  return {
    urlOf: (user: string, password: string) => `nats://${user}:${password}@127.0.0.1:${nats.port}`,
    /** nats-server reads its configuration again. */
    reload(next: Readonly<Record<string, string>>) {
      configure(next)
      process.kill(nats.pid, 'SIGHUP')
    },
  }
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
  const nats = await startNatsWithUsers({ sluice: 'pOld', sluice2: 'pIdle' })
  const before = { REDIS_URL: redisUrl('old'), NATS_URL: nats.urlOf('sluice', 'pOld') }
  const after = { REDIS_URL: redisUrl('new'), NATS_URL: nats.urlOf('sluice2', 'pNew') }
  const flags = ['--app-id', 'rotation', '--app-key', APP_KEY, '--plan', '5m', '--subscription', 'active']
  expect((await runCommand(['apps', 'add', ...flags], before)).code).toBe(0)

  let serving = await startNode(before)
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
  nats.reload({ sluice: 'pOld', sluice2: 'pNew' })
  await admin.call('ACL', 'SETUSER', 'sluice', '>new')
  await more()
  serving = await startNode(after)
  await more()
  expect((await old.stop()).code).toBe(0)
  nats.reload({ sluice: 'pGone', sluice2: 'pNew' })
  await admin.call('ACL', 'SETUSER', 'sluice', '<old')
  await eventually('the old ones are refused', async () => {
    const { output } = await runCommand(['check'], before)
    return /FAIL +redis/.test(output) && /FAIL +nats/.test(output)
  })
  await more()
  ending.abort()
  await load
  expect([...answers.keys()]).toEqual([202])
  // On a busy machine one answer of Redis may have been slow just before.
  await eventually('its limits are in Redis', async () =>
    (await get(serving.adminPort, '/readyz?verbose')).text.includes('limits: ok, in Redis'),
  )
  // The old password of `sluice check` is in it, and no command or key that the service lacks.
  const refused = (await admin.call('ACL', 'LOG')) as string[][]
  expect([...new Set(refused.map((entry) => entry[entry.indexOf('reason') + 1]))]).toEqual(['auth'])
})

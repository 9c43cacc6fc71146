// deploy/password.sh against a double of kubectl: no node uses a password that a server of NATS lacks, and none loses the one it uses.

import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import { parseNatsUrl } from '../../src/nats/address.ts'
import { passwordFiles } from '../support/manifest-nats.ts'
import { makeFolder } from '../support/service.ts'

const SCRIPT = resolve(import.meta.dirname, '../../deploy/password.sh')
const DOUBLE = resolve(import.meta.dirname, '../support/kubectl-double.js')
const PODS = ['nats-0', 'nats-1', 'nats-2']
const RELOADED = PODS.map((pod) => `reload ${pod}`)
const urls = (user: string, password: string): string =>
  PODS.map((pod) => `nats://${user}:${password}@${pod}.nats:4222`).join(',')

interface Cluster {
  others: string[]
  secrets: Record<string, Record<string, string>>
  servers: Record<string, { files: Record<string, string>; loaded?: Record<string, string>; behind: number }>
  log: { what: string }[]
}

let file: string
let waitSeconds: string
beforeEach(async () => {
  waitSeconds = '600'
  file = join(await makeFolder(), 'cluster.json')
})

function clusterOf(more: object = {}): void {
  const files = passwordFiles([1, 2, 3])
  const secrets = {
    'nats-passwords': files,
    'sluice-connections': { NATS_URL: urls('sluice', 'pSluice1') },
    'toolbox-connections': { NATS_URL: urls('operator', 'pOperator1') },
  }
  const servers = Object.fromEntries(PODS.map((pod) => [pod, { files, behind: 0 }]))
  const workloads = { 'deployment/sluice': { replicas: 3, ready: 3 } }
  const cluster = {
    secrets,
    servers,
    workloads,
    claims: [],
    pods: [],
    jobs: {},
    others: [],
    room: 100,
    least: 1000,
    log: [],
  }
  writeFileSync(file, JSON.stringify({ ...cluster, ...more }))
}

async function run(...args: string[]): Promise<{ code: number; output: string; cluster: Cluster; did: string[] }> {
  const env = {
    ...process.env,
    KUBECTL: `${process.execPath} ${DOUBLE}`,
    CLUSTER: file,
    POLL_SECONDS: '0',
    WAIT_SECONDS: waitSeconds,
  }
  const { code, output } = await new Promise<{ code: number; output: string }>((done) => {
    execFile('bash', [SCRIPT, ...args], { env }, (error, stdout, stderr) =>
      done({ code: typeof error?.code === 'number' ? error.code : 0, output: stdout + stderr }),
    )
  })
  const cluster = JSON.parse(readFileSync(file, 'utf8')) as Cluster
  return { code, output, cluster, did: cluster.log.map(({ what }) => what) }
}

const passwordOf = (text: string): string => /_PASSWORD: (p[0-9a-f]{48})$/.exec(text)?.[1] ?? `none in ${text}`

it('moves the nodes to the idle user once each server has its new password, then changes that of the other', async () => {
  clusterOf()
  const { code, output, cluster, did } = await run('nodes')
  expect(code, output).toBe(0)
  expect(did).toEqual([
    'annotate sluice-nodes-move=yes',
    'patch nats-passwords sluice2.conf',
    ...RELOADED,
    'patch sluice-connections NATS_URL',
    'rollout restart deployment/sluice',
    'rollout status deployment/sluice',
    'annotate sluice-nodes-move-',
    'patch nats-passwords sluice.conf',
    ...RELOADED,
  ])
  const [fresh, other] = ['sluice2.conf', 'sluice.conf'].map((name) =>
    passwordOf(cluster.secrets['nats-passwords']?.[name] ?? ''),
  )
  const { user, password, servers } = parseNatsUrl(cluster.secrets['sluice-connections']?.['NATS_URL'] ?? '')
  expect({ user, password }).toEqual({ user: 'sluice2', password: fresh })
  expect(servers).toEqual(PODS.map((pod) => ({ host: `${pod}.nats`, port: 4222 })))
  expect(other).not.toBe(fresh)
  for (const { loaded } of Object.values(cluster.servers)) expect(loaded).toEqual(cluster.secrets['nats-passwords'])
  expect(output).not.toContain(fresh)
})

it('moves the nodes back the next time, and those of a StatefulSet as well', async () => {
  clusterOf({ workloads: { 'statefulset/sluice': { replicas: 3, ready: 3 } } })
  await run('nodes')
  const { cluster, did } = await run('nodes')
  expect(cluster.others).toEqual([])
  expect(did.filter((what) => what.startsWith('rollout restart'))).toEqual(
    Array(2).fill('rollout restart statefulset/sluice'),
  )
  expect(parseNatsUrl(cluster.secrets['sluice-connections']?.['NATS_URL'] ?? '').user).toBe('sluice')
})

it('leaves the nodes where they are when a server does not take its new configuration', async () => {
  clusterOf({ reload: 'fails' })
  const { code, output, did } = await run('nodes')
  expect(code).toBe(1)
  expect(output).toContain('nats-0 goes on with its old passwords')
  expect(did.slice(1)).toEqual(['patch nats-passwords sluice2.conf', 'reload nats-0'])
})

it('has all nodes become what the Secret says before it changes a password that some of them may have', async () => {
  clusterOf({ moving: 'yes' })
  const { code, did } = await run('nodes')
  expect(code).toBe(0)
  expect(did.slice(0, 4)).toEqual([
    'rollout restart deployment/sluice',
    'rollout status deployment/sluice',
    'annotate sluice-nodes-move=yes',
    'patch nats-passwords sluice2.conf',
  ])
})

it('gives up where a file does not come to its server', async () => {
  clusterOf({ calls: 1000 })
  waitSeconds = '2'
  const { code, output, did } = await run('reader')
  expect(code).toBe(1)
  expect(output).toContain('reader.conf did not come to nats-0 in 2 s: it goes on with the one of before')
  expect(did).toEqual(['patch nats-passwords reader.conf'])
})

it('gives the operator, the reader and the servers new ones, each where it is used, whatever else servers say', async () => {
  clusterOf({ chatter: 3000 })
  for (const who of ['operator', 'reader', 'routes']) expect((await run(who)).code).toBe(0)
  const { cluster } = await run('system')
  const { user, password } = parseNatsUrl(cluster.secrets['toolbox-connections']?.['NATS_URL'] ?? '')
  const files = cluster.secrets['nats-passwords'] ?? {}
  expect({ user, password }).toEqual({ user: 'operator', password: passwordOf(files['operator.conf'] ?? '') })
  const routes = [...(files['routes.conf'] ?? '').matchAll(/(?:password: |routes:)(p\w+)/g)].map(([, word]) => word)
  expect(routes).toHaveLength(4)
  expect(new Set(routes).size).toBe(1)
  expect(routes[0]).toMatch(/^p[0-9a-f]{48}$/)
  expect(files['routes.conf']).toBe(passwordFiles([1, 2, 3], { routes: routes[0] })['routes.conf'])
})

it('moves the nodes of both workloads, while those are moved from one to the other', async () => {
  clusterOf({
    workloads: { 'deployment/sluice': { replicas: 3, ready: 3 }, 'statefulset/sluice': { replicas: 3, ready: 1 } },
  })
  const { code, did } = await run('nodes')
  expect(code).toBe(0)
  const kinds = ['deployment', 'statefulset']
  expect(did.filter((what) => what.startsWith('rollout'))).toEqual(
    ['restart', 'status'].flatMap((what) => kinds.map((kind) => `rollout ${what} ${kind}/sluice`)),
  )
})

const BASE = {
  'nats-passwords': passwordFiles([1, 2, 3]),
  'sluice-connections': { NATS_URL: urls('sluice', 'pSluice1') },
}
it.each<[string, object, string, string]>([
  [
    'a server has no pod',
    { servers: { 'nats-0': { files: {}, behind: 0 } } },
    'reader',
    'not all 3 servers of NATS have a pod',
  ],
  ['another run is under way', { others: ['nats-password-changes'] }, 'nodes', 'another run is under way'],
  [
    'a login is missing',
    { secrets: { ...BASE, 'toolbox-connections': {} } },
    'operator',
    'names no user with a password',
  ],
  [
    'a login names nobody',
    { secrets: { ...BASE, 'sluice-connections': { NATS_URL: 'nats://nats-0.nats:4222' } } },
    'nodes',
    'names no user',
  ],
  ['there are no routes', { secrets: { ...BASE, 'nats-passwords': {} } }, 'routes', 'has no routes.conf'],
])('changes nothing where %s', async (_what, more, who, message) => {
  clusterOf(more)
  const { code, output, did } = await run(who)
  expect([code, output]).toEqual([1, expect.stringContaining(message)])
  expect(did).toEqual([])
})

it('prints its usage for an unknown argument', async () => {
  clusterOf()
  const { code, output, did } = await run('everybody')
  expect(code).toBe(2)
  expect(output).toContain('deploy/password.sh nodes')
  expect(did).toEqual([])
})

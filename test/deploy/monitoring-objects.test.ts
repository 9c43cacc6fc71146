// What deploy/monitoring gives to a cluster: objects that find the Service of deploy/base, and whom its network policy lets
// in. That the operator's schemas know them is kubernetes.test.ts's to say.

import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { objectsOf, selects } from '../support/kubernetes-view.ts'
import { buildKustomization, type KubernetesObject } from '../support/kustomize.ts'
import { type RuleFile, runbookUrls } from '../support/rules.ts'

const MONITORING = resolve(import.meta.dirname, '../../deploy/monitoring')
const MEBIBYTE = 1024 * 1024
const NAMESPACE_LABEL = 'kubernetes.io/metadata.name'

type Rules = KubernetesObject & { readonly spec: RuleFile }

let objects: KubernetesObject[]
let base: KubernetesObject[]

beforeAll(async () => {
  objects = await buildKustomization('deploy/monitoring')
  base = await buildKustomization('deploy/base')
})

function one(from: readonly KubernetesObject[], kind: string): any {
  // The toolbox has objects of its own, which nobody monitors.
  const found = objectsOf(from, kind).filter(({ metadata }) => metadata.name !== 'toolbox')
  expect(found.map(({ metadata }) => metadata.name)).toHaveLength(1)
  return found[0]
}

test('kustomize builds a rule, a monitor and a dashboard, all for the namespace of Prometheus', () => {
  expect(objects.map(({ kind, metadata }) => `${metadata.namespace}/${kind}/${metadata.name}`).sort()).toEqual([
    'monitoring/ConfigMap/sluice-dashboard',
    'monitoring/PrometheusRule/sluice',
    'monitoring/ServiceMonitor/sluice',
  ])
})

test('each alert leads to its section of the runbooks by a whole address', () => {
  const rule: Rules = one(objects, 'PrometheusRule')
  const page = rule.metadata.annotations?.['runbooks']
  expect(page).toMatch(/^https:\/\/.+\/docs\/runbooks\.md$/)
  const labels = rule.spec.groups.flatMap((group) => group.rules.flatMap((each) => each.labels?.['runbook'] ?? []))
  expect(labels.length).toBeGreaterThan(20)
  expect(runbookUrls(rule)).toEqual(labels.map((anchor) => `${page}#${anchor}`))
})

describe('the service monitor', () => {
  test('selects the admin Service alone, in the namespace of sluice, and names its port', () => {
    const { spec } = one(objects, 'ServiceMonitor')
    const selected = objectsOf<any>(base, 'Service').filter(({ metadata }) => selects(spec.selector, metadata.labels))
    expect(selected.map(({ metadata }) => metadata.name)).toEqual(['sluice-admin'])
    const [service] = selected
    expect(spec.namespaceSelector.matchNames).toEqual([service.metadata.namespace])
    expect(spec.endpoints).toMatchObject([{ port: 'admin' }])
    expect(service.spec.ports).toContainEqual(expect.objectContaining({ name: 'admin' }))
    expect(service.spec).toMatchObject({ clusterIP: 'None', publishNotReadyAddresses: true })
    expect(service.metadata.labels?.[spec.jobLabel], 'the job that all rules go by').toBe('sluice')
  })

  test('scrapes often enough for the shortest window of the rules to hold eight scrapes', () => {
    const { spec } = one(objects, 'ServiceMonitor')
    const windows = readFileSync(join(MONITORING, 'prometheus-rule.yaml'), 'utf8').matchAll(/\[(\d+)m\]/g)
    const shortestSeconds = Math.min(...[...windows].map(([, minutes]) => Number(minutes) * 60))
    for (const { interval, scrapeTimeout, path } of spec.endpoints) {
      expect(interval).toBe('15s')
      expect(shortestSeconds / Number.parseInt(interval, 10)).toBeGreaterThanOrEqual(8)
      expect(Number.parseInt(scrapeTimeout, 10)).toBeLessThan(Number.parseInt(interval, 10))
      expect(path).toBe('/metrics')
    }
  })

  test('runs in a namespace that the network policy lets reach the admin port', () => {
    const { metadata } = one(objects, 'ServiceMonitor')
    const { spec } = one(base, 'NetworkPolicy')
    const toAdmin = spec.ingress.filter(({ ports }: any) => ports.some(({ port }: any) => port === 'admin'))
    const namespaces = toAdmin.flatMap(({ from = [] }: any) =>
      from.map(({ namespaceSelector }: any) => namespaceSelector?.matchLabels[NAMESPACE_LABEL]),
    )
    expect(namespaces).toEqual([metadata.namespace])
  })
})

test("the dashboard's map holds dashboard.json under the label that Grafana looks for", () => {
  const map = one(objects, 'ConfigMap')
  expect(map.metadata.labels).toMatchObject({ grafana_dashboard: '1' })
  expect(map.data).toEqual({ 'sluice.json': readFileSync(join(MONITORING, 'dashboard.json'), 'utf8') })
})

test("a node's memory alerts before the container's limit ends it", () => {
  const { spec } = one(base, 'Deployment')
  const { data } = one(base, 'ConfigMap')
  const rules: Rules = one(objects, 'PrometheusRule')
  const rule = rules.spec.groups.flatMap((group) => group.rules).find(({ alert }) => alert === 'SluiceMemoryHigh')
  const factors = [...(rule?.expr ?? '').matchAll(/([\d.]+) \* /g)].map(([, factor]) => Number(factor))
  const [ring, key, rest] = factors
  const alertBytes = ring * Number(data['SLUICE_RING_MB']) * MEBIBYTE + key * Number(data['SLUICE_MAX_KEYS']) + rest
  const { memory } = spec.template.spec.containers[0].resources.limits
  expect(memory).toMatch(/^\d+Mi$/)
  expect(alertBytes).toBeGreaterThan(300 * MEBIBYTE)
  expect(alertBytes).toBeLessThan(0.9 * Number.parseInt(memory, 10) * MEBIBYTE)
})

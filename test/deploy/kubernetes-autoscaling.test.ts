// The metric by which production's autoscaler counts: asked of Prometheus as the adapter asks, over series that a node
// really has.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { IHorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { objectsOf, quantity } from '../support/kubernetes-view.ts'
import { buildKustomization, type KubernetesObject, overlayWith } from '../support/kustomize.ts'
import { metricsOf } from '../support/processes.js'
import { MONITORING, promtool } from '../support/rules.ts'
import { startService } from '../support/service.ts'

interface AdapterRule {
  readonly seriesQuery: string
  readonly name: { readonly matches: string; readonly as: string }
  readonly metricsQuery: string
}

const { rules } = parse(readFileSync(join(MONITORING, 'prometheus-adapter.yaml'), 'utf8')) as {
  rules: { custom: AdapterRule[] }
}
const [rule] = rules.custom
const MIB = 2 ** 20

/** The adapter's templates, filled in as for all pods of one namespace. */
function asked(): string {
  return rule.metricsQuery
    .replaceAll('<<.Series>>', seriesName(rule.seriesQuery))
    .replaceAll('<<.LabelMatchers>>', 'namespace="sluice",pod=~"sluice-1|sluice-2"')
    .replaceAll('<<.GroupBy>>', 'pod')
}

async function scaledBy(
  overlay: string,
): Promise<NonNullable<NonNullable<IHorizontalPodAutoscaler['spec']>['metrics']>> {
  const objects = await buildKustomization(overlay)
  const [autoscaler] = objectsOf<IHorizontalPodAutoscaler & KubernetesObject>(objects, 'HorizontalPodAutoscaler')
  return autoscaler.spec?.metrics ?? []
}

function seriesName(selector: string): string {
  return selector.replace(/\{.*$/, '')
}

describe('the share of the ring in use', () => {
  it('is asked for by no autoscaler that was not given the component, which then counts by the CPU alone', async () => {
    const metrics = await scaledBy('deploy/overlays/production')
    expect(metrics.map(({ type, resource }) => [type, resource?.name])).toEqual([['Resource', 'cpu']])
  })

  it("is the metric that the component's autoscaler asks for, under the name that the adapter gives it", async () => {
    const metrics = await scaledBy(await overlayWith('production', ['ring-scaling']))
    expect(metrics.map(({ type }) => type)).toEqual(['Resource', 'Pods'])
    const found = metrics.flatMap(({ pods }) => pods ?? [])
    expect(found.map(({ metric }) => metric.name)).toEqual([rule.name.as])
    expect(seriesName(rule.seriesQuery)).toMatch(new RegExp(rule.name.matches))
    const target = quantity(found[0].target.averageValue)
    expect(target).toBeGreaterThan(0)
    expect(target).toBeLessThan(1)
  })

  it('is one number from 0 to 1 for each pod of the namespace', async () => {
    const pod = (name: string, instance: string): string => `namespace="sluice",pod="${name}",instance="${instance}"`
    const series = (metric: string, labels: string, bytes: number, count = 10): object => ({
      series: `${metric}{${labels}}`,
      values: `${bytes}x${count}`,
    })
    const tests = [
      {
        interval: '15s',
        input_series: [
          series('sluice_ring_used_bytes', pod('sluice-1', '10.0.0.1:9090'), 16 * MIB),
          series('sluice_ring_requests', pod('sluice-1', '10.0.0.1:9090'), 1),
          series('sluice_ring_size_bytes', pod('sluice-1', '10.0.0.1:9090'), 64 * MIB),
          // Small bodies: half of the slots are taken, and hardly any bytes.
          series('sluice_ring_used_bytes', pod('sluice-2', '10.0.0.2:9090'), MIB),
          series('sluice_ring_requests', pod('sluice-2', '10.0.0.2:9090'), 8192),
          series('sluice_ring_size_bytes', pod('sluice-2', '10.0.0.2:9090'), 64 * MIB),
          // In another namespace, and so none of this autoscaler's.
          series('sluice_ring_used_bytes', 'namespace="other",pod="sluice-1"', 64 * MIB),
          series('sluice_ring_requests', 'namespace="other",pod="sluice-1"', 1),
          series('sluice_ring_size_bytes', 'namespace="other",pod="sluice-1"', 64 * MIB),
        ],
        promql_expr_test: [
          {
            expr: asked(),
            eval_time: '2m',
            exp_samples: [
              { labels: '{pod="sluice-1"}', value: 0.25 },
              { labels: '{pod="sluice-2"}', value: 0.5 },
            ],
          },
        ],
      },
    ]
    const files = { 'adapter.yaml': { evaluation_interval: '15s', tests } }
    const { passed, output } = await promtool(['test', 'rules', 'adapter.yaml'], files)
    expect(passed, output).toBe(true)
  })

  it('is made of series that a node has', async () => {
    const node = await startService({ apps: [] })
    try {
      const page = await metricsOf(node)
      const named = asked().match(/sluice_\w+/g) ?? []
      expect(new Set(named).size).toBe(3)
      for (const name of named) expect(page.get(name), name).toBeGreaterThanOrEqual(0)
    } finally {
      await node.kill()
    }
  })
})

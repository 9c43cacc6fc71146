// The dashboard against a real Prometheus that scraped real nodes while requests ended in every way they can: each
// panel has something to show, and what the counters say is what the clients saw.

import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { STATUS_OF_REFUSAL } from '../../src/contract/outcome.ts'
import { post, single } from '../support/client.ts'
import { addReader, type Cluster, startCluster } from '../support/cluster.ts'
import { dashboard, panels } from '../support/dashboard.ts'
import { APPS, CLOSED_APPS, PAGE, SMALLEST_RING_MB, sendEveryOutcome, type Tally } from '../support/every-outcome.ts'
import { CLUSTER, type Prometheus, type Sample, startPrometheus } from '../support/prometheus.ts'
import { type RuleFile, readRules } from '../support/rules.ts'
import { eventually, runCommand, type Service, startService } from '../support/service.ts'

const JOB = 'sluice'
/** Of the nodes with Redis and NATS, and of the one without. */
const NAMESPACES = ['shared', 'embedded']
/** Written by Prometheus itself, by the rules. */
const ALERTS = 'ALERTS'
const STEP_SECONDS = 1
const RATE_INTERVAL = '10s'
const CODES = ['accepted', 'replayed', 'preflight', 'aborted', ...Object.keys(STATUS_OF_REFUSAL)]
/** Longer than it may take until a drain is seen, which it is waited for. */
const DRAIN_DELAY_SECONDS = 20

interface Asked {
  readonly name: string
  readonly expr: string
  readonly legend: string
  readonly isHeatMap: boolean
  readonly isInstant: boolean
  /** All values lie between 0 and 1. */
  readonly isShare: boolean
}

/** What is left of a budget falls below 0 when more was spent. Connections are a share, and beside it counts. */
const NO_SHARES = new Set([102, 103, 307])

const asked: Asked[] = panels.flatMap(({ id, title, targets, fieldConfig }) =>
  targets.map(({ expr, legendFormat, format, instant }) => ({
    name: `${id} ${title} (${legendFormat})`,
    expr,
    legend: legendFormat,
    isHeatMap: format === 'heatmap',
    isInstant: instant,
    isShare: fieldConfig.defaults.unit === 'percentunit' && !NO_SHARES.has(id),
  })),
)
const marks = dashboard.annotations.list.flatMap(({ target, ...mark }) =>
  target === undefined ? [] : [{ ...mark, target }],
)

let cluster: Cluster
let embedded: Service
/** It drains at the end. */
let leaving: Service
let prometheus: Prometheus
let tally: Tally
let fromMs: number
let toMs: number
/** Of each node and code, before the load. */
let requestsBefore: Map<string, number>

beforeAll(async () => {
  cluster = await startCluster({ nodes: 0, apps: APPS })
  // Whichever is first creates the stream; one without a size has no series that tells it.
  const stream = { SLUICE_STREAM_MAX_GB: '1', SLUICE_CORS_ORIGINS: PAGE }
  const small = {
    ...stream,
    SLUICE_RING_MB: String(SMALLEST_RING_MB),
    SLUICE_DRAIN_DELAY_SECONDS: String(DRAIN_DELAY_SECONDS),
  }
  const store = { SLUICE_JOURNAL_MAX_MB: '1', SLUICE_CORS_ORIGINS: PAGE }
  embedded = await startService({ apps: [...APPS, ...CLOSED_APPS], env: store })
  ;[leaving] = await Promise.all([
    cluster.addNode(small),
    // Its page is put together from those of two worker processes.
    cluster.addNode({ ...stream, SLUICE_PROCESSES: '2', SLUICE_SPOOL_DIR: join(embedded.dataDir, 'spool') }),
  ])
  await addClosedApps()
  await addReader(cluster)
  const [shared, alone] = NAMESPACES
  const targets = { [shared]: cluster.nodes.map(({ adminPort }) => adminPort), [alone]: [embedded.adminPort] }
  prometheus = await startPrometheus({ job: JOB, targets, rules: await rulesInHaste() })
  fromMs = Date.now()
  // What was counted before the load is in the span, too: what it adds is then known exactly.
  await prometheus.scraped()
  requestsBefore = await requestCounts()
  tally = await sendEveryOutcome({ cluster, embedded })
  await prometheus.scraped()
  leaving.signal('SIGTERM')
  await eventually('its drain is seen', async () => (await prometheus.query('sluice_draining == 1')).length === 1)
  await leaving.kill()
  await eventually('it is seen as down', async () => (await prometheus.query('up == 0')).length === 1)
  toMs = Date.now()
})

afterAll(async () => {
  await prometheus?.stop()
})

/** Every group is worked out each second, to have something to show before the test is over. */
async function rulesInHaste(): Promise<RuleFile> {
  const { groups } = await readRules()
  return { groups: groups.map(({ name, rules }) => ({ name, interval: '1s', rules })) }
}

/** By the command alone: the cluster waits for apps that may send. */
async function addClosedApps(): Promise<void> {
  for (const record of CLOSED_APPS) {
    const flags = Object.entries(record).flatMap(([member, value]) => [`--${member.replaceAll('_', '-')}`, value])
    const { code, output } = await runCommand(['apps', 'add', ...flags], cluster.commandEnv)
    expect(code, output).toBe(0)
    for (const node of cluster.nodes) {
      await eventually('it is known', async () => (await post(node, single(record.app_key))).status === 402)
    }
  }
}

/** As Grafana puts a choice of several nodes into a regular expression. */
function chosenNodes(): string {
  const ports = [...cluster.everyNode, embedded].map(({ adminPort }) => `127\\\\.0\\\\.0\\\\.1:${adminPort}`)
  return `(${ports.join('|')})`
}

function filledIn(expression: string): string {
  const values: Record<string, string> = {
    __rate_interval: RATE_INTERVAL,
    __interval: `${STEP_SECONDS}s`,
    __range: `${Math.ceil((toMs - fromMs) / 1000)}s`,
    job: JOB,
    cluster: CLUSTER,
    namespace: `(${NAMESPACES.join('|')})`,
    instance: chosenNodes(),
  }
  return expression.replaceAll(/\$(\w+)/g, (_, name: string) => {
    if (values[name] === undefined) throw new Error(`$${name} is no variable of the dashboard`)
    return values[name]
  })
}

/** What Grafana would get. */
function answerTo({ expr, isInstant }: Pick<Asked, 'expr' | 'isInstant'>): Promise<Sample[]> {
  const query = filledIn(expr)
  return isInstant
    ? prometheus.query(query, toMs)
    : prometheus.queryRange(query, { fromMs, toMs, stepSeconds: STEP_SECONDS })
}

const isShown = ({ values }: Sample): boolean => values.some(Number.isFinite)

const portOf = ({ metric }: Sample): string => metric['instance'].split(':')[1]

/** Requests by admin port and code, whether or not the node is still there. */
async function requestCounts(): Promise<Map<string, number>> {
  const samples = await prometheus.query('max_over_time(sluice_requests_total[10m])')
  return new Map(samples.map((sample) => [`${portOf(sample)} ${sample.metric['code']}`, sample.values[0]]))
}

async function valueNow(expression: string): Promise<number> {
  const [sample] = await prometheus.query(expression, toMs)
  return sample?.values[0]
}

/** Names of metrics, without what histograms append. */
async function exportedMetrics(): Promise<Set<string>> {
  const names = await prometheus.labelValues('__name__', `{job="${JOB}"}`)
  return new Set(names.map(familyOf))
}

function familyOf(name: string): string {
  return name.replace(/_(bucket|sum|count)$/, '')
}

function metricsIn(expression: string): string[] {
  return [...expression.matchAll(/([A-Za-z][\w:]*)\{/g)].map(([, name]) => familyOf(name))
}

describe('what the load has left', () => {
  test('it ended in every way a request can end', () => {
    const reached = new Set([...tally.outcomes.keys()].map((key) => key.split(' ')[1]))
    expect([...reached].toSorted()).toEqual(CODES.toSorted())
  })

  test('every node counted each outcome as often as its clients saw it', async () => {
    const counted: Record<string, number> = {}
    for (const [key, count] of await requestCounts()) {
      const grown = count - (requestsBefore.get(key) ?? 0)
      if (grown > 0) counted[key] = grown
    }
    expect(counted).toEqual(Object.fromEntries(tally.outcomes))
  })

  test('the reasons of 503s add up, node by node, to the 503s that clients saw', async () => {
    // A node with a spool gives none.
    const counts = await prometheus.query('sum by (instance) (max_over_time(sluice_overloaded_total[10m])) > 0')
    const before = [...requestsBefore].filter(([key]) => key.endsWith(' service_overloaded'))
    expect(before.every(([, count]) => count === 0)).toBe(true)
    const counted = counts.map((sample) => [`${portOf(sample)} service_overloaded`, sample.values[0]] as const)
    const seen = [...tally.outcomes].filter(([key]) => key.endsWith(' service_overloaded'))
    expect(seen.length).toBe(counts.length)
    expect(Object.fromEntries(counted)).toEqual(Object.fromEntries(seen))
  })

  test('events are counted by type as clients sent them', async () => {
    const samples = await prometheus.query('sum by (type) (max_over_time(sluice_events_accepted_total[10m]))')
    const counted = Object.fromEntries(samples.map(({ metric, values }) => [metric['type'], values[0]]))
    expect(counted).toEqual(tally.events)
  })

  test.each([
    ['Redis was seen away', 'min(min_over_time(sluice_redis_up[5m])) == 0'],
    ['NATS was seen away', 'min(min_over_time(sluice_nats_up[5m])) == 0'],
    ['every part was degraded', 'min(max by (part) (max_over_time(sluice_degraded[5m]))) == 1'],
    ['a node was draining', 'max(max_over_time(sluice_draining[5m])) == 1'],
    ['calls for limits ended in every way', 'min(sum by (result) (max_over_time(sluice_limit_calls_total[5m]))) > 0'],
    ['the queue refused records', 'sum(max_over_time(sluice_publish_errors_total[5m])) > 0'],
    ['NATS was away for records', 'sum(max_over_time(sluice_overloaded_total{reason="nats_away"}[5m])) > 0'],
    ['bodies found no room', 'sum(max_over_time(sluice_overloaded_total{reason=~"ring_full|evicted"}[5m])) > 0'],
    ['the journal was full', 'sum(max_over_time(sluice_overloaded_total{reason="journal_full"}[5m])) > 0'],
    ['an app file could not be used', 'sum(max_over_time(sluice_apps_reload_failures_total[5m])) > 0'],
  ])('%s', async (_, expression) => {
    expect(await prometheus.query(expression, toMs)).toHaveLength(1)
  })
})

describe('the panels', () => {
  test.each(asked)('$name has something to show', async (target) => {
    const shown = (await answerTo(target)).filter(isShown)
    expect(shown, filledIn(target.expr)).not.toEqual([])
    if (target.isHeatMap) expect(shown.length, 'buckets').toBeGreaterThan(1)
    const values = shown.flatMap((sample) => sample.values.filter(Number.isFinite))
    if (target.isShare) {
      expect(Math.min(...values)).toBeGreaterThanOrEqual(0)
      expect(Math.max(...values)).toBeLessThanOrEqual(1)
    }
    for (const [, label] of target.legend.matchAll(/\{\{(\w+)\}\}/g)) {
      for (const { metric } of shown) expect(metric, 'the labels of a series').toHaveProperty(label)
    }
    // Lines that bear the same name cannot be told apart.
    const names = shown.map(({ metric }) => target.legend.replaceAll(/\{\{(\w+)\}\}/g, (_, label) => metric[label]))
    if (target.legend !== '') expect(new Set(names).size, 'names of lines').toBe(names.length)
  })

  test('no query names a metric that no node exports', async () => {
    const exported = await exportedMetrics()
    const used = [...asked.map(({ expr }) => expr), ...marks.map(({ target }) => target.expr)].flatMap(metricsIn)
    expect(used.length).toBeGreaterThan(asked.length)
    expect(used.filter((name) => name !== ALERTS && !exported.has(name))).toEqual([])
  })

  test('every metric of the service is on a panel', async () => {
    const used = new Set(asked.flatMap(({ expr }) => metricsIn(expr)))
    const own = [...(await exportedMetrics())].filter((name) => name.startsWith('sluice_'))
    expect(own.length).toBeGreaterThan(20)
    // The same requests as sluice_overloaded_total has, by its reasons.
    expect(own.filter((name) => !used.has(name))).toEqual(['sluice_publish_errors_total'])
  })

  test('the objectives go by what clients saw', async () => {
    const counts = [...tally.outcomes]
    const all = counts.reduce((sum, [, count]) => sum + count, 0)
    const bad = counts.reduce((sum, [key, count]) => sum + (key.endsWith(' service_overloaded') ? count : 0), 0)
    const rules = (await readRules()).groups.flatMap((group) => group.rules)
    // Prometheus extends what it saw to the ends of the span, node by node: here what it really saw.
    const seen = (name: string): string => {
      const expr = String(rules.find(({ record }) => record === `cluster_namespace_job:sluice_${name}:rate5m`)?.expr)
      const raw = expr.replace(/rate\((\w+\{[^}]*\}\[\w+\])\)/, '(max_over_time($1) - min_over_time($1))')
      expect(raw).toContain('max_over_time')
      return `sum(${raw})`
    }
    expect(await valueNow(seen('requests'))).toBe(all)
    expect(await valueNow(seen('errors'))).toBe(bad)
    const answered = await valueNow(seen('answers'))
    expect(answered).toBeGreaterThan(0)
    expect(answered).toBeLessThan(all)
  })

  test('both budgets are shown for each cell, and that of the errors is spent', async () => {
    const [errors, latency] = [102, 103].map((id) => asked.filter(({ name }) => name.startsWith(`${id} `)))
    for (const target of [...errors, ...latency]) {
      const shown = await answerTo(target)
      expect(shown.map(({ metric }) => metric['namespace']).toSorted()).toEqual(NAMESPACES.toSorted())
      if (!errors.includes(target)) continue
      for (const { values } of shown) expect(values[0]).toBeLessThan(0)
    }
  })
})

/** No node here has TLS, or Node's own HTTP server; test/hostile/tls-renewal.test.ts and test/contract/engine.test.ts read the metrics of some that have. */
const OF_OTHER_NODES = /^sluice_(tls_not_after_seconds|http_engine)\{/

describe('the alert rules', () => {
  test('read what nodes have, by labels that they give it, and what other rules record', async () => {
    const rules = (await readRules()).groups.flatMap((group) => group.rules)
    const expressions = rules.map(({ expr }) => expr).join('\n')
    const selectors = new Set(expressions.match(/\w+\{[^}]*\}/g))
    expect(selectors.size).toBeGreaterThan(30)
    for (const selector of selectors) {
      expect(selector).toContain(`{job="${JOB}"`)
      const choice = /=~"(.*?)"/.exec(selector)?.[1]
      if (OF_OTHER_NODES.test(selector)) continue
      for (const each of choice?.split('|') ?? ['']) {
        const one = selector.replace(choice ?? '', each)
        expect(await prometheus.query(`last_over_time(${one}[10m])`, toMs), one).not.toEqual([])
      }
    }
    expect(expressions.match(/(?<![\w:])(?:sluice|process|nodejs)_\w+(?![\w{])/g)).toBeNull()
    const recorded = rules.map(({ record }) => record)
    const read = expressions.match(/cluster_namespace_job\w*:[\w:]+/g) ?? []
    expect(read.length).toBeGreaterThan(10)
    for (const name of read) expect(recorded).toContain(name)
  })
})

describe('above the panels', () => {
  test('the job, its cells and their nodes can be chosen', async () => {
    const queries = dashboard.templating.list.flatMap(({ definition }) => definition ?? [])
    const found = queries.map(async (query) => {
      const [, selector, label] = /^label_values\((.+), (\w+)\)$/.exec(filledIn(query)) ?? []
      return (await prometheus.labelValues(label, selector)).toSorted()
    })
    const instances = [...cluster.everyNode, embedded].map(({ adminPort }) => `127.0.0.1:${adminPort}`)
    expect(await Promise.all(found)).toEqual([[JOB], [CLUSTER], NAMESPACES.toSorted(), instances.toSorted()])
  })

  test.each(marks)('$name are marked', async ({ target, useValueForTime, titleFormat }) => {
    const shown = (await answerTo({ expr: target.expr, isInstant: false })).filter(isShown)
    expect(shown.length).toBeGreaterThan(0)
    expect(titleFormat).toContain('{{instance}}')
    if (useValueForTime) {
      const startedMs = shown.flatMap(({ values }) => values)
      expect(Math.min(...startedMs)).toBeGreaterThan(fromMs - 60_000)
      expect(Math.max(...startedMs)).toBeLessThan(toMs)
    }
  })
})

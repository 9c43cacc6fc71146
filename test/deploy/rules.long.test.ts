// The alerts: each has a case that makes it fire and one that does not, cases that notice when its rule is spoilt, and
// metrics that the service really shows.

import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { prometheusRule } from '../../deploy/monitoring/prometheus-rule.js'
import { get } from '../support/client.ts'
import { addReader, becomesReady, type Cluster, startCluster } from '../support/cluster.ts'
import {
  type CaseFile,
  type ExpectedAlert,
  matchersIn,
  metricsIn,
  nameOf,
  promtool,
  type Rule,
  type RuleFile,
} from '../support/promtool.ts'
import { appRecord, makeFolder, removeFolder, type Service, startService } from '../support/service.ts'
import { AS_IT_IS, isOf, unnoticed } from '../support/spoilt-rules.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const MONITORING = join(ROOT, 'deploy/monitoring')
const CASE_FILES = ['rules.test.yaml', 'windows.test.yaml']
const RUNBOOKS = 'docs/runbooks.md'
/** Made by Prometheus itself of each scrape. */
const OF_PROMETHEUS = ['up']

const read = (file: string): string => readFileSync(join(MONITORING, file), 'utf8')
const ruleFile = parse(read('rules.yaml')) as RuleFile
const rules = ruleFile.groups.flatMap((group) => group.rules)
const alerts = rules.filter(({ alert }) => alert !== undefined)
const recorded = rules.flatMap(({ record }) => record ?? [])
const caseFiles = CASE_FILES.map((file) => parse(read(file)) as CaseFile)
const cases = caseFiles.flatMap(({ tests }) => tests)

/** What the cases expect under an alert's name, at each moment that they look at. */
function expectationsOf(rule: Rule): ExpectedAlert[][] {
  return cases.flatMap(({ alert_rule_test = [] }) =>
    alert_rule_test
      .filter(({ alertname }) => alertname === rule.alert)
      .map(({ exp_alerts }) => exp_alerts.filter(({ exp_labels }) => isOf(rule, exp_labels))),
  )
}

describe('promtool', () => {
  test('finds nothing wrong with the rules', async () => {
    const { passed, output } = await promtool(['check', 'rules', 'rules.yaml'], MONITORING)
    expect(passed, output).toBe(true)
    expect(output).toContain(`${rules.length} rules found`)
  })

  test('is asked for alerts and records that there are', () => {
    for (const { rule_files } of caseFiles) expect(rule_files).toEqual(['rules.yaml'])
    const asked = cases.flatMap(({ alert_rule_test = [], promql_expr_test = [] }) => [
      ...alert_rule_test.map(({ alertname }) => alertname),
      ...promql_expr_test.flatMap(({ expr }) => metricsIn(expr)),
    ])
    const known = new Set(rules.flatMap(({ alert, record }) => alert ?? record ?? []))
    expect(asked.filter((name) => !known.has(name))).toEqual([])
  })
})

describe('each alert', () => {
  test.each(alerts.map((rule) => [nameOf(rule), rule] as const))('%s fires in one case, not in another', (_, rule) => {
    const expectations = expectationsOf(rule)
    expect(
      expectations.some((expected) => expected.length > 0),
      'fires',
    ).toBe(true)
    expect(
      expectations.some((expected) => expected.length === 0),
      'does not',
    ).toBe(true)
  })

  test.each(alerts.map((rule) => [nameOf(rule), rule] as const))(
    '%s says what is wrong and where to read on',
    (_, rule) => {
      const { severity } = rule.labels ?? {}
      const { summary, description, runbook_url: runbook } = rule.annotations ?? {}
      expect(severity).toMatch(/^(page|ticket)$/)
      expect(summary).toMatch(/^[A-Z].{10,70}[^.]$/)
      expect(description).toMatch(/^\S.{20,170}\.$/)
      expect(runbook).toBe(`${RUNBOOKS}#${rule.alert?.toLowerCase()}`)
    },
  )

  test('carries the job, by which the dashboard finds it', () => {
    const firing = cases.flatMap(({ alert_rule_test = [] }) => alert_rule_test.flatMap(({ exp_alerts }) => exp_alerts))
    expect(firing.length).toBeGreaterThan(alerts.length)
    for (const { exp_labels } of firing) expect(exp_labels['job']).toBe('sluice')
  })
})

describe('the cases find every rule right, and each way to spoil it wrong:', () => {
  const records = rules.filter(({ record }) => record !== undefined)
  const names = [...new Set(alerts.map(({ alert }) => alert ?? ''))]
  const byName = names.map((name) => [name, alerts.filter(({ alert }) => alert === name)] as const)

  test.each([['the records', records] as const, ...byName])('%s', async (_, ofOneName) => {
    const asTheyAre = ofOneName.map((rule) => `${nameOf(rule)}: ${AS_IT_IS}`)
    expect(await unnoticed(ofOneName, { ruleFile, caseFiles })).toEqual(asTheyAre)
  })
})

describe('a budget', () => {
  const budgets = [
    { alert: 'SluiceErrorBudgetBurn', bad: 'job:sluice_errors', allowed: 0.001 },
    { alert: 'SluiceLatencyBudgetBurn', bad: 'job:sluice_slow_answers', allowed: 0.01 },
  ]
  const burns = [
    { factor: 14.4, long: '1h', seconds: 3600, short: '5m', wait: '2m', severity: 'page' },
    { factor: 6, long: '6h', seconds: 21_600, short: '30m', wait: '5m', severity: 'page' },
    { factor: 3, long: '1d', seconds: 86_400, short: '2h', wait: '15m', severity: 'ticket' },
    { factor: 1, long: '3d', seconds: 259_200, short: '6h', wait: '1h', severity: 'ticket' },
  ]

  test('alerts when it burns so fast, over these windows and for so long, in ten requests at least', () => {
    const wanted = budgets.flatMap(({ alert, bad, allowed }) =>
      burns.map(({ factor, long, seconds, short, wait, severity }) => ({
        alert,
        expr: `${bad}:ratio${long} > ${factor} * ${allowed}
and ${bad}:ratio${short} > ${factor} * ${allowed}
and avg_over_time(${bad}:rate5m[${long}]) * ${seconds} >= 10`,
        for: wait,
        labels: { severity, long_window: long, short_window: short },
      })),
    )
    const names = new Set(budgets.map(({ alert }) => alert))
    const found = alerts.filter(({ alert = '' }) => names.has(alert))
    expect(found.map(({ alert, expr, for: wait, labels }) => ({ alert, expr, for: wait, labels }))).toEqual(wanted)
  })

  test('is read over the windows that its records are named after', () => {
    const ratios = recorded.flatMap((name) => /:ratio(\w+)$/.exec(name)?.[1] ?? [])
    expect(new Set(ratios)).toEqual(new Set(burns.flatMap(({ long, short }) => [long, short])))
    for (const { record = '', expr } of rules) {
      const named = /:(?:ratio|rate)(\w+)$/.exec(record)?.[1]
      const windows = [...expr.matchAll(/\[(\w+)\]/g)].map(([, window]) => window)
      if (named !== undefined) expect([record, windows.filter((window) => window !== named)]).toEqual([record, []])
    }
  })
})

describe('what the rules read', () => {
  let cluster: Cluster
  let folder: string
  let embedded: Service
  /** Of every sample on the pages of all nodes: its metric, and each of its labels. */
  const shown = new Map<string, Map<string, Set<string>>>()

  beforeAll(async () => {
    folder = await makeFolder()
    cluster = await startCluster({ nodes: 1, apps: [appRecord('any')] })
    embedded = await startService({ dataDir: folder })
    const several = await cluster.startNode({ SLUICE_PROCESSES: '2' })
    await becomesReady(several)
    await addReader(cluster)
    for (const { adminPort } of [embedded, ...cluster.nodes]) note((await get(adminPort, '/metrics')).text)
  })

  afterAll(async () => {
    await embedded?.stop()
    await cluster?.stop()
    await removeFolder(folder)
  })

  function note(page: string): void {
    for (const [, metric, labels = ''] of page.matchAll(/^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? \S+$/gm)) {
      const values = shown.get(metric) ?? new Map<string, Set<string>>()
      shown.set(metric, values)
      for (const [, label, value] of labels.matchAll(/(\w+)="([^"]*)"/g)) {
        values.set(label, (values.get(label) ?? new Set()).add(value))
      }
    }
  }

  test('is shown by a node, recorded by a rule, or made by Prometheus', () => {
    const known = new Set([...shown.keys(), ...recorded, ...OF_PROMETHEUS])
    const named = rules.flatMap((rule) => metricsIn(rule.expr))
    expect(named.length).toBeGreaterThan(50)
    expect(named.filter((name) => !known.has(name))).toEqual([])
  })

  test('is selected by labels that a node gives it', () => {
    const matchers = rules.flatMap((rule) => matchersIn(rule.expr)).filter(({ label }) => label !== 'job')
    expect(matchers.map(({ label }) => label)).toEqual(expect.arrayContaining(['status', 'code', 'stage', 'le']))
    for (const { metric, label, operator, value } of matchers) {
      const values = [...(shown.get(metric)?.get(label) ?? [])]
      const wanted = operator === '=~' ? value.split('|') : [value]
      for (const each of wanted) {
        const pattern = new RegExp(`^(?:${operator === '=~' ? each : each.replaceAll('.', '\\.')})$`)
        expect(
          values.filter((given) => pattern.test(given)),
          `${metric}{${label}${operator}"${each}"}`,
        ).not.toEqual([])
      }
    }
  })

  test('is selected by the job that the service monitor gives it', () => {
    for (const rule of rules) {
      for (const name of metricsIn(rule.expr).filter((metric) => !recorded.includes(metric))) {
        const jobs = matchersIn(rule.expr).filter(({ metric, label }) => metric === name && label === 'job')
        expect(
          jobs.map(({ value }) => value),
          `${nameOf(rule)}: ${name}`,
        ).toContain('sluice')
      }
    }
  })
})

test('prometheus-rule.yaml holds the rules of rules.yaml', () => {
  const text = read('prometheus-rule.yaml')
  expect(text).toBe(prometheusRule(read('rules.yaml')))
  expect((parse(text) as { spec: RuleFile }).spec).toEqual(ruleFile)
})

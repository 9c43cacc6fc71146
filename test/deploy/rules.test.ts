// The alerts: each has a case that makes it fire and one that does not, cases that notice when its rule is spoilt, and
// metrics that the service really shows.

import { readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { prometheusRule } from '../../deploy/monitoring/prometheus-rule.js'
import { get } from '../support/client.ts'
import { becomesReady, type Cluster, startCluster } from '../support/cluster.ts'
import {
  type Case,
  type CaseFile,
  type ExpectedAlert,
  matchersIn,
  metricsIn,
  nameOf,
  promtool,
  type Rule,
  type RuleFile,
  runCases,
  spoil,
} from '../support/promtool.ts'
import { appRecord, makeFolder, removeFolder, type Service, startService } from '../support/service.ts'

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

function isOf({ labels = {} }: Rule, expected: Readonly<Record<string, string>>): boolean {
  return Object.entries(labels).every(([label, value]) => expected[label] === value)
}

describe('promtool', () => {
  test('finds nothing wrong with the rules', async () => {
    const { passed, output } = await promtool(['check', 'rules', 'rules.yaml'], MONITORING)
    expect(passed, output).toBe(true)
    expect(output).toContain(`${rules.length} rules found`)
  })

  test.each(CASE_FILES)('sees each alert do what the cases of %s say', async (file) => {
    const { passed, output } = await promtool(['test', 'rules', file], MONITORING)
    expect(passed, output).toBe(true)
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

const NOTHING_ASKED = { passed: true, output: '' }

describe('a rule that is spoilt is noticed by a case:', () => {
  /** A case that looks at no alert or record of that name cannot notice. */
  const looksAt = (rule: Rule, { alert_rule_test = [], promql_expr_test = [] }: Case): boolean =>
    alert_rule_test.some(({ alertname }) => alertname === rule.alert) ||
    promql_expr_test.some(({ expr }) => rule.record !== undefined && metricsIn(expr).includes(rule.record))

  /** Rules that it does not need are left out: each costs time. */
  const rulesWith = (original: Rule, spoilt: Rule): RuleFile => {
    const needed = recordsFor([original])
    const isKept = (rule: Rule): boolean =>
      rule === original || (rule.record !== undefined && needed.includes(rule.record))
    return {
      groups: ruleFile.groups.map((group) => {
        return { ...group, rules: group.rules.filter(isKept).map((rule) => (rule === original ? spoilt : rule)) }
      }),
    }
  }

  /** What promtool has against the rule in the place of another; nothing: it is as good. */
  const complaintOf = async (original: Rule, spoilt: Rule): Promise<string> => {
    const changed = rulesWith(original, spoilt)
    for (const file of caseFiles) {
      const tests = file.tests.filter((each) => looksAt(original, each)).map((each) => only(original, each))
      const { passed, output } = tests.length === 0 ? NOTHING_ASKED : await runCases(changed, { ...file, tests })
      if (!passed) return output
    }
    return ''
  }

  /** Of the case, what it says of the rule. */
  const only = (rule: Rule, { alert_rule_test = [], promql_expr_test = [], ...rest }: Case): Case => ({
    ...rest,
    alert_rule_test: alert_rule_test
      .filter(({ alertname }) => alertname === rule.alert)
      .map(({ exp_alerts, ...asked }) =>
        Object.assign(asked, { exp_alerts: exp_alerts.filter(({ exp_labels }) => isOf(rule, exp_labels)) }),
      ),
    promql_expr_test: promql_expr_test.filter(
      ({ expr }) => rule.record !== undefined && metricsIn(expr).includes(rule.record),
    ),
  })

  /** They wait for each other. */
  const timeoutMs = 900_000
  test.concurrent.each(rules.map((rule) => [nameOf(rule), rule] as const))(
    '%s',
    { timeout: timeoutMs },
    async (_, rule) => {
      expect(await inTurn(() => complaintOf(rule, rule))).toBe('')
      const unnoticed: string[] = []
      for (const spoilt of spoil(rule)) {
        if ((await inTurn(() => complaintOf(rule, spoilt.rule))) === '') unnoticed.push(spoilt.how)
      }
      expect(unnoticed).toEqual([])
    },
  )
})

/** The records that rules are made of, and those that these are made of. */
function recordsFor(wanted: readonly Rule[]): string[] {
  const found = wanted.flatMap(({ expr }) => metricsIn(expr)).filter((name) => recorded.includes(name))
  const deeper = rules.filter(({ record }) => record !== undefined && found.includes(record))
  return found.length === 0 ? [] : [...new Set([...found, ...recordsFor(deeper)])]
}

let running = 0
const waiting: (() => void)[] = []

/** As many at once as there are cores. */
async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  if (running >= availableParallelism()) await new Promise<void>((next) => waiting.push(next))
  else running++
  try {
    return await work()
  } finally {
    const next = waiting.shift()
    if (next === undefined) running--
    else next()
  }
}

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

// The alerts: promtool makes each fire in one case and stay silent in another, and each says what is wrong. That nodes
// have what the rules read is dashboard.test.ts's to say.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { MONITORING, promtool, type Rule, readRules } from '../support/rules.ts'

/** Values of each series, a minute apart, as promtool writes them. */
type Series = Readonly<Record<string, string>>

interface AlertCases {
  /** When both are looked at. */
  readonly at: string
  readonly fires: Series
  readonly silent: Series
  readonly says: readonly (readonly [labels: Readonly<Record<string, string>>, description: string])[]
}

const { groups } = await readRules()
const rules = groups.flatMap((group) => group.rules)
const alerts = rules.filter(({ alert }) => alert !== undefined)
const records = rules.filter(({ record }) => record !== undefined)
const text = readFileSync(join(MONITORING, 'rules.test.yaml'), 'utf8')
// Every value is a text: elsewhere `0x30` would be a number.
const cases = parse(text, { schema: 'failsafe' }) as Record<string, AlertCases>

/** What each rule keeps apart: namespaces of one cluster are two installations. */
const CELL_LABELS = ['cluster', 'namespace', 'job']
/** Those of a series that names no other. */
const cellOf = (namespace: string): Record<string, string> => ({ cluster: 'east', namespace, job: 'sluice' })

/** What tells an alert from others of its name. */
function nameOf({ alert, labels = {}, expr }: Rule): string {
  const window = labels['long_window']
  if (alert === 'SluiceNatsAway' && /\band on .*sluice_spool_batches/.test(expr)) return `${alert} with a spool`
  return (alert ?? '') + (window === undefined ? '' : ` over ${window}`)
}

function inputOf(series: Series, namespace: string): object[] {
  return Object.entries(series).map(([name, values]) => {
    const missing = Object.entries(cellOf(namespace)).filter(([label]) => !name.includes(`${label}=`))
    const labels = missing.map(([label, value]) => `${label}="${value}", `).join('')
    return { series: name.replace('{', `{${labels}`), values }
  })
}

/** In the one cell it is to fire. The other, which is well, neither hides that nor is told of. */
function firingCase(rule: Rule): object {
  const { at, says, fires, silent } = cases[nameOf(rule)]
  const alerts = says.map(([labels, description]) => ({
    exp_labels: { ...cellOf('small'), ...rule.labels, ...labels },
    exp_annotations: { ...rule.annotations, description },
  }))
  return {
    interval: '1m',
    input_series: [...inputOf(fires, 'small'), ...inputOf(silent, 'large')],
    alert_rule_test: [{ alertname: nameOf(rule), eval_time: at, exp_alerts: alerts }],
  }
}

/** What these rules read of what others record, and what those read. */
function recordsFor(readers: readonly Rule[], known: readonly Rule[] = []): readonly Rule[] {
  const read = [...readers, ...known].map(({ expr }) => expr).join('\n')
  const found = records.filter(({ record = '' }) => read.includes(record))
  return found.length === known.length ? found : recordsFor(readers, found)
}

interface Checked {
  readonly name: string
  readonly group: object
  readonly tests: readonly object[]
}

async function expectPassed(checked: readonly Checked[]): Promise<void> {
  const files = checked.flatMap(({ name, group, tests }) => [
    [`${name}.yaml`, { groups: [group] }],
    [`${name}.test.yaml`, { rule_files: [`${name}.yaml`], evaluation_interval: '1m', tests }],
  ])
  const testFiles = checked.map(({ name }) => `${name}.test.yaml`)
  const { passed, output } = await promtool(['test', 'rules', ...testFiles], Object.fromEntries(files))
  expect(passed, output).toBe(true)
}

test('promtool finds nothing wrong with the rules', async () => {
  const { passed, output } = await promtool(['check', 'rules', 'rules.yaml'], { 'rules.yaml': { groups } })
  expect(passed, output).toBe(true)
  expect(output).toContain(`${rules.length} rules found`)
})

test('each alert has a case in which it fires and one in which it is silent', () => {
  expect(Object.keys(cases)).toEqual(alerts.map(nameOf))
  for (const each of Object.values(cases)) {
    expect(Object.keys(each)).toEqual(['at', 'fires', 'silent', 'says'])
    for (const part of [each.fires, each.silent, each.says]) expect(Object.keys(part)).not.toEqual([])
  }
})

test('each alert fires for the cell in trouble, says what it should, and is silent for the other', async () => {
  const files = groups.map(({ name, rules: ofGroup }) => {
    const own = ofGroup.filter(({ alert }) => alert !== undefined)
    // Each under a name of its own, which promtool's complaint then tells.
    const named = own.map((rule) => ({ ...rule, alert: nameOf(rule) }))
    // All that others record takes long to work out.
    const group = { name, rules: [...recordsFor(own), ...named] }
    return { name, group, tests: own.map(firingCase) }
  })
  expect(files.flatMap(({ tests }) => tests)).toHaveLength(alerts.length)
  await expectPassed(files)
})

test('a Prometheus that finds no node at all tells so', async () => {
  const rule = rules.find(({ alert }) => alert === 'SluiceNoNodeServes') as Rule
  const description = 'Prometheus sees no ready node: they are down, draining, starting, or not found.'
  const told = { exp_labels: rule.labels, exp_annotations: { ...rule.annotations, description } }
  const alert_rule_test = [{ alertname: rule.alert, eval_time: '5m', exp_alerts: [told] }]
  const group = { name: 'none', rules: [...recordsFor([rule]), rule] }
  await expectPassed([{ name: 'none', group, tests: [{ interval: '1m', input_series: [], alert_rule_test }] }])
})

test('each rule keeps cells apart, whatever it sums or joins', () => {
  for (const { record, alert, expr } of rules) {
    const lists = [...expr.matchAll(/\b(?:by|on) \(([^)]*)\)/g)].map(([, labels]) => labels.split(', '))
    for (const labels of lists) expect(labels.slice(0, 3), alert ?? record).toEqual(CELL_LABELS)
    const sums = expr.match(/\b(?:sum|max|min|avg|count) ?(?=\(| by)/g) ?? []
    expect(expr.match(/\b(?:sum|max|min|avg|count) by \(/g) ?? [], alert ?? record).toHaveLength(sums.length)
    expect(expr, alert ?? record).not.toMatch(/\bwithout\b|\bignoring \((?!le\))/)
  }
})

test.each(alerts.map((rule) => [nameOf(rule), rule] as const))('%s says where to read on', (_, rule) => {
  const { summary, description, runbook_url: runbook } = rule.annotations ?? {}
  expect(rule.labels?.['severity']).toMatch(/^(critical|warning|info)$/)
  expect(summary).toMatch(/^[A-Z].{10,70}[^.]$/)
  expect(description).toMatch(/^\S.{20,170}\.$/)
  // The dashboard leads to the runbook by this label.
  expect(rule.labels?.['runbook']).toBe(rule.alert?.toLowerCase())
  expect(runbook).toBe(`docs/runbooks.md#${rule.labels?.['runbook']}`)
})

/** Days are too long for cases: what each burn rate reads over which windows is held here. */
test('a budget alerts when it burns so fast, over these windows, in ten requests at least', () => {
  const budgets = [
    { alert: 'SluiceErrorBudgetBurn', bad: 'cluster_namespace_job:sluice_errors', allowed: 0.001 },
    { alert: 'SluiceLatencyBudgetBurn', bad: 'cluster_namespace_job:sluice_slow_answers', allowed: 0.01 },
  ]
  const burns = [
    ['14.4', '1h', 3600, '5m'],
    ['6', '6h', 21_600, '30m'],
    ['3', '1d', 86_400, '2h'],
    ['1', '3d', 259_200, '6h'],
  ]
  const wanted = budgets.flatMap(({ alert, bad, allowed }) =>
    burns.map(([factor, long, seconds, short]) => [
      `${alert} over ${long}`,
      `${bad}:ratio${long} > ${factor} * ${allowed}
and ${bad}:ratio${short} > ${factor} * ${allowed}
and avg_over_time(${bad}:rate5m[${long}]) * ${seconds} >= 10`,
    ]),
  )
  const found = alerts.map((rule) => [nameOf(rule), rule.expr])
  expect(found.filter(([name]) => name.includes('BudgetBurn'))).toEqual(wanted)
  for (const { record = '', expr } of rules) {
    const window = /:(?:ratio|rate)(\w+)$/.exec(record)?.[1]
    const read = [...expr.matchAll(/\[(\w+)\]/g)].map(([, each]) => each)
    if (window !== undefined) expect([record, read.filter((each) => each !== window)]).toEqual([record, []])
  }
})

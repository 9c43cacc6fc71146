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
const text = readFileSync(join(MONITORING, 'rules.test.yaml'), 'utf8')
// Every value is a text: elsewhere `0x30` would be a number.
const cases = parse(text, { schema: 'failsafe' }) as Record<string, AlertCases>

/** What tells an alert from others of its name. */
function nameOf({ alert, labels = {} }: Rule): string {
  const window = labels['long_window']
  return (alert ?? '') + (window === undefined ? '' : ` over ${window}`)
}

function promtoolCase(rule: Rule, kind: 'fires' | 'silent'): object {
  const { at, says, ...series } = cases[nameOf(rule)]
  const alerts = says.map(([labels, description]) => ({
    exp_labels: { job: 'sluice', ...rule.labels, ...labels },
    exp_annotations: { ...rule.annotations, description },
  }))
  return {
    interval: '1m',
    input_series: Object.entries(series[kind]).map(([name, values]) => ({
      series: name.replace('{', '{job="sluice", '),
      values,
    })),
    alert_rule_test: [{ alertname: nameOf(rule), eval_time: at, exp_alerts: kind === 'fires' ? alerts : [] }],
  }
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

test('each alert fires in the one, says what it should, and is silent in the other', async () => {
  const files = groups.flatMap(({ name, rules: ofGroup }) => {
    // What other groups record takes long to work out, and is read by few.
    const isReader = ofGroup.some(({ alert, expr }) => alert !== undefined && expr.includes('job:'))
    const records = isReader ? rules.filter(({ record }) => record !== undefined) : []
    const own = ofGroup.filter(({ alert }) => alert !== undefined)
    // Each under a name of its own, which promtool's complaint then tells.
    const named = own.map((rule) => ({ ...rule, alert: nameOf(rule) }))
    const tests = own.flatMap((rule) => [promtoolCase(rule, 'fires'), promtoolCase(rule, 'silent')])
    return [
      [`${name}.yaml`, { groups: [{ name, rules: [...records, ...named] }] }],
      [`${name}.test.yaml`, { rule_files: [`${name}.yaml`], evaluation_interval: '1m', tests }],
    ] as const
  })
  const testFiles = groups.map(({ name }) => `${name}.test.yaml`)
  const { passed, output } = await promtool(['test', 'rules', ...testFiles], Object.fromEntries(files))
  expect(passed, output).toBe(true)
})

test.each(alerts.map((rule) => [nameOf(rule), rule] as const))('%s says where to read on', (_, rule) => {
  const { summary, description, runbook_url: runbook } = rule.annotations ?? {}
  expect(rule.labels?.['severity']).toMatch(/^(page|ticket)$/)
  expect(summary).toMatch(/^[A-Z].{10,70}[^.]$/)
  expect(description).toMatch(/^\S.{20,170}\.$/)
  expect(runbook).toBe(`docs/runbooks.md#${rule.alert?.toLowerCase()}`)
})

/** Days are too long for cases: what each burn rate reads over which windows is held here. */
test('a budget alerts when it burns so fast, over these windows, in ten requests at least', () => {
  const budgets = [
    { alert: 'SluiceErrorBudgetBurn', bad: 'job:sluice_errors', allowed: 0.001 },
    { alert: 'SluiceLatencyBudgetBurn', bad: 'job:sluice_slow_answers', allowed: 0.01 },
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

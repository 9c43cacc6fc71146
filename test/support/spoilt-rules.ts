// Rules that are spoilt on purpose, and whether a case notices. All that are made of rules of one name stand beside each
// other under names of their own, so that promtool works out what they read only once.

import { type Case, type CaseFile, metricsIn, nameOf, type Rule, type RuleFile, runCases } from './promtool.ts'

export interface Tested {
  readonly ruleFile: RuleFile
  readonly caseFiles: readonly CaseFile[]
}

interface Variant {
  /** That of the rule's alert or record, with a number. */
  readonly name: string
  readonly how: string
  readonly original: Rule
  readonly rule: Rule
}

export const AS_IT_IS = 'as it is'

/** What no case complains of, `NAME: HOW` each. The rules as they are must be among them, and nothing else. */
export async function unnoticed(rules: readonly Rule[], { ruleFile, caseFiles }: Tested): Promise<string[]> {
  const variants = rules.flatMap((original) =>
    [{ how: AS_IT_IS, rule: original }, ...spoil(original)].map(({ how, rule }, at): Variant => {
      const name = `${original.record ?? original.alert}_${rules.indexOf(original)}_${at}`
      const renamed = original.record === undefined ? { ...rule, alert: name } : { ...rule, record: name }
      return { name, how, original, rule: renamed }
    }),
  )
  const noticed = new Set<string>()
  for (const { tests, ...rest } of caseFiles) {
    for (const each of tests) {
      // What one case has noticed need not be asked again; the rules as they are hold in all of them.
      const left = variants.filter(({ name, how }) => how === AS_IT_IS || !noticed.has(name))
      const asked = ask(each, left)
      if (!asksAnything(asked)) continue
      const { passed, output } = await runCases(rulesWith(left, ruleFile), { ...rest, tests: [asked] })
      const names = namesIn(output)
      if (!passed && names.length === 0) throw new Error(output)
      for (const name of names) noticed.add(name)
    }
  }
  return variants.filter(({ name }) => !noticed.has(name)).map(({ original, how }) => `${nameOf(original)}: ${how}`)
}

/** The variants, and the records that they read: each rule more costs time. */
function rulesWith(variants: readonly Variant[], { groups }: RuleFile): RuleFile {
  const needed = recordsFor(
    variants.map(({ original }) => original),
    groups.flatMap(({ rules }) => rules),
  )
  return {
    groups: groups.map((group) => {
      const rules = group.rules.flatMap((rule) => [
        ...(rule.record !== undefined && needed.includes(rule.record) ? [rule] : []),
        ...variants.filter(({ original }) => original === rule).map((variant) => variant.rule),
      ])
      return { ...group, rules }
    }),
  }
}

/** The records that rules are made of, and those that these are made of. */
function recordsFor(wanted: readonly Rule[], all: readonly Rule[]): string[] {
  const read = new Set(wanted.flatMap(({ expr }) => metricsIn(expr)))
  const found = all.filter(({ record }) => record !== undefined && read.has(record))
  const names = found.map(({ record }) => record ?? '')
  return found.length === 0 ? [] : [...new Set([...names, ...recordsFor(found, all)])]
}

/** What the case says of the rules, asked of each variant instead. */
function ask({ alert_rule_test = [], promql_expr_test = [], ...rest }: Case, variants: readonly Variant[]): Case {
  return {
    ...rest,
    alert_rule_test: variants.flatMap(({ name, original }) =>
      alert_rule_test
        .filter(({ alertname }) => alertname === original.alert)
        .map(({ exp_alerts, ...asked }) =>
          Object.assign(asked, {
            alertname: name,
            exp_alerts: exp_alerts.filter(({ exp_labels }) => isOf(original, exp_labels)),
          }),
        ),
    ),
    promql_expr_test: variants.flatMap(({ name, original: { record } }) =>
      promql_expr_test
        .filter(({ expr }) => record !== undefined && metricsIn(expr).includes(record))
        .map(({ expr, ...asked }) => Object.assign(asked, { expr: expr.replaceAll(record ?? '', name) })),
    ),
  }
}

function asksAnything({ alert_rule_test = [], promql_expr_test = [] }: Case): boolean {
  return alert_rule_test.length + promql_expr_test.length > 0
}

/** Whether an alert with these labels is the rule's, and not that of another of its name. */
export function isOf({ labels = {} }: Rule, expected: Readonly<Record<string, string>>): boolean {
  return Object.entries(labels).every(([label, value]) => expected[label] === value)
}

/** Alerts and records that promtool complains of. */
function namesIn(output: string): string[] {
  const alerts = [...output.matchAll(/^ *alertname: (\w+), time: /gm)].map(([, name]) => name)
  const exprs = [...output.matchAll(/^ *expr: "(.*)", time: /gm)].flatMap(([, expr]) => metricsIn(expr))
  return [...alerts, ...exprs]
}

interface Spoilt {
  readonly how: string
  readonly rule: Rule
}

/** The ways in which a rule could be wrong that its cases have to notice. */
function spoil(rule: Rule): Spoilt[] {
  if (rule.record !== undefined) return [{ how: 'twice as much', rule: { ...rule, expr: `2 * (${rule.expr})` } }]
  const withExpr = (how: string, expr: string): Spoilt => ({ how, rule: { ...rule, expr } })
  return [
    withExpr('never', 'vector(0) > 1'),
    withExpr('always', 'vector(1)'),
    ...spoilComparisons(rule.expr).map(({ how, expr }) => withExpr(how, expr)),
    ...dropClauses(rule.expr).map(({ how, expr }) => withExpr(how, expr)),
    ...spoilWait(rule),
  ]
}

interface SpoiltExpr {
  readonly how: string
  readonly expr: string
}

const OPPOSITES: Readonly<Record<string, string>> = { '>': '<=', '>=': '<', '<': '>=', '<=': '>', '==': '!=' }
/** Near misses have to be nearer than that. */
const THRESHOLD_FACTORS = [0.6, 1.6]

/** Each comparison turned round, and each threshold moved either way, unless that is 0, or a state. */
function spoilComparisons(expr: string): SpoiltExpr[] {
  const found = [...expr.matchAll(/ (>=?|<=?|==) ([\d.]+)/g)]
  const turned = found.map(({ 0: comparison, 1: operator, 2: threshold, index }) => ({
    how: `\`${comparison.trim()}\` turned round`,
    expr: `${expr.slice(0, index)} ${OPPOSITES[operator]} ${threshold}${expr.slice(index + comparison.length)}`,
  }))
  const levels = found.filter(({ 1: operator, 2: threshold }) => operator !== '==' && Number(threshold) !== 0)
  const moved = [...new Set(levels.map(([comparison]) => comparison))].flatMap((comparison) =>
    THRESHOLD_FACTORS.map((factor) => {
      const [operator, threshold] = comparison.trim().split(' ')
      const put = `${operator} ${factor} * ${threshold}`
      return { how: put, expr: expr.replaceAll(comparison, ` ${put}`) }
    }),
  )
  return [...turned, ...moved]
}

/** Without one of the clauses that `and`, `or` and `unless` join. Rules put each on a line of its own. */
function dropClauses(expr: string): SpoiltExpr[] {
  const clauses = expr.split(/\n(?=(?:and|or|unless)\b)/)
  if (clauses.length === 1) return []
  return clauses.map((clause, dropped) => {
    const kept = clauses.filter((_, index) => index !== dropped).join('\n')
    return { how: `without \`${clause}\``, expr: kept.replace(/^(?:and|or|unless)(?: on \([^)]*\))? /, '') }
  })
}

function spoilWait(rule: Rule): Spoilt[] {
  if (rule.for === undefined) return []
  const { for: wait, ...hasty } = rule
  const twice = wait.replace(/\d+/, (count) => String(2 * Number(count)))
  return [
    { how: `without its ${wait}`, rule: hasty },
    { how: `after ${twice}`, rule: { ...rule, for: twice } },
  ]
}

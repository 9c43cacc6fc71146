// Rule files of Prometheus, what promtool says of them, and rules that are spoilt on purpose.

import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface Rule {
  readonly record?: string
  readonly alert?: string
  readonly expr: string
  readonly for?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

export interface RuleFile {
  readonly groups: readonly { readonly name: string; readonly rules: readonly Rule[] }[]
}

export interface ExpectedAlert {
  readonly exp_labels: Readonly<Record<string, string>>
}

export interface Case {
  readonly name: string
  readonly alert_rule_test?: readonly { readonly alertname: string; readonly exp_alerts: readonly ExpectedAlert[] }[]
  readonly promql_expr_test?: readonly { readonly expr: string }[]
}

export interface CaseFile {
  readonly evaluation_interval: string
  readonly tests: readonly Case[]
}

export interface Outcome {
  readonly passed: boolean
  readonly output: string
}

export function promtool(args: readonly string[], folder: string): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile('promtool', [...args], { cwd: folder }, (error, stdout, stderr) => {
      resolve({ passed: error === null, output: stdout + stderr })
    })
  })
}

/** Runs cases over rules that are on no disk yet. JSON is YAML, too. */
export async function runCases(rules: RuleFile, cases: CaseFile): Promise<Outcome> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-rules-'))
  try {
    await writeFile(join(folder, 'rules.yaml'), JSON.stringify(rules))
    await writeFile(join(folder, 'cases.yaml'), JSON.stringify({ ...cases, rule_files: ['rules.yaml'] }))
    return await promtool(['test', 'rules', 'cases.yaml'], folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** What tells a rule from others of its name. */
export function nameOf({ record, alert, labels }: Rule): string {
  const window = labels?.['long_window']
  return (record ?? alert ?? '') + (window === undefined ? '' : ` over ${window}`)
}

export interface Spoilt {
  readonly how: string
  readonly rule: Rule
}

/** The ways in which a rule could be wrong that its cases have to notice. */
export function spoil(rule: Rule): Spoilt[] {
  if (rule.record !== undefined) return [{ how: 'twice as much', rule: { ...rule, expr: `2 * (${rule.expr})` } }]
  const withExpr = (how: string, expr: string): Spoilt => ({ how, rule: { ...rule, expr } })
  return [
    withExpr('never', 'vector(0) > 1'),
    withExpr('always', 'vector(1)'),
    ...spoilComparisons(rule.expr, isLong(rule) ? [] : THRESHOLD_FACTORS).map(({ how, expr }) => withExpr(how, expr)),
    ...dropClauses(rule.expr).map(({ how, expr }) => withExpr(how, expr)),
    ...spoilWait(rule),
  ]
}

/** Each case of these takes a second or more; their thresholds are near misses in the cases themselves. */
function isLong({ labels }: Rule): boolean {
  return labels?.['long_window'] !== undefined
}

interface SpoiltExpr {
  readonly how: string
  readonly expr: string
}

const OPPOSITES: Readonly<Record<string, string>> = { '>': '<=', '>=': '<', '<': '>=', '<=': '>', '==': '!=' }
/** Near misses have to be nearer than that. */
const THRESHOLD_FACTORS = [0.6, 1.6]

/** Each comparison turned round, and each threshold moved either way, unless that is 0, or a state. */
function spoilComparisons(expr: string, factors: readonly number[]): SpoiltExpr[] {
  const found = [...expr.matchAll(/ (>=?|<=?|==) ([\d.]+)/g)]
  const turned = found.map(({ 0: comparison, 1: operator, 2: threshold, index }) => ({
    how: `\`${comparison.trim()}\` turned round`,
    expr: `${expr.slice(0, index)} ${OPPOSITES[operator]} ${threshold}${expr.slice(index + comparison.length)}`,
  }))
  const levels = found.filter(({ 1: operator, 2: threshold }) => operator !== '==' && Number(threshold) !== 0)
  const moved = [...new Set(levels.map(([comparison]) => comparison))].flatMap((comparison) =>
    factors.map((factor) => {
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

/** The metrics that an expression reads. */
export function metricsIn(expr: string): string[] {
  const bare = expr.replace(/\{[^}]*\}/g, '{}').replace(/\b(?:by|on|ignoring|group_left|group_right) ?\([^)]*\)/g, '')
  const names = bare.matchAll(/[a-zA-Z_:][\w:]*(?!\w*\s*\()/g)
  const words = new Set(['and', 'or', 'unless', 'by', 'on', 'ignoring', 'group_left'])
  return [...new Set([...names].map(([name]) => name))].filter((name) => !words.has(name) && !/^[smhdw]$/.test(name))
}

export interface Matcher {
  readonly metric: string
  readonly label: string
  readonly operator: string
  readonly value: string
}

export function matchersIn(expr: string): Matcher[] {
  return [...expr.matchAll(/([a-zA-Z_:][\w:]*)\{([^}]*)\}/g)].flatMap(([, metric, inside]) =>
    [...inside.matchAll(/(\w+)(=~|!~|!=|=)"([^"]*)"/g)].map(([, label, operator, value]) => {
      return { metric, label, operator, value }
    }),
  )
}

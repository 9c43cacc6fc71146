// Rule files of Prometheus, and what promtool says of them.

import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const TIMEOUT_MS = 60_000
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024

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
  readonly rule_files: readonly string[]
  readonly tests: readonly Case[]
}

export interface Outcome {
  readonly passed: boolean
  readonly output: string
}

export function promtool(args: readonly string[], folder: string): Promise<Outcome> {
  return new Promise((resolve) => {
    const options = { cwd: folder, timeout: TIMEOUT_MS, killSignal: 'SIGKILL', maxBuffer: MAX_OUTPUT_BYTES } as const
    execFile('promtool', [...args], options, (error, stdout, stderr) => {
      // Whatever it said before it was killed is no verdict.
      const isKilled = error?.killed === true
      const output = isKilled ? `promtool was killed: ${error.message}` : stdout + stderr
      resolve({ passed: error === null, output })
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

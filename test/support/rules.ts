// The rules of deploy/monitoring/prometheus-rule.yaml, and what promtool says of rules and cases.

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parse } from 'yaml'

export const MONITORING = resolve(import.meta.dirname, '../../deploy/monitoring')
const TIMEOUT_MS = 240_000

export interface Rule {
  readonly record?: string
  readonly alert?: string
  readonly expr: string
  readonly for?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

export interface RuleFile {
  readonly groups: readonly { readonly name: string; readonly interval?: string; readonly rules: readonly Rule[] }[]
}

export interface Outcome {
  readonly passed: boolean
  readonly output: string
}

interface RuleObject {
  readonly metadata: { readonly annotations: { readonly runbooks: string } }
  readonly spec: RuleFile
}

export async function readRuleObject(): Promise<RuleObject> {
  return parse(await readFile(join(MONITORING, 'prometheus-rule.yaml'), 'utf8')) as RuleObject
}

export async function readRules(): Promise<RuleFile> {
  return (await readRuleObject()).spec
}

/** Of each alert. */
export function runbookUrls({ spec }: { readonly spec: RuleFile }): string[] {
  return spec.groups.flatMap(({ rules }) => rules.flatMap(({ annotations }) => annotations?.['runbook_url'] ?? []))
}

/** Runs promtool in a folder with these files. JSON is YAML, too. */
export async function promtool(args: readonly string[], files: Readonly<Record<string, unknown>>): Promise<Outcome> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-rules-'))
  try {
    for (const [name, content] of Object.entries(files)) await writeFile(join(folder, name), JSON.stringify(content))
    const options = { cwd: folder, timeout: TIMEOUT_MS, killSignal: 'SIGKILL' } as const
    return await new Promise((done) => {
      execFile('promtool', [...args], options, (error, stdout, stderr) =>
        done({ passed: error === null, output: stdout + stderr + (error?.message ?? '') }),
      )
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

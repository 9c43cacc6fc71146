// Runs a load script for real, as `npm run load` does, and gives its report. Where k6 is not installed the test says that
// it was not run.

import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { TestContext } from 'vitest'
import { findK6, NO_K6 } from '../../load/run/k6.js'

const RUNNER = resolve(import.meta.dirname, '../../load/run.js')

/** Of report.json, what tests look at. */
export interface LoadReport {
  readonly verdict: 'HELD' | 'FAILED' | 'VOID'
  readonly reasons: readonly string[]
  readonly objectives: readonly { readonly metric: string; readonly rule: string; readonly isHeld: boolean }[]
  readonly outcomes: readonly { readonly code: string; readonly sent: number; readonly node: number | null }[]
  readonly nodeAgrees: boolean | null
  readonly events: number
  readonly found: Readonly<Record<string, unknown>>
  readonly verified?: { readonly ok: boolean; readonly lines: readonly string[] }
}

export interface LoadRun {
  readonly code: number | null
  /** What it printed, stdout and stderr together. */
  readonly output: string
  /** null: it wrote none. */
  readonly report: LoadReport | null
}

/** For the start of a test that needs k6. */
export function needK6(context: TestContext): void {
  let found = ''
  try {
    found = findK6()
  } catch {
    context.skip(NO_K6)
  }
  if (found === '') throw new Error('k6 was found without a name')
}

/** Only these settings reach the run. On a busy machine latency says nothing, so it is shown and not judged. */
export async function runLoad(name: string, settings: Readonly<Record<string, string>>): Promise<LoadRun> {
  const out = await mkdtemp(join(tmpdir(), 'sluice-load-report-'))
  try {
    const { PATH = '', HOME = '/', K6 = '' } = process.env
    const env = { PATH, HOME, K6, LATENCY_OBJECTIVE_MS: 'off', ...settings, OUT: out }
    const child = spawn(process.execPath, [RUNNER, name], { cwd: out, env, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text
      })
    }
    const code = await new Promise<number | null>((done, fail) => {
      child.once('error', fail)
      child.once('close', done)
    })
    return { code, output, report: await readReport(out) }
  } finally {
    await rm(out, { recursive: true, force: true, maxRetries: 5 })
  }
}

async function readReport(folder: string): Promise<LoadReport | null> {
  try {
    return JSON.parse(await readFile(join(folder, 'report.json'), 'utf8')) as LoadReport
  } catch {
    return null
  }
}

/** How many requests of a run ended under a code. */
export function sentAs(report: LoadReport | null, code: string): number {
  return report?.outcomes.find((outcome) => outcome.code === code)?.sent ?? 0
}

/** The objectives that did not hold, by the metric's name. */
export function brokenObjectives(report: LoadReport | null): string[] {
  return (report?.objectives ?? []).filter(({ isHeld }) => !isHeld).map(({ metric }) => metric)
}

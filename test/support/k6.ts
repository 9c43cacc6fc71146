// Runs a load script for real, as `npm run load` does, and gives its report. Where k6 is not installed the test says that
// it was not run.

import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { TestContext } from 'vitest'
import { findK6, NO_K6 } from '../../load/run/k6.js'

const RUNNER = resolve(import.meta.dirname, '../../load/run.js')
/** On a busy machine latency says nothing, so it is shown and not judged. */
const UNTIMED = { LATENCY_OBJECTIVE_MS: 'off', WARM_UP: '1s' }

/** Of report.json, what tests look at. */
export interface LoadReport {
  readonly verdict: 'HELD' | 'FAILED' | 'VOID'
  readonly reasons: readonly string[]
  readonly objectives: readonly { readonly metric: string; readonly rule: string; readonly isHeld: boolean }[]
  readonly outcomes: readonly { readonly code: string; readonly sent: number; readonly node: number | null }[]
  readonly nodeAgrees: boolean | null
  readonly events: number
  readonly dropped: number
  readonly notes: readonly string[]
  // Each script has figures of its own.
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly found: any
  readonly verified?: { readonly ok: boolean; readonly lines: readonly string[] }
}

export interface LoadRun {
  readonly code: number | null
  /** What it printed, stdout and stderr together. */
  readonly output: string
  /** null: it wrote none. */
  readonly report: LoadReport | null
  /** '' where it wrote none. */
  readonly html: string
}

export type Environment = Readonly<Record<string, string>>

/** For the start of a test that needs k6. */
export function needK6(context: TestContext): void {
  try {
    findK6()
  } catch (error) {
    // A K6 that names something else is a mistake, and no reason to leave the tests out.
    if (!(error instanceof Error) || error.message !== NO_K6) throw error
    context.skip('k6 is not installed: scripts type-checked, not executed')
  }
}

export interface StartedLoad {
  output(): string
  signal(name: NodeJS.Signals): void
  readonly ended: Promise<LoadRun>
}

/** Starts the program; only these settings reach it, and what it writes goes with its end. */
export async function startLoad(args: readonly string[], settings: Environment = {}): Promise<StartedLoad> {
  const out = await mkdtemp(join(tmpdir(), 'sluice-load-report-'))
  const { PATH = '', HOME = '/', K6 = '' } = process.env
  const env = { PATH, HOME, K6, ...UNTIMED, ...settings, OUT: out }
  const child = spawn(process.execPath, [RUNNER, ...args], { cwd: out, env, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
  }
  const closed = new Promise<number | null>((done, fail) => {
    child.once('error', fail)
    child.once('close', done)
  })
  const collect = async (): Promise<LoadRun> => {
    try {
      const code = await closed
      const json = await readText(join(out, 'report.json'))
      const report = json === '' ? null : (JSON.parse(json) as LoadReport)
      return { code, output, report, html: await readText(join(out, 'report.html')) }
    } finally {
      await rm(out, { recursive: true, force: true, maxRetries: 5 })
    }
  }
  return { output: () => output, signal: (name) => void child.kill(name), ended: collect() }
}

/** Runs a script to its end. */
export async function runLoad(name: string, settings: Environment = {}): Promise<LoadRun> {
  return (await startLoad([name], settings)).ended
}

/** The report of a run that must have written one. */
export function reportOf({ report, output }: LoadRun): LoadReport {
  if (report === null) throw new Error(`no report was written:\n${output}`)
  return report
}

function readText(file: string): Promise<string> {
  return readFile(file, 'utf8').catch(() => '')
}

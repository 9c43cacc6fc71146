// @ts-check
// Finds k6 and runs one script with it.

import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { readSettings } from '../k6/shared/settings.js'

/** k6 ends its run at a first signal and writes its report; after this it is killed. */
const STOP_TIMEOUT_MS = 30_000
export const NO_K6 = 'k6 is not installed: `go install go.k6.io/k6@latest` builds it, with Go 1.24 or later'

/** k6's own page, in the report's folder. */
export const HTML_FILE = 'report.html'
const MOST_POINTS = 600
const MILLISECONDS = 1000

/** That the script came to its end, with no threshold broken, or with some. */
const WHOLE_RUNS = new Set([0, 99])
/** k6 was told to end. */
const INTERRUPTED = 105

/** @type {import('node:child_process').ChildProcess | null} */
let running = null
let isStopped = false

/** The program to call: K6 in the environment, PATH, or where `go install` puts it. Throws where there is none. */
export function findK6() {
  const named = process.env.K6
  if (named !== undefined && named !== '') {
    if (isProgram(named)) return named
    throw new Error(`K6=${named}: that is not k6`)
  }
  const go = spawnSync('go', ['env', 'GOPATH'], { encoding: 'utf8' })
  const goPath = go.status === 0 ? go.stdout.trim() : join(homedir(), 'go')
  const found = ['k6', join(goPath, 'bin', 'k6')].find(
    (program) => (program === 'k6' || existsSync(program)) && isProgram(program),
  )
  if (found === undefined) throw new Error(NO_K6)
  return found
}

/** Such as `k6 v1.3.0`. @param {string} program */
export function k6Version(program) {
  return spawnSync(program, ['version'], { encoding: 'utf8' }).stdout?.split(' (')[0].trim() ?? ''
}

/** @param {string} program */
function isProgram(program) {
  return spawnSync(program, ['version'], { stdio: 'ignore' }).status === 0
}

/**
 * Runs load/k6/NAME.js and resolves with k6's exit code: 0, or 99 where a threshold failed; `interruption`: why it did not come to
 * its end, or ''.
 * @param {{ k6: string, name: string, environment: Readonly<Record<string, string>>, place?: readonly string[] }} options `environment` has OUT, the report's folder; `place` stands before its command @returns {Promise<{ code: number, interruption: string }>}
 */
export function runK6({ k6, name, environment, place = [] }) {
  const script = fileURLToPath(new URL(`../k6/${name}.js`, import.meta.url))
  // No API of k6's own: two runs at once would want the same port. Progress bars are for a terminal; elsewhere they fill a log.
  const quiet = process.stdout.isTTY ? [] : ['--quiet']
  const command = [...place, k6, 'run', '--no-usage-report', '--address', '', ...quiet, script]
  const child = spawn(command[0], command.slice(1), {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...environment, ...dashboard(name, environment) },
    stdio: ['ignore', 'inherit', 'inherit'],
    // Ctrl-C reaches a whole group, and k6 would take ours after it for the second, which ends it without a report.
    detached: true,
  })
  running = child
  return new Promise((done, fail) => {
    child.once('error', fail)
    child.once('close', (code) => {
      running = null
      done({ code: code ?? 1, interruption: interruptionOf(code) })
    })
  })
}

/**
 * k6's web dashboard, for the page that it leaves: it listens nowhere, and has as many points as a page shows well.
 * @param {string} name @param {Readonly<Record<string, string>>} environment
 */
function dashboard(name, environment) {
  const { durationMs } = readSettings(environment, { script: name })
  const periodSeconds = Math.max(1, Math.ceil(durationMs / MILLISECONDS / MOST_POINTS))
  return {
    K6_WEB_DASHBOARD: 'true',
    K6_WEB_DASHBOARD_PORT: '-1',
    K6_WEB_DASHBOARD_PERIOD: `${periodSeconds}s`,
    K6_WEB_DASHBOARD_EXPORT: join(environment.OUT, HTML_FILE),
  }
}

/** @param {number | null} code */
function interruptionOf(code) {
  if (isStopped || code === INTERRUPTED) return 'the run was interrupted'
  if (code !== null && WHOLE_RUNS.has(code)) return ''
  return `k6 ended before its time, with ${code ?? 'a signal'}`
}

/** Asks k6 to end its run; false where none is under way. */
export function stopK6() {
  const child = running
  if (child === null) return false
  isStopped = true
  child.kill('SIGINT')
  setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS).unref()
  return true
}

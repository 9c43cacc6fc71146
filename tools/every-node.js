// What the README's command gives on each Node: node tools/every-node.js [--nodes 20.19,22,24,26] [--tests]. Each Node is npm's
// package of it, as it comes, on this system's C library. A clone of the last commit is installed and started, and the table
// says when its first batch was answered, and by which HTTP engine; with --tests, what the tests of contract and
// hostile clients say there. The packages come from npm's cache where it has them.

import { execFileSync, spawn } from 'node:child_process'
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs, stripVTControlCharacters } from 'node:util'

const ROOT = join(import.meta.dirname, '..')
const START_TIMEOUT_MS = 600_000
const END_TIMEOUT_MS = 30_000
const POLL_MS = 100
/** Of /proc: the kernel counts CPU in hundredths of a second, whatever its own clock. */
const TICKS_A_SECOND = 100
const TESTS = ['--project=contract', '--project=hostile']

const { values } = parseArgs({
  options: { nodes: { type: 'string', default: '20.19,22,24,26' }, tests: { type: 'boolean', default: false } },
})
const rows = [['Node', 'first 202 after', 'CPU', 'engine', 'contract and hostile tests']]
const folder = mkdtempSync(join(tmpdir(), 'sluice-nodes-'))
try {
  // A Node that cannot be tried keeps the rows of the others.
  for (const wanted of values.nodes.split(','))
    rows.push(await tried(wanted).catch((error) => [wanted, `never: ${lastLine(String(error))}`, '', '', '']))
} finally {
  rmSync(folder, { recursive: true, force: true })
}
const { glibcVersionRuntime } = process.report.getReport()?.header ?? {}
console.log(`\n${process.platform} ${process.arch}, glibc ${glibcVersionRuntime ?? 'none'}\n`)
rows.splice(
  1,
  0,
  rows[0].map(() => '---'),
)
for (const row of rows) console.log(`| ${row.join(' | ')} |`)
if (rows.some((row) => /never: |[1-9]\d* failed|did not end/.test(row.slice(1).join('\n')))) process.exitCode = 1

/** @param {string} wanted such as 24 */
async function tried(wanted) {
  const { version, env } = fetchNode(wanted)
  console.error(`Node ${version}…`)
  const clone = join(folder, `clone-${wanted}`)
  const atMs = performance.now()
  execFileSync('git', ['clone', '--quiet', ROOT, clone])
  const command = 'npm install --no-audit --no-fund && npm start'
  const ports = { PORT: '0', SLUICE_ADMIN_PORT: '0' }
  const started = spawn('bash', ['-c', command], { cwd: clone, env: { ...env, ...ports }, detached: true })
  let output = ''
  for (const stream of [started.stdout, started.stderr])
    stream.setEncoding('utf8').on('data', (text) => (output += text))
  try {
    const curl = await until(() =>
      started.exitCode === null ? /^curl .*$/m.exec(output)?.[0] : `echo ${started.exitCode}`,
    )
    const answer = execFileSync('sh', ['-c', curl], { encoding: 'utf8' })
    const isAccepted = answer.startsWith('HTTP/1.1 202 ')
    if (!isAccepted) return [version, `never: ${lastLine(output)}`, '', '', '']
    const seconds = ((performance.now() - atMs) / 1000).toFixed(0)
    const cpu = cpuSecondsOf(Number(started.pid)).toFixed(0)
    const metrics = await fetch(`${/are at (http:\S+)/.exec(output)?.[1]}/metrics`).then((response) => response.text())
    const engine = /^sluice_http_engine\{name="(\w+)"\} 1$/m.exec(metrics)?.[1] ?? 'not said'
    return [version, `${seconds} s`, `${cpu} s`, engine, values.tests ? testsOf(clone, env) : 'not run']
  } finally {
    await ended(started)
  }
}

/** The service outlives npm by its last snapshot. @param {import('node:child_process').ChildProcess} started */
async function ended(started) {
  signalGroup(started, 'SIGTERM')
  for (const endsAtMs = performance.now() + END_TIMEOUT_MS; signalGroup(started, 0); await sleep(POLL_MS))
    if (performance.now() > endsAtMs) return signalGroup(started, 'SIGKILL')
  return true
}

/** False: nothing of it runs. @param {import('node:child_process').ChildProcess} started @param {NodeJS.Signals | 0} signal */
function signalGroup({ pid }, signal) {
  try {
    return process.kill(-Number(pid), signal)
  } catch {
    return false
  }
}

/** npm's package has no npm: this system's is run by it. @param {string} wanted */
function fetchNode(wanted) {
  const place = join(folder, `node-${wanted}`)
  const bin = join(place, 'package', 'bin')
  mkdirSync(place)
  const from = `node-linux-${process.arch}@${wanted}`
  const tarball = execFileSync('npm', ['pack', '--silent', from], { cwd: place, encoding: 'utf8' }).trim()
  execFileSync('tar', ['xzf', tarball], { cwd: place })
  const npm = realpathSync(execFileSync('which', ['npm'], { encoding: 'utf8' }).trim())
  for (const [name, script] of [
    ['npm', npm],
    ['npx', npm.replace(/npm-cli\.js$/, 'npx-cli.js')],
  ]) {
    writeFileSync(join(bin, name), `#!/bin/sh\nexec "${join(bin, 'node')}" "${script}" "$@"\n`)
    chmodSync(join(bin, name), 0o755)
  }
  const version = execFileSync(join(bin, 'node'), ['--version'], { encoding: 'utf8' }).trim()
  return { version, env: { ...process.env, PATH: [bin, process.env['PATH']].join(delimiter) } }
}

/** @param {string} clone @param {NodeJS.ProcessEnv} env */
function testsOf(clone, env) {
  const node = execFileSync('which', ['node'], { env, encoding: 'utf8' }).trim()
  const args = ['node_modules/vitest/vitest.mjs', 'run', ...TESTS]
  let said
  try {
    said = execFileSync(node, args, {
      cwd: clone,
      env,
      encoding: 'utf8',
      maxBuffer: 2 ** 28,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
  } catch (error) {
    said = String(Object(error).stdout)
    console.error(said)
  }
  return stripVTControlCharacters(said).match(/^\d+ passed, \d+ failed, \d+ skipped$/m)?.[0] ?? 'did not end'
}

/** @template T @param {() => T | undefined} ask @returns {Promise<T>} */
async function until(ask) {
  for (const endsAtMs = performance.now() + START_TIMEOUT_MS; performance.now() < endsAtMs; await sleep(POLL_MS)) {
    const answer = ask()
    if (answer !== undefined) return answer
  }
  throw new Error('it did not start in time')
}

/** Of a process, of what it has started, and of what has ended below them. @param {number} pid */
function cpuSecondsOf(pid) {
  const processes = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap(statOf)
  const below = (/** @type {number} */ parent) => {
    /** @type {typeof processes} */
    const found = []
    for (const one of processes) if (one.parent === parent) found.push(one, ...below(one.id))
    return found
  }
  const own = processes.filter(({ id }) => id === pid)
  return [...own, ...below(pid)].reduce((sum, { ticks }) => sum + ticks, 0) / TICKS_A_SECOND
}

/** @param {string} name @returns {{ id: number, parent: number, ticks: number }[]} */
function statOf(name) {
  try {
    const fields = readFileSync(`/proc/${name}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    // From the third field on: state, parent; the fourteenth to seventeenth are times, its own and of its ended children.
    const ticks = fields.slice(11, 15).reduce((sum, text) => sum + Number(text), 0)
    return [{ id: Number(name), parent: Number(fields[1]), ticks }]
  } catch {
    return []
  }
}

/** @param {string} text */
function lastLine(text) {
  return stripVTControlCharacters(text).trim().split('\n').at(-1)
}

// @ts-check
// `npm run prove`: simulator, planted bugs, fuzzer, crashes and faults by turns, for as long as it is given, and from where it
// stopped the last time. What ran stands in docs/proof.json, and in docs/proof.md for readers.

import { execFileSync, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { ROOT } from '../shared/node-flags.js'
import { kinds } from './kinds.js'
import { choose, nextOf, page, withRun } from './ledger.js'

const HELP = `Usage: npm run prove -- [OPTIONS]

  --hours N         how long (1); the run that is under way then ends first
  --only A,B        only kinds whose names begin so: simulate, "simulate spool", fuzz, crash, faults, planted, differential
  --node PATH       a second Node, on which the fuzzer runs the service too
  --beside COMMIT   an older commit, for faults with two versions beside each other
  --markdown        writes docs/proof.md
`
const LEDGER = join(ROOT, 'docs', 'proof.json')
const PAGE = join(ROOT, 'docs', 'proof.md')
/** What runs that found something printed. */
const FOUND = join(ROOT, '.cache', 'prove')
const HOUR_MS = 3_600_000
/** A run that takes as long hangs. */
const RUN_TIMEOUT_MS = 2 * HOUR_MS

const options = /** @type {const} */ ({
  hours: { type: 'string', default: '1' },
  only: { type: 'string', default: '' },
  node: { type: 'string' },
  beside: { type: 'string' },
  markdown: { type: 'boolean', default: false },
  help: { type: 'boolean', default: false },
})

/** @returns {import('./ledger.js').Entry[]} */
const read = () => (existsSync(LEDGER) ? JSON.parse(readFileSync(LEDGER, 'utf8')) : [])

/** @param {readonly import('./ledger.js').Entry[]} entries */
function write(entries) {
  writeFileSync(`${LEDGER}.new`, `${JSON.stringify(entries, null, 1)}\n`)
  renameSync(`${LEDGER}.new`, LEDGER)
}

/** @param {readonly string[]} rooms */
function hashOf(rooms) {
  const hash = createHash('sha256')
  for (const room of rooms) {
    const folder = join(ROOT, 'src', room)
    const names = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    for (const path of names.map((entry) => join(entry.parentPath, entry.name)).sort())
      hash.update(path.slice(ROOT.length)).update(readFileSync(path))
  }
  return hash.digest('hex')
}

function commitNow() {
  const git = (/** @type {string[]} */ ...words) => execFileSync('git', words, { cwd: ROOT, encoding: 'utf8' }).trim()
  return `${git('rev-parse', '--short', 'HEAD')}${git('status', '--porcelain', '--', 'src') === '' ? '' : ' and changes'}`
}

const ending = new AbortController()
/** @type {import('node:child_process').ChildProcess | null} */
let running = null

/** @param {readonly string[]} args @param {Readonly<Record<string, string>>} env @returns {Promise<{ code: number | null, output: string, cpuSeconds: number }>} */
function run(args, env) {
  return new Promise((done) => {
    // `times` says what the shell's children have used, those of theirs included.
    const script = '"$@"; code=$?; times >&3; exit $code'
    const child = spawn('bash', ['-c', script, 'bash', 'npm', 'run', '--silent', ...args], {
      cwd: ROOT,
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe', 'pipe'],
      detached: true,
      timeout: RUN_TIMEOUT_MS,
    })
    running = child
    let output = ''
    let times = ''
    for (const stream of [child.stdout, child.stderr])
      stream?.on('data', (bytes) => (output = `${output}${bytes}`.slice(-100_000)))
    child.stdio[3]?.on('data', (bytes) => (times += bytes))
    child.on('close', (code) => {
      running = null
      done({ code, output, cpuSeconds: secondsIn(times) })
    })
  })
}

/** The second line: `0m1.234s 0m0.100s`, of user and system. @param {string} times */
function secondsIn(times) {
  const [, ofChildren = ''] = times.split('\n')
  return [...ofChildren.matchAll(/(\d+)m([\d.]+)s/g)].reduce(
    (sum, [, minutes, seconds]) => sum + Number(minutes) * 60 + Number(seconds),
    0,
  )
}

async function main() {
  const { values } = parseArgs({ options })
  if (values.help) {
    console.log(HELP)
    return
  }
  const hours = Number(values.hours)
  if (!(hours >= 0)) throw new Error('--hours: must be a number; see --help')
  const all = kinds(values.node, values.beside)
  const chosen = all.filter(({ name }) => values.only.split(',').some((begin) => name.startsWith(begin)))
  if (chosen.length === 0) throw new Error(`--only ${values.only}: there is no such kind; see --help`)
  const hashes = new Map(all.map(({ name, rooms }) => [name, hashOf(rooms)]))
  const hash = (/** @type {string} */ name) => hashes.get(name) ?? ''
  const untilMs = Date.now() + hours * HOUR_MS
  let entries = read()
  while (!ending.signal.aborted && Date.now() < untilMs) {
    const kind = choose(chosen, entries, ({ name }) => hash(name))
    if (kind === undefined) break
    const from = nextOf(entries, kind, hash(kind.name))
    const amount = Math.min(kind.amount, (kind.most ?? Infinity) - from)
    const args = kind.args(from)
    process.stderr.write(`… ${kind.name} from ${from}\n`)
    const { code, output, cpuSeconds } = await run(args, kind.env ?? {})
    // One that was cut off says nothing.
    if (ending.signal.aborted) break
    const settings = Object.entries(kind.env ?? {}).map(([name, value]) => `${name}=${value}`)
    const command = [...settings, 'npm run', ...args].join(' ')
    const found = code === 0 ? [] : [command]
    if (code !== 0) keep(kind.name, from, output)
    const { name, unit } = kind
    const next = from + kind.step
    entries = withRun(entries, {
      kind: name,
      hash: hash(name),
      commit: commitNow(),
      amount,
      unit,
      cpuSeconds,
      next,
      found,
    })
    write(entries)
  }
  if (values.markdown) writeFileSync(PAGE, page(entries, hash))
  const faults = entries.filter((entry) => entry.hash === hash(entry.kind)).flatMap(({ found }) => found)
  for (const command of faults) console.log(`found: ${command}`)
  console.log(`${entries.length} lines in docs/proof.json, ${faults.length} faults found on the files as they are`)
  process.exitCode = faults.length === 0 ? 0 : 1
}

/** @param {string} kind @param {number} from @param {string} output */
function keep(kind, from, output) {
  mkdirSync(FOUND, { recursive: true })
  const path = join(FOUND, `${kind.replaceAll(/\W+/g, '-')}-${from}.log`)
  writeFileSync(path, output)
  console.log(`found by ${kind} from ${from}: ${path}`)
}

for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM'])) {
  process.on(signal, () => {
    ending.abort()
    // The whole group, which has services and stores of its own.
    if (running?.pid !== undefined) process.kill(-running.pid, 'SIGTERM')
  })
}

main().catch((/** @type {unknown} */ error) => {
  console.error(`prove: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
})

// @ts-check
// Two services by turns in one run, since two runs on a shared machine differ by more than what is compared: what is built
// here beside another commit (`npm run bench -- --compare COMMIT`), or with a setting beside without it.

import { execFileSync } from 'node:child_process'
import { readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { nameOf, SEED } from './cases.js'
import { median, number, table } from './report.js'
import { CASES } from './sections.js'
import { startService, temporaryFolder } from './servers.js'
import { CONNECTIONS, runWrk, writeBodies } from './wrk.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** @typedef {import('./wrk.js').Measured} Measured */
/** @typedef {Parameters<typeof startService>[0]} ServiceOptions */
/** @typedef {{ commit: string, entry: string, remove: () => void }} Built */

/** @param {import('./sections.js').Options} options @param {string} commit anything that git knows @returns {Promise<import('./sections.js').Section>} */
export async function compare(options, commit) {
  const other = await buildOther(commit, options.progress)
  try {
    const rounds = options.quick ? 3 : 9
    const results = []
    for (const kind of CASES) {
      options.progress(nameOf(kind))
      results.push({ kind, pairs: await takeTurns(kind, { ...options, rounds, there: { entry: other.entry } }) })
    }
    const title = `This tree beside ${other.commit}, by turns: one core, embedded queue, ${CONNECTIONS} connections; medians of ${rounds} rounds, ratio this / ${other.commit}, and the least and the largest ratio of a round`
    return { numbers: { commit: other.commit, results }, text: tableOf(title, other.commit, 'here', results, options) }
  } finally {
    other.remove()
  }
}

/** What it costs that web pages may send. @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function cors(options) {
  const origin = 'https://www.example.com'
  const here = { env: { SLUICE_CORS_ORIGINS: `https://app.example.com,${origin}` } }
  const rounds = options.quick ? 3 : 9
  const results = []
  for (const kind of CASES.filter(({ varied, keyed, events }) => !varied && !keyed && events !== 10)) {
    options.progress(`cors: ${nameOf(kind)}`)
    results.push({ kind, pairs: await takeTurns(kind, { ...options, rounds, here, origin }) })
  }
  const title = `SLUICE_CORS_ORIGINS set beside not set, by turns, all requests from a web page; medians of ${rounds} rounds, ratio set / not set, and the least and the largest ratio of a round`
  return { numbers: results, text: tableOf(title, 'not set', 'set', results, options) }
}

/**
 * Both serve at the same time; one is idle while the other is measured. Each round begins with the other one.
 * @param {import('./wrk.js').Case} kind
 * @param {{ folder: string, rounds: number, quick: boolean, origin?: string, here?: ServiceOptions, there?: ServiceOptions }} options
 */
async function takeTurns(kind, { folder, rounds, quick, origin, here = {}, there = {} }) {
  const seconds = quick ? 1 : 2
  const bodies = await writeBodies(folder, kind, SEED)
  const services = { here: await startService(here), there: await startService(there) }
  /** @param {'here' | 'there'} which @param {number} forSeconds */
  const measure = (which, forSeconds) =>
    runWrk(services[which], bodies, { keyed: kind.keyed, seconds: forSeconds, origin })
  await measure('here', 1)
  await measure('there', 1)
  const pairs = []
  for (let round = 0; round < rounds; round++) {
    const first = round % 2 === 0 ? await measure('there', seconds) : null
    const measured = await measure('here', seconds)
    pairs.push({ here: measured, there: first ?? (await measure('there', seconds)) })
  }
  await services.here.stop()
  await services.there.stop()
  return pairs
}

/**
 * @param {string} title @param {string} thereName @param {string} hereName
 * @param {{ kind: import('./wrk.js').Case, pairs: { here: Measured, there: Measured }[] }[]} results
 * @param {{ markdown: boolean }} options
 */
function tableOf(title, thereName, hereName, results, options) {
  const head = ['request', `CPU µs ${thereName}`, `CPU µs ${hereName}`, 'CPU ratio', 'spread', 'rate ratio', 'spread']
  return table(title, head, results.map(rowOf), options)
}

/** @param {{ kind: import('./wrk.js').Case, pairs: { here: Measured, there: Measured }[] }} result */
function rowOf({ kind, pairs }) {
  const ratios = (/** @type {(one: Measured) => number} */ read) =>
    pairs.map(({ here, there }) => read(here) / read(there)).sort((one, another) => one - another)
  const columns = (/** @type {number[]} */ list) => [
    number(median(list), 2),
    `${number(list[0], 2)}–${number(list[list.length - 1], 2)}`,
  ]
  const cpu = (/** @type {Measured} */ one) => one.cpuUsPerRequest
  return [
    nameOf(kind),
    number(median(pairs.map(({ there }) => cpu(there))), 1),
    number(median(pairs.map(({ here }) => cpu(here))), 1),
    ...columns(ratios(cpu)),
    ...columns(ratios((one) => one.perSecond)),
  ]
}

/** Checks the commit out beside this tree and builds it. @param {string} commit @param {(line: string) => void} progress @returns {Promise<Built>} */
async function buildOther(commit, progress) {
  const git = (/** @type {string[]} */ ...words) => execFileSync('git', words, { cwd: ROOT, encoding: 'utf8' }).trim()
  const hash = git('rev-parse', '--verify', '--short', `${commit}^{commit}`)
  progress(`building ${hash}`)
  const tree = join(await temporaryFolder(), 'tree')
  git('worktree', 'add', '--detach', tree, hash)
  const remove = () => void git('worktree', 'remove', '--force', tree)
  try {
    const lock = (/** @type {string} */ folder) => readFileSync(join(folder, 'package-lock.json'), 'utf8')
    if (lock(tree) === lock(ROOT)) symlinkSync(join(ROOT, 'node_modules'), join(tree, 'node_modules'))
    else execFileSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: tree, stdio: ['ignore', 'ignore', 'inherit'] })
    execFileSync('npm', ['run', '--silent', 'build'], { cwd: tree, stdio: ['ignore', 'ignore', 'inherit'] })
    return { commit: hash, entry: join(tree, 'dist/main.js'), remove }
  } catch (error) {
    remove()
    throw error
  }
}

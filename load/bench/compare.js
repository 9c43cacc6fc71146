// @ts-check
// `npm run bench -- --compare COMMIT`: what is built here beside another commit, by turns in one run, since two runs on a
// shared machine differ by more than two commits do.

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
/** @typedef {{ commit: string, entry: string, remove: () => void }} Built */

/**
 * Both serve at the same time; one is idle while the other is measured. Each round begins with the other one.
 * @param {import('./sections.js').Options} options @param {string} commit anything that git knows @returns {Promise<import('./sections.js').Section>}
 */
export async function compare(options, commit) {
  const other = await buildOther(commit, options.progress)
  try {
    const rounds = options.quick ? 3 : 9
    const seconds = options.quick ? 1 : 2
    const results = []
    for (const kind of CASES) {
      options.progress(nameOf(kind))
      results.push({ kind, pairs: await pairsOf(kind, { ...options, rounds, seconds, other }) })
    }
    const title = `This tree beside ${other.commit}, by turns: one core, embedded queue, ${CONNECTIONS} connections; medians of ${rounds} rounds, ratio this / ${other.commit}, and the least and the largest ratio of a round`
    const head = ['request', `CPU µs ${other.commit}`, 'CPU µs', 'CPU ratio', 'spread', 'rate ratio', 'spread']
    return { numbers: { commit: other.commit, results }, text: table(title, head, results.map(rowOf), options) }
  } finally {
    other.remove()
  }
}

/**
 * @param {import('./wrk.js').Case} kind
 * @param {{ folder: string, rounds: number, seconds: number, other: Built }} options
 */
async function pairsOf(kind, { folder, rounds, seconds, other }) {
  const bodies = await writeBodies(folder, kind, SEED)
  const services = { here: await startService(), there: await startService({ entry: other.entry }) }
  /** @param {'here' | 'there'} which @param {number} forSeconds */
  const measure = (which, forSeconds) => runWrk(services[which], bodies, { keyed: kind.keyed, seconds: forSeconds })
  await measure('here', 1)
  await measure('there', 1)
  const pairs = []
  for (let round = 0; round < rounds; round++) {
    if (round % 2 === 0) {
      const there = await measure('there', seconds)
      pairs.push({ here: await measure('here', seconds), there })
    } else {
      const here = await measure('here', seconds)
      pairs.push({ here, there: await measure('there', seconds) })
    }
  }
  await services.here.stop()
  await services.there.stop()
  return pairs
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

// @ts-check
// On what a run was made, since figures of two machines cannot be set beside each other; and whether other programs use its cores.

import { execFileSync } from 'node:child_process'
import { readFileSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { cpus, loadavg, release, type } from 'node:os'
import { basename } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { ROOT } from './node-flags.js'

/** So long other programs are watched. */
const WATCH_MS = 1000
/** Of a core: what an idle machine needs for itself. */
const IDLE_CORES = 0.3

/** @typedef {{ cpu: string, cores: number, kernel: string, disk: string, node: string, engine: string, commit: string }} Machine */
/** `others`: the cores that other programs use. @typedef {{ average: number, others: number, cores: number }} Load */

/** @param {string} folder in which the service stores its events @returns {Machine} */
export function machineOf(folder) {
  return {
    cpu: cpus()[0]?.model ?? 'unknown processor',
    cores: cpus().length,
    // What stands behind the version is the distribution's own.
    kernel: `${type()} ${release().split('-')[0]}`,
    disk: diskOf(folder, readFileSync('/proc/self/mounts', 'utf8')),
    node: process.version,
    engine: engineName(),
    commit: commitName(),
  }
}

/** The file system that a folder lies in. @param {string} folder @param {string} mounts as /proc/self/mounts has them */
export function diskOf(folder, mounts) {
  const path = `${realpathSync(folder)}/`
  const lines = mounts.split('\n').map((line) => line.split(' '))
  const holds = lines.filter(([, point]) => point !== undefined && path.startsWith(point === '/' ? '/' : `${point}/`))
  const [device, , kind] = holds.toSorted(([, one], [, other]) => other.length - one.length)[0] ?? ['?', '', '?']
  return `${kind} on ${basename(device)}`
}

/** What SLUICE_HTTP_ENGINE=auto takes here. */
function engineName() {
  if (process.env.SLUICE_HTTP_ENGINE === 'node') return 'node:http'
  try {
    const require = createRequire(import.meta.url)
    require('uWebSockets.js')
    return `uWebSockets.js ${require('uWebSockets.js/package.json').version}`
  } catch {
    return 'node:http'
  }
}

function commitName() {
  try {
    const git = (/** @type {string[]} */ ...args) =>
      execFileSync('git', ['-C', ROOT, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
    return `${git('rev-parse', '--short', 'HEAD')}${git('status', '--porcelain', '-uno') === '' ? '' : ', changed'}`
  } catch {
    return 'no commit'
  }
}

/** Watches the machine for a second; nothing of one's own may run meanwhile. @returns {Promise<Load>} */
export async function loadNow() {
  const before = cpus()
  await sleep(WATCH_MS)
  return { average: loadavg()[0], others: coresInUse(before, cpus()), cores: before.length }
}

/** @typedef {readonly Pick<import('node:os').CpuInfo, 'times'>[]} Times */

/** @param {Times} before @param {Times} after */
export function coresInUse(before, after) {
  return after.reduce((sum, { times }, at) => {
    const old = before[at].times
    const all = (/** @type {typeof times} */ of) => of.user + of.nice + of.sys + of.idle + of.irq
    const passed = all(times) - all(old)
    return passed > 0 ? sum + 1 - (times.idle - old.idle) / passed : sum
  }, 0)
}

/** @param {Load} load */
export function isBusy({ others }) {
  return others > IDLE_CORES
}

/** @param {Load} load */
export function busyLine({ others, cores, average }) {
  return `Other programs use ${others.toFixed(1)} of ${cores} cores (load ${average.toFixed(1)}): figures are too low then, and differ from run to run. Measure without them.`
}

/** @param {Machine} machine @param {Load} load */
export function machineLine({ cpu, cores, kernel, disk, node, engine, commit }, { average, others }) {
  return `On ${cores} × ${cpu}, ${kernel}, ${disk}, Node ${node}, ${engine}, commit ${commit}, load average ${average.toFixed(1)}, other programs ${others.toFixed(1)} cores`
}

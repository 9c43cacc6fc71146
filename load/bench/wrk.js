// @ts-check
// Drives wrk: prepares the bodies it sends, runs it on the load's core, and reads its result.

import { execFileSync } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createRng, uniformBody, variedBody } from '../payloads.js'
import { LOAD_CORE, cpuSeconds, run } from './processes.js'
import { APP_KEY } from './servers.js'

export const CONNECTIONS = 256
const SCRIPT = fileURLToPath(new URL('requests.lua', import.meta.url))
const HOW_TO_INSTALL = 'wrk is not installed: apt-get install wrk (Debian, Ubuntu), brew install wrk (macOS)'
/** Enough bodies that no cache of the processor holds all of them, little enough that wrk does. */
const BODIES = { 1: 400, 10: 300, 100: 200 }

/** @typedef {{ events: 1 | 10 | 100, keyed: boolean, varied: boolean }} Case */
/** @typedef {{ requests: number, durationUs: number, refused: number, broken: number, p50Us: number, p99Us: number, maxUs: number }} WrkResult */
/** @typedef {WrkResult & { perSecond: number, cpuUsPerRequest: number }} Measured */

/** Finds wrk, or installs it where that is one command away. */
export function ensureWrk() {
  if (present('wrk')) return
  if (process.getuid?.() !== 0 || !present('apt-get')) throw new Error(HOW_TO_INSTALL)
  console.error('installing wrk')
  try {
    execFileSync('apt-get', ['install', '-y', '--no-install-recommends', 'wrk'], { stdio: 'ignore' })
  } catch {
    throw new Error(HOW_TO_INSTALL)
  }
}

/** @param {string} program */
function present(program) {
  try {
    execFileSync('sh', ['-c', `command -v ${program}`], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** @param {Case} kind @param {number} seed @param {number} nowMs */
export function bodiesOf(kind, seed, nowMs) {
  const rng = createRng(seed)
  const make = kind.varied ? variedBody : uniformBody
  return Array.from({ length: BODIES[kind.events] }, () => make({ rng, appKey: APP_KEY, events: kind.events, nowMs }))
}

/** Writes the case's bodies to files for wrk. @param {string} folder @param {Case} kind @param {number} seed */
export async function writeBodies(folder, kind, seed) {
  const target = join(folder, `${kind.events}-${kind.varied ? 'varied' : 'uniform'}`)
  await mkdir(target, { recursive: true })
  const bodies = bodiesOf(kind, seed, Date.now())
  await Promise.all(bodies.map((body, index) => writeFile(join(target, `${index + 1}.json`), body)))
  return { folder: target, count: bodies.length }
}

/**
 * One run of wrk. Any answer that is not a success makes it void: a rate of refusals is no rate.
 * @param {{ pid: number, port: number }} server @param {{ folder: string, count: number }} bodies
 * @param {{ keyed: boolean, seconds: number }} options @returns {Promise<Measured>}
 */
export async function runWrk(server, bodies, { keyed, seconds }) {
  const beforeSeconds = cpuSeconds(server.pid)
  const url = `http://127.0.0.1:${server.port}/api/v1/events`
  const settings = ['--threads', '1', '--connections', String(CONNECTIONS), '--duration', `${seconds}s`, '--latency']
  const mode = keyed ? 'keyed' : 'unkeyed'
  const script = [
    '--script',
    SCRIPT,
    url,
    '--',
    bodies.folder,
    String(bodies.count),
    mode,
    String(Date.now() % 2 ** 31),
  ]
  const output = await run(LOAD_CORE, ['wrk', ...settings, ...script])
  const cpu = cpuSeconds(server.pid) - beforeSeconds
  const line = /^RESULT (.*)$/m.exec(output)
  if (!line) throw new Error(`wrk gave no result:\n${output}`)
  /** @type {WrkResult} */
  const result = JSON.parse(line[1])
  if (result.refused > 0 || result.broken > 0) {
    throw new Error(`void: ${result.refused} of ${result.requests} answers were refusals, ${result.broken} broke off`)
  }
  if (result.requests === 0) throw new Error('void: no request was answered')
  const perSecond = result.requests / (result.durationUs / 1e6)
  return { ...result, perSecond, cpuUsPerRequest: (cpu * 1e6) / result.requests }
}

// @ts-check
// Drives wrk: prepares the bodies it sends, runs it on the load's core, and reads its result.

import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createRng, MAKERS } from '../payloads.js'
import { makeOf } from './cases.js'
import { cpuSeconds, LOAD_CORE, mainThreadCpuSeconds, run } from './processes.js'
import { appKeyOf } from './servers.js'
import { VoidRun } from './void-runs.js'

export const CONNECTIONS = 256
const SCRIPT = fileURLToPath(new URL('requests.lua', import.meta.url))
/** Enough bodies that no cache of the processor holds all of them, little enough that wrk does. */
const BODIES = { 1: 400, 10: 300, 100: 200 }

/** @typedef {{ requests: number, durationUs: number, refused: number, broken: number, p50Us: number, p99Us: number, maxUs: number }} WrkResult */
/** @typedef {WrkResult & { perSecond: number, cpuUsPerRequest: number, mainThreadUsPerRequest: number }} Measured */

/** @param {import('./cases.js').Case} kind @param {number} seed @param {number} nowMs */
export function bodiesOf(kind, seed, nowMs) {
  const rng = createRng(seed)
  const make = MAKERS[makeOf(kind)]
  const { apps = 1, events } = kind
  return Array.from({ length: BODIES[events] }, (_, at) => make({ rng, appKey: appKeyOf(at % apps), events, nowMs }))
}

/** Writes the case's bodies to files for wrk. @param {string} folder @param {import('./cases.js').Case} kind @param {number} seed */
export async function writeBodies(folder, kind, seed) {
  const target = join(folder, `${kind.events}-${makeOf(kind)}-${kind.apps ?? 1}`)
  await mkdir(target, { recursive: true })
  const bodies = bodiesOf(kind, seed, Date.now())
  await Promise.all(bodies.map((body, index) => writeFile(join(target, `${index + 1}.json`), body)))
  return { folder: target, count: bodies.length }
}

/**
 * One run of wrk. Any answer that is not a success makes it void: a rate of refusals is no rate.
 * @param {Pick<import('./servers.js').Server, 'pid' | 'port' | 'scheme'>} server @param {import('./turns.js').Bodies} bodies
 * @param {{ keyed: boolean, seconds: number, connections?: number | undefined, origin?: string | undefined }} options `origin`: as from a web page there @returns {Promise<Measured>}
 */
export async function runWrk(server, bodies, { keyed, seconds, connections = CONNECTIONS, origin }) {
  const beforeSeconds = { all: cpuSeconds(server.pid), main: mainThreadCpuSeconds(server.pid) }
  const url = `${server.scheme ?? 'http'}://127.0.0.1:${server.port}/api/v1/events`
  const settings = ['--threads', '1', '--connections', String(connections), '--duration', `${seconds}s`, '--latency']
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
    ...(origin === undefined ? [] : [origin]),
  ]
  const output = await run(LOAD_CORE, ['wrk', ...settings, ...script])
  const usedSeconds = cpuSeconds(server.pid) - beforeSeconds.all
  const usedByMainSeconds = mainThreadCpuSeconds(server.pid) - beforeSeconds.main
  const line = /^RESULT (.*)$/m.exec(output)
  if (!line) throw new Error(`wrk gave no result:\n${output}`)
  /** @type {WrkResult} */
  const result = JSON.parse(line[1])
  if (result.refused > 0 || result.broken > 0) {
    throw new VoidRun(`${result.refused} of ${result.requests} answers were refusals, ${result.broken} broke off`)
  }
  if (result.requests === 0)
    throw new VoidRun(`no request was answered within ${seconds} s: the server or wrk got no processor time`)
  return {
    ...result,
    perSecond: result.requests / (result.durationUs / 1e6),
    cpuUsPerRequest: (usedSeconds * 1e6) / result.requests,
    mainThreadUsPerRequest: (usedByMainSeconds * 1e6) / result.requests,
  }
}

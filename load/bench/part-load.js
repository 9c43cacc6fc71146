// @ts-check
// What a service costs that is not full, and how long its clients wait: requests at a fixed rate, far below the best.

import { expectRate, PACED_CONNECTIONS, runPaced } from './pacing.js'
import { cpuSeconds } from './processes.js'
import { columnsOf, ratios } from './ratios.js'
import { median, number, table } from './report.js'

/** @typedef {{ cpuUsPerRequest: number, perSecond: number, p50Ms: number, p99Ms: number }} Measured */
/** @typedef {{ here: Measured, there: Measured }} Pair */

/** The last ones of a single event are too much for a slow machine. @type {{ kind: import('./wrk.js').Case, perSecond: number }[]} */
export const PART_LOADS = [
  ...[1000, 5000, 20_000, 40_000].map((perSecond) => ({
    kind: { events: /** @type {const} */ (1), keyed: false, varied: true },
    perSecond,
  })),
  { kind: { events: 100, keyed: false, varied: true }, perSecond: 500 },
]

/**
 * One run at a fixed rate. A refusal makes it void, and so does a rate that was not reached.
 * @param {import('./servers.js').Server} server @param {{ folder: string, count: number }} bodies
 * @param {{ perSecond: number, seconds: number }} phase @returns {Promise<Measured>}
 */
export async function runAtRate(server, bodies, { perSecond, seconds }) {
  const beforeSeconds = cpuSeconds(server.pid)
  const paced = await runPaced(server, bodies, { phases: [{ perSecond, seconds }], connections: PACED_CONNECTIONS })
  const usedSeconds = cpuSeconds(server.pid) - beforeSeconds
  const [phase] = paced.phases
  expectRate(phase, perSecond)
  const { count, fromDueMs } = phase.accepted
  return {
    cpuUsPerRequest: (usedSeconds * 1e6) / count,
    perSecond: count / seconds,
    p50Ms: fromDueMs.p50 ?? Number.NaN,
    p99Ms: fromDueMs.p99 ?? Number.NaN,
  }
}

/**
 * @param {string} title @param {string} thereName @param {string} hereName
 * @param {readonly { name: string, pairs: readonly Pair[] }[]} results @param {{ markdown: boolean }} options
 */
export function partLoadTable(title, thereName, hereName, results, options) {
  const columns = [`CPU µs ${thereName}`, `CPU µs ${hereName}`, 'CPU ratio', 'spread']
  const waits = ['p50', 'p99'].flatMap((name) => [`${name} ms ${thereName}`, `${name} ms ${hereName}`])
  const rows = results.map(({ name, pairs }) => {
    const both = (/** @type {keyof Measured} */ of, /** @type {number} */ digits) => [
      number(median(pairs.map(({ there }) => there[of])), digits),
      number(median(pairs.map(({ here }) => here[of])), digits),
    ]
    const cost = [...both('cpuUsPerRequest', 1), ...columnsOf(ratios(pairs, 'cpuUsPerRequest'))]
    return [name, ...cost, ...both('p50Ms', 2), ...both('p99Ms', 2)]
  })
  return table(title, ['request', ...columns, ...waits], rows, options)
}

// @ts-check
// How a section measures: for each case it writes the bodies and starts the servers, warms them up, and measures each of them so
// many rounds, by turns, since two runs on a shared machine differ by more than what is compared.

import { nameOf, SEED } from './cases.js'
import { histogramFile } from './pacing.js'
import { orUnmeasured, unlessVoid, VoidRun } from './void-runs.js'
import { runWrk, writeBodies } from './wrk.js'

/**
 * `rows`: --compare leaves out those without it in their names; `machine`: the line below each table; `histograms`: a folder for the
 * latencies of each run at a fixed rate; `unmeasured`: what could not be measured so far.
 * @typedef {{ quick: boolean, seconds: number, markdown: boolean, rows: string, folder: string, machine: string, histograms: string | undefined,
 *   unmeasured: import('./void-runs.js').Unmeasured[], progress: (line: string) => void }} Options
 */
/** @typedef {{ numbers: unknown, text: string }} Section */
/** @typedef {import('./cases.js').Case} Case */
/** @typedef {import('./servers.js').Server} Server */
/** Files for wrk. @typedef {{ folder: string, count: number }} Bodies */

/**
 * What is void is named, and left out of the results.
 * @template {object} R @param {Pick<Options, 'folder' | 'progress' | 'unmeasured'>} options @param {readonly Case[]} cases
 * @param {(kind: Case, bodies: Bodies, name: string) => Promise<R>} measure @returns {Promise<(R & { kind: Case, name: string })[]>}
 */
export async function eachCase(options, cases, measure) {
  const results = []
  for (const kind of cases) {
    const name = nameOf(kind)
    options.progress(name)
    const measured = await orUnmeasured(options, name, async () =>
      measure(kind, await writeBodies(options.folder, kind, SEED), name),
    )
    if (measured !== null) results.push({ kind, name, ...measured })
  }
  if (results.length === 0) throw new VoidRun('no row could be measured')
  return results
}

/**
 * Servers for as long as they are used.
 * @template {Readonly<Record<string, () => Promise<Server>>>} S @template T @param {S} starts
 * @param {(servers: { [Side in keyof S]: Awaited<ReturnType<S[Side]>> }) => Promise<T>} use @returns {Promise<T>}
 */
export async function withServers(starts, use) {
  /** @type {Record<string, Server>} */
  const servers = {}
  try {
    for (const [side, start] of Object.entries(starts)) servers[side] = await start()
    return await use(/** @type {Parameters<typeof use>[0]} */ (servers))
  } finally {
    for (const server of Object.values(servers)) await server.stop()
  }
}

/**
 * One is measured while the others are idle; each round begins with another one. A void run is made again.
 * @template {string} Side @template T @param {string} name @param {Readonly<Record<Side, (seconds: number) => Promise<T>>>} sides
 * @param {{ rounds: number, seconds: number, warmUpSeconds?: number }} how @returns {Promise<Record<Side, T>[]>}
 */
export async function byTurns(name, sides, { rounds, seconds, warmUpSeconds = 1 }) {
  const names = sidesOf(sides)
  const measure = (/** @type {Side} */ side, /** @type {number} */ forSeconds) =>
    unlessVoid(`${name}, ${side}`, () => sides[side](forSeconds))
  // What a cold server does not reach says nothing.
  for (const side of names) await orUnmeasured({ unmeasured: [] }, side, () => sides[side](warmUpSeconds))
  const turns = []
  for (let round = 0; round < rounds; round++) {
    const measured = /** @type {Record<Side, T>} */ ({})
    for (const at of names.keys()) {
      const side = names[(round + at) % names.length]
      measured[side] = await measure(side, seconds)
    }
    turns.push(measured)
  }
  return turns
}

/**
 * Each case on servers of its own, by turns; as much as wrk can send, unless `load` says otherwise.
 * @template {string} Side @template {Server} [S=Server] @template [T=import('./wrk.js').Measured]
 * @param {Options} options @param {{ cases: readonly Case[], starts: (kind: Case) => Readonly<Record<Side, () => Promise<S>>>, rounds: number,
 *   seconds?: number, warmUpSeconds?: number, load?: (server: S, bodies: Bodies, how: Case & { seconds: number }) => Promise<T> }} how
 */
export function compareLoads(options, { cases, starts, seconds = options.quick ? 1 : 2, ...how }) {
  const load = how.load ?? /** @type {NonNullable<typeof how.load>} */ (/** @type {unknown} */ (runWrk))
  return eachCase(options, cases, (kind, bodies, name) =>
    withServers(starts(kind), async (servers) => {
      const sides = sidesOf(servers).map((side) => {
        const run = (/** @type {number} */ forSeconds) => load(servers[side], bodies, { ...kind, seconds: forSeconds })
        return /** @type {const} */ ([side, run])
      })
      const runs = /** @type {Record<Side, (seconds: number) => Promise<T>>} */ (Object.fromEntries(sides))
      return { turns: await byTurns(name, runs, { seconds, ...how }) }
    }),
  )
}

/**
 * Runs at fixed rates, one row after the other in each round. A run that stays void is named and left out, and so is a row that has no other.
 * @template {{ name: string }} R @template T @param {Pick<Options, 'histograms' | 'progress' | 'unmeasured'>} options @param {string} section
 * @param {readonly R[]} rows @param {number} rounds @param {(row: R, histogram: string | undefined) => Promise<T>} run @returns {Promise<(R & { turns: T[] })[]>}
 */
export async function ratesByTurns(options, section, rows, rounds, run) {
  const results = rows.map((row) => Object.assign({ turns: /** @type {T[]} */ ([]) }, row))
  for (let round = 1; round <= rounds; round++) {
    for (const result of results) {
      const name = `${section}, ${result.name}, round ${round}`
      options.progress(name)
      const histogram = histogramFile(options, name)
      const turn = await orUnmeasured(options, name, () => unlessVoid(name, () => run(result, histogram)))
      if (turn !== null) result.turns.push(turn)
    }
  }
  return results.filter(({ turns }) => turns.length > 0)
}

/** @template {string} Side @param {Readonly<Record<Side, unknown>>} record */
function sidesOf(record) {
  return /** @type {Side[]} */ (Object.keys(record))
}

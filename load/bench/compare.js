// @ts-check
// Two services by turns in one run: what is built here beside another commit (`npm run bench -- --compare COMMIT`) or on another
// Node (`--compare-node PROGRAM`), or with a setting beside without it.

import { execFileSync } from 'node:child_process'
import { buildCommit } from '../shared/other-commit.js'
import { BODIES, CASES, casesOf, nameOf } from './cases.js'
import { PACED_CONNECTIONS, runAtRate } from './pacing.js'
import { ensurePrograms, startCluster } from './programs.js'
import { middle, REQUEST, ratioColumns, table } from './report.js'
import { startService } from './servers.js'
import { compareLoads } from './turns.js'
import { CONNECTIONS, runWrk } from './wrk.js'

/** @typedef {import('./turns.js').Options} Options */
/** @typedef {import('./turns.js').Section} Section */
/** @typedef {Parameters<typeof startService>[0]} ServiceOptions */
/** @typedef {{ cpuUsPerRequest: number, perSecond: number }} Cost */
/** One round: both sides measured right after each other. @template {Cost} T @typedef {Record<'here' | 'there', T>} Pair */
/** What is measured beside what is built here. @typedef {{ name: string, there: ServiceOptions }} Other */

/** Until the code that a request runs is compiled, and the windows to NATS have grown. */
const WARM_UP_SECONDS = 3
const FULL_LOADS = [
  ...CASES,
  ...casesOf({ stores: [true], events: [1, 100], keyed: [false] }),
  ...casesOf({ stores: [true], events: [1], keyed: [true] }),
  ...casesOf({ stores: [true], events: [100], keyed: [true], varied: [true] }),
]
/** What a service costs that is not full, and how long its clients wait. The last ones of a single event are too much for a slow machine. */
const PART_LOADS = [
  ...casesOf({ varied: [true], perSecond: [1000, 5000, 20_000, 40_000] }),
  ...casesOf({ varied: [true], events: [100], perSecond: [500] }),
]

/** @param {string} commit anything that git knows @param {(line: string) => void} progress @returns {Promise<Other>} */
export async function otherCommit(commit, progress) {
  const { commit: name, tree } = await buildCommit(commit, progress)
  return { name, there: { tree } }
}

/** The same service on it. @param {string} node a program @returns {Other} */
export function otherNode(node) {
  const version = execFileSync(node, ['--version'], { encoding: 'utf8' }).trim()
  return { name: `Node ${version}`, there: { node } }
}

/** The rows of a comparison that have this in their names. @param {string} text @returns {string[]} */
export function rowsWith(text) {
  return [...FULL_LOADS, ...PART_LOADS].map(nameOf).filter((name) => name.includes(text))
}

/** @param {Options} options @param {Other} other @returns {Promise<Section>} */
export async function compare(options, { name: other, there }) {
  ensurePrograms(['redis-server', 'nats-server'])
  const rounds = options.quick ? 3 : 9
  const how = `medians of ${rounds} rounds, ratio this / ${other}, and the least and the largest ratio of a round`
  const title = `This tree beside ${other}, by turns: one core, embedded queue where no other is named, ${CONNECTIONS} connections where no others are named; ${how}`
  const partTitle = `The same at a fixed rate, embedded queue, ${PACED_CONNECTIONS} connections; latency from the moment at which each request was due; ${how}`
  /** @param {import('./cases.js').Case} kind */
  const starts = ({ stores }) => {
    const start = stores ? startCluster : startService
    return { here: () => start({}), there: () => start(there) }
  }
  const [full, part] = [FULL_LOADS, PART_LOADS].map((cases) =>
    cases.filter((kind) => nameOf(kind).includes(options.rows)),
  )
  const measuring = { starts, rounds, warmUpSeconds: WARM_UP_SECONDS }
  const results = full.length === 0 ? [] : await compareLoads(options, { cases: full, ...measuring })
  const partLoads = part.length === 0 ? [] : await compareLoads(options, { cases: part, load: runAtRate, ...measuring })
  const tables = []
  if (results.length > 0) tables.push(ratioTable(title, other, 'here', results, options))
  if (partLoads.length > 0) tables.push(partLoadTable(partTitle, other, 'here', partLoads, options))
  return { numbers: { other, results, partLoads }, text: tables.join('\n') }
}

/** What it costs that web pages may send. @param {Options} options @returns {Promise<Section>} */
export async function cors(options) {
  const origin = 'https://www.example.com'
  const here = { env: { SLUICE_CORS_ORIGINS: `https://app.example.com,${origin}` } }
  const cases = BODIES.filter(({ varied, keyed, events }) => !varied && !keyed && events !== 10)
  const title = 'SLUICE_CORS_ORIGINS set beside not set, by turns, all requests from a web page'
  return bySetting(title, cases, { here: ['set', here], there: ['not set', {}] }, options, origin)
}

/** What Node's own server carries of what uWebSockets.js does. @param {Options} options @returns {Promise<Section>} */
export async function engines(options) {
  const cases = BODIES.filter(({ varied, keyed }) => !varied && !keyed)
  const [here, there] = ['node', 'uws'].map((name) => ({ env: { SLUICE_HTTP_ENGINE: name } }))
  const title = 'SLUICE_HTTP_ENGINE=node beside uws, by turns'
  return bySetting(title, cases, { here: ['node', here], there: ['uws', there] }, options)
}

/** @param {string} title @param {import('./cases.js').Case[]} cases @param {Record<'here' | 'there', [name: string, ServiceOptions]>} sides @param {Options} options @param {string} [origin] @returns {Promise<Section>} */
async function bySetting(title, cases, { here: [hereName, here], there: [thereName, there] }, options, origin) {
  const rounds = options.quick ? 3 : 9
  const results = await compareLoads(options, {
    cases,
    starts: () => ({ here: () => startService(here), there: () => startService(there) }),
    rounds,
    warmUpSeconds: WARM_UP_SECONDS,
    load: (server, bodies, how) => runWrk(server, bodies, { ...how, origin }),
  })
  const how = `medians of ${rounds} rounds, ratio ${hereName} / ${thereName}, and the least and the largest ratio of a round`
  return { numbers: results, text: ratioTable(`${title}; ${how}`, thereName, hereName, results, options) }
}

/** @param {string} there @param {string} here @returns {import('./report.js').Column<{ name: string, turns: readonly Pair<Cost>[] }>[]} */
function costColumns(there, here) {
  return [
    REQUEST,
    [`CPU µs ${there}`, ({ turns }) => middle(turns, (turn) => turn.there.cpuUsPerRequest, 1)],
    [`CPU µs ${here}`, ({ turns }) => middle(turns, (turn) => turn.here.cpuUsPerRequest, 1)],
    ...ratioColumns(
      'CPU ratio',
      (/** @type {Pair<Cost>} */ turn) => turn.here.cpuUsPerRequest / turn.there.cpuUsPerRequest,
    ),
  ]
}

/**
 * What each side costs, and the ratio of the two with its spread over the rounds.
 * @param {string} title @param {string} there @param {string} here @param {readonly { name: string, turns: readonly Pair<Cost>[] }[]} results @param {{ markdown: boolean, machine?: string }} options
 */
export function ratioTable(title, there, here, results, options) {
  const rates = ratioColumns(
    'rate ratio',
    (/** @type {Pair<Cost>} */ turn) => turn.here.perSecond / turn.there.perSecond,
  )
  return table(title, results, options, [...costColumns(there, here), ...rates])
}

/**
 * The same at a fixed rate, where latencies take the place of rates.
 * @param {string} title @param {string} there @param {string} here
 * @param {readonly { name: string, turns: readonly Pair<Cost & { p50Ms: number, p99Ms: number }>[] }[]} results @param {{ markdown: boolean, machine?: string }} options
 */
export function partLoadTable(title, there, here, results, options) {
  /** @type {import('./report.js').Column<typeof results[number]>[]} */
  const waits = [
    [`p50 ms ${there}`, ({ turns }) => middle(turns, (turn) => turn.there.p50Ms, 2)],
    [`p50 ms ${here}`, ({ turns }) => middle(turns, (turn) => turn.here.p50Ms, 2)],
    [`p99 ms ${there}`, ({ turns }) => middle(turns, (turn) => turn.there.p99Ms, 2)],
    [`p99 ms ${here}`, ({ turns }) => middle(turns, (turn) => turn.here.p99Ms, 2)],
  ]
  return table(title, results, options, [...costColumns(there, here), ...waits])
}

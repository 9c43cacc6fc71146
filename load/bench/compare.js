// @ts-check
// Two services by turns in one run, since two runs on a shared machine differ by more than what is compared: what is built
// here beside another commit (`npm run bench -- --compare COMMIT`) or on another Node (`--compare-node PROGRAM`), or with a
// setting beside without it.

import { execFileSync } from 'node:child_process'
import { buildCommit } from '../shared/other-commit.js'
import { nameOf, SEED } from './cases.js'
import { PACED_CONNECTIONS } from './pacing.js'
import { PART_LOADS, partLoadTable, runAtRate } from './part-load.js'
import { ensurePrograms } from './programs.js'
import { startCluster } from './queues.js'
import { ratioTable } from './ratios.js'
import { number } from './report.js'
import { BODIES, CASES } from './sections.js'
import { startService } from './servers.js'
import { unlessVoid, VoidRun } from './void-runs.js'
import { CONNECTIONS, runWrk, writeBodies } from './wrk.js'

/** @typedef {Parameters<typeof startService>[0]} ServiceOptions */
/** Until the code that a request runs is compiled, and the windows to NATS have grown. */
const WARM_UP_SECONDS = 3

/** @typedef {import('./ratios.js').Pair} Pair */

/** On Redis and JetStream. @type {import('./wrk.js').Case[]} */
const CLUSTER_CASES = [
  { events: 1, keyed: false, varied: false },
  { events: 1, keyed: true, varied: false },
  { events: 100, keyed: false, varied: false },
  { events: 100, keyed: true, varied: true },
]

/** What is measured beside what is built here. @typedef {{ name: string, there: ServiceOptions, remove: () => Promise<void> }} Other */

/** @param {string} commit anything that git knows @param {(line: string) => void} progress @returns {Promise<Other>} */
export async function otherCommit(commit, progress) {
  const { commit: name, tree, remove } = await buildCommit(commit, progress)
  return { name, there: { tree }, remove }
}

/** The same service on it. @param {string} node a program @returns {Other} */
export function otherNode(node) {
  const version = execFileSync(node, ['--version'], { encoding: 'utf8' }).trim()
  return { name: `Node ${version}`, there: { node }, remove: async () => {} }
}

/** @param {import('./sections.js').Options} options @param {Other} other @returns {Promise<import('./sections.js').Section>} */
export async function compare(options, { name: otherName, there, remove }) {
  try {
    ensurePrograms(['redis-server', 'nats-server'])
    const rounds = options.quick ? 3 : 9
    /** @type {{ kind: import('./wrk.js').Case, name: string, pairs: Pair[] }[]} */
    const results = []
    for (const [kind, mode] of ROWS) {
      const name = nameOfRow([kind, mode])
      if (!name.includes(options.rows)) continue
      options.progress(name)
      const starts = mode === 'cluster' ? clusterStarts(there) : serviceStarts({}, there)
      results.push({ kind, name, pairs: await fullLoads(kind, starts, { ...options, rounds }) })
    }
    const partLoads = []
    for (const { kind, perSecond } of PART_LOADS) {
      const name = nameOfPartLoad({ kind, perSecond })
      if (!name.includes(options.rows)) continue
      options.progress(name)
      const bodies = await writeBodies(options.folder, kind, SEED)
      const starts = serviceStarts({}, there)
      const pairs = await takeTurns(name, starts, { ...options, rounds }, (server, seconds) =>
        runAtRate(server, bodies, { perSecond, seconds }),
      ).catch((error) => {
        if (!(error instanceof VoidRun)) throw error
        options.progress(`left out, since this machine is too slow for it: ${name}`)
      })
      if (pairs !== undefined) partLoads.push({ kind, perSecond, name, pairs })
    }
    const how = `medians of ${rounds} rounds, ratio this / ${otherName}, and the least and the largest ratio of a round`
    const title = `This tree beside ${otherName}, by turns: one core, embedded queue where no other is named, ${CONNECTIONS} connections where no others are named; ${how}`
    const partTitle = `The same at a fixed rate, embedded queue, ${PACED_CONNECTIONS} connections; latency from the moment at which each request was due; ${how}`
    const tables = []
    if (results.length > 0) tables.push(ratioTable(title, otherName, 'here', results, options))
    if (partLoads.length > 0) tables.push(partLoadTable(partTitle, otherName, 'here', partLoads, options))
    return { numbers: { other: otherName, results, partLoads }, text: tables.join('\n') }
  } finally {
    await remove()
  }
}

/** @typedef {[import('./wrk.js').Case, 'embedded' | 'cluster']} Row */

/** @param {import('./wrk.js').Case} kind @returns {Row} */
const embedded = (kind) => [kind, 'embedded']
/** @param {import('./wrk.js').Case} kind @returns {Row} */
const onStores = (kind) => [kind, 'cluster']
const ROWS = [...CASES.map(embedded), ...CLUSTER_CASES.map(onStores)]
/** @param {Row} row */
const nameOfRow = ([kind, mode]) => `${nameOf(kind)}${mode === 'cluster' ? ', JetStream and Redis' : ''}`
/** @param {{ kind: import('./wrk.js').Case, perSecond: number }} load */
const nameOfPartLoad = ({ kind, perSecond }) => `${nameOf(kind)}, ${number(perSecond)} /s`

/** The rows of a comparison that have this in their names. @param {string} text @returns {string[]} */
export function rowsWith(text) {
  return [...ROWS.map(nameOfRow), ...PART_LOADS.map(nameOfPartLoad)].filter((name) => name.includes(text))
}

/** What it costs that web pages may send. @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function cors(options) {
  const origin = 'https://www.example.com'
  const here = { env: { SLUICE_CORS_ORIGINS: `https://app.example.com,${origin}` } }
  const kinds = BODIES.filter(({ varied, keyed, events }) => !varied && !keyed && events !== 10)
  const title = 'SLUICE_CORS_ORIGINS set beside not set, by turns, all requests from a web page'
  return bySetting(title, kinds, { here: ['set', here], there: ['not set', {}] }, { ...options, origin })
}

/** What Node's own server carries of what uWebSockets.js does. @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function engines(options) {
  const kinds = BODIES.filter(({ varied, keyed }) => !varied && !keyed)
  const [here, there] = ['node', 'uws'].map((name) => ({ env: { SLUICE_HTTP_ENGINE: name } }))
  const title = 'SLUICE_HTTP_ENGINE=node beside uws, by turns'
  return bySetting(title, kinds, { here: ['node', here], there: ['uws', there] }, options)
}

/** @param {string} title @param {import('./wrk.js').Case[]} kinds @param {Record<'here' | 'there', [name: string, ServiceOptions]>} sides @param {import('./sections.js').Options & { origin?: string }} options @returns {Promise<import('./sections.js').Section>} */
async function bySetting(title, kinds, { here: [hereName, here], there: [thereName, there] }, options) {
  const rounds = options.quick ? 3 : 9
  const results = []
  for (const kind of kinds) {
    options.progress(`${hereName} beside ${thereName}: ${nameOf(kind)}`)
    const pairs = await fullLoads(kind, serviceStarts(here, there), { ...options, rounds })
    results.push({ kind, name: nameOf(kind), pairs })
  }
  const how = `medians of ${rounds} rounds, ratio ${hereName} / ${thereName}, and the least and the largest ratio of a round`
  return { numbers: results, text: ratioTable(`${title}; ${how}`, thereName, hereName, results, options) }
}

/** @typedef {{ server: import('./servers.js').Server, stop: () => Promise<void> }} Stage */
/** @typedef {Record<'here' | 'there', () => Promise<Stage>>} Starts */

/** @param {ServiceOptions} here @param {ServiceOptions} [there] @returns {Starts} */
function serviceStarts(here, there) {
  return { here: () => stageOf(startService(here)), there: () => stageOf(startService(there)) }
}

/** @param {Promise<import('./servers.js').Server>} starting @returns {Promise<Stage>} */
export async function stageOf(starting) {
  const server = await starting
  return { server, stop: server.stop }
}

/** Each on a Redis and a NATS of its own. @param {ServiceOptions} there @returns {Starts} */
function clusterStarts(there) {
  const starting = (/** @type {ServiceOptions} */ options) => async () => {
    const { cluster, stop } = await startCluster(options)
    return { server: cluster, stop }
  }
  return { here: starting({}), there: starting(there) }
}

/** As much as wrk can send. @param {import('./wrk.js').Case} kind @param {Starts} starts @param {Rounds & { folder: string, origin?: string }} options */
export async function fullLoads(kind, starts, options) {
  const bodies = await writeBodies(options.folder, kind, SEED)
  return await takeTurns(nameOf(kind), starts, options, (server, seconds) =>
    runWrk(server, bodies, { ...kind, seconds, origin: options.origin }),
  )
}

/** @typedef {{ rounds: number, quick: boolean }} Rounds */

/**
 * Both serve at the same time; one is idle while the other is measured. Each round begins with the other one.
 * @template T @param {string} name @param {Starts} starts @param {Rounds} options
 * @param {(server: import('./servers.js').Server, seconds: number) => Promise<T>} run
 * @returns {Promise<{ here: T, there: T }[]>}
 */
async function takeTurns(name, starts, { rounds, quick }, run) {
  const seconds = quick ? 1 : 2
  const stages = { here: await starts.here(), there: await starts.there() }
  const measure = (/** @type {'here' | 'there'} */ which, /** @type {number} */ forSeconds) =>
    unlessVoid(`${name}, ${which}`, () => run(stages[which].server, forSeconds))
  try {
    await measure('here', WARM_UP_SECONDS)
    await measure('there', WARM_UP_SECONDS)
    const pairs = []
    for (let round = 0; round < rounds; round++) {
      const first = round % 2 === 0 ? await measure('there', seconds) : null
      const measured = await measure('here', seconds)
      pairs.push({ here: measured, there: first ?? (await measure('there', seconds)) })
    }
    return pairs
  } finally {
    await stages.here.stop()
    await stages.there.stop()
  }
}

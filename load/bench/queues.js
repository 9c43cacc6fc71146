// @ts-check
// Both queues side by side: the raw front end, the service with its journal, and the service on Redis and JetStream,
// by turns under as much load as each takes; what each costs, where, and what a key adds.

import { casesOf, nameOf } from './cases.js'
import { ensurePrograms, startCluster } from './programs.js'
import { median, middle, number, table } from './report.js'
import { APPS, startRaw, startService } from './servers.js'
import { compareLoads } from './turns.js'
import { CONNECTIONS, runWrk } from './wrk.js'

/** @typedef {import('./wrk.js').Measured & Partial<import('./programs.js').Beside>} Run */
/** @typedef {'raw' | 'embedded' | 'cluster'} Mode */
/** @typedef {{ kind: import('./cases.js').Case, name: string, turns: Record<Mode, Run>[] }} Result */

/** @type {readonly Mode[]} */
const MODES = ['raw', 'embedded', 'cluster']
const NAMES = { raw: 'raw front end', embedded: 'embedded', cluster: 'JetStream and Redis' }
const QUICK_CASES = casesOf({ keyed: [false, true] })
const CASES = [
  ...casesOf({ keyed: [false, true], events: [1, 10, 100] }),
  ...casesOf({ apps: [APPS], keyed: [false, true] }),
]

/** @param {import('./turns.js').Options} options @returns {Promise<import('./turns.js').Section>} */
export async function queues(options) {
  ensurePrograms(['redis-server', 'nats-server'])
  const rounds = options.quick ? 1 : 3
  const results = await compareLoads(options, {
    cases: options.quick ? QUICK_CASES : CASES,
    starts: () => ({ raw: startRaw, embedded: startService, cluster: startCluster }),
    rounds,
    load: measure,
  })
  return { numbers: results, text: `${sideBySide(results, rounds, options)}\n${costOfKeys(results, options)}` }
}

/**
 * @param {import('./servers.js').Server | import('./programs.js').Cluster} server @param {import('./turns.js').Bodies} bodies
 * @param {import('./cases.js').Case & { seconds: number }} how @returns {Promise<Run>}
 */
async function measure(server, bodies, how) {
  if (!('measure' in server)) return runWrk(server, bodies, how)
  // Buckets go back after a second without requests, and are filled anew in steps that no steady load sees.
  await runWrk(server, bodies, { ...how, seconds: 1 })
  return server.measure(() => runWrk(server, bodies, how))
}

/** @param {readonly Result[]} results @param {number} rounds @param {import('./turns.js').Options} options */
function sideBySide(results, rounds, options) {
  const rows = results.flatMap(({ kind, name, turns }) =>
    MODES.map((mode) => ({ name: `${name}: ${NAMES[mode]}`, kind, mode, turns })),
  )
  /** @typedef {typeof rows[number]} Row */
  /** @param {keyof Run} member @param {number} [digits] */
  const of =
    (member, digits) =>
    (/** @type {Row} */ { turns, mode }) =>
      middle(turns, (turn) => turn[mode][member] ?? Number.NaN, digits)
  /** @param {keyof import('./programs.js').Beside} member @param {number} digits */
  const beside = (member, digits) => (/** @type {Row} */ row) => (row.mode === 'cluster' ? of(member, digits)(row) : '')
  const title =
    `Queues compared: the server on one core with all its threads, and on the other wrk with ${CONNECTIONS} connections, ` +
    `redis-server and nats-server; medians of ${rounds}. CPU a request; "front end" is the main thread alone; ` +
    'Redis calls (scripts) and commands (scripts and what they call) per 1,000 requests'
  return table(title, rows, options, [
    ['request', ({ name }) => name],
    ['requests /s', of('perSecond')],
    ['events /s', ({ turns, kind, mode }) => middle(turns, (turn) => turn[mode].perSecond * kind.events)],
    ['CPU µs', of('cpuUsPerRequest', 1)],
    [
      'CPU µs an event',
      ({ turns, kind, mode }) => middle(turns, (turn) => turn[mode].cpuUsPerRequest / kind.events, 2),
    ],
    ['front end µs', of('mainThreadUsPerRequest', 1)],
    [
      'front end / raw',
      ({ turns, mode }) =>
        middle(turns, (turn) => turn[mode].mainThreadUsPerRequest / turn.raw.mainThreadUsPerRequest, 2),
    ],
    ['redis µs', beside('redisUs', 1)],
    ['nats µs', beside('natsUs', 1)],
    ['Redis calls', beside('callsPer1000', 2)],
    ['Redis commands', beside('commandsPer1000', 2)],
    ['records a message', beside('recordsPerMessage', 1)],
  ])
}

/** What a key adds to a request, of the service and of all three processes. @param {readonly Result[]} results @param {import('./turns.js').Options} options */
function costOfKeys(results, options) {
  const rows = results.flatMap((unkeyed) => {
    const keyed = results.find(({ name }) => name === nameOf({ ...unkeyed.kind, keyed: true }))
    if (keyed === undefined || keyed === unkeyed) return []
    return /** @type {const} */ (['embedded', 'cluster']).map((mode) => {
      const own = (/** @type {Result} */ { turns }) => median(turns.map((turn) => turn[mode].cpuUsPerRequest))
      const all = (/** @type {Result} */ { turns }) =>
        median(turns.map(({ [mode]: run }) => run.cpuUsPerRequest + (run.redisUs ?? 0) + (run.natsUs ?? 0)))
      const [ownUs, allUs] = [own, all].map((of) => ({ unkeyed: of(unkeyed), keyed: of(keyed) }))
      return { name: `${unkeyed.name}: ${NAMES[mode]}`, ownUs, allUs }
    })
  })
  return table('The cost of an Idempotency-Key, from the same runs', rows, options, [
    ['CPU µs a request', ({ name }) => name],
    ['unkeyed', ({ ownUs }) => number(ownUs.unkeyed, 1)],
    ['keyed', ({ ownUs }) => number(ownUs.keyed, 1)],
    ['added', ({ ownUs }) => number(ownUs.keyed - ownUs.unkeyed, 1)],
    ['added, with redis and nats', ({ allUs }) => number(allUs.keyed - allUs.unkeyed, 1)],
  ])
}

// @ts-check
// What it costs that NATS syncs what it acknowledges: two services side by side, one over a nats-server with its defaults,
// one over a nats-server with `sync_interval: always`, by turns in each round.

import { casesOf } from './cases.js'
import { runPaced } from './pacing.js'
import { ensurePrograms, knowsSyncInterval, startCluster } from './programs.js'
import { middle, number, REQUEST, table } from './report.js'
import { compareLoads } from './turns.js'

/** @typedef {{ storedPerSecond: number, refusedShare: number, p50Ms: number, p99Ms: number, natsUs: number }} Run */

const NAMES = { default: 'synced every two minutes (default)', always: '`sync_interval: always`' }
const SYNCS = /** @type {(keyof typeof NAMES)[]} */ (Object.keys(NAMES))
/** The lower rate is one that every disk should carry, for the latency; the other shows how much is taken. */
const CASES = casesOf({ replicas: [1, 3], keyed: [true, false], perSecond: [500, 8000], events: [10] })
const CONNECTIONS = 1000

/** @param {import('./turns.js').Options} options @returns {Promise<import('./turns.js').Section>} */
export async function sync(options) {
  ensurePrograms(['redis-server', 'nats-server'])
  if (!knowsSyncInterval())
    return { numbers: null, text: 'Sync: not measured, nats-server in PATH is older than 2.10\n' }
  const rounds = options.quick ? 1 : 3
  const results = await compareLoads(options, {
    cases: options.quick ? CASES.slice(0, 2) : CASES,
    starts: ({ replicas }) => ({
      default: () => startCluster({ replicas, syncsAlways: false }),
      always: () => startCluster({ replicas, syncsAlways: true }),
    }),
    rounds,
    seconds: options.quick ? 2 : 5,
    load: measure,
  })
  const rows = results.flatMap(({ kind, name, turns }) => SYNCS.map((which) => ({ kind, name, turns, which })))
  /** @param {keyof Run} member @param {number} digits */
  const of =
    (member, digits) =>
    (/** @type {typeof rows[number]} */ { turns, which }) =>
      middle(turns, (turn) => turn[which][member], digits)
  const title = `What syncing costs: ${CONNECTIONS} connections; medians of ${rounds}, by turns`
  const text = table(title, rows, options, [
    REQUEST,
    ['offered /s', ({ kind }) => number(kind.perSecond ?? 0)],
    ['NATS', ({ which }) => NAMES[which]],
    ['202 /s', of('storedPerSecond', 0)],
    ['503', (row) => `${middle(row.turns, (turn) => 100 * turn[row.which].refusedShare)}%`],
    ['202 p50 ms', of('p50Ms', 1)],
    ['202 p99 ms', of('p99Ms', 1)],
    ['nats µs', of('natsUs', 1)],
  ])
  return { numbers: results, text }
}

/** @param {import('./programs.js').Cluster} node @param {import('./turns.js').Bodies} bodies @param {import('./cases.js').Case & { seconds: number }} how @returns {Promise<Run>} */
async function measure(node, bodies, { keyed, perSecond = 0, seconds }) {
  const before = node.nats.cpuSeconds()
  const { phases } = await runPaced(node, bodies, [{ perSecond, seconds }], { connections: CONNECTIONS, keyed })
  const [{ accepted, refused }] = phases
  return {
    storedPerSecond: accepted.count / seconds,
    refusedShare: refused.count / Math.max(1, accepted.count + refused.count),
    p50Ms: accepted.fromSentMs.p50 ?? Number.NaN,
    p99Ms: accepted.fromSentMs.p99 ?? Number.NaN,
    natsUs: ((node.nats.cpuSeconds() - before) * 1e6) / Math.max(1, accepted.count),
  }
}

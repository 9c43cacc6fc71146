// @ts-check
// Both queues side by side: the raw front end, the service with its journal, and the service on Redis and JetStream,
// by turns under as much load as each takes; what each costs, where, and what a key adds.

import { metricsOf } from '../../test/support/processes.js'
import { SEED } from './cases.js'
import { ensurePrograms, startNats, startRedis } from './programs.js'
import { median, medianRatio, number, table } from './report.js'
import { APPS, startRaw, startService } from './servers.js'
import { CONNECTIONS, runWrk, writeBodies } from './wrk.js'

/** @typedef {import('./wrk.js').Case} Case */
/** @typedef {{ redisUs: number, natsUs: number, callsPer1000: number, commandsPer1000: number, recordsPerMessage: number }} Beside */
/** @typedef {import('./wrk.js').Measured & Partial<Beside>} Run */
/** @typedef {'raw' | 'embedded' | 'cluster'} Mode */
/** @typedef {{ kind: Case, runs: Record<Mode, Run[]> }} Result */

/** @type {Mode[]} */
const MODES = ['raw', 'embedded', 'cluster']
const NAMES = { raw: 'raw front end', embedded: 'embedded', cluster: 'JetStream and Redis' }

/** @type {Case[]} */
const CASES = [
  ...[false, true].flatMap((keyed) =>
    /** @type {const} */ ([1, 10, 100]).map((events) => ({ events, keyed, varied: false })),
  ),
  { events: 1, keyed: false, varied: false, apps: APPS },
  { events: 1, keyed: true, varied: false, apps: APPS },
]
const QUICK_CASES = CASES.filter(({ events, apps }) => events === 1 && apps === undefined)

/** @param {Case} kind */
const nameOf = ({ events, keyed, apps }) =>
  `${events} event${events > 1 ? 's' : ''}${keyed ? ', keyed' : ''}${apps === undefined ? '' : `, ${apps} apps`}`

/** @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function queues(options) {
  ensurePrograms(['redis-server', 'nats-server'])
  const rounds = options.quick ? 1 : 3
  const seconds = options.quick ? 1 : 2
  const raw = await startRaw()
  /** @type {Result[]} */
  const results = []
  for (const kind of options.quick ? QUICK_CASES : CASES) {
    options.progress(`queues: ${nameOf(kind)}`)
    const bodies = await writeBodies(options.folder, kind, SEED)
    const { cluster, measure, stop } = await startCluster()
    const embedded = await startService()
    const load = { keyed: kind.keyed, seconds }
    await runWrk(embedded, bodies, { ...load, seconds: 1 })
    /** @type {Result} */
    const result = { kind, runs: { raw: [], embedded: [], cluster: [] } }
    for (let round = 0; round < rounds; round++) {
      result.runs.raw.push(await runWrk(raw, bodies, load))
      result.runs.embedded.push(await runWrk(embedded, bodies, load))
      // Buckets go back after a second without requests, and are filled anew in steps that no steady load sees.
      await runWrk(cluster, bodies, { ...load, seconds: 1 })
      result.runs.cluster.push(await measure(() => runWrk(cluster, bodies, load)))
    }
    await embedded.stop()
    await stop()
    results.push(result)
  }
  await raw.stop()
  return { numbers: results, text: `${sideBySide(results, rounds, options)}\n${costOfKeys(results, options)}` }
}

/** One node on a Redis and a NATS of its own. @param {Parameters<typeof startService>[0]} [options] */
export async function startCluster(options = {}) {
  const redis = await startRedis()
  const nats = await startNats()
  const cluster = await startService({ ...options, env: { ...options.env, REDIS_URL: redis.url, NATS_URL: nats.url } })
  // Messages published so far, and the records in them.
  const messageCounts = async () => {
    const metrics = await metricsOf(cluster)
    const [messages = 0, records = 0] = ['count', 'sum'].map((of) => metrics.get(`sluice_publish_records_${of}`))
    return { messages, records }
  }
  const look = async () => ({
    redisSeconds: redis.cpuSeconds(),
    natsSeconds: nats.cpuSeconds(),
    ...(await redis.counts()),
    ...(await messageCounts()),
  })
  /** @param {() => Promise<import('./wrk.js').Measured>} load @returns {Promise<Run>} */
  const measure = async (load) => {
    const before = await look()
    const run = await load()
    const after = await look()
    const per = (/** @type {number} */ value, /** @type {number} */ unit) => (value * unit) / run.requests
    return {
      ...run,
      redisUs: per(after.redisSeconds - before.redisSeconds, 1e6),
      natsUs: per(after.natsSeconds - before.natsSeconds, 1e6),
      callsPer1000: per(after.calls - before.calls, 1000),
      // The first look counts in the second.
      commandsPer1000: per(after.commands - before.commands - 1, 1000),
      recordsPerMessage: (after.records - before.records) / (after.messages - before.messages),
    }
  }
  const stop = async () => {
    await cluster.stop()
    await Promise.all([redis.stop(), nats.stop()])
  }
  return { cluster, measure, stop }
}

/** @param {Result[]} results @param {number} rounds @param {import('./sections.js').Options} options */
function sideBySide(results, rounds, options) {
  const head = [
    'request',
    'requests /s',
    'events /s',
    'CPU µs',
    'CPU µs an event',
    'front end µs',
    'front end / raw',
  ].concat(['redis µs', 'nats µs', 'Redis calls', 'Redis commands', 'records a message'])
  const rows = results.flatMap(({ kind, runs }) =>
    MODES.map((mode) => {
      const of = (/** @type {keyof Run} */ name) => median(runs[mode].map((run) => run[name] ?? 0))
      const ofCluster = (/** @type {keyof Beside} */ name, /** @type {number} */ digits) =>
        mode === 'cluster' ? number(of(name), digits) : ''
      const mainThread = (/** @type {Mode} */ one) => runs[one].map((run) => run.mainThreadUsPerRequest)
      return [
        `${nameOf(kind)}: ${NAMES[mode]}`,
        number(of('perSecond')),
        number(of('perSecond') * kind.events),
        number(of('cpuUsPerRequest'), 1),
        number(of('cpuUsPerRequest') / kind.events, 2),
        number(of('mainThreadUsPerRequest'), 1),
        number(medianRatio(mainThread(mode), mainThread('raw')), 2),
        ofCluster('redisUs', 1),
        ofCluster('natsUs', 1),
        ofCluster('callsPer1000', 2),
        ofCluster('commandsPer1000', 2),
        ofCluster('recordsPerMessage', 1),
      ]
    }),
  )
  const title =
    `Queues compared: the server on one core with all its threads, and on the other wrk with ${CONNECTIONS} connections, ` +
    `redis-server and nats-server; medians of ${rounds}. CPU a request; "front end" is the main thread alone; ` +
    'Redis calls (scripts) and commands (scripts and what they call) per 1,000 requests'
  return table(title, head, rows, options)
}

/** What a key adds to a request, of the service and of all three processes. @param {Result[]} results @param {import('./sections.js').Options} options */
function costOfKeys(results, options) {
  const head = ['CPU µs a request', 'unkeyed', 'keyed', 'added', 'added, with redis and nats']
  const rows = []
  for (const unkeyed of results) {
    const keyed = results.find(({ kind }) => kind.keyed && nameOf({ ...kind, keyed: false }) === nameOf(unkeyed.kind))
    if (keyed === undefined || unkeyed.kind.keyed) continue
    for (const mode of /** @type {const} */ (['embedded', 'cluster'])) {
      const own = (/** @type {Result} */ { runs }) => median(runs[mode].map((run) => run.cpuUsPerRequest))
      const all = (/** @type {Result} */ { runs }) =>
        median(runs[mode].map((run) => run.cpuUsPerRequest + (run.redisUs ?? 0) + (run.natsUs ?? 0)))
      rows.push([
        `${nameOf(unkeyed.kind)}: ${NAMES[mode]}`,
        number(own(unkeyed), 1),
        number(own(keyed), 1),
        number(own(keyed) - own(unkeyed), 1),
        number(all(keyed) - all(unkeyed), 1),
      ])
    }
  }
  return table('The cost of an Idempotency-Key, from the same runs', head, rows, options)
}

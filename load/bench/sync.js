// @ts-check
// What it costs that NATS syncs what it acknowledges: two services side by side, one over a nats-server with its defaults,
// one over a nats-server with `sync_interval: always`, by turns in each round.

import { SEED } from './cases.js'
import { runPaced } from './pacing.js'
import { ensurePrograms, knowsSyncInterval, startNats, startNatsCluster, startRedis } from './programs.js'
import { median, number, table } from './report.js'
import { startService } from './servers.js'
import { runWrk, writeBodies } from './wrk.js'

/** @typedef {import('./wrk.js').Case} Case */
/** @typedef {{ storedPerSecond: number, refusedShare: number, p50Ms: number, p99Ms: number, natsUs: number }} Run */
/** @typedef {'default' | 'always'} Sync */

/** @type {Sync[]} */
const SYNCS = ['default', 'always']
const NAMES = { default: 'synced every two minutes (default)', always: '`sync_interval: always`' }
/** `replicas`: each on a server of its own. @type {{ kind: Case, replicas: number }[]} */
const CASES = [1, 3].flatMap((replicas) =>
  [true, false].map((keyed) => ({ kind: { events: /** @type {const} */ (10), keyed, varied: false }, replicas })),
)
/** One that every disk should carry, for the latency, and one that shows how much is taken. */
const RATES = { part: 500, full: 8000 }
const CONNECTIONS = 1000

/** @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function sync(options) {
  ensurePrograms(['redis-server', 'nats-server'])
  if (!knowsSyncInterval())
    return { numbers: null, text: 'Sync: not measured, nats-server in PATH is older than 2.10\n' }
  const rounds = options.quick ? 1 : 3
  const seconds = options.quick ? 2 : 5
  const numbers = []
  for (const { kind, replicas } of options.quick ? CASES.slice(0, 1) : CASES) {
    options.progress(`sync: ${nameOf(kind, replicas)}`)
    const bodies = await writeBodies(options.folder, kind, SEED)
    const services = { default: await startOver('default', replicas), always: await startOver('always', replicas) }
    /** @type {Record<keyof typeof RATES, Record<Sync, Run[]>>} */
    const runs = { part: { default: [], always: [] }, full: { default: [], always: [] } }
    for (const each of SYNCS)
      await runWrk(services[each].service, bodies, { keyed: kind.keyed, seconds: 1 }).catch(() => {})
    for (let round = 0; round < rounds; round++) {
      for (const load of /** @type {const} */ (['part', 'full'])) {
        for (const each of SYNCS) {
          const phase = { perSecond: RATES[load], seconds }
          runs[load][each].push(await services[each].measure(bodies, phase, kind.keyed))
        }
      }
    }
    for (const each of SYNCS) await services[each].stop()
    numbers.push({ kind, replicas, runs })
  }
  const head = ['request', 'offered /s', 'NATS', '202 /s', '503', '202 p50 ms', '202 p99 ms', 'nats µs']
  const rows = numbers.flatMap(({ kind, replicas, runs }) =>
    /** @type {const} */ (['part', 'full']).flatMap((load) =>
      SYNCS.map((each) => {
        const of = (/** @type {keyof Run} */ name) => median(runs[load][each].map((run) => run[name]))
        return [
          nameOf(kind, replicas),
          number(RATES[load]),
          NAMES[each],
          number(of('storedPerSecond')),
          `${number(100 * of('refusedShare'))}%`,
          number(of('p50Ms'), 1),
          number(of('p99Ms'), 1),
          number(of('natsUs'), 1),
        ]
      }),
    ),
  )
  const title = `What syncing costs: ${CONNECTIONS} connections; medians of ${rounds}, by turns`
  return { numbers, text: table(title, head, rows, options) }
}

/** @param {Case} kind @param {number} replicas */
function nameOf({ events, keyed }, replicas) {
  return `${events} events${keyed ? ', keyed' : ''}, ${replicas === 1 ? '1 replica' : `${replicas} replicas`}`
}

/** One node on a Redis and NATS servers of its own. @param {Sync} which @param {number} replicas */
async function startOver(which, replicas) {
  const redis = await startRedis()
  const how = { syncsAlways: which === 'always' }
  const nats = await (replicas === 1 ? startNats(how) : startNatsCluster(replicas, how))
  const service = await startService({
    env: {
      REDIS_URL: redis.url,
      NATS_URL: nats.url,
      NATS_MONITOR_URLS: nats.monitorUrl,
      SLUICE_STREAM_REPLICAS: String(replicas),
    },
  })
  /** @param {{ folder: string, count: number }} bodies @param {{ perSecond: number, seconds: number }} phase @param {boolean} keyed @returns {Promise<Run>} */
  const measure = async (bodies, phase, keyed) => {
    const before = nats.cpuSeconds()
    const { phases } = await runPaced(service, bodies, { phases: [phase], connections: CONNECTIONS, keyed })
    const [{ accepted, refused }] = phases
    const answered = Math.max(1, accepted.count + refused.count)
    return {
      storedPerSecond: accepted.count / phase.seconds,
      refusedShare: refused.count / answered,
      p50Ms: accepted.fromSentMs.p50 ?? Number.NaN,
      p99Ms: accepted.fromSentMs.p99 ?? Number.NaN,
      natsUs: ((nats.cpuSeconds() - before) * 1e6) / Math.max(1, accepted.count),
    }
  }
  const stop = async () => {
    await service.stop()
    await Promise.all([redis.stop(), nats.stop()])
  }
  return { service, measure, stop }
}

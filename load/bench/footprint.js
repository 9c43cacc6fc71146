// @ts-check
// What events leave behind, for who has to size disks and memory: bytes in the journal, in JetStream and in Redis, and
// the memory of a node, after a few seconds of varied events.

import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { metricsOf } from '../../test/support/processes.js'
import { memoryMb } from './processes.js'
import { ensurePrograms, startNats, startRedis } from './programs.js'
import { number, table } from './report.js'
import { APPS, startService } from './servers.js'
import { runWrk, writeBodies } from './wrk.js'

const SEED = 20_261_122

/** @typedef {{ kind: import('./wrk.js').Case, requests: number, bodyBytes: number, journalBytes: number, streamBytes: number, redisBytes: number, embeddedMb: number, clusterMb: number }} Footprint */

/** @type {import('./wrk.js').Case[]} */
const CASES = [false, true].flatMap((keyed) =>
  /** @type {const} */ ([1, 10, 100]).map((events) => ({ events, keyed, varied: true, apps: APPS })),
)

/** @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function footprint(options) {
  ensurePrograms(['redis-server', 'nats-server'])
  const seconds = options.quick ? 1 : 5
  /** @type {Footprint[]} */
  const results = []
  for (const kind of CASES) {
    options.progress(`footprint: ${nameOf(kind)}`)
    const bodies = await writeBodies(options.folder, kind, SEED)
    results.push(await measure(kind, bodies, seconds))
  }
  const head = [
    'request',
    'body bytes an event',
    'journal bytes an event',
    'JetStream bytes an event',
    'Redis bytes an app',
    'Redis bytes a key',
    'requests',
  ]
  const rows = results.map(({ kind, requests, ...of }) => [
    nameOf(kind),
    number(of.bodyBytes / kind.events),
    number(of.journalBytes / requests / kind.events),
    number(of.streamBytes / requests / kind.events),
    kind.keyed ? '' : number(of.redisBytes / APPS),
    kind.keyed ? number(of.redisBytes / requests) : '',
    number(requests),
  ])
  const title =
    `Storage: bytes on disk for each event, and what Redis holds afterwards, for ${APPS} apps or for the keys; ` +
    `${seconds} s of varied events`
  const memoryRows = results.map(({ kind, embeddedMb, clusterMb }) => [
    nameOf(kind),
    number(embeddedMb),
    number(clusterMb),
  ])
  const memory = table(
    'Peak resident memory of a node meanwhile, MB',
    ['request', 'embedded', 'JetStream and Redis'],
    memoryRows,
    options,
  )
  return { numbers: results, text: `${table(title, head, rows, options)}\n${memory}` }
}

/** @param {import('./wrk.js').Case} kind */
function nameOf({ events, keyed }) {
  return `${events} event${events > 1 ? 's' : ''}${keyed ? ', keyed' : ''}`
}

/**
 * @param {import('./wrk.js').Case} kind @param {{ folder: string, count: number }} bodies @param {number} seconds
 * @returns {Promise<Footprint>}
 */
async function measure(kind, bodies, seconds) {
  const load = { keyed: kind.keyed, seconds }
  const embedded = await startService()
  const alone = await runWrk(embedded, bodies, load)
  const journalBytes = (await metricsOf(embedded)).get('sluice_journal_bytes') ?? Number.NaN
  const embeddedMb = memoryMb(embedded.pid).peak
  await embedded.stop()

  const redis = await startRedis()
  const nats = await startNats()
  const node = await startService({ env: { REDIS_URL: redis.url, NATS_URL: nats.url } })
  const emptyBytes = await redis.usedBytes()
  const shared = await runWrk(node, bodies, load)
  const [redisBytes, clusterMb] = [(await redis.usedBytes()) - emptyBytes, memoryMb(node.pid).peak]
  await node.stop()
  const streamBytes = sizeOf(join(nats.folder, 'data'))
  await Promise.all([redis.stop(), nats.stop()])

  const perShared = alone.requests / shared.requests
  return {
    kind,
    requests: alone.requests,
    bodyBytes: sizeOf(bodies.folder) / bodies.count,
    journalBytes,
    streamBytes: streamBytes * perShared,
    redisBytes: kind.keyed ? redisBytes * perShared : redisBytes,
    embeddedMb,
    clusterMb,
  }
}

/** Bytes of all files in a folder. @param {string} folder */
function sizeOf(folder) {
  const paths = readdirSync(folder, { recursive: true }).map((name) => join(folder, String(name)))
  return paths.reduce((bytes, path) => bytes + (statSync(path).isFile() ? statSync(path).size : 0), 0)
}

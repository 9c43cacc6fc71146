// @ts-check
// What events leave behind, for who has to size disks and memory: bytes in the journal, in JetStream and in Redis, and
// the memory of a node, after a few seconds of varied events.

import { readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { metricsOf } from '../../test/support/processes.js'
import { casesOf } from './cases.js'
import { memoryMb } from './processes.js'
import { ensurePrograms, startCluster } from './programs.js'
import { number, REQUEST, table } from './report.js'
import { APPS, startService } from './servers.js'
import { eachCase, withServers } from './turns.js'
import { runWrk } from './wrk.js'

const CASES = casesOf({ keyed: [false, true], events: [1, 10, 100], varied: [true], apps: [APPS] })

/** @param {import('./turns.js').Options} options @returns {Promise<import('./turns.js').Section>} */
export async function footprint(options) {
  ensurePrograms(['redis-server', 'nats-server'])
  const seconds = options.quick ? 1 : 5
  const results = await eachCase(options, CASES, (kind, bodies) => measure({ ...kind, seconds }, bodies))
  const title =
    `Storage: bytes on disk for each event, and what Redis holds afterwards, for ${APPS} apps or for the keys; ` +
    `${seconds} s of varied events`
  const storage = table(title, results, options, [
    REQUEST,
    ['body bytes an event', ({ kind, bodyBytes }) => number(bodyBytes / kind.events)],
    ['journal bytes an event', (of) => number(of.journalBytes / of.requests / of.kind.events)],
    ['JetStream bytes an event', (of) => number(of.streamBytes / of.requests / of.kind.events)],
    ['Redis bytes an app', ({ kind, redisBytes }) => (kind.keyed ? '' : number(redisBytes / APPS))],
    ['Redis bytes a key', ({ kind, redisBytes, requests }) => (kind.keyed ? number(redisBytes / requests) : '')],
    ['requests', ({ requests }) => number(requests)],
  ])
  const memory = table('Peak resident memory of a node meanwhile, MB', results, options, [
    REQUEST,
    ['embedded', ({ embeddedMb }) => number(embeddedMb)],
    ['JetStream and Redis', ({ clusterMb }) => number(clusterMb)],
  ])
  return { numbers: results, text: `${storage}\n${memory}` }
}

/** @param {import('./cases.js').Case & { seconds: number }} load @param {import('./turns.js').Bodies} bodies */
async function measure(load, bodies) {
  const alone = await withServers({ node: startService }, async ({ node }) => {
    const { requests } = await runWrk(node, bodies, load)
    const journalBytes = (await metricsOf(node)).get('sluice_journal_bytes') ?? Number.NaN
    return { requests, journalBytes, embeddedMb: memoryMb(node.pid).peak }
  })
  const shared = await withServers({ node: startCluster }, async ({ node }) => {
    const emptyBytes = await node.redis.usedBytes()
    const { requests } = await runWrk(node, bodies, load)
    const redisBytes = (await node.redis.usedBytes()) - emptyBytes
    const clusterMb = memoryMb(node.pid).peak
    await node.end()
    return { requests, redisBytes, clusterMb, streamBytes: sizeOf(join(node.nats.servers[0].folder, 'data')) }
  })
  const perShared = alone.requests / shared.requests
  return {
    ...alone,
    bodyBytes: sizeOf(bodies.folder) / bodies.count,
    streamBytes: shared.streamBytes * perShared,
    redisBytes: load.keyed ? shared.redisBytes * perShared : shared.redisBytes,
    clusterMb: shared.clusterMb,
  }
}

/** Bytes of all files in a folder. @param {string} folder */
function sizeOf(folder) {
  const paths = readdirSync(folder, { recursive: true }).map((name) => join(folder, String(name)))
  return paths.reduce((bytes, path) => bytes + (statSync(path).isFile() ? statSync(path).size : 0), 0)
}

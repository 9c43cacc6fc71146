// @ts-check
// Latency at half of the best rate, beside that of the disk alone.

import { casesOf, nameOf, SEED } from './cases.js'
import { runAtRate } from './pacing.js'
import { answerOf, SERVER_CORE } from './processes.js'
import { middle, number, table } from './report.js'
import { startRaw, startService } from './servers.js'
import { eachCase, ratesByTurns, withServers } from './turns.js'
import { unlessVoid } from './void-runs.js'
import { bodiesOf, runWrk } from './wrk.js'

const SYNCED_WRITES = new URL('synced-writes.js', import.meta.url)
const SCRAPE_EVERY_MS = 100
const CASES = casesOf({ varied: [true], events: [1, 100] })

/** @typedef {Pick<import('./pacing.js').AtRate, 'p50Ms' | 'p99Ms' | 'p999Ms' | 'maxMs'>} Round */
/** @typedef {{ name: string, perSecond: number, turns: Round[] }} Row */

/**
 * By turns: synced writes of as many bytes a ms as the load brings; the load on the raw front end; and on the service, also while
 * its metrics are read every 100 ms.
 * @param {import('./turns.js').Options} options @returns {Promise<import('./turns.js').Section>}
 */
export async function latency(options) {
  const results = await eachCase(options, CASES, (kind, bodies) =>
    withServers({ raw: startRaw, service: startService }, async (servers) => ({
      rows: await rowsOf(kind, bodies, servers, options),
    })),
  )
  const rows = results.flatMap((result) => result.rows)
  const title =
    'Latency at a fixed rate, from the moment at which each request or write was due (no coordinated omission); medians of the rounds'
  const text = table(title, rows, options, [
    ['at half of the best rate of', ({ name }) => name],
    ['a second', ({ perSecond }) => number(perSecond)],
    ['p50 ms', ({ turns }) => middle(turns, ({ p50Ms }) => p50Ms, 2)],
    ['p99 ms', ({ turns }) => middle(turns, ({ p99Ms }) => p99Ms, 2)],
    ['of each round', ({ turns }) => turns.map(({ p99Ms }) => number(p99Ms, 1)).join(', ')],
    ['p99.9 ms', ({ turns }) => middle(turns, ({ p999Ms }) => p999Ms, 2)],
    ['max ms', ({ turns }) => middle(turns, ({ maxMs }) => maxMs, 2)],
  ])
  return { numbers: results, text }
}

/**
 * The rows of one kind of request; those that stay void are left out, and named.
 * @param {import('./cases.js').Case} kind @param {import('./turns.js').Bodies} bodies @param {Record<'raw' | 'service', import('./servers.js').Server>} servers
 * @param {import('./turns.js').Options} options @returns {Promise<Row[]>}
 */
async function rowsOf(kind, bodies, { raw, service }, options) {
  const seconds = options.quick ? 3 : 6
  const full = (/** @type {number} */ length) =>
    unlessVoid(nameOf(kind), () => runWrk(service, bodies, { keyed: false, seconds: length }))
  await full(1)
  const perSecond = (await full(options.quick ? 1 : 3)).perSecond / 2
  const writeBytes = Math.ceil((meanBytes(kind) * perSecond) / 1000)
  /** @returns {Promise<Round>} */
  const onDisk = async () => {
    const answer = await answerOf(SERVER_CORE, SYNCED_WRITES, [options.folder, writeBytes, seconds])
    return { p50Ms: answer.p50, p99Ms: answer.p99, p999Ms: answer.p999, maxMs: answer.max }
  }
  /** @param {import('./servers.js').Server} server @param {number} [scrapeEveryMs] @returns {(histogram: string | undefined) => Promise<Round>} */
  const load = (server, scrapeEveryMs) => (histogram) =>
    runAtRate(server, bodies, { perSecond, seconds, warmUpSeconds: 1, scrapeEveryMs, histogram })
  const scraped = `${nameOf(kind)}, /metrics every ${SCRAPE_EVERY_MS} ms`
  const rows = [
    { name: `synced writes of ${number(writeBytes / 1000, 1)} KB, no service`, perSecond: 1000, run: onDisk },
    { name: 'the same on the raw front end', perSecond, run: load(raw) },
    { name: nameOf(kind), perSecond, run: load(service) },
    { name: scraped, perSecond, run: load(service, SCRAPE_EVERY_MS) },
  ]
  const rounds = options.quick ? 1 : 3
  return ratesByTurns(options, 'latency', rows, rounds, ({ run }, histogram) => run(histogram))
}

/** @param {import('./cases.js').Case} kind */
function meanBytes(kind) {
  const bodies = bodiesOf(kind, SEED, Date.now())
  return bodies.join('').length / bodies.length
}

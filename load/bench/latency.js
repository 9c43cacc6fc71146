// @ts-check
// Latency at half of the best rate, beside that of the disk alone.

import { fileURLToPath } from 'node:url'
import { nameOf, SEED } from './cases.js'
import { expectRate, histogramFile, PACED_CONNECTIONS, runPaced } from './pacing.js'
import { run, SERVER_CORE } from './processes.js'
import { median, number, table } from './report.js'
import { startRaw, startService } from './servers.js'
import { orUnmeasured, unlessVoid } from './void-runs.js'
import { bodiesOf, runWrk, writeBodies } from './wrk.js'

const SYNCED_WRITES = fileURLToPath(new URL('synced-writes.js', import.meta.url))
const SCRAPE_EVERY_MS = 100

/** @typedef {import('./percentiles.js').Percentiles} Percentiles */
/** @typedef {{ name: string, perSecond: number, rounds: Percentiles[] }} Row */

/**
 * By turns: synced writes of as many bytes a ms as the load brings; the load on the raw front end; and on the service, also while
 * its metrics are read every 100 ms.
 * @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>}
 */
export async function latency(options) {
  /** @type {Row[]} */
  const results = []
  const raw = await startRaw()
  for (const events of /** @type {const} */ ([1, 100])) {
    const kind = { events, keyed: false, varied: true }
    options.progress(`latency at half rate: ${nameOf(kind)}`)
    const service = await startService()
    const rows = await orUnmeasured(options, `latency, ${nameOf(kind)}`, () =>
      measureKind(kind, { raw, service }, options),
    )
    await service.stop()
    results.push(...(rows ?? []))
  }
  await raw.stop()
  const head = ['at half of the best rate of', 'a second', 'p50 ms', 'p99 ms', 'of each round', 'p99.9 ms', 'max ms']
  const rows = results.map(({ name, perSecond, rounds }) => {
    const of = (/** @type {keyof Percentiles} */ member) => rounds.map((round) => round[member] ?? Number.NaN)
    const shown = (/** @type {keyof Percentiles} */ member) => number(median(of(member)), 2)
    const each = of('p99').map((ms) => number(ms, 1))
    return [name, number(perSecond), shown('p50'), shown('p99'), each.join(', '), shown('p999'), shown('max')]
  })
  const title =
    'Latency at a fixed rate, from the moment at which each request or write was due (no coordinated omission); medians of the rounds'
  return { numbers: results, text: table(title, head, rows, options) }
}

/**
 * The rows of one kind of request; those that stay void are left out, and named.
 * @param {import('./wrk.js').Case} kind @param {Record<'raw' | 'service', import('./servers.js').Server>} servers
 * @param {import('./sections.js').Options} options @returns {Promise<Row[]>}
 */
async function measureKind(kind, { raw, service }, options) {
  const seconds = options.quick ? 3 : 6
  const bodies = await writeBodies(options.folder, kind, SEED)
  const full = (/** @type {number} */ length) =>
    unlessVoid(nameOf(kind), () => runWrk(service, bodies, { keyed: false, seconds: length }))
  await full(1)
  const perSecond = (await full(options.quick ? 1 : 3)).perSecond / 2
  const writeBytes = Math.ceil((meanBytes(kind) * perSecond) / 1000)
  /** @type {Row} */
  const disk = { name: `synced writes of ${number(writeBytes / 1000)} KB, no service`, perSecond: 1000, rounds: [] }
  const loads = [
    { name: 'the same on the raw front end', server: raw, scrapeEveryMs: 0 },
    { name: nameOf(kind), server: service, scrapeEveryMs: 0 },
    { name: `${nameOf(kind)}, /metrics every ${SCRAPE_EVERY_MS} ms`, server: service, scrapeEveryMs: SCRAPE_EVERY_MS },
  ].map((load) => Object.assign(load, { perSecond, rounds: /** @type {Percentiles[]} */ ([]) }))
  const phases = [1, seconds].map((length) => ({ perSecond, seconds: length }))
  for (let round = 0; round < (options.quick ? 1 : 3); round++) {
    const command = [process.execPath, SYNCED_WRITES, options.folder, String(writeBytes), String(seconds)]
    disk.rounds.push(JSON.parse(await run(SERVER_CORE, command)))
    for (const { name, server, scrapeEveryMs, rounds } of loads) {
      const histogram = histogramFile(options, `latency ${name} ${number(perSecond)} round ${round + 1}`)
      const how = { phases, connections: PACED_CONNECTIONS, scrapeEveryMs, histogram }
      const row = `${name} at ${number(perSecond)} /s, round ${round + 1}`
      const accepted = await orUnmeasured(options, row, () =>
        unlessVoid(name, async () => {
          const paced = await runPaced(server, bodies, how)
          expectRate(paced.phases[1], perSecond)
          return paced.phases[1].accepted
        }),
      )
      if (accepted !== null) rounds.push(accepted.fromDueMs)
    }
  }
  return [disk, ...loads.filter(({ rounds }) => rounds.length > 0)]
}

/** @param {import('./wrk.js').Case} kind */
function meanBytes(kind) {
  const bodies = bodiesOf(kind, SEED, Date.now())
  return bodies.reduce((sum, body) => sum + body.length, 0) / bodies.length
}

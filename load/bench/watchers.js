// @ts-check
// What people who watch the console cost the service, at a fixed rate of requests.

import { request } from 'node:http'
import { nameOf, SEED } from './cases.js'
import { runPaced } from './pacing.js'
import { cpuSeconds, memoryMb } from './processes.js'
import { median, number, table } from './report.js'
import { startService } from './servers.js'
import { writeBodies } from './wrk.js'

const PER_SECOND = 10_000
const CONNECTIONS = 128
/** Ten people: most look at figures, some at events, with filters that differ and so share nothing. */
const WATCHED = [
  ...Array.from({ length: 4 }, () => '/api/now/stream'),
  '/api/events/stream',
  '/api/events/stream?type=revenue',
  '/api/events/stream?name=checkout*',
  '/api/events/stream?app=bench-0',
  ...Array.from({ length: 2 }, () => '/api/refusals/stream'),
]

/** @typedef {{ cpuPercent: number, p99Ms: number, residentMb: number, watchedBytes: number }} Run */

/** The same load by turns without and with watchers. @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function watchers(options) {
  const rounds = options.quick ? 2 : 6
  const seconds = options.quick ? 3 : 6
  const kind = { events: /** @type {const} */ (1), keyed: false, varied: true }
  const bodies = await writeBodies(options.folder, kind, SEED)
  const service = await startService()
  /** @param {boolean} isWatched @returns {Promise<Run>} */
  const measure = async (isWatched) => {
    const watching = isWatched ? await Promise.all(WATCHED.map((path) => watch(service.adminPort, path))) : []
    const before = cpuSeconds(service.pid)
    const startMs = performance.now()
    const phases = [{ perSecond: PER_SECOND, seconds }]
    const paced = await runPaced(service, bodies, { phases, connections: CONNECTIONS })
    const cpuPercent = (100_000 * (cpuSeconds(service.pid) - before)) / (performance.now() - startMs)
    const { accepted, refused } = paced.phases[0]
    if (refused.count > 0) throw new Error(`void: ${refused.count} refused`)
    const watchedBytes = watching.reduce((bytes, one) => bytes + one.close(), 0)
    if (isWatched && watchedBytes === 0) throw new Error('void: the watchers were sent nothing')
    const p99Ms = accepted.fromDueMs.p99 ?? Number.NaN
    return { cpuPercent, p99Ms, residentMb: memoryMb(service.pid).resident, watchedBytes }
  }
  await measure(false)
  const pairs = []
  for (let round = 0; round < rounds; round++) {
    options.progress(`watchers: round ${round + 1} of ${rounds}`)
    const alone = round % 2 === 0 ? await measure(false) : null
    const watched = await measure(true)
    pairs.push({ alone: alone ?? (await measure(false)), watched })
  }
  await service.stop()
  const head = ['watchers', 'CPU, % of a core', 'p99 ms', 'resident MB', 'sent to them KB/s']
  const row = (/** @type {string} */ name, /** @type {Run[]} */ runs) => [
    name,
    number(median(runs.map((one) => one.cpuPercent)), 1),
    number(median(runs.map((one) => one.p99Ms)), 2),
    number(median(runs.map((one) => one.residentMb))),
    number(median(runs.map((one) => one.watchedBytes)) / 1000 / seconds),
  ]
  const differences = pairs
    .map(({ alone, watched }) => watched.cpuPercent - alone.cpuPercent)
    .sort((one, other) => one - other)
  const rows = [
    row(
      'none',
      pairs.map(({ alone }) => alone),
    ),
    row(
      String(WATCHED.length),
      pairs.map(({ watched }) => watched),
    ),
  ]
  const title =
    `Watchers of the console: ${number(PER_SECOND)} requests/s, ${nameOf(kind)}; medians of ${rounds}. Ten cost ` +
    `${number(median(differences), 1)}% of a core (${number(differences[0], 1)} to ${number(differences[differences.length - 1], 1)})`
  return { numbers: pairs, text: table(title, head, rows, options) }
}

/** Reads a stream of the console. `close` gives the bytes that came. @param {number} port @param {string} path @returns {Promise<{ close: () => number }>} */
function watch(port, path) {
  return new Promise((resolve, reject) => {
    let bytes = 0
    const asked = request({ host: '127.0.0.1', port, path, agent: false }, (response) => {
      if (response.statusCode !== 200) return reject(new Error(`${path}: status ${response.statusCode}`))
      response.on('data', (/** @type {Buffer} */ piece) => {
        bytes += piece.length
      })
      response.on('error', () => {})
      resolve({
        close: () => {
          asked.destroy()
          return bytes
        },
      })
    })
    asked.on('error', reject)
    asked.end()
  })
}

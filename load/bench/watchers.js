// @ts-check
// What people who watch the console or the portal cost the service, at a fixed rate of requests.

import { request } from 'node:http'
import { nameOf, SEED } from './cases.js'
import { runPaced } from './pacing.js'
import { cpuSeconds, memoryMb } from './processes.js'
import { median, number, table } from './report.js'
import { startService } from './servers.js'
import { writeBodies } from './wrk.js'

const PER_SECOND = 10_000
const CONNECTIONS = 128
const READ_KEYS = new URL('../../dist/apps/read-keys.js', import.meta.url).href
/** Ten people: most look at figures, some at events, with filters that differ and so share nothing. */
const OF_CONSOLE = [
  ...Array.from({ length: 4 }, () => '/api/now/stream'),
  '/api/events/stream',
  '/api/events/stream?type=revenue',
  '/api/events/stream?name=checkout*',
  '/api/events/stream?app=bench-0',
  ...Array.from({ length: 2 }, () => '/api/refusals/stream'),
]
/** Ten people of five apps: a read key has two streams. */
const OF_PORTAL = Array.from({ length: 5 }, () => ['/api/events/stream', '/api/refusals/stream'])

/** @typedef {'none' | 'console' | 'portal'} Watched */
/** @typedef {{ cpuPercent: number, cpuUsPerRequest: number, p99Ms: number, residentMb: number, watchedBytes: number }} Run */

/** The same load by turns without and with watchers; the portal is open in all of them. @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function watchers(options) {
  const rounds = options.quick ? 2 : 6
  const seconds = options.quick ? 3 : 6
  const kind = { events: /** @type {const} */ (1), keyed: false, varied: true }
  const bodies = await writeBodies(options.folder, kind, SEED)
  /** @type {{ freshReadKey: () => string, secretsOf: (key: string) => object }} */
  const { freshReadKey, secretsOf } = await import(READ_KEYS)
  const keys = OF_PORTAL.map(() => freshReadKey())
  const readKeys = keys.map((key) => ({ name: 'bench', ...secretsOf(key) }))
  const service = await startService({ readKeys, env: { SLUICE_PORTAL_PORT: '0' } })
  /** @type {Record<Watched, () => Promise<{ close: () => number }>[]>} */
  const open = {
    none: () => [],
    console: () => OF_CONSOLE.map((path) => watch(service.adminPort, path)),
    portal: () => OF_PORTAL.flatMap((paths, app) => paths.map((path) => watch(service.portalPort, path, keys[app]))),
  }
  /** @param {Watched} watched @returns {Promise<Run>} */
  const measure = async (watched) => {
    const watching = await Promise.all(open[watched]())
    const before = cpuSeconds(service.pid)
    const startMs = performance.now()
    const phases = [{ perSecond: PER_SECOND, seconds }]
    const paced = await runPaced(service, bodies, { phases, connections: CONNECTIONS })
    const usedSeconds = cpuSeconds(service.pid) - before
    const cpuPercent = (100_000 * usedSeconds) / (performance.now() - startMs)
    const { accepted, refused } = paced.phases[0]
    const cpuUsPerRequest = (1_000_000 * usedSeconds) / accepted.count
    if (refused.count > 0) throw new Error(`void: ${refused.count} refused`)
    const watchedBytes = watching.reduce((bytes, one) => bytes + one.close(), 0)
    if (watched !== 'none' && watchedBytes === 0) throw new Error('void: the watchers were sent nothing')
    const p99Ms = accepted.fromDueMs.p99 ?? Number.NaN
    return { cpuPercent, cpuUsPerRequest, p99Ms, residentMb: memoryMb(service.pid).resident, watchedBytes }
  }
  await measure('none')
  /** @type {Record<Watched, Run>[]} */
  const turns = []
  for (let round = 0; round < rounds; round++) {
    options.progress(`watchers: round ${round + 1} of ${rounds}`)
    /** @type {Partial<Record<Watched, Run>>} */
    const runs = {}
    // Each comes first as often as the others.
    for (let at = 0; at < NAMES.length; at++) {
      const watched = NAMES[(round + at) % NAMES.length]
      runs[watched] = await measure(watched)
    }
    turns.push(/** @type {Record<Watched, Run>} */ (runs))
  }
  await service.stop()
  const head = ['watchers', 'CPU, % of a core', 'CPU, µs a request', 'p99 ms', 'resident MB', 'sent to them KB/s']
  const rows = NAMES.map((watched) => {
    const of = (/** @type {(run: Run) => number} */ read) => median(turns.map((runs) => read(runs[watched])))
    return [
      ROW_NAMES[watched],
      number(
        of((run) => run.cpuPercent),
        1,
      ),
      number(
        of((run) => run.cpuUsPerRequest),
        1,
      ),
      number(
        of((run) => run.p99Ms),
        2,
      ),
      number(of((run) => run.residentMb)),
      number(of((run) => run.watchedBytes) / 1000 / seconds),
    ]
  })
  // By the request, since a machine that has other work sends fewer of them.
  const cost = (/** @type {Watched} */ watched) => {
    const differences = turns
      .map((runs) => runs[watched].cpuUsPerRequest - runs.none.cpuUsPerRequest)
      .sort((one, other) => one - other)
    return `${number(median(differences), 1)} µs (${number(differences[0], 1)} to ${number(differences[differences.length - 1], 1)})`
  }
  const title =
    `Watchers: ${number(PER_SECOND)} requests/s, ${nameOf(kind)}; medians of ${rounds}. ` +
    `Ten of the console cost a request ${cost('console')}, ten of the portal ${cost('portal')}; 1 µs is 1% of a core`
  return { numbers: turns, text: table(title, head, rows, options) }
}

/** @type {readonly Watched[]} */
const NAMES = ['none', 'console', 'portal']
const ROW_NAMES = { none: 'none', console: '10 of the console', portal: '10 of the portal' }

/** Reads a stream. `close` gives the bytes that came. @param {number} port @param {string} path @param {string} [key] @returns {Promise<{ close: () => number }>} */
function watch(port, path, key) {
  return new Promise((resolve, reject) => {
    let bytes = 0
    const headers = key === undefined ? {} : { Authorization: `Bearer ${key}` }
    const asked = request({ host: '127.0.0.1', port, path, headers, agent: false }, (response) => {
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

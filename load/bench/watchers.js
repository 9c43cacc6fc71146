// @ts-check
// What people who watch the console or the portal cost the service, at a fixed rate of requests.

import { request } from 'node:http'
import { importBuilt } from '../shared/built.js'
import { casesOf } from './cases.js'
import { runAtRate } from './pacing.js'
import { memoryMb } from './processes.js'
import { median, middle, number, table } from './report.js'
import { startService } from './servers.js'
import { byTurns, eachCase, withServers } from './turns.js'

const PER_SECOND = 10_000
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
/** @typedef {import('./pacing.js').AtRate & { residentMb: number, watchedBytes: number }} Run */

const NAMES = { none: 'none', console: '10 of the console', portal: '10 of the portal' }
const CASES = casesOf({ varied: [true] })

/** The same load by turns without and with watchers; the portal is open in all of them. @param {import('./turns.js').Options} options @returns {Promise<import('./turns.js').Section>} */
export async function watchers(options) {
  const rounds = options.quick ? 2 : 6
  const seconds = options.quick ? 3 : 6
  /** @type {{ freshReadKey: () => string, secretsOf: (key: string) => object }} */
  const { freshReadKey, secretsOf } = await importBuilt('apps/read-keys.js')
  const keys = OF_PORTAL.map(() => freshReadKey())
  const readKeys = keys.map((key) => ({ name: 'bench', ...secretsOf(key) }))
  const starts = { service: () => startService({ readKeys, env: { SLUICE_PORTAL_PORT: '0' } }) }
  const results = await eachCase(options, CASES, (_kind, bodies, name) =>
    withServers(starts, async ({ service }) => {
      const open = {
        none: () => [],
        console: () => OF_CONSOLE.map((path) => watch(service.adminPort, path)),
        portal: () =>
          OF_PORTAL.flatMap((paths, app) => paths.map((path) => watch(service.portalPort, path, keys[app]))),
      }
      const measure = (/** @type {Watched} */ watched) => async (/** @type {number} */ forSeconds) => {
        const watching = await Promise.all(open[watched]())
        let watchedBytes = 0
        const load = { perSecond: PER_SECOND, seconds: forSeconds, mayMiss: true }
        const run = await runAtRate(service, bodies, load).finally(() => {
          watchedBytes = watching.reduce((bytes, one) => bytes + one.close(), 0)
        })
        if (watched !== 'none' && watchedBytes === 0) throw new Error('void: the watchers were sent nothing')
        return { ...run, residentMb: memoryMb(service.pid).resident, watchedBytes }
      }
      const sides = { none: measure('none'), console: measure('console'), portal: measure('portal') }
      return { turns: await byTurns(name, sides, { rounds, seconds, warmUpSeconds: seconds }) }
    }),
  )
  const rows = results.flatMap(({ turns }) =>
    /** @type {Watched[]} */ (Object.keys(NAMES)).map((watched) => ({
      watched,
      turns: turns.map((turn) => turn[watched]),
    })),
  )
  // By the request, since a machine that has other work sends fewer of them.
  const cost = (/** @type {Watched} */ watched) => {
    const more = results.flatMap(({ turns }) =>
      turns.map((turn) => turn[watched].cpuUsPerRequest - turn.none.cpuUsPerRequest),
    )
    return `${number(median(more), 1)} µs (${number(Math.min(...more), 1)} to ${number(Math.max(...more), 1)})`
  }
  const title =
    `Watchers: ${number(PER_SECOND)} requests/s, ${results[0].name}; medians of ${rounds}. ` +
    `Ten of the console cost a request ${cost('console')}, ten of the portal ${cost('portal')}; 1 µs is 1% of a core`
  const text = table(title, rows, options, [
    ['watchers', ({ watched }) => NAMES[watched]],
    ['CPU, % of a core', ({ turns }) => middle(turns, (run) => (run.cpuUsPerRequest * run.perSecond) / 1e4, 1)],
    ['CPU, µs a request', ({ turns }) => middle(turns, ({ cpuUsPerRequest }) => cpuUsPerRequest, 1)],
    ['p99 ms', ({ turns }) => middle(turns, ({ p99Ms }) => p99Ms, 2)],
    ['resident MB', ({ turns }) => middle(turns, ({ residentMb }) => residentMb)],
    ['sent to them KB/s', ({ turns }) => middle(turns, (run) => run.watchedBytes / 1000 / seconds)],
  ])
  return { numbers: results, text }
}

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

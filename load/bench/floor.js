// @ts-check
// The service beside the floor of any durable service: the same engine with one synced write at a time for all that wait,
// nothing checked, counted or remembered.

import { nameOf, SEED } from './cases.js'
import { columnsOf, ratios } from './ratios.js'
import { median, number, table } from './report.js'
import { startFloor, startService } from './servers.js'
import { orUnmeasured, unlessVoid } from './void-runs.js'
import { CONNECTIONS, runWrk, writeBodies } from './wrk.js'

/** @type {import('./wrk.js').Case[]} */
const CASES = [
  ...[false, true].flatMap((mixed) =>
    /** @type {const} */ ([1, 10, 100]).map((events) => ({ events, keyed: false, varied: false, mixed })),
  ),
  ...[64, 8].map((connections) => ({ events: /** @type {const} */ (1), keyed: false, varied: false, connections })),
]
const WARM_UP_SECONDS = 3

/** @typedef {'floor' | 'service'} Side */

/** By turns. @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function floor(options) {
  const rounds = options.quick ? 3 : 7
  const seconds = options.quick ? 1 : 2
  const results = []
  for (const kind of options.quick ? CASES.filter(({ mixed }) => mixed !== true) : CASES) {
    const name = nameOf(kind)
    options.progress(`beside the floor: ${name}`)
    const bodies = await writeBodies(options.folder, kind, SEED)
    const servers = { floor: await startFloor(), service: await startService() }
    const measure = (/** @type {Side} */ which, forSeconds = seconds) =>
      unlessVoid(`${name}, ${which}`, () => runWrk(servers[which], bodies, { ...kind, seconds: forSeconds }))
    const pairs = await orUnmeasured(options, name, async () => {
      for (const which of /** @type {const} */ (['floor', 'service'])) await measure(which, WARM_UP_SECONDS)
      const measured = []
      for (let round = 0; round < rounds; round++) {
        const first = round % 2 === 0 ? await measure('floor') : null
        const service = await measure('service')
        measured.push({ service, floor: first ?? (await measure('floor')) })
      }
      return measured
    })
    await servers.service.stop()
    await servers.floor.stop()
    if (pairs !== null) results.push({ kind, name, pairs })
  }
  const head = [
    'request',
    'floor CPU µs',
    'CPU µs',
    'floor / sluice',
    'spread',
    '/s',
    'sluice / floor',
    'spread',
    'p50 ms',
  ]
  const rows = results.map(({ name, pairs }) => {
    const of = (/** @type {Side} */ which, /** @type {'cpuUsPerRequest' | 'perSecond' | 'p50Us'} */ what) =>
      median(pairs.map((pair) => pair[which][what]))
    const cost = pairs.map((pair) => ({ here: pair.floor, there: pair.service }))
    const rate = pairs.map((pair) => ({ here: pair.service, there: pair.floor }))
    return [
      name,
      number(of('floor', 'cpuUsPerRequest'), 1),
      number(of('service', 'cpuUsPerRequest'), 1),
      ...columnsOf(ratios(cost, 'cpuUsPerRequest')),
      number(of('service', 'perSecond')),
      ...columnsOf(ratios(rate, 'perSecond')),
      number(of('service', 'p50Us') / 1000, 2),
    ]
  })
  const title = `Beside the floor, the same engine that keeps each body by a synced write and does nothing else: one core, ${CONNECTIONS} connections where no others are named; medians of ${rounds} pairs by turns, and the least and the largest ratio of a pair`
  return { numbers: results, text: table(title, head, rows, options) }
}

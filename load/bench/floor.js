// @ts-check
// The service beside the floor of any durable service: the same engine with one synced write at a time for all that wait,
// nothing checked, counted or remembered.

import { nameOf } from './cases.js'
import { fullLoads, stageOf } from './compare.js'
import { columnsOf, ratios } from './ratios.js'
import { median, number, table } from './report.js'
import { startFloor, startService } from './servers.js'
import { orUnmeasured } from './void-runs.js'
import { CONNECTIONS } from './wrk.js'

/** @type {import('./wrk.js').Case[]} */
const CASES = [
  ...[false, true].flatMap((mixed) =>
    /** @type {const} */ ([1, 10, 100]).map((events) => ({ events, keyed: false, varied: false, mixed })),
  ),
  ...[64, 8].map((connections) => ({ events: /** @type {const} */ (1), keyed: false, varied: false, connections })),
]
const STARTS = { here: () => stageOf(startService()), there: () => stageOf(startFloor()) }

/** By turns. @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function floor(options) {
  const rounds = options.quick ? 3 : 7
  const results = []
  for (const kind of options.quick ? CASES.filter(({ mixed }) => mixed !== true) : CASES) {
    const name = nameOf(kind)
    options.progress(`beside the floor: ${name}`)
    const pairs = await orUnmeasured(options, name, () => fullLoads(kind, STARTS, { ...options, rounds }))
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
    const of = (/** @type {'here' | 'there'} */ which, /** @type {'cpuUsPerRequest' | 'perSecond' | 'p50Us'} */ what) =>
      median(pairs.map((pair) => pair[which][what]))
    const cost = pairs.map(({ here, there }) => ({ here: there, there: here }))
    return [
      name,
      number(of('there', 'cpuUsPerRequest'), 1),
      number(of('here', 'cpuUsPerRequest'), 1),
      ...columnsOf(ratios(cost, 'cpuUsPerRequest')),
      number(of('here', 'perSecond')),
      ...columnsOf(ratios(pairs, 'perSecond')),
      number(of('here', 'p50Us') / 1000, 2),
    ]
  })
  const title = `Beside the floor, the same engine that keeps each body by a synced write and does nothing else: one core, ${CONNECTIONS} connections where no others are named; medians of ${rounds} pairs by turns, and the least and the largest ratio of a pair`
  return { numbers: results, text: table(title, head, rows, options) }
}

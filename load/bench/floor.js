// @ts-check
// The service beside the floor of any durable service: the same engine with one synced write at a time for all that wait,
// nothing checked, counted or remembered.

import { casesOf } from './cases.js'
import { middle, REQUEST, ratioColumns, table } from './report.js'
import { startFloor, startService } from './servers.js'
import { compareLoads } from './turns.js'
import { CONNECTIONS } from './wrk.js'

const CASES = [...casesOf({ mixed: [false, true], events: [1, 10, 100] }), ...casesOf({ connections: [64, 8] })]

/** @param {import('./turns.js').Options} options @returns {Promise<import('./turns.js').Section>} */
export async function floor(options) {
  const rounds = options.quick ? 3 : 7
  const results = await compareLoads(options, {
    cases: options.quick ? CASES.filter(({ mixed }) => mixed !== true) : CASES,
    starts: () => ({ floor: startFloor, sluice: startService }),
    rounds,
    warmUpSeconds: 3,
  })
  const title = `Beside the floor, the same engine that keeps each body by a synced write and does nothing else: one core, ${CONNECTIONS} connections where no others are named; medians of ${rounds} pairs by turns, and the least and the largest ratio of a pair`
  const text = table(title, results, options, [
    REQUEST,
    ['floor CPU µs', ({ turns }) => middle(turns, (turn) => turn.floor.cpuUsPerRequest, 1)],
    ['CPU µs', ({ turns }) => middle(turns, (turn) => turn.sluice.cpuUsPerRequest, 1)],
    ...ratioColumns('floor / sluice', (turn) => turn.floor.cpuUsPerRequest / turn.sluice.cpuUsPerRequest),
    ['/s', ({ turns }) => middle(turns, ({ sluice }) => sluice.perSecond)],
    ...ratioColumns('sluice / floor', (turn) => turn.sluice.perSecond / turn.floor.perSecond),
    ['p50 ms', ({ turns }) => middle(turns, ({ sluice }) => sluice.p50Us / 1000, 2)],
  ])
  return { numbers: results, text }
}

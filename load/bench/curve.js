// @ts-check
// What a core takes and what that costs, and how long clients wait at shares of it: one run, so that its figures may stand beside
// each other. Every request is stored and deduplicated.

import { casesOf } from './cases.js'
import { runAtRate } from './pacing.js'
import { median, number, table } from './report.js'
import { startService } from './servers.js'
import { byTurns, eachCase, ratesByTurns, withServers } from './turns.js'
import { runWrk } from './wrk.js'

/** Of the best rate, in percent. */
export const SHARES = [10, 25, 50, 75, 90, 95]
/** Whose latency is shown. */
const CURVE_EVENTS = 10
/** So many that a request rarely waits for one; its wait counts. */
const CONNECTIONS = 512
/** More than a fast machine takes in the five minutes for which keys are remembered: without room for them it would answer 503. */
const MAX_KEYS = '20000000'

/** @typedef {{ events: 1 | 10 | 100, perSecond: number, cpuUsPerRequest: number }} Cost */
/** @typedef {import('./pacing.js').AtRate & { share: number, p99sMs: number[] }} Point */
/** @typedef {{ events: number, rounds: number, costs: Cost[], points: Point[] }} Curve */

/** @param {import('./turns.js').Options} options @returns {Promise<import('./turns.js').Section>} */
export async function curve(options) {
  const { quick } = options
  const rounds = quick ? 1 : 3
  const cases = casesOf({ keyed: [true], varied: [true], events: [1, 10, 100] })
  const results = await eachCase(options, cases, (kind, bodies, name) =>
    withServers({ service: () => startService({ env: { SLUICE_MAX_KEYS: MAX_KEYS } }) }, async ({ service }) => {
      const full = (/** @type {number} */ seconds) => runWrk(service, bodies, { keyed: true, seconds })
      const how = { rounds, seconds: quick ? 1 : 4, warmUpSeconds: quick ? 1 : 3 }
      const turns = await byTurns(name, { full }, how)
      const [perSecond, cpuUsPerRequest] = /** @type {const} */ (['perSecond', 'cpuUsPerRequest']).map((member) =>
        median(turns.map((turn) => turn.full[member])),
      )
      const isShown = kind.events === CURVE_EVENTS
      const points = isShown ? await pointsOf(perSecond, service, bodies, { ...options, rounds }) : []
      return { cost: { events: kind.events, perSecond, cpuUsPerRequest }, points }
    }),
  )
  /** @type {Curve} */
  const numbers = {
    events: CURVE_EVENTS,
    rounds,
    costs: results.map(({ cost }) => cost),
    points: results.flatMap(({ points }) => points),
  }
  return { numbers, text: curveText(numbers, options) }
}

/**
 * From the lowest rate to the highest, round after round; a rate that is not reached is left out and named.
 * @param {number} best @param {import('./servers.js').Server} service @param {import('./turns.js').Bodies} bodies
 * @param {import('./turns.js').Options & { rounds: number }} options @returns {Promise<Point[]>}
 */
async function pointsOf(best, service, bodies, options) {
  const shares = SHARES.map((share) => ({ name: `${share}% of the best rate`, share }))
  const phase = { seconds: options.quick ? 3 : 8, warmUpSeconds: 1, connections: CONNECTIONS, keyed: true }
  const rows = await ratesByTurns(options, 'curve', shares, options.rounds, ({ share }, histogram) =>
    runAtRate(service, bodies, { perSecond: (best * share) / 100, ...phase, histogram }),
  )
  return rows.map(({ share, turns }) => middleOf(share, turns))
}

/** @param {number} share @param {readonly import('./pacing.js').AtRate[]} points of one rate, of each round @returns {Point} */
function middleOf(share, points) {
  const names = /** @type {(keyof typeof points[number])[]} */ (Object.keys(points[0]))
  const middle = names.map((name) => [name, median(points.map((point) => point[name]))])
  const ofRounds = { share, p99sMs: points.map(({ p99Ms }) => p99Ms) }
  return { ...ofRounds, .../** @type {typeof points[number]} */ (Object.fromEntries(middle)) }
}

/** CPU seconds that a million events take. @param {{ cpuUsPerRequest: number, events: number }} cost */
export const secondsPerMillion = ({ cpuUsPerRequest, events }) => cpuUsPerRequest / events

/** @param {Curve} numbers @param {{ markdown: boolean, machine?: string }} options */
export function curveText({ costs, points, events, rounds }, options) {
  const how = `each stored and deduplicated by its key, one core, embedded queue; medians of ${rounds}`
  const costTable = table(`What a core takes at most, and what that costs: varied events, ${how}`, costs, options, [
    ['events a request', (cost) => String(cost.events)],
    ['CPU seconds per million events', (cost) => number(secondsPerMillion(cost), 2)],
    ['CPU µs a request', (cost) => number(cost.cpuUsPerRequest, 1)],
    ['requests /s', (cost) => number(cost.perSecond)],
    ['events /s', (cost) => number(cost.perSecond * cost.events)],
  ])
  const pointTable = table(
    `Latency at shares of the best rate, from when each request was due until its 202 (no coordinated omission): ${events} events a request, ${how}`,
    points,
    options,
    [
      ['of the best rate', ({ share }) => `${share}%`],
      ['requests /s', ({ perSecond }) => number(perSecond)],
      ['events /s', ({ perSecond }) => number(perSecond * events)],
      ['CPU µs a request', ({ cpuUsPerRequest }) => number(cpuUsPerRequest, 1)],
      ['p50 ms', ({ p50Ms }) => number(p50Ms, 2)],
      ['p99 ms', ({ p99Ms }) => number(p99Ms, 2)],
      ['of each round', ({ p99sMs }) => p99sMs.map((p99Ms) => number(p99Ms, 1)).join(', ')],
      ['p99.9 ms', ({ p999Ms }) => number(p999Ms, 2)],
      ['max ms', ({ maxMs }) => number(maxMs, 2)],
    ],
  )
  return `${costTable}\n${pointTable}`
}

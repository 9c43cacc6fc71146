// @ts-check
// What a core takes and what that costs, and how long clients wait at shares of it: one run, so that its figures may stand beside
// each other. Every request is stored and deduplicated.

import { nameOf, SEED } from './cases.js'
import { expectRate, histogramFile, runPaced } from './pacing.js'
import { cpuSeconds } from './processes.js'
import { median, number, table } from './report.js'
import { startService } from './servers.js'
import { orUnmeasured, unlessVoid } from './void-runs.js'
import { runWrk, writeBodies } from './wrk.js'

/** Of the best rate, in percent. */
export const SHARES = [10, 25, 50, 75, 90, 95]
/** Whose latency is shown. */
const CURVE_EVENTS = 10
/** So many that a request rarely waits for one; its wait counts. */
const CONNECTIONS = 512

/** @typedef {{ events: 1 | 10 | 100, perSecond: number, cpuUsPerRequest: number }} Cost */
/** @typedef {{ share: number, perSecond: number, cpuUsPerRequest: number, p50Ms: number, p99Ms: number, p999Ms: number, maxMs: number }} Point */
/** @typedef {{ events: number, rounds: number, costs: Cost[], points: Point[] }} Curve */

/** @param {import('./sections.js').Options} options @returns {Promise<import('./sections.js').Section>} */
export async function curve(options) {
  const rounds = options.quick ? 1 : 3
  /** @type {Curve} */
  const numbers = { events: CURVE_EVENTS, rounds, costs: [], points: [] }
  for (const events of /** @type {const} */ ([1, 10, 100])) {
    const kind = { events, keyed: true, varied: true }
    options.progress(`curve: the best rate of ${nameOf(kind)}`)
    const bodies = await writeBodies(options.folder, kind, SEED)
    const service = await startService()
    const cost = await orUnmeasured(options, `best rate, ${nameOf(kind)}`, () => bestOf(kind, service, bodies, options))
    if (cost !== null) {
      numbers.costs.push(cost)
      if (events === CURVE_EVENTS) numbers.points.push(...(await pointsOf(cost, service, bodies, options)))
    }
    await service.stop()
  }
  return { numbers, text: curveText(numbers, options) }
}

/** @param {import('./wrk.js').Case} kind @param {import('./servers.js').Server} service @param {{ folder: string, count: number }} bodies @param {import('./sections.js').Options} options @returns {Promise<Cost>} */
async function bestOf(kind, service, bodies, { quick }) {
  const measure = (/** @type {number} */ seconds) =>
    unlessVoid(nameOf(kind), () => runWrk(service, bodies, { keyed: true, seconds }))
  await measure(quick ? 1 : 3)
  const runs = []
  for (let round = 0; round < (quick ? 1 : 3); round++) runs.push(await measure(quick ? 1 : 4))
  return {
    events: kind.events,
    perSecond: median(runs.map(({ perSecond }) => perSecond)),
    cpuUsPerRequest: median(runs.map(({ cpuUsPerRequest }) => cpuUsPerRequest)),
  }
}

/**
 * From the lowest rate to the highest, round after round; a rate that is not reached is left out and named.
 * @param {Cost} best @param {import('./servers.js').Server} service @param {{ folder: string, count: number }} bodies @param {import('./sections.js').Options} options @returns {Promise<Point[]>}
 */
async function pointsOf(best, service, bodies, options) {
  /** @type {Map<number, Point[]>} */
  const runs = new Map(SHARES.map((share) => [share, []]))
  for (let round = 1; round <= (options.quick ? 1 : 3); round++) {
    for (const [share, points] of runs) {
      const name = `${share}% of the best rate, round ${round}`
      options.progress(`curve: ${name}`)
      const histogram = histogramFile(options, `curve ${name}`)
      const perSecond = (best.perSecond * share) / 100
      const point = await orUnmeasured(options, name, () =>
        unlessVoid(name, () => pointAt({ share, perSecond, histogram }, service, bodies, options.quick)),
      )
      if (point !== null) points.push(point)
    }
  }
  return [...runs.values()].filter((points) => points.length > 0).map(middleOf)
}

/** @param {{ share: number, perSecond: number, histogram: string | undefined }} of @param {import('./servers.js').Server} service @param {{ folder: string, count: number }} bodies @param {boolean} quick @returns {Promise<Point>} */
async function pointAt({ share, perSecond, histogram }, service, bodies, quick) {
  const phases = [1, quick ? 3 : 8].map((seconds) => ({ perSecond, seconds }))
  const beforeSeconds = cpuSeconds(service.pid)
  const paced = await runPaced(service, bodies, { phases, connections: CONNECTIONS, keyed: true, histogram })
  const usedSeconds = cpuSeconds(service.pid) - beforeSeconds
  const [warmUp, phase] = paced.phases
  expectRate(phase, perSecond)
  const { fromDueMs, count } = phase.accepted
  const shown = (/** @type {keyof import('./percentiles.js').Percentiles} */ name) => fromDueMs[name] ?? Number.NaN
  return {
    share,
    perSecond: count / phase.seconds,
    cpuUsPerRequest: (usedSeconds * 1e6) / (count + warmUp.accepted.count),
    p50Ms: shown('p50'),
    p99Ms: shown('p99'),
    p999Ms: shown('p999'),
    maxMs: shown('max'),
  }
}

/** @param {readonly Point[]} points of one rate @returns {Point} */
function middleOf(points) {
  const of = (/** @type {keyof Point} */ name) => median(points.map((point) => point[name]))
  return {
    share: points[0].share,
    perSecond: of('perSecond'),
    cpuUsPerRequest: of('cpuUsPerRequest'),
    p50Ms: of('p50Ms'),
    p99Ms: of('p99Ms'),
    p999Ms: of('p999Ms'),
    maxMs: of('maxMs'),
  }
}

/** CPU seconds that a million events take. @param {{ cpuUsPerRequest: number, events: number }} cost */
export const secondsPerMillion = ({ cpuUsPerRequest, events }) => cpuUsPerRequest / events

/** @param {Curve} numbers @param {{ markdown: boolean, machine?: string }} options */
export function curveText({ costs, points, events, rounds }, options) {
  const costHead = [
    'events a request',
    'CPU seconds per million events',
    'CPU µs a request',
    'requests /s',
    'events /s',
  ]
  const costRows = costs.map((cost) => [
    String(cost.events),
    number(secondsPerMillion(cost), 2),
    number(cost.cpuUsPerRequest, 1),
    number(cost.perSecond),
    number(cost.perSecond * cost.events),
  ])
  const pointHead = [
    'of the best rate',
    'requests /s',
    'events /s',
    'CPU µs a request',
    'p50 ms',
    'p99 ms',
    'p99.9 ms',
    'max ms',
  ]
  const pointRows = points.map((point) => [
    `${point.share}%`,
    number(point.perSecond),
    number(point.perSecond * events),
    number(point.cpuUsPerRequest, 1),
    ...[point.p50Ms, point.p99Ms, point.p999Ms, point.maxMs].map((ms) => number(ms, 2)),
  ])
  const how = `each stored and deduplicated by its key, one core, embedded queue; medians of ${rounds}`
  const costTitle = `What a core takes at most, and what that costs: varied events, ${how}`
  const pointTitle = `Latency at shares of the best rate, from when each request was due until its 202 (no coordinated omission): ${events} events a request, ${how}`
  return `${table(costTitle, costHead, costRows, options)}\n${table(pointTitle, pointHead, pointRows, options)}`
}

// @ts-check
// The objectives as k6 thresholds, and the options and scenarios that all scripts share. Pure.

import { CODES } from './answers.js'

/** What k6 counts in the summary of a trend. */
const TREND_STATISTICS = ['count', 'avg', 'min', 'med', 'p(90)', 'p(99)', 'p(99.9)', 'max']
/** What a request may go on for once its scenario's time is up. */
export const GRACE_MS = 3000

/** @typedef {import('./settings.js').Settings} Settings */
/** @typedef {Record<string, import('k6/options').Threshold[]>} Thresholds */

/** What the service promises, over the requests of a phase or over all of them. @param {Settings} settings @param {string} [phase] @returns {Thresholds} */
export function objectives({ availabilityObjective, latencyObjectiveMs }, phase) {
  const tag = phase === undefined ? '' : `phase:${phase}`
  return {
    [tag === '' ? 'available' : `available{${tag}}`]: [`rate>=${availabilityObjective}`],
    [durationOf(tag)]: latencyObjectiveMs === null ? [SHOWN.trend] : [`p(99)<${latencyObjectiveMs}`],
  }
}

/** The name of the latency of events, by one more tag. @param {string} [tag] */
export function durationOf(tag = '') {
  return `http_req_duration{kind:event${tag === '' ? '' : `,${tag}`}}`
}

/**
 * What makes a run worth reading, whatever it asks: answers as specified, at the rate that was asked for; and the outcomes, also as the
 * nodes counted them. @param {Settings} settings @param {{ mayDrop?: boolean }} [options] @returns {Thresholds}
 */
export function soundness({ adminUrls }, { mayDrop = false } = {}) {
  const ofNodes = adminUrls.length === 0 ? [] : [...CODES, 'aborted']
  return {
    checks: ['rate==1'],
    unexpected_answers: ['count==0'],
    'http_reqs{kind:event}': ['count>0'],
    dropped_iterations: [mayDrop ? SHOWN.counter : 'count==0'],
    [durationOf()]: [SHOWN.trend],
    events_accepted: [SHOWN.counter],
    ...Object.fromEntries(CODES.map((code) => [`outcomes{code:${code}}`, [SHOWN.counter]])),
    ...Object.fromEntries(ofNodes.map((code) => [`node_outcomes{code:${code}}`, [SHOWN.gauge]])),
  }
}

/** k6 keeps figures by tag only where a threshold asks for them: these ask, and always hold. */
export const SHOWN = /** @type {const} */ ({
  counter: 'count>=0',
  trend: 'max>=0',
  rate: 'rate>=0',
  gauge: 'value>=-1e300',
})

/** Options of every script. @param {Settings} settings @param {{ scenarios: Record<string, import('k6/options').Scenario>, thresholds: Thresholds }} options @returns {import('k6/options').Options} */
export function options({ script }, { scenarios, thresholds }) {
  return {
    scenarios,
    thresholds,
    tags: { script },
    summaryTrendStats: TREND_STATISTICS,
    setupTimeout: '30s',
    teardownTimeout: '30s',
    userAgent: 'sluice-load',
  }
}

/** The service closes a connection that nothing was sent on for 10 s; a request sent at that very moment is lost. */
const REUSE_WITHIN_SECONDS = 5
const MIN_VUS = 10

/**
 * Virtual users for a rate, for scripts whose iterations are one request: k6 takes them in turn, so that each uses its
 * connection again in time. @param {Settings} settings @param {number} [rate]
 */
export function fewVus({ vus, rate: ownRate }, rate = ownRate) {
  return Math.min(vus, Math.max(MIN_VUS, Math.ceil(rate * REUSE_WITHIN_SECONDS)))
}

/**
 * A scenario that begins requests at a constant rate, however slow the answers are.
 * @param {Settings} settings @param {{ rate?: number, durationMs?: number, startMs?: number, exec?: string, tags?: Record<string, string>, vus?: number }} [arrival]
 * @returns {import('k6/options').ConstantArrivalRateScenario}
 */
export function arrivals(
  settings,
  { rate = settings.rate, durationMs = settings.durationMs, startMs = 0, exec, tags = {}, vus = settings.vus } = {},
) {
  return {
    executor: 'constant-arrival-rate',
    // k6 takes whole numbers: a rate of 0.5 a second is 30 a minute.
    ...(Number.isInteger(rate)
      ? { rate, timeUnit: '1s' }
      : { rate: Math.max(1, Math.round(rate * 60)), timeUnit: '1m' }),
    duration: `${Math.round(durationMs)}ms`,
    startTime: `${Math.round(startMs)}ms`,
    gracefulStop: `${GRACE_MS}ms`,
    preAllocatedVUs: vus,
    maxVUs: vus,
    tags,
    ...(exec === undefined ? {} : { exec }),
  }
}

/** A scenario of one virtual user. @param {string} exec @param {number} maxSeconds @param {number} [iterations] @returns {import('k6/options').PerVUIterationsScenario} */
export function alone(exec, maxSeconds, iterations = 1) {
  return { executor: 'per-vu-iterations', vus: 1, iterations, exec, maxDuration: `${Math.ceil(maxSeconds)}s` }
}

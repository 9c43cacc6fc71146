// @ts-check
// Drives paced.js, the load of fixed arrival rates, on the load's core.

import { join } from 'node:path'
import { answerOf, cpuSeconds, LOAD_CORE } from './processes.js'
import { VoidRun } from './void-runs.js'

const PACED = new URL('paced.js', import.meta.url)
export const PACED_CONNECTIONS = 128
/** Of what is due, not sent by the end of a phase: more, and the rate was another. */
const MOST_UNSENT = 0.001

/** @typedef {import('./percentiles.js').Percentiles} Percentiles */

/** The file of a run's latencies, where they were asked for. @param {{ histograms: string | undefined }} options @param {string} name */
export function histogramFile({ histograms }, name) {
  return histograms === undefined ? undefined : join(histograms, `${name.replaceAll(/[^a-z\d]+/gi, '-')}.hgrm`)
}

/** @typedef {{ count: number, fromDueMs: Percentiles, fromSentMs: Percentiles }} Answers */
/**
 * `histogram`: a file for the latencies of the last phase.
 * @typedef {{ connections?: number | undefined, keyed?: boolean, scrapeEveryMs?: number | undefined, histogram?: string | undefined }} How
 * @typedef {{ perSecond: number, seconds: number }} Phase
 * @typedef {{ seconds: number, unsent: number, accepted: Answers, refused: Answers, lastRefusedMs: number }} PhaseResult
 * @typedef {{ phases: PhaseResult[], unanswered: number, broken: number, scrapes: number, cpuUsPerRequest: number }} Paced
 * @typedef {{ perSecond: number, cpuUsPerRequest: number, p50Ms: number, p99Ms: number, p999Ms: number, maxMs: number }} AtRate
 */

/**
 * A request without an answer makes the run void.
 * @param {import('./servers.js').Server} server @param {import('./turns.js').Bodies} bodies @param {readonly Phase[]} phases @param {How} [how] @returns {Promise<Paced>}
 */
export async function runPaced({ port, adminPort, pid }, bodies, phases, how = {}) {
  const { connections = PACED_CONNECTIONS, keyed = false, scrapeEveryMs = 0, histogram } = how
  const sending = { phases, connections, keyed, bodies: bodies.folder, count: bodies.count, histogram }
  const beforeSeconds = cpuSeconds(pid)
  /** @type {Omit<Paced, 'cpuUsPerRequest'>} */
  const paced = await answerOf(LOAD_CORE, PACED, [JSON.stringify({ port, adminPort, scrapeEveryMs, ...sending })])
  const usedSeconds = cpuSeconds(pid) - beforeSeconds
  if (paced.broken + paced.unanswered > 0) {
    throw new VoidRun(`${paced.broken} connections broke off, ${paced.unanswered} requests were not answered`)
  }
  const accepted = paced.phases.reduce((sum, phase) => sum + phase.accepted.count, 0)
  return { ...paced, cpuUsPerRequest: (usedSeconds * 1e6) / accepted }
}

/**
 * Far below the best rate: what a request costs then, and how long its client waits. A refusal makes the run void, and so does a
 * rate that was not reached, unless it `mayMiss`.
 * @param {import('./servers.js').Server} server @param {import('./turns.js').Bodies} bodies @param {How & { perSecond?: number, seconds: number, warmUpSeconds?: number, mayMiss?: boolean }} how @returns {Promise<AtRate>}
 */
export async function runAtRate(
  server,
  bodies,
  { perSecond = 0, seconds, warmUpSeconds = 0, mayMiss = false, ...how },
) {
  const phases = [warmUpSeconds, seconds].filter(Boolean).map((length) => ({ perSecond, seconds: length }))
  const paced = await runPaced(server, bodies, phases, how)
  const { accepted, refused, unsent } = paced.phases[phases.length - 1]
  if (refused.count > 0 || (!mayMiss && unsent > MOST_UNSENT * perSecond * seconds)) {
    const due = Math.floor(perSecond * seconds)
    throw new VoidRun(`${refused.count} refusals, and ${unsent} of ${due} requests were due and not sent`)
  }
  const { p50, p99, p999, max } = accepted.fromDueMs
  const [p50Ms, p99Ms, p999Ms, maxMs] = [p50, p99, p999, max].map((value) => value ?? Number.NaN)
  return { perSecond: accepted.count / seconds, cpuUsPerRequest: paced.cpuUsPerRequest, p50Ms, p99Ms, p999Ms, maxMs }
}

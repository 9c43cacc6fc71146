// @ts-check
// Drives paced.js, the load of fixed arrival rates, on the load's core.

import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { LOAD_CORE, run } from './processes.js'
import { VoidRun } from './void-runs.js'

export const PACED_CONNECTIONS = 128
/** Of what is due, not sent by the end of a phase: more, and the rate was another. */
const MOST_UNSENT = 0.001
const PACED = fileURLToPath(new URL('paced.js', import.meta.url))

/** @typedef {import('./percentiles.js').Percentiles} Percentiles */

/** The file of a run's latencies, where they were asked for. @param {{ histograms: string | undefined }} options @param {string} name */
export function histogramFile({ histograms }, name) {
  return histograms === undefined ? undefined : join(histograms, `${name.replaceAll(/[^a-z\d]+/gi, '-')}.hgrm`)
}

/** @typedef {{ count: number, fromDueMs: Percentiles, fromSentMs: Percentiles }} Answers */
/**
 * @typedef {{ seconds: number, unsent: number, accepted: Answers, refused: Answers, lastRefusedMs: number }} PhaseResult
 * @typedef {{ phases: PhaseResult[], unanswered: number, broken: number, scrapes: number }} Paced
 */

/**
 * A request without an answer makes the run void. `histogram`: a file for the latencies of the last phase.
 * @param {import('./servers.js').Server} server @param {{ folder: string, count: number }} bodies
 * @param {{ phases: { perSecond: number, seconds: number }[], connections: number, keyed?: boolean, scrapeEveryMs?: number, histogram?: string | undefined }} options
 * @returns {Promise<Paced>}
 */
export async function runPaced(server, bodies, { phases, connections, keyed = false, scrapeEveryMs = 0, histogram }) {
  const { port, adminPort } = server
  const sending = { phases, connections, keyed, bodies: bodies.folder, count: bodies.count, histogram }
  /** @type {Paced} */
  const paced = JSON.parse(
    await run(LOAD_CORE, [process.execPath, PACED, JSON.stringify({ port, adminPort, scrapeEveryMs, ...sending })]),
  )
  if (paced.broken + paced.unanswered > 0) {
    throw new VoidRun(`${paced.broken} connections broke off, ${paced.unanswered} requests were not answered`)
  }
  return paced
}

/** Throws where the phase had refusals, or another rate than planned. @param {PhaseResult} phase @param {number} perSecond */
export function expectRate({ seconds, refused, unsent }, perSecond) {
  if (refused.count > 0 || unsent > MOST_UNSENT * perSecond * seconds) {
    const due = Math.floor(perSecond * seconds)
    throw new VoidRun(`${refused.count} refusals, and ${unsent} of ${due} requests were due and not sent`)
  }
}

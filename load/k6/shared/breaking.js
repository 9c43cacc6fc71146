// @ts-check
// Where a service breaks under steps of load, and what ran out there: the service, k6, or the machine. Pure.

/** From here on a node's process has no more to give: its acceptor works on one core. */
const BUSY_CORES = 0.85
/** Where latency is not judged. */
const SLOW_MS = 50

/**
 * @typedef {object} Step
 * @property {number} rate asked for, requests a second
 * @property {number} p99Ms as k6 saw it
 * @property {number} failed requests without an answer, or answered 5xx
 * @property {number} dropped iterations
 * @property {number} nodeP99Ms as the nodes measured it; NaN where they were not asked
 * @property {number} nodeLagMs p99 of how late the busiest node's event loop was; NaN where they were not asked
 * @property {number} nodeCores CPU of the busiest node, in cores; NaN where they were not asked
 */
/** @typedef {'service' | 'waiting' | 'machine' | 'k6' | 'unknown'} Cause */
/** @typedef {{ best: Step | null, broken: Step | null, cause: Cause | null, sentence: string }} BreakingPoint */

/** @param {Step} step @param {number | null} latencyObjectiveMs null: latency is not judged */
export function didHold({ p99Ms, failed, dropped }, latencyObjectiveMs) {
  return failed === 0 && dropped === 0 && (latencyObjectiveMs === null || p99Ms < latencyObjectiveMs)
}

/**
 * The highest step before the first that did not hold: one that holds again above it was luck.
 * @param {readonly Step[]} steps @param {number | null} latencyObjectiveMs @returns {BreakingPoint}
 */
export function findBreakingPoint(steps, latencyObjectiveMs) {
  const first = steps.findIndex((step) => !didHold(step, latencyObjectiveMs))
  const best = (first === -1 ? steps.at(-1) : steps[first - 1]) ?? null
  if (first === -1) {
    return {
      best,
      broken: null,
      cause: null,
      sentence: `it did not break: it held ${best?.rate ?? 0} requests/s, the last step`,
    }
  }
  const broken = steps[first]
  const { cause, why } = causeOf(broken, latencyObjectiveMs)
  const held = best === null ? 'no step held' : `${best.rate} requests/s held`
  const who = {
    service: `the service broke at ${broken.rate}`,
    k6: `at ${broken.rate} k6 or the machine ran out, not the service: it can do more than this run shows`,
    machine: `at ${broken.rate} the machine ran out: the node had work and got no CPU, so let k6 run elsewhere`,
    waiting: `at ${broken.rate} the service was slow without being busy: look at its queue and its disk`,
    unknown: `it broke at ${broken.rate}, and without ADMIN_URL nothing says whether the service or k6 ran out`,
  }[cause]
  return { best, broken, cause, sentence: `${held}; ${who} (${why})` }
}

/**
 * Why the steps say nothing: not even the first was sent as asked, or it failed where the service was not what ran out.
 * @param {readonly Step[]} steps @param {BreakingPoint} breaking @returns {string[]}
 */
export function voidsOf(steps, { best, cause, sentence }) {
  if (steps[0].dropped > 0) return ['iterations were dropped at the first step: begin lower, or with more VUS']
  return best === null && (cause === 'machine' || cause === 'k6') ? [sentence] : []
}

/** @param {Step} step @param {number | null} latencyObjectiveMs @returns {{ cause: Cause, why: string }} */
function causeOf({ p99Ms, failed, dropped, nodeP99Ms, nodeLagMs, nodeCores }, latencyObjectiveMs) {
  const seen = [
    ...(failed > 0 ? [`${failed} requests failed`] : []),
    ...(dropped > 0 ? [`${dropped} iterations dropped`] : []),
    `p99 ${p99Ms.toFixed(1)} ms`,
  ].join(', ')
  if (failed > 0) return { cause: 'service', why: seen }
  if (Number.isNaN(nodeCores)) return { cause: 'unknown', why: seen }
  const own = `p99 ${nodeP99Ms.toFixed(1)} ms, event loop late by ${nodeLagMs.toFixed(1)} ms, CPU ${nodeCores.toFixed(2)} cores`
  const why = `${seen}; the node itself: ${own}`
  if (nodeCores >= BUSY_CORES) return { cause: 'service', why }
  const slowMs = latencyObjectiveMs ?? SLOW_MS
  if (nodeLagMs >= slowMs / 2) return { cause: 'machine', why }
  return { cause: nodeP99Ms >= slowMs ? 'waiting' : 'k6', why }
}

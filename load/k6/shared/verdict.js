// @ts-check
// What came of a run: reads k6's figures, says which objectives held, and whether the run is worth reading at all. Pure.

import { CODES } from './answers.js'

/** @typedef {Record<string, number>} Values */
/** @typedef {{ type: string, contains?: string, values: Values, thresholds?: Record<string, { ok: boolean }> }} Metric */
/** @typedef {{ metrics: Record<string, Metric>, state?: { testRunDurationMs?: number } }} RunData */
/** @typedef {{ metric: string, rule: string, isHeld: boolean }} Judged */
/** @typedef {'HELD' | 'FAILED' | 'VOID'} Verdict */
/** @typedef {{ verdict: Verdict, reasons: readonly string[] }} Judgement */

/** Of what a check of the queue found, among the reasons. */
const MOST_FAULTS = 3

/** A figure of a metric; NaN where the run has none. @param {RunData} data @param {string} metric @param {string} figure */
export function figure(data, metric, figure) {
  return data.metrics[metric]?.values[figure] ?? Number.NaN
}

/** The thresholds that can fail: those that only make a figure show are left out. @param {RunData} data @returns {Judged[]} */
export function judgedRules({ metrics }) {
  return Object.entries(metrics)
    .flatMap(([metric, { thresholds = {} }]) =>
      Object.entries(thresholds)
        .filter(([rule]) => !/(>=0|>=-1e300)$/.test(rule))
        .map(([rule, { ok }]) => ({ metric, rule, isHeld: ok })),
    )
    .toSorted((left, right) => Number(left.isHeld) - Number(right.isHeld) || left.metric.localeCompare(right.metric))
}

/** Requests by how they ended, as k6 counted them and, where it was asked, the node. @param {RunData} data */
export function outcomesOf(data) {
  return [...CODES, 'aborted']
    .map((code) => ({
      code,
      sent: figure(data, `outcomes{code:${code}}`, 'count') || 0,
      node: figure(data, `node_outcomes{code:${code}}`, 'value'),
    }))
    .filter(({ sent, node }) => sent > 0 || node > 0)
}

/**
 * Whether the node counted what was sent; null where nothing can be said: no admin port, others who send, or requests
 * without an answer, which the node may have seen or not.
 * @param {RunData} data @param {{ isLocal: boolean }} settings @returns {boolean | null}
 */
export function isNodeOfOneMind(data, { isLocal }) {
  const list = outcomesOf(data)
  const isAsked = Object.keys(data.metrics).some(
    (name) => name.startsWith('node_outcomes{') && !Number.isNaN(figure(data, name, 'value')),
  )
  if (!isLocal || !isAsked || list.some(({ code, sent }) => code === 'no_answer' && sent > 0)) return null
  return list.every(({ sent, node }) => sent === (node || 0))
}

/** Rates and trends that are judged and have nothing to be judged by: k6 holds those to be held. @param {RunData} data */
function emptyRules(data) {
  const metrics = new Set(judgedRules(data).map(({ metric }) => metric))
  return [...metrics].filter((metric) => isEmpty(data.metrics[metric]))
}

/** @param {Metric} metric */
function isEmpty({ type, values }) {
  if (type === 'rate') return !(values.passes + values.fails > 0)
  return type === 'trend' && !(values.count > 0)
}

/**
 * A run is void where it did not ask what it was to ask: iterations were dropped, or nothing was sent, or what the
 * script itself says. Whatever else failed in it says nothing then. Where nothing failed, it is void too if a figure has no
 * samples, or if it did not get to all that the script wanted (`unmet`).
 * @param {RunData} data
 * @param {{ mayDrop?: boolean, voids?: readonly string[], failures?: readonly string[], unmet?: readonly string[] }} [options]
 * @returns {Judgement}
 */
export function judge(data, { mayDrop = false, voids = [], failures = [], unmet = [] } = {}) {
  const dropped = figure(data, 'dropped_iterations', 'count') || 0
  const emptiness = [...voids]
  if (dropped > 0 && !mayDrop) {
    emptiness.unshift(`${dropped} iterations were dropped: the rate that was asked for was not sent`)
  }
  if (!(figure(data, 'http_reqs{kind:event}', 'count') > 0)) emptiness.push('nothing was sent')
  if (emptiness.length > 0) return { verdict: 'VOID', reasons: emptiness }
  const broken = judgedRules(data).filter(({ isHeld }) => !isHeld)
  const reasons = [...broken.map(({ metric, rule }) => `${metric}: ${rule}`), ...failures]
  const gaps = [...emptyRules(data).map((metric) => `${metric}: there was nothing to judge`), ...unmet]
  if (reasons.length > 0) return { verdict: 'FAILED', reasons: [...reasons, ...gaps] }
  return { verdict: gaps.length > 0 ? 'VOID' : 'HELD', reasons: gaps }
}

/**
 * k6's judgement with what a check of the queue found. A run that did not come to its end is void, whatever is missing from it. What the
 * queue shows to be wrong is wrong in a void run too. A check that could not be made leaves a failure a failure, and makes what
 * held void.
 * @param {Judgement} judgement @param {{ interruption?: string, faults?: readonly string[], voids?: readonly string[] }} after `interruption` '': it came to its end
 * @returns {Judgement}
 */
export function conclude({ verdict, reasons }, { interruption = '', faults = [], voids = [] }) {
  if (interruption !== '') {
    return { verdict: 'VOID', reasons: [interruption, ...(verdict === 'HELD' ? [] : reasons), ...voids] }
  }
  if (faults.length > 0) return { verdict: 'FAILED', reasons: [...fewOf(faults), ...reasons, ...voids] }
  if (voids.length === 0 || verdict === 'FAILED') return { verdict, reasons: [...reasons, ...voids] }
  return { verdict: 'VOID', reasons: [...reasons, ...voids] }
}

/** @param {readonly string[]} faults all of them are in the report's own list */
function fewOf(faults) {
  const left = faults.length - MOST_FAULTS
  return left > 0 ? [...faults.slice(0, MOST_FAULTS), `and ${left} more`] : faults
}

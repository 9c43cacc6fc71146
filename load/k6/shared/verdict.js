// @ts-check
// What came of a run: reads k6's figures, says which objectives held, and whether the run is worth reading at all. Pure.

import { CODES } from './answers.js'

/** @typedef {Record<string, number>} Values */
/** @typedef {{ type: string, contains?: string, values: Values, thresholds?: Record<string, { ok: boolean }> }} Metric */
/** @typedef {{ metrics: Record<string, Metric>, state?: { testRunDurationMs?: number } }} RunData */
/** @typedef {{ metric: string, rule: string, isHeld: boolean }} Judged */
/** @typedef {'HELD' | 'FAILED' | 'VOID'} Verdict */

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

/**
 * A run is void where it did not ask what it was to ask: iterations were dropped, or nothing was sent, or what the
 * script itself says. Whatever else failed in it says nothing then.
 * @param {RunData} data @param {{ mayDrop?: boolean, voids?: readonly string[], failures?: readonly string[] }} [options]
 * @returns {{ verdict: Verdict, reasons: string[] }}
 */
export function judge(data, { mayDrop = false, voids = [], failures = [] } = {}) {
  const dropped = figure(data, 'dropped_iterations', 'count') || 0
  const emptiness = [...voids]
  if (dropped > 0 && !mayDrop) {
    emptiness.unshift(`${dropped} iterations were dropped: the rate that was asked for was not sent`)
  }
  if (!(figure(data, 'http_reqs{kind:event}', 'count') > 0)) emptiness.push('nothing was sent')
  if (emptiness.length > 0) return { verdict: 'VOID', reasons: emptiness }
  const broken = judgedRules(data).filter(({ isHeld }) => !isHeld)
  const reasons = [...broken.map(({ metric, rule }) => `${metric}: ${rule}`), ...failures]
  return { verdict: reasons.length > 0 ? 'FAILED' : 'HELD', reasons }
}

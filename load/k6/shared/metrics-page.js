// @ts-check
// Reads a Prometheus text page: outcomes, and percentiles out of histograms. Pure.

import { parsePage, sumOf } from '../../../test/support/metrics.js'

export { parsePage, sumOf }

/** @typedef {import('../../../test/support/metrics.js').Series} Series */

const MILLISECONDS = 1000

/** How many requests have ended under each code. @param {readonly Series[]} page @returns {Record<string, number>} */
export function outcomesOf(page) {
  /** @type {Record<string, number>} */
  const counts = {}
  for (const { name, labels, value } of page) {
    if (name === 'sluice_requests_total') counts[labels.code] = (counts[labels.code] ?? 0) + value
  }
  return counts
}

/**
 * A percentile, in milliseconds, of what a histogram of seconds counted between two pages; within a bucket, in
 * proportion. NaN where nothing was counted.
 * @param {readonly Series[]} before @param {readonly Series[]} after @param {string} name @param {number} share from 0 to 1
 */
export function percentileMs(before, after, name, share) {
  /** @type {Map<number, number>} */
  const counts = new Map()
  const count = (/** @type {readonly Series[]} */ page, /** @type {number} */ sign) => {
    for (const series of page) {
      if (series.name !== `${name}_bucket`) continue
      const upTo = Number(series.labels.le.replace('+Inf', 'Infinity'))
      counts.set(upTo, (counts.get(upTo) ?? 0) + sign * series.value)
    }
  }
  count(before, -1)
  count(after, 1)
  const buckets = [...counts].toSorted(([left], [right]) => left - right)
  const total = buckets.at(-1)?.[1] ?? 0
  if (total <= 0) return Number.NaN
  const rank = share * total
  let [lower, below] = [0, 0]
  for (const [upTo, cumulative] of buckets) {
    if (cumulative >= rank) {
      // The last bucket has no end: all that is known is where it begins.
      if (upTo === Number.POSITIVE_INFINITY) return lower * MILLISECONDS
      return (lower + (upTo - lower) * ((rank - below) / (cumulative - below))) * MILLISECONDS
    }
    ;[lower, below] = [upTo, cumulative]
  }
  return lower * MILLISECONDS
}

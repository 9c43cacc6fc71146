// @ts-check
// What is said of many latencies.

/** Of each halving of what is left above a percentile, as HdrHistogram's own programs have. */
const TICKS_PER_HALF = 5

/** null: there are none. @typedef {{ p50: number | null, p99: number | null, p999: number | null, max: number | null }} Percentiles */

/** @param {readonly number[]} latenciesMs @returns {Percentiles} */
export function percentilesOf(latenciesMs) {
  const sorted = Float64Array.from(latenciesMs).sort()
  const at = (/** @type {number} */ share) =>
    sorted.length === 0 ? null : sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
  return { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1) }
}

/**
 * The distribution as HdrHistogram writes it (.hgrm), in ms, which its plotters read: the percentiles come closer to each other towards
 * the largest value. Made of every value, not of buckets.
 * @param {readonly number[]} latenciesMs
 */
export function histogramText(latenciesMs) {
  const sorted = Float64Array.from(latenciesMs).sort()
  const count = sorted.length
  const lines = ['       Value     Percentile TotalCount 1/(1-Percentile)', '']
  const line = (/** @type {number} */ share, /** @type {number} */ rank) => {
    const last = share < 1 ? (1 / (1 - share)).toFixed(2).padStart(14) : ''
    return `${sorted[rank - 1].toFixed(3).padStart(12)} ${share.toFixed(12).padStart(14)} ${String(rank).padStart(10)} ${last}`
  }
  for (let half = 1; half <= count; half *= 2) {
    const from = 1 - 1 / half
    for (let tick = 0; tick < TICKS_PER_HALF; tick++) {
      const share = from + tick / (TICKS_PER_HALF * 2 * half)
      lines.push(line(share, Math.min(count, Math.max(1, Math.ceil(share * count)))))
    }
  }
  if (count > 0) lines.push(line(1, count))
  const mean = sorted.reduce((sum, value) => sum + value, 0) / count
  const spread = Math.sqrt(sorted.reduce((sum, value) => sum + (value - mean) ** 2, 0) / count)
  const shown = (/** @type {number} */ value) => (count > 0 ? value.toFixed(3) : '0.000')
  lines.push(`#[Mean    = ${shown(mean)}, StdDeviation   = ${shown(spread)}]`)
  lines.push(`#[Max     = ${shown(sorted[count - 1])}, Total count    = ${count}]`)
  return `${lines.join('\n')}\n`
}

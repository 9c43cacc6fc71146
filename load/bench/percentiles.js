// @ts-check
// What is said of many latencies.

/** null: there are none. @typedef {{ p50: number | null, p99: number | null, p999: number | null, max: number | null }} Percentiles */

/** @param {readonly number[]} latenciesMs @returns {Percentiles} */
export function percentilesOf(latenciesMs) {
  const sorted = Float64Array.from(latenciesMs).sort()
  const at = (/** @type {number} */ share) =>
    sorted.length === 0 ? null : sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
  return { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1) }
}

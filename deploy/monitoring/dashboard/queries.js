// @ts-check
// How the dashboard asks Prometheus: every query is held to the job and the nodes that are chosen above it.

/**
 * The series of a metric on the chosen nodes.
 * @param {string} metric
 * @param {string[]} labels further matchers, as `status=~"5.."`
 */
export function of(metric, ...labels) {
  return `${metric}{${['job="$job"', 'instance=~"$instance"', ...labels].join(', ')}}`
}

/**
 * A counter's growth each second.
 * @param {string} metric
 * @param {string[]} labels
 */
export function rate(metric, ...labels) {
  return `rate(${of(metric, ...labels)}[$__rate_interval])`
}

/**
 * A counter's growth in a span such as `30d`.
 * @param {string} span
 * @param {string} metric
 * @param {string[]} labels
 */
export function increase(span, metric, ...labels) {
  return `increase(${of(metric, ...labels)}[${span}])`
}

/**
 * A quantile of a histogram, as its buckets let it be guessed.
 * @param {number} share
 * @param {string} metric
 * @param {string[]} by labels that are kept apart
 */
export function quantile(share, metric, ...by) {
  return `histogram_quantile(${share}, sum by (${['le', ...by].join(', ')}) (${rate(`${metric}_bucket`)}))`
}

/**
 * The mean of what a histogram observed.
 * @param {string} metric
 * @param {string[]} by labels that are kept apart
 */
export function mean(metric, ...by) {
  const sum = by.length === 0 ? 'sum' : `sum by (${by.join(', ')})`
  return `${sum} (${rate(`${metric}_sum`)}) / ${sum} (${rate(`${metric}_count`)})`
}

/**
 * A histogram's buckets over time, for a heat map.
 * @param {string} metric
 * @param {string[]} labels
 */
export function buckets(metric, ...labels) {
  return `sum by (le) (${increase('$__rate_interval', `${metric}_bucket`, ...labels)})`
}

/** What the service promises. An answer is good if it is not a 5xx, and quick if it came within the bound. */
export const OBJECTIVE = { good: 0.999, quick: 0.99, quickSeconds: '0.05' }

/**
 * The share of requests in a span that were answered 5xx, as the alerts count them: a client that left counts as asked.
 * @param {string} span
 */
export function badShare(span) {
  const bad = increase(span, 'sluice_requests_total', 'status=~"5.."')
  return `sum(${bad}) / sum(${increase(span, 'sluice_requests_total')})`
}

/**
 * The share of answers in a span that took longer than the objective allows.
 * @param {string} span
 */
export function slowShare(span) {
  const quick = increase(span, 'sluice_request_duration_seconds_bucket', `le="${OBJECTIVE.quickSeconds}"`)
  const all = increase(span, 'sluice_request_duration_seconds_count')
  // Prometheus extends each series to the ends of the span by itself: a share could come out a little below 0.
  return `clamp_min(1 - sum(${quick}) / sum(${all}), 0)`
}

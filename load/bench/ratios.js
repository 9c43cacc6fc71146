// @ts-check
// Pairs of runs into a table: what each side costs, and the ratio of the two with its spread over the rounds.

import { median, number, table } from './report.js'

/** @typedef {Pick<import('./wrk.js').Measured, 'cpuUsPerRequest' | 'perSecond'>} Side */
/** One round: both sides measured right after each other. @typedef {{ here: Side, there: Side }} Pair */

/**
 * @param {string} title @param {string} thereName @param {string} hereName
 * @param {readonly { name: string, pairs: readonly Pair[] }[]} results
 * @param {{ markdown: boolean }} options
 */
export function ratioTable(title, thereName, hereName, results, options) {
  const head = ['request', `CPU µs ${thereName}`, `CPU µs ${hereName}`, 'CPU ratio', 'spread', 'rate ratio', 'spread']
  const rows = results.map(({ name, pairs }) => [
    name,
    number(median(pairs.map(({ there }) => there.cpuUsPerRequest)), 1),
    number(median(pairs.map(({ here }) => here.cpuUsPerRequest)), 1),
    ...columnsOf(ratios(pairs, 'cpuUsPerRequest')),
    ...columnsOf(ratios(pairs, 'perSecond')),
  ])
  return table(title, head, rows, options)
}

/**
 * The ratio here / there of each round, since what disturbs the machine disturbs both halves of a round.
 * @param {readonly Pair[]} pairs @param {keyof Side} of
 */
export function ratios(pairs, of) {
  const list = pairs.map(({ here, there }) => here[of] / there[of])
  return { middle: median(list), least: Math.min(...list), most: Math.max(...list) }
}

/** The cells of a ratio and of its spread. @param {ReturnType<typeof ratios>} ratio */
export function columnsOf({ middle, least, most }) {
  return [number(middle, 2), `${number(least, 2)}–${number(most, 2)}`]
}

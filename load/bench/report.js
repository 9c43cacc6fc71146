// @ts-check
// Numbers into tables: aligned for a terminal, or Markdown for the README.

/** @param {readonly number[]} list */
export function median(list) {
  const sorted = [...list].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/** @param {number} value @param {number} [digits] */
export function number(value, digits = 0) {
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}

/** The median of what each round had. @template R @param {readonly R[]} rounds @param {(round: R) => number} read @param {number} [digits] */
export const middle = (rounds, read, digits) => number(median(rounds.map(read)), digits)

/** @param {number | null} value */
export const milliseconds = (value) => (value === null ? '–' : number(value, 1))

/** Its head, and its cell in the row of a result. @template R @typedef {readonly [head: string, cell: (result: R) => string]} Column */

/** @type {Column<{ name: string }>} */
export const REQUEST = ['request', ({ name }) => name]

/**
 * The middle ratio of the rounds, and the least and the largest: each within its round, since what disturbs the machine disturbs
 * both halves of a round.
 * @template R @param {string} head @param {(round: R) => number} ratio @returns {Column<{ turns: readonly R[] }>[]}
 */
export function ratioColumns(head, ratio) {
  return [
    [head, ({ turns }) => middle(turns, ratio, 2)],
    ['spread', ({ turns }) => [Math.min, Math.max].map((most) => number(most(...turns.map(ratio)), 2)).join('–')],
  ]
}

/** `machine`: a line below it. @template R @param {string} title @param {readonly R[]} results @param {{ markdown: boolean, machine?: string }} options @param {readonly Column<R>[]} columns */
export function table(title, results, { markdown, machine }, columns) {
  const head = columns.map(([name]) => name)
  const rows = results.map((result) => columns.map(([, cell]) => cell(result)))
  const widths = head.map((cell, column) => Math.max(cell.length, ...rows.map((row) => row[column].length)))
  // The first column names the row; the others are numbers, which stand to the right.
  const pad = (/** @type {string} */ cell, /** @type {number} */ column) =>
    column === 0 ? cell.padEnd(widths[column]) : cell.padStart(widths[column])
  const foot = machine === undefined ? '' : `\n${machine}\n`
  if (!markdown) {
    const lines = [head, ...rows].map((row) => row.map(pad).join('  ').trimEnd())
    return `${title}\n\n${lines.join('\n')}\n${foot}`
  }
  const rule = widths.map((width, column) => (column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`))
  const lines = [head.map(pad), rule, ...rows.map((row) => row.map(pad))].map((row) => `| ${row.join(' | ')} |`)
  return `**${title}**\n\n${lines.join('\n')}\n${foot}`
}

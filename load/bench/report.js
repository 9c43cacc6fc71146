// @ts-check
// Numbers into tables: aligned for a terminal, or Markdown for the README.

/** @param {number[]} list */
export function median(list) {
  const sorted = [...list].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/** Medians of each run's own ratio: what disturbs the machine disturbs both halves of a pair. @param {number[]} upper @param {number[]} lower */
export function medianRatio(upper, lower) {
  return median(upper.map((value, index) => value / lower[index]))
}

/** @param {number} value @param {number} [digits] */
export function number(value, digits = 0) {
  return value.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}

/** `machine`: a line below it. @param {string} title @param {string[]} head @param {string[][]} rows @param {{ markdown: boolean, machine?: string }} options */
export function table(title, head, rows, { markdown, machine }) {
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

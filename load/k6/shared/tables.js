// @ts-check
// Tables of a report, and how figures are written in them. Pure.

/** @typedef {{ title: string, columns: readonly string[], rows: readonly (readonly string[])[] }} Table */

/**
 * A row for each result. @template R @param {string} title @param {readonly R[]} results
 * @param {readonly (readonly [head: string, cell: (result: R) => string])[]} columns @returns {Table}
 */
export function tableOf(title, results, columns) {
  const rows = results.map((result) => columns.map(([, cell]) => cell(result)))
  return { title, columns: columns.map(([head]) => head), rows }
}

/** @param {{ outcomes: readonly { code: string, sent: number, node: number }[], nodeAgrees: boolean | null }} report @returns {Table} */
export function outcomesTable({ outcomes, nodeAgrees }) {
  const isAsked = outcomes.some(({ node }) => Number.isFinite(node))
  const says = nodeAgrees === null ? '' : nodeAgrees ? ' (the same)' : ' (NOT THE SAME)'
  return {
    title: `how requests ended${isAsked ? `; node: its own count${says}` : ''}`,
    columns: ['code', 'requests', ...(isAsked ? ['node'] : [])],
    rows: outcomes.map(({ code, sent, node }) => [code, count(sent), ...(isAsked ? [count(node || 0)] : [])]),
  }
}

/** The first column to the left, figures to the right. @param {Table} table */
export function textTable({ title, columns, rows }) {
  const widths = columns.map((column, index) => Math.max(column.length, ...rows.map((row) => row[index].length)))
  const line = (/** @type {readonly string[]} */ cells) =>
    `  ${cells.map((cell, index) => (index === 0 ? cell.padEnd(widths[index]) : cell.padStart(widths[index]))).join('  ')}`
  return [`  ${title}`, line(columns), ...rows.map(line)]
}

/** Digits in groups of three. @param {number} value */
export function count(value) {
  return Number.isFinite(value)
    ? Math.round(value)
        .toString()
        .replace(/\B(?=(\d{3})+$)/g, ',')
    : '–'
}

/** @param {number} value */
export function milliseconds(value) {
  return Number.isFinite(value) ? `${value.toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ms` : '–'
}

/** @param {number} bytes */
export function mebibytes(bytes) {
  return Number.isFinite(bytes) ? `${(bytes / 1_048_576).toFixed(1)} MiB` : '–'
}

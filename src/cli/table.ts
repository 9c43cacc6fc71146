// Text tables for terminals.

export { formatBytes, formatCount, formatSpan } from '../lib/format.ts'

const GAP = '  '

/** One line per row, columns as wide as their widest cell, and no trailing white space. */
export function formatTable(rows: readonly (readonly string[])[]): string {
  const widths: number[] = []
  for (const row of rows) {
    row.forEach((cell, column) => {
      widths[column] = Math.max(widths[column] ?? 0, widthOf(cell))
    })
  }
  return rows.map((row) => `${formatRow(row, widths)}\n`).join('')
}

function formatRow(row: readonly string[], widths: readonly number[]): string {
  return row
    .map((cell, column) => cell + ' '.repeat(widths[column] - widthOf(cell)))
    .join(GAP)
    .trimEnd()
}

function widthOf(cell: string): number {
  return Array.from(cell).length
}

/** JSON with the control characters escaped that it may hold as they are, U+007F to U+009F: a terminal obeys them. */
export function escapedJson(json: Buffer): Buffer {
  // One character for each byte.
  const escaped = json
    .toString('latin1')
    .replace(/\xc2[\x80-\x9f]|\x7f/g, (found) => `\\u00${found.charCodeAt(found.length - 1).toString(16)}`)
  return Buffer.from(escaped, 'latin1')
}

/** With a question mark for each character that steers a terminal, or turns the direction of the text. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Bidi_Control}]/gu, '?')
}

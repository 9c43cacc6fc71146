// Text tables for terminals.

import { formatCount } from '../lib/format.ts'
import { escapedJson, printable } from '../lib/printable.ts'
import { print, type Shell } from './shell.ts'

export { formatBytes, formatSpan } from '../lib/format.ts'
export { formatCount, printable }

const GAP = '  '

/** For example 1 event, 1,234 events. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`
}

/** One line per row, columns as wide as their widest cell, and no trailing white space. Each cell is printable. */
export function formatTable(given: readonly (readonly string[])[]): string {
  const rows = given.map((row) => row.map(printable))
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

/** JSON as it is for a pipe, byte for byte; for a terminal with the characters escaped that it would obey. */
export function jsonFor({ terminal }: Pick<Shell, 'terminal'>, json: string): string {
  return terminal ? escapedJson(json) : json
}

/** What a command answers: with --json for machines. */
export function answer(shell: Shell, asJson: boolean, value: object, text: () => string): Promise<void> {
  return print(shell.stdout, asJson ? jsonFor(shell, `${JSON.stringify(value, null, 2)}\n`) : text())
}

// @ts-check
// Says whether a run is like the one whose table docs/lab/0.3.0.md shows: by the share of the raw front end's CPU time,
// since machines differ.

import { readFileSync } from 'node:fs'
import { number } from './report.js'

const DOCS = new URL('../../docs/lab/0.3.0.md', import.meta.url)
/** Runs of a second differ by so much. */
const MARGIN = 4 / 3
/** Of the table of throughput: what the raw front end costs, and the service. */
const [RAW_AT, SERVICE_AT] = [5, 6]

/** @param {readonly string[]} cells */
const shareOf = (cells) => Number(cells[RAW_AT]?.replace(',', '')) / Number(cells[SERVICE_AT]?.replace(',', ''))

/** @param {readonly (readonly string[])[]} rows of the table of throughput */
export function verdict(rows) {
  const [, section = ''] = readFileSync(DOCS, 'utf8').split(/^## Throughput.*$/m)
  const lines = section.split('\n## ')[0].split('\n')
  const shares = new Map(
    lines.map((line) => line.split('|').map((cell) => cell.trim())).map(([, ...cells]) => [cells[0], shareOf(cells)]),
  )
  const compared = rows.map((row) => ({ name: row[0], here: shareOf(row), there: shares.get(row[0]) ?? Number.NaN }))
  const named = compared.filter(({ there }) => there > 0)
  const worse = named.filter(({ here, there }) => here * MARGIN < there)
  const list = worse.map(({ name, here, there }) => `${name}: ${number(here, 2)}, there ${number(there, 2)}`)
  const lower = list.map((line) => `  lower: ${line}\n`).join('')
  return `Raw CPU / CPU beside docs/lab/0.3.0.md: ${named.length - worse.length} of ${named.length} rows as good, or less than a quarter below.\n${lower}`
}

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

/** The share of each row of the table of throughput. @param {readonly { name: string, here: number }[]} shares */
export function verdict(shares) {
  const [, section = ''] = readFileSync(DOCS, 'utf8').split(/^## Throughput.*$/m)
  const lines = section.split('\n## ')[0].split('\n')
  const rows = lines.map((line) => line.split('|').map((cell) => cell.trim()))
  const there = new Map(rows.map(([, ...cells]) => [cells[0], shareOf(cells)]))
  const compared = shares.map((share) => ({ ...share, there: there.get(share.name) ?? Number.NaN }))
  const named = compared.filter((row) => row.there > 0)
  const worse = named.filter((row) => row.here * MARGIN < row.there)
  const lower = worse.map((row) => `  lower: ${row.name}: ${number(row.here, 2)}, there ${number(row.there, 2)}\n`)
  return `Raw CPU / CPU beside docs/lab/0.3.0.md: ${named.length - worse.length} of ${named.length} rows as good, or less than a quarter below.\n${lower.join('')}`
}

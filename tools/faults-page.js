// Prints the tables of docs/faults.md from the outages that the tests bring about: `npm run docs:faults`. A test holds the
// page to them.

import { readFileSync, writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { EFFECTS, OUTAGES } from '../test/cases/outages.js'

const PAGE = new URL('../docs/faults.md', import.meta.url)

const row = (...cells) => `${cells.map((cell) => (cell === '' ? '|' : `| ${cell} `)).join('')}|\n`
const rule = (columns) => `|${'---|'.repeat(columns)}\n`
function faultsTable() {
  const rows = OUTAGES.map(({ part, fault, answer, until, effect }, at) => {
    const isFirst = OUTAGES[at - 1]?.part !== part
    return row(isFirst ? part : '', fault, answer, until, effect)
  })
  return row('part', 'fault', 'answer meanwhile', 'until', 'effect') + rule(5) + rows.join('')
}

function effectsTable() {
  const rows = EFFECTS.map(({ name, may, never }) => row(name, may, never))
  return row('effect', 'what may happen', 'what never happens') + rule(3) + rows.join('')
}

/** The page with its two tables as they are now. */
export function faultsPage(page) {
  return page
    .replace(/^\| part \| fault .*\n(?:\|.*\n)*/m, () => faultsTable())
    .replace(/^\| effect \| what may .*\n(?:\|.*\n)*/m, () => effectsTable())
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  writeFileSync(PAGE, faultsPage(readFileSync(PAGE, 'utf8')))
}

// @ts-check
// The figures of the pages: what the last run measured, between the marks that a page has for it.

import { readFileSync } from 'node:fs'
import { curveText, secondsPerMillion } from '../bench/curve.js'
import { number } from '../bench/report.js'
import { machineLine } from '../shared/machine.js'
import { curvePicture } from './picture.js'

/** What the run measured. */
export const FIGURES = new URL('figures.json', import.meta.url)
const ROOT = new URL('../../', import.meta.url)
/** What varied events cost a node beside uniform ones, by the events of a request: docs/capacity.md says so. */
const VARIED = { 1: 1, 10: 1.2, 100: 1.9 }
/** Whose latency the README names. */
const HALF = 50
/** Where a request costs most. */
const LEAST = 10

/**
 * @typedef {{ version: string, date: string, machine: import('../shared/machine.js').Machine,
 *   curve: { load: import('../shared/machine.js').Load, numbers: import('../bench/curve.js').Curve },
 *   memory: { idleMb: number, loadedMb: number, connectionKb: number, perSecond: number },
 *   printed: Readonly<Record<string, string>>,
 *   crash: { date: string, rounds: number, seed: number, accepted: number, lost: number, twice: number } }} Figures
 */

/** @returns {Figures} */
export const readFigures = () => JSON.parse(readFileSync(FIGURES, 'utf8'))

/** Each file that has figures, as they are to be. @param {Figures} figures @returns {Map<string, string>} */
export function pagesWith(figures) {
  const read = (/** @type {string} */ path) => readFileSync(new URL(path, ROOT), 'utf8')
  return new Map([
    ['README.md', between(between(read('README.md'), 'speed', speedLine(figures)), 'figures', readmeTable(figures))],
    ['docs/performance.md', withTables(between(read('docs/performance.md'), 'curve', curveTables(figures)), figures)],
    ['docs/lab/figures.md', withTables(read('docs/lab/figures.md'), figures)],
    [
      'docs/capacity.md',
      between(read('docs/capacity.md'), 'capacity', capacityTable(figures, read('docs/capacity.md'))),
    ],
    ['docs/curve.svg', curvePicture(figures.curve.numbers)],
  ])
}

/** @param {string} page @param {string} name @param {string} text */
export function between(page, name, text) {
  const [start, end] = [`<!-- ${name}: npm run figures -->`, `<!-- /${name} -->`]
  const [from, to] = [page.indexOf(start), page.indexOf(end)]
  if (from === -1 || to < from) throw new Error(`the page has no ${start} … ${end}`)
  return `${page.slice(0, from)}${start}\n\n${text.trim()}\n\n${page.slice(to)}`
}

/** @param {Figures} figures */
function speedLine({ curve: { numbers } }) {
  const best = numbers.costs.find(({ events }) => events === numbers.events)
  const rate = number((best?.perSecond ?? Number.NaN) * numbers.events)
  return `**Speed**: ${rate} events a second on one core, each stored and deduplicated, in batches of ${numbers.events} ([how fast](#how-fast)).\n**[Promises](#what-it-promises)** · **[not promised](#not-promised)** · **[all pages](#where-to-go-from-here)**`
}

/** @param {Figures} figures */
function readmeTable({ curve, memory, crash, date, machine }) {
  const { costs, points, events } = curve.numbers
  const seconds = (/** @type {number} */ of) => {
    const cost = costs.find((each) => each.events === of)
    return cost === undefined ? '–' : number(secondsPerMillion(cost), 1)
  }
  const best = costs.find((cost) => cost.events === events)
  const half = points.find(({ share }) => share === HALF)
  const idle = points.find(({ share }) => share === LEAST)
  const atLeast =
    idle === undefined ? '' : `, ${number(secondsPerMillion({ ...idle, events }), 1)} at a tenth of that load`
  const bench = '`npm run bench -- --only curve`'
  const rows = [
    `| **${seconds(10)} CPU seconds per million events** | at full load in batches of 10${atLeast}; ${seconds(1)} one by one, ${seconds(100)} in batches of 100; each stored and deduplicated | ${bench} |`,
    `| **${number((best?.perSecond ?? Number.NaN) * events)} events a second** | what one core takes at most, in ${number(best?.perSecond ?? Number.NaN)} requests of ${events} events | the same run |`,
    ...(half === undefined
      ? []
      : [
          `| **p50 ${number(half.p50Ms, 1)} ms, p99 ${number(half.p99Ms, 1)} ms** | at half of that rate, from when each request was due until its 202, synced to disk | the same run |`,
        ]),
    `| **${number(memory.loadedMb)} MB** | resident at ${number(memory.perSecond)} requests a second of 1 varied event without a key; ${number(memory.idleMb)} idle, and ${number(memory.connectionKb, 1)} KB for an idle connection | \`npm run bench -- --only memory\` |`,
    `| **${number(crash.lost)} lost, ${number(crash.twice)} twice** | of ${number(crash.accepted)} batches answered 202, through ${number(crash.rounds)} kills (SIGKILL) under load | \`npm run crash -- --rounds ${crash.rounds} --seed ${crash.seed}\`, ${crash.date} |`,
  ]
  const foot = `${date}, load generator on a core of its own. ${machineLine(machine, curve.load)}.`
  return `| measured | | by |\n|---|---|---|\n${rows.join('\n')}\n\n${foot}`
}

/** @param {Figures} figures */
function curveTables({ curve, date, machine }) {
  const foot = `${date}. ${machineLine(machine, curve.load)}.`
  const text = curveText(curve.numbers, { markdown: true })
  return `${text}\n![Latency at shares of the best rate of one core](curve.svg)\n\n${foot}`
}

/** What the tables of capacity.md reckon, beside what the last run measured. @param {Figures} figures @param {string} page */
function capacityTable({ curve, date }, page) {
  const rows = curve.numbers.costs.map(({ events, cpuUsPerRequest }) => {
    const [, uniformUs] = new RegExp(`^\\| ${events} events?, keyed \\| embedded \\| ([\\d.]+) `, 'm').exec(page) ?? []
    const reckonedUs = Number(uniformUs) * VARIED[events]
    const cells = [events, number(reckonedUs, 1), number(cpuUsPerRequest, 1), number(cpuUsPerRequest / reckonedUs, 1)]
    return `| ${cells.join(' | ')} |`
  })
  const head = `| events a request | node µs by this page | measured ${date} | times |\n|---:|---:|---:|---:|`
  return `${head}\n${rows.join('\n')}`
}

/** The tables that the page has marks for. @param {string} page @param {Figures} figures */
function withTables(page, { date, printed }) {
  return Object.entries(printed)
    .filter(([name]) => page.includes(`<!-- ${name}: `))
    .reduce((text, [name, table]) => between(text, name, `${table.trim()}; ${date}.`), page)
}

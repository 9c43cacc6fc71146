// @ts-check
// Closes a run: has the script's own check of the queue made, puts what that found into k6's verdict, and writes the report.
// Nothing is called a verdict before that.

import { existsSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { K6_FILE, textOf } from '../k6/shared/summary.js'
import { conclude } from '../k6/shared/verdict.js'
import { HTML_FILE } from './k6.js'
import { queueOf } from './queue-records.js'
import { SCRIPTS } from './scripts.js'

const JSON_FILE = 'report.json'
/** How a line begins that says what is wrong. */
const WRONG = 'WRONG: '

/** With k6's own figures beside them, which only the JSON keeps. @typedef {import('../k6/shared/summary.js').Report & { k6: unknown, found: any }} Report */
/**
 * What a check is given.
 * @typedef {object} Run
 * @property {string | undefined} dataDir of a local node
 * @property {Readonly<Record<string, string>> | null} queue what names it to `sluice tail`; null: nobody said where it is
 * @property {Report} report
 */
/**
 * @typedef {object} Found
 * @property {readonly string[]} lines what was seen
 * @property {readonly string[]} faults what is wrong
 * @property {readonly string[]} [voids] what was to be looked at, and could not be
 */

/** What an earlier run left in the same folder is not of this one. @param {string} out */
export async function clearReport(out) {
  for (const name of [K6_FILE, JSON_FILE, HTML_FILE]) await rm(join(out, name), { force: true })
}

/**
 * Resolves with whether the verdict is good. `on`: the machine, its load before the run, and k6's version.
 * @param {{ name: string, out: string, interruption: string, dataDir: string | undefined, on?: object }} run @returns {Promise<boolean>}
 */
export async function closeRun({ name, out, dataDir, interruption, on }) {
  const file = join(out, K6_FILE)
  if (!existsSync(file)) {
    console.log(`  k6 wrote no figures${interruption === '' ? '' : `: ${interruption}`}`)
    return false
  }
  const seen = /** @type {Report} */ (JSON.parse(await readFile(file, 'utf8')))
  const { lines, faults, voids = [] } = await verify(name, seen, dataDir)
  const report = { ...seen, machine: on, ...conclude(seen, { interruption, faults, voids }) }
  if (lines.length + faults.length + voids.length > 0) {
    const all = [...lines, ...voids, ...faults.map((fault) => WRONG + fault)]
    report.verified = { ok: faults.length + voids.length === 0, lines: all }
  }
  await writeFile(join(out, JSON_FILE), `${JSON.stringify(report, null, 2)}\n`)
  await rm(file)
  await writeVerdict(join(out, HTML_FILE), textOf(report))
  console.log(textOf(report, out))
  return report.verdict === 'HELD'
}

/** Puts the verdict before k6's figures: this page is what is passed on. @param {string} page @param {string} text */
async function writeVerdict(page, text) {
  // k6 writes none for a run that it was told to end at once.
  if (!existsSync(page)) return
  const verdict = `<pre>${text.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</pre>`
  const html = (await readFile(page, 'utf8')).replace(/<body[^>]*>/, (body) => body + verdict)
  await writeFile(page, html)
}

/** @param {string} name @param {Report} report @param {string | undefined} dataDir @returns {Promise<Found>} */
async function verify(name, report, dataDir) {
  try {
    return (await SCRIPTS[name].verify?.({ report, dataDir, queue: queueOf(dataDir, process.env) })) ?? NOTHING
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return { ...NOTHING, voids: [`the check of the run broke off: ${reason}`] }
  }
}

const NOTHING = /** @type {Found} */ ({ lines: [], faults: [] })

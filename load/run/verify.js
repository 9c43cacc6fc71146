// @ts-check
// Closes a run: has what a script wants checked beside k6 (load/run/verify-NAME.js), folds that into k6's verdict, and writes
// the report. Nothing is called a verdict before that.

import { existsSync } from 'node:fs'
import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { page, WRONG } from '../k6/shared/html.js'
import { K6_FILE, textOf } from '../k6/shared/summary.js'
import { conclude } from '../k6/shared/verdict.js'
import { queueOf } from './queue-records.js'

const FILES = { json: 'report.json', html: 'report.html' }

/** With k6's own figures beside them, which only the JSON keeps. @typedef {import('../k6/shared/summary.js').Report & { k6: unknown, found: any }} Report */
/** What `verify` of load/run/verify-NAME.js gets and gives: async verify(run: Run): Promise<Found>. */
/**
 * @typedef {object} Run
 * @property {string | undefined} dataDir of a local node
 * @property {Readonly<Record<string, string>> | null} queue what names it to `sluice tail`; null: nobody said where it is
 * @property {Report} report
 * @property {string} out folder of the report
 * @property {any} found what went on beside k6 (load/run/beside.js); null where that broke off
 */
/**
 * @typedef {object} Found
 * @property {readonly string[]} lines what was seen
 * @property {readonly string[]} faults what is wrong
 * @property {readonly string[]} [voids] what was to be looked at, and could not be
 */

/** What an earlier run left in the same folder is not of this one. @param {string} out */
export async function clearReport(out) {
  for (const name of [K6_FILE, ...Object.values(FILES)]) await rm(join(out, name), { force: true })
}

/**
 * Resolves with whether the verdict is good.
 * @param {{ name: string, interruption: string, trouble: string } & Omit<Run, 'queue' | 'report'>} run @returns {Promise<boolean>}
 */
export async function closeRun({ name, out, dataDir, found, interruption, trouble }) {
  const file = join(out, K6_FILE)
  if (!existsSync(file)) {
    console.log(`  k6 wrote no figures${interruption === '' ? '' : `: ${interruption}`}`)
    return false
  }
  const seen = /** @type {Report} */ (JSON.parse(await readFile(file, 'utf8')))
  const beside = trouble === '' ? await verify({ name, report: seen, out, dataDir, found }) : noCheck(trouble)
  const { lines, faults, voids = [] } = beside
  const report = { ...seen, ...conclude(seen, { interruption, faults, voids }) }
  if (lines.length + faults.length + voids.length > 0) {
    const all = [...lines, ...voids, ...faults.map((fault) => WRONG + fault)]
    report.verified = { ok: faults.length + voids.length === 0, lines: all }
  }
  await writeFile(join(out, FILES.json), `${JSON.stringify(report, null, 2)}\n`)
  await writeFile(join(out, FILES.html), page(report))
  await rm(file)
  console.log(textOf(report, out))
  return report.verdict === 'HELD'
}

/** @param {string} why @returns {Found} */
function noCheck(why) {
  return { lines: [], faults: [], voids: [why] }
}

/** @param {{ name: string } & Omit<Run, 'queue'>} run @returns {Promise<Found>} */
async function verify({ name, ...run }) {
  const file = new URL(`verify-${name}.js`, import.meta.url)
  if (!existsSync(file)) return { lines: [], faults: [] }
  const { verify: verifyRun } = await import(file.href)
  try {
    return await verifyRun({ ...run, queue: queueOf(run.dataDir, process.env) })
  } catch (error) {
    return noCheck(`the check of the run broke off: ${error instanceof Error ? error.message : String(error)}`)
  }
}

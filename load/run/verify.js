// @ts-check
// After k6: reads the report, and runs what a script wants checked against the queue itself (load/run/verify-NAME.js).

import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { queueOf } from './queue-records.js'

/** @typedef {Record<string, any> & { verdict: string }} Report */
/** What `verify` of load/run/verify-NAME.js gets and gives: async verify(run: Run): Promise<Verified>. */
/**
 * @typedef {object} Run
 * @property {string | undefined} dataDir of a local node
 * @property {Readonly<Record<string, string>> | null} queue what names it to `sluice tail`; null: nobody said where it is
 * @property {Report} report
 * @property {string} out folder of the report
 * @property {unknown} found what went on beside k6 (load/run/beside.js)
 */
/** @typedef {{ ok: boolean, lines: readonly string[] }} Verified */

/** @param {string} out @returns {Promise<Report | null>} null: k6 ended before it wrote one */
export async function readReport(out) {
  const file = join(out, 'report.json')
  return existsSync(file) ? JSON.parse(await readFile(file, 'utf8')) : null
}

/**
 * Whether the verdict is good, and the queue holds what the script says it must.
 * @param {{ name: string } & Omit<Run, 'queue'>} options
 */
export async function verify({ name, report, out, dataDir, found }) {
  const file = new URL(`verify-${name}.js`, import.meta.url)
  if (existsSync(file)) {
    const { verify: verifyRun } = await import(file.href)
    const queue = queueOf(dataDir, process.env)
    const verified = /** @type {Verified} */ (await verifyRun({ dataDir, queue, report, out, found }))
    for (const line of verified.lines) console.log(`  ${line}`)
    await writeFile(join(out, 'report.json'), `${JSON.stringify({ ...report, verified }, null, 2)}\n`)
    if (!verified.ok) return false
  }
  return report.verdict === 'HELD'
}

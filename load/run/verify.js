// @ts-check
// After k6: reads the report, and runs what a script wants checked against the queue itself (load/run/verify-NAME.js).

import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

/** @typedef {Record<string, any> & { verdict: string }} Report */
/** What `verify` of load/run/verify-NAME.js gets and gives: async verify(run: Run): Promise<Verified>. */
/** @typedef {{ dataDir: string | undefined, env: Readonly<Record<string, string>>, report: Report }} Run `env`: names the queue for `sluice tail` */
/** @typedef {{ ok: boolean, lines: readonly string[] }} Verified */

/** @param {string} out @returns {Promise<Report | null>} null: k6 ended before it wrote one */
export async function readReport(out) {
  const file = join(out, 'report.json')
  return existsSync(file) ? JSON.parse(await readFile(file, 'utf8')) : null
}

/**
 * Whether the verdict is good, and the queue holds what the script says it must.
 * @param {{ name: string, report: Report, out: string, dataDir: string | undefined }} options
 */
export async function verify({ name, report, out, dataDir }) {
  const file = new URL(`verify-${name}.js`, import.meta.url)
  if (existsSync(file)) {
    const { verify: verifyRun } = await import(file.href)
    const env = dataDir === undefined ? {} : { SLUICE_DATA_DIR: dataDir }
    const verified = /** @type {Verified} */ (await verifyRun({ dataDir, env, report }))
    for (const line of verified.lines) console.log(`  ${line}`)
    await writeFile(join(out, 'report.json'), `${JSON.stringify({ ...report, verified }, null, 2)}\n`)
    if (!verified.ok) return false
  }
  return report.verdict === 'HELD'
}

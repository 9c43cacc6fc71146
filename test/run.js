// Runs vitest with the arguments given. Where one to six files of a larger run fail, they run once more, alone. A test that
// failed beside others on a busy machine, and holds when it has the machine, is named as one to mend, and does not fail the run.

import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { secondRun } from './support/second-run.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-tests-'))
const report = join(folder, 'report.json')

/** @param {string[]} args @returns {number} */
function run(args) {
  rmSync(report, { force: true })
  // Not SLUICE_…: the service, which tests start with what they have, refuses what is no setting of its own.
  const env = { ...process.env, TEST_REPORT_FILE: report }
  return spawnSync('npx', ['vitest', 'run', ...args], { stdio: 'inherit', env }).status ?? 1
}

const args = process.argv.slice(2)
let status = run(args)
if (status !== 0) {
  const end = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')) : undefined
  const again = secondRun(args, end)
  if (again !== undefined) {
    console.log(`\nonce more, alone: ${end.failed.join(' ')}`)
    status = run(again)
    if (status === 0) for (const file of end.failed) console.log(`flaky: ${file} failed beside others, and holds alone`)
  }
}
rmSync(folder, { recursive: true })
process.exitCode = status

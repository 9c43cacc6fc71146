// A copy of the sources in which bugs are planted, and the tests that run there.

import { execFileSync, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** @typedef {import('./main.js').Mutant} Mutant */
/** @typedef {{ readonly verdict: 'passed' | 'failed' | 'broken', readonly output: string }} Run */

const root = fileURLToPath(new URL('../..', import.meta.url))
/** A test that does not end is seen as a failure. */
const MAX_RUN_MS = 600_000
/** What a run prints when a test failed, which is more than that it did not run. */
const TEST_FAILED = /Tests .*\d+ failed/
const HISTORY_FAILED = /^FAILED: /m
const TIMED_OUT = 'it did not end'

/** Why the bug cannot be planted, since the code has changed; null: it can. @param {Mutant} mutant */
export function problemOf({ name, file, find, replace }) {
  const path = join(root, 'src', file)
  if (!existsSync(path)) return `${name}: there is no src/${file}`
  const found = readFileSync(path, 'utf8').split(find).length - 1
  if (found !== 1) return `${name}: its text is ${found} times in src/${file}: ${find}`
  return find === replace ? `${name} changes nothing` : null
}

export class Workspace {
  #folder
  /** Tests that were seen to pass without a bug. */
  #sound = new Set()

  /** @param {string} folder */
  constructor(folder) {
    this.#folder = folder
  }

  static async open() {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-mutate-'))
    const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], { cwd: root })
    for (const file of listed.toString().split('\0')) {
      if (file === '' || file.startsWith('tools/') || !existsSync(join(root, file))) continue
      mkdirSync(dirname(join(folder, file)), { recursive: true })
      // With their times: packages older than the file that names them would be installed anew.
      cpSync(join(root, file), join(folder, file), { preserveTimestamps: true })
    }
    // No bug is planted in what is built or installed there.
    for (const name of ['node_modules', 'test/node_modules', 'dist', 'tools'])
      symlinkSync(join(root, name), join(folder, name))
    return new Workspace(folder)
  }

  remove() {
    rmSync(this.#folder, { recursive: true, force: true })
  }

  /** The first test that fails with the bug; null: none does. @param {Mutant} mutant */
  async seenBy({ name, file, find, replace, tests }) {
    const path = join(this.#folder, 'src', file)
    const text = readFileSync(path, 'utf8')
    for (const test of tests) {
      writeFileSync(
        path,
        text.replace(find, () => replace),
      )
      const { verdict, output } = await this.run(test)
      writeFileSync(path, text)
      // Not even a program any more, which shows nothing.
      if (verdict === 'broken') process.stdout.write(`${name}: ${test} cannot run with this bug:\n${output}\n`)
      if (verdict !== 'failed') continue
      await this.#proveSound(test)
      return test
    }
    return null
  }

  /** Throws where the test fails without a bug too, since then its failure shows nothing. @param {string} test */
  async #proveSound(test) {
    if (this.#sound.has(test)) return
    const { verdict, output } = await this.run(test)
    if (verdict !== 'passed') throw new Error(`${test} does not pass without a bug:\n${output}`)
    this.#sound.add(test)
  }

  /** @param {string} test @returns {Promise<Run>} */
  async run(test) {
    const [first, ...rest] = test.split(' ')
    const isHistory = first === 'simulate'
    const args = isHistory
      ? ['test/simulator/run.js', '--scenario', rest[0], '--runs', rest[1] ?? '1']
      : ['node_modules/vitest/vitest.mjs', 'run', '--maxWorkers=1', '--bail=1', test]
    const { status, output } = await this.#start(args)
    if (status === 0) return { verdict: 'passed', output }
    const isFailure = output.endsWith(TIMED_OUT) || (isHistory ? HISTORY_FAILED : TEST_FAILED).test(output)
    return { verdict: isFailure ? 'failed' : 'broken', output }
  }

  /** @param {readonly string[]} args @returns {Promise<{ status: number | null, output: string }>} */
  #start(args) {
    return new Promise((resolve) => {
      const env = { ...process.env, NO_COLOR: '1', FORCE_COLOR: '0' }
      const child = spawn(process.execPath, args, { cwd: this.#folder, env, stdio: ['ignore', 'pipe', 'pipe'] })
      let output = ''
      const add = (/** @type {Buffer} */ chunk) => (output = (output + chunk.toString()).slice(-100_000))
      child.stdout.on('data', add)
      child.stderr.on('data', add)
      const timeout = setTimeout(() => {
        output += TIMED_OUT
        child.kill('SIGKILL')
      }, MAX_RUN_MS)
      child.once('close', (status) => {
        clearTimeout(timeout)
        resolve({ status, output })
      })
    })
  }
}

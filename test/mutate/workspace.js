// A copy of the sources in which bugs are planted, and the tests that run there.

import { execFileSync, spawn } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** @typedef {import('./main.js').Mutant} Mutant */
/** `seed`: of the history that failed; null: none did, or it has none. @typedef {{ readonly verdict: 'passed' | 'failed' | 'broken', readonly seed: string | null, readonly output: string }} Run */

const root = fileURLToPath(new URL('../..', import.meta.url))
/** A test file that does not end is seen as a failure. Of histories one has to fail: so many may take longer. */
const MAX_RUN_MS = 600_000
/** What a run prints when a test failed, which is more than that it did not run. */
const TEST_FAILED = /Tests .*\d+ failed/
const HISTORY_FAILED = /^FAILED: .+?(?:, seed (\d+))?: .+\n/m
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
      const { verdict, seed, output } = await this.run(test)
      writeFileSync(path, text)
      // Not even a program any more, which shows nothing.
      if (verdict === 'broken') process.stdout.write(`${name}: ${test} cannot run with this bug:\n${output}\n`)
      if (verdict !== 'failed') continue
      await this.#proveSound(test, seed)
      return test
    }
    return null
  }

  /** Throws where the test fails without a bug too, since then its failure shows nothing. @param {string} test @param {string | null} seed */
  async #proveSound(test, seed) {
    const what = seed === null ? test : `${test}, seed ${seed}`
    if (this.#sound.has(what)) return
    const { verdict, output } = await this.run(test, seed)
    if (verdict !== 'passed') throw new Error(`${what} does not pass without a bug:\n${output}`)
    this.#sound.add(what)
  }

  /** Histories until one fails. @param {string} test @param {string | null} [onlySeed] this history of them alone @returns {Promise<Run>} */
  async run(test, onlySeed = null) {
    const [first, scenario, runs = '1'] = test.split(' ')
    if (first !== 'simulate') {
      const { status, output } = await this.#start([
        'node_modules/vitest/vitest.mjs',
        'run',
        '--maxWorkers=1',
        '--bail=1',
        test,
      ])
      const isFailure = output.endsWith(TIMED_OUT) || TEST_FAILED.test(output)
      return { verdict: status === 0 ? 'passed' : isFailure ? 'failed' : 'broken', seed: null, output }
    }
    const which = onlySeed === null ? ['--runs', runs] : ['--runs', '1', '--seed', onlySeed]
    const args = ['test/simulator/run.js', '--scenario', scenario, ...which]
    const { status, output } = await this.#start(args, HISTORY_FAILED)
    const [failure, seed = null] = HISTORY_FAILED.exec(output) ?? []
    return { verdict: status === 0 ? 'passed' : failure === undefined ? 'broken' : 'failed', seed, output }
  }

  /** @param {readonly string[]} args @param {RegExp} [enough] nothing more is to be seen @returns {Promise<{ status: number | null, output: string }>} */
  #start(args, enough) {
    return new Promise((resolve) => {
      const env = { ...process.env, NO_COLOR: '1', FORCE_COLOR: '0' }
      const child = spawn(process.execPath, args, { cwd: this.#folder, env, stdio: ['ignore', 'pipe', 'pipe'] })
      let output = ''
      const add = (/** @type {Buffer} */ chunk) => {
        output = (output + chunk.toString()).slice(-100_000)
        if (enough?.test(output)) child.kill('SIGKILL')
      }
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

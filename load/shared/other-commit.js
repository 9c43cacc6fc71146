// @ts-check
// Another commit of this project, checked out in a temporary folder and built, to run beside what is built here.

import { execFileSync } from 'node:child_process'
import { readFileSync, symlinkSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ROOT } from './node-flags.js'

/** `tree`: its top folder. @typedef {{ commit: string, tree: string, remove: () => Promise<void> }} Built */

/**
 * @param {string} commit anything that git knows
 * @param {(line: string) => void} progress
 * @returns {Promise<Built>}
 */
export async function buildCommit(commit, progress) {
  const git = (/** @type {string[]} */ ...words) => execFileSync('git', words, { cwd: ROOT, encoding: 'utf8' }).trim()
  const hash = git('rev-parse', '--verify', '--short', `${commit}^{commit}`)
  progress(`building ${hash}`)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-commit-'))
  const tree = join(folder, 'tree')
  git('worktree', 'add', '--detach', tree, hash)
  const remove = async () => {
    // Whatever is left of it: what was measured is not lost because somebody else removed it first.
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
    git('worktree', 'prune')
  }
  try {
    const lock = (/** @type {string} */ checkout) => readFileSync(join(checkout, 'package-lock.json'), 'utf8')
    if (lock(tree) === lock(ROOT)) symlinkSync(join(ROOT, 'node_modules'), join(tree, 'node_modules'))
    else execFileSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: tree, stdio: ['ignore', 'ignore', 'inherit'] })
    execFileSync('npm', ['run', '--silent', 'build'], { cwd: tree, stdio: ['ignore', 'ignore', 'inherit'] })
    return { commit: hash, tree, remove }
  } catch (error) {
    await remove()
    throw error
  }
}

// @ts-check
// Another commit of this project, checked out in a temporary folder and built, to run beside what is built here.

import { execFileSync } from 'node:child_process'
import { readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { atEnd } from '../../test/support/processes.js'
import { ROOT } from './node-flags.js'
import { temporaryFolder } from './program.js'

/** It is there until the end. @param {string} commit anything that git knows @param {(line: string) => void} progress */
export async function buildCommit(commit, progress) {
  const git = (/** @type {string[]} */ ...words) => execFileSync('git', words, { cwd: ROOT, encoding: 'utf8' }).trim()
  const hash = git('rev-parse', '--verify', '--short', `${commit}^{commit}`)
  progress(`building ${hash}`)
  // Whatever is left of it by then: what was measured is not lost because somebody else removed it first.
  atEnd(() => git('worktree', 'prune'))
  const tree = join(temporaryFolder('commit'), 'tree')
  git('worktree', 'add', '--detach', tree, hash)
  const lock = (/** @type {string} */ checkout) => readFileSync(join(checkout, 'package-lock.json'), 'utf8')
  if (lock(tree) === lock(ROOT)) symlinkSync(join(ROOT, 'node_modules'), join(tree, 'node_modules'))
  else execFileSync('npm', ['ci', '--no-audit', '--no-fund'], { cwd: tree, stdio: ['ignore', 'ignore', 'inherit'] })
  execFileSync('npm', ['run', '--silent', 'build'], { cwd: tree, stdio: ['ignore', 'ignore', 'inherit'] })
  return { commit: hash, tree }
}

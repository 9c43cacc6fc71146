// Installs the packages of a folder of its own (tools, test, examples) where they are missing or older than its lock.

import { spawnSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { basename, join } from 'node:path'

/**
 * Ends the process where npm fails.
 * @param {string} folder that has a package.json
 * @param {string} what is installed, in words
 */
export function installPackages(folder, what) {
  const changedMs = (/** @type {string} */ name) =>
    statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs ?? 0
  const wantedMs = Math.max(changedMs('package.json'), changedMs('package-lock.json'))
  if (changedMs('node_modules/.package-lock.json') >= wantedMs) return
  const name = basename(folder)
  console.error(`${name}: installing ${what} into ${name}/node_modules…`)
  // Not npm ci: a registry may lack a package for another system, and the lock then lacks it too.
  const command = ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error']
  const shell = process.platform === 'win32'
  const { status } = spawnSync('npm', command, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'], shell })
  if (status === 0) return
  console.error(`${name}: npm install failed in ${name}/ (see above)`)
  process.exit(status ?? 1)
}

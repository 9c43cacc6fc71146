// Starts an example: node examples/start.js warehouse [its options]. Before that, installs what the examples need where
// it is missing or older than their lock; without an example's name, that is all.

import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { installPackages } from '../tools/install.js'

const folder = import.meta.dirname
const [name] = process.argv.splice(2, 1)

installPackages(folder, 'DuckDB and the NATS client (about 75 MB)')
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

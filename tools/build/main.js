// Builds dist/ from src/ (esbuild, and a copy of each Lua script) and the WebAssembly that lies in wasm/, and removes
// outputs that have no source any more. The types are checked by `npm run check:code`.

import { chmodSync, copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { refuseOldNode } from '../../bin/node-version.js'
import { ASSEMBLED, hashOfSources, KEPT_HASH } from './assembled.js'
import { buildConsole, bundleTypebox, CONSOLE_ASSETS, CONSOLE_SOURCE, consoleOutputs, TYPEBOX } from './console.js'
import { transpile } from './transpile.js'

refuseOldNode()
process.once('uncaughtException', endWith)
const root = fileURLToPath(new URL('../..', import.meta.url))
const dist = join(root, 'dist')
const ASSEMBLY = `${sep}assembly${sep}`

const files = list(join(root, 'src'))
const pages = files.filter((name) => name.startsWith(CONSOLE_SOURCE)).map(inSource)
const sources = files.filter((name) => name.endsWith('.ts') && !name.startsWith(CONSOLE_SOURCE))
const scripts = files.filter((name) => name.endsWith('.lua'))
const assembled = ASSEMBLED.filter(({ source }) => sources.includes(source))
const modules = sources.filter((name) => !name.includes(ASSEMBLY) && !name.endsWith('.d.ts'))
const settings = ['tsconfig.json', 'package-lock.json'].map((name) => join(root, name))
const consoleFiles = consoleOutputs(dist)
const outputs = [...modules.flatMap(outputsOf), ...scripts, ...consoleFiles, ...assembled.map(({ output }) => output)]
const wanted = new Set(outputs.flatMap(withFolders))
const stale = list(dist).filter((name) => !wanted.has(name) && !name.startsWith(CONSOLE_ASSETS))
// A moved file keeps its modification time, so a stale output forces a rebuild.
const moved = stale.length > 0
const builders = ['main.js', 'console.js', 'transpile.js'].map((name) => join(root, 'tools', 'build', name))
const compile = moved || modules.some((name) => isOld(outputsOf(name), [inSource(name), ...builders, ...settings]))
const copies = [
  ...scripts.map((name) => ({ from: inSource(name), to: name })),
  ...assembled.map(({ kept, output }) => ({ from: kept, to: output })),
].filter(({ from, to }) => moved || isOld([to], [from]))
const bundle = isOld(consoleFiles, [...pages, ...builders, ...settings])

if ((compile || bundle) && !existsSync(join(root, 'node_modules', 'esbuild'))) goWithoutEsbuild()
if (compile || bundle || copies.length > 0) console.error('building…')
if (compile) {
  await transpile(join(root, 'src'), modules, dist)
  chmodSync(join(dist, 'main.js'), 0o755)
  if (sources.includes(TYPEBOX)) await bundleTypebox(dist)
}
if (!existsSync(KEPT_HASH) || readFileSync(KEPT_HASH, 'utf8') !== hashOfSources(join(root, 'src')))
  console.error(
    'sluice: the WebAssembly in tools/build/wasm is not of the sources in src/*/assembly: npm run build:scanner',
  )
for (const { from, to } of copies) {
  mkdirSync(dirname(join(dist, to)), { recursive: true })
  copyFileSync(from, join(dist, to))
}
if (bundle) await buildConsole(dist)
// Done last, so that a failed build is repeated.
for (const name of stale) rmSync(join(dist, name), { recursive: true, force: true })

/** What a disk refuses, or holds in the place of dist/, is said in a line. @param {Error & { code?: string }} error */
function endWith(error) {
  const isOfDisk = /^E[A-Z]+$/.test(error.code ?? '')
  console.error(isOfDisk ? `sluice: dist/ cannot be built: ${error.message}` : error)
  process.exit(1)
}

/** The files and folders below a folder, as paths from there. @param {string} folder */
function list(folder) {
  return existsSync(folder) ? readdirSync(folder, { recursive: true }).map(String) : []
}

/** @param {string} name */
function inSource(name) {
  return join(root, 'src', name)
}

/** @param {string} name */
function outputsOf(name) {
  const output = name.replace(/\.ts$/, '.js')
  return [output, `${output}.map`]
}

/** @param {string} name @returns {string[]} */
function withFolders(name) {
  return name === '.' ? [] : [name, ...withFolders(dirname(name))]
}

/**
 * Whether one of these outputs is missing, or older than something that they are made of.
 * @param {string[]} names
 * @param {string[]} from
 */
function isOld(names, from) {
  return Math.min(...names.map((name) => changedMs(join(dist, name)))) < Math.max(...from.map(changedMs))
}

/** @param {string} path */
function changedMs(path) {
  return statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? 0
}

/** @returns {never} */
function goWithoutEsbuild() {
  const isBuilt = existsSync(join(dist, 'main.js'))
  const cure = 'npm install --include=dev'
  if (isBuilt) console.error(`sluice: using the build in dist/ as it is: making it anew needs esbuild (${cure})`)
  else console.error(`sluice: building needs esbuild, a development package: ${cure}`)
  process.exit(isBuilt ? 0 : 1)
}

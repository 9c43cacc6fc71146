// Builds dist/ from src/ (tsc for TypeScript, asc for the scanner, esbuild for the console's pages and typebox, a copy of
// each Lua script), and removes outputs that have no source any more.

import { spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, existsSync, mkdirSync, readdirSync, rmSync, statSync } from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  buildConsole,
  bundleTypebox,
  CONSOLE_ASSETS,
  CONSOLE_SOURCE,
  consoleOutputs,
  TYPEBOX,
} from './build-console.js'
import { refuseOldNode } from './node-version.js'

refuseOldNode()
const root = fileURLToPath(new URL('..', import.meta.url))
const dist = join(root, 'dist')
const ASSEMBLY = `${sep}assembly${sep}`
/** What asc compiles, and where to. */
const ASSEMBLED = [
  [join('decode', 'assembly', 'scanner.ts'), join('decode', 'scanner.wasm')],
  [join('lib', 'assembly', 'crc32c.ts'), join('lib', 'crc32c.wasm')],
]

const files = list(join(root, 'src'))
const pages = files.filter((name) => name.startsWith(CONSOLE_SOURCE)).map(inSource)
const sources = files.filter((name) => name.endsWith('.ts') && !name.startsWith(CONSOLE_SOURCE))
const scripts = files.filter((name) => name.endsWith('.lua'))
const assembly = sources.filter((name) => name.includes(ASSEMBLY)).map(inSource)
const assembled = ASSEMBLED.filter(([source]) => sources.includes(source))
const modules = sources.filter((name) => !name.includes(ASSEMBLY) && !name.endsWith('.d.ts'))
const settings = ['tsconfig.json', 'tsconfig.build.json', 'package-lock.json'].map((name) => join(root, name))
const consoleFiles = consoleOutputs(dist)
const outputs = [...modules.flatMap(outputsOf), ...scripts, ...consoleFiles, ...assembled.map(([, output]) => output)]
const wanted = new Set(outputs.flatMap(withFolders))
const stale = list(dist).filter((name) => !wanted.has(name) && !name.startsWith(CONSOLE_ASSETS))
// A moved file keeps its modification time, so a stale output forces a rebuild.
const moved = stale.length > 0
const builders = ['build.js', 'build-console.js'].map((name) => join(root, 'bin', name))
const compile = moved || modules.some((name) => isOld(outputsOf(name), [inSource(name), ...builders, ...settings]))
const copies = scripts.filter((name) => moved || isOld([name], [inSource(name)]))
const assemble = assembled.filter(([, output]) => isOld([output], [...assembly, ...settings]))
const bundle = isOld(consoleFiles, [...pages, ...builders, ...settings])

if (compile || assemble.length > 0 || bundle || copies.length > 0) console.error('building…')
if (compile || bundle) findPackage('esbuild', 'esbuild')
if (compile) {
  run('typescript', 'tsc', '-p', 'tsconfig.build.json')
  chmodSync(join(dist, 'main.js'), 0o755)
  if (sources.includes(TYPEBOX)) await bundleTypebox(dist)
}
for (const name of copies) {
  mkdirSync(dirname(join(dist, name)), { recursive: true })
  copyFileSync(inSource(name), join(dist, name))
}
for (const [source, output] of assemble) {
  mkdirSync(dirname(join(dist, output)), { recursive: true })
  // Of a module's own nothing lies in memory but what it puts there: no static data, no heap, no stack. 65,536 pages are
  // any memory's most.
  const memory = '--importMemory --noExportMemory --sharedMemory --initialMemory 1 --maximumMemory 65536 --memoryBase 0'
  const options = `--runtime stub --enable simd,threads,bulk-memory -O3 --noAssert ${memory}`
  run('assemblyscript', 'asc', join('src', source), '--outFile', join(dist, output), ...options.split(' '))
}
if (bundle) await buildConsole(dist)
// Done last, so that a failed build is repeated.
for (const name of stale) rmSync(join(dist, name), { recursive: true, force: true })

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

/**
 * Runs a development package's command, and ends where it fails.
 * @param {string} packageName
 * @param {string} command
 * @param {string[]} args
 */
function run(packageName, command, ...args) {
  // What it prints is for people, and stdout is the log of `npm start`.
  const stdio = /** @type {const} */ (['inherit', process.stderr, 'inherit'])
  const path = findPackage(packageName, command)
  const { status } = spawnSync(path, args, { cwd: root, stdio, shell: process.platform === 'win32' })
  if (status !== 0) process.exit(status ?? 1)
}

/**
 * The path of a development package's command. Ends where it is not installed.
 * @param {string} packageName
 * @param {string} command
 */
function findPackage(packageName, command) {
  const path = join(root, 'node_modules', '.bin', command)
  if (changedMs(path) > 0) return path
  console.error(`sluice: building needs ${packageName}, a development package: npm install --include=dev`)
  return process.exit(1)
}

// Builds dist/ from src/, but for what is newer there than all it is made of: tsc for TypeScript, asc for the scanner, and a copy of each Lua script.

import { spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, readdirSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const ASSEMBLY = join('decode', 'assembly')
const SCANNER = join(root, 'dist', 'decode', 'scanner.wasm')

const files = readdirSync(join(root, 'src'), { recursive: true })
const sources = files.filter((name) => name.endsWith('.ts'))
const scripts = files.filter((name) => name.endsWith('.lua'))
const assembly = sources.filter((name) => name.startsWith(ASSEMBLY)).map(inSource)
const modules = sources.filter((name) => !name.startsWith(ASSEMBLY) && !name.endsWith('.d.ts'))
const settings = ['tsconfig.json', 'tsconfig.build.json', 'package-lock.json'].map((name) => join(root, name))

const settingsMs = Math.max(...settings.map(changedMs))
if (modules.some((name) => changedMs(outputOf(name)) < Math.max(changedMs(inSource(name)), settingsMs))) {
  run('typescript', 'tsc', '-p', 'tsconfig.build.json')
  chmodSync(join(root, 'dist', 'main.js'), 0o755)
}
for (const name of scripts) {
  if (changedMs(join(root, 'dist', name)) < changedMs(inSource(name)))
    copyFileSync(inSource(name), join(root, 'dist', name))
}
if (assembly.some((name) => changedMs(SCANNER) < changedMs(name))) {
  mkdirSync(dirname(SCANNER), { recursive: true })
  // Nothing of the module's own lies in memory: no static data, no heap, no stack. 65,536 pages are any memory's most.
  const memory = '--importMemory --noExportMemory --sharedMemory --initialMemory 1 --maximumMemory 65536 --memoryBase 0'
  const options = `--runtime stub --enable simd,threads,bulk-memory -O3 --noAssert ${memory}`
  run('assemblyscript', 'asc', join('src', ASSEMBLY, 'scanner.ts'), '--outFile', SCANNER, ...options.split(' '))
}

/** @param {string} name */
function inSource(name) {
  return join(root, 'src', name)
}

/** @param {string} name */
function outputOf(name) {
  return join(root, 'dist', name.replace(/\.ts$/, '.js'))
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
  const path = join(root, 'node_modules', '.bin', command)
  if (changedMs(path) === 0) {
    console.error(`sluice: building needs ${packageName}, a development package: npm install --include=dev`)
    process.exit(1)
  }
  const { status } = spawnSync(path, args, { cwd: root, stdio: 'inherit', shell: process.platform === 'win32' })
  if (status !== 0) process.exit(status ?? 1)
}

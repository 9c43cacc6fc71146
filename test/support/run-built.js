// Builds a command under test/, which is TypeScript like all else there, and runs it.

import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** @param {string} name of its folder, which has a main.ts and a tsconfig.json */
export async function runBuilt(name) {
  const built = join(root, '.cache', name)
  const compiler = ['tools/run.js', 'tsc', '-p', join('test', name, 'tsconfig.json')]
  const { status } = spawnSync(process.execPath, compiler, { cwd: root, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
  // Where the built sources look for it.
  const scripts = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.lua'),
  )
  const modules = [join('dist', 'decode', 'scanner.wasm'), join('dist', 'lib', 'crc32c.wasm')]
  for (const file of [...modules, ...scripts.map((script) => join('src', script))]) {
    mkdirSync(dirname(join(built, file)), { recursive: true })
    copyFileSync(join(root, file), join(built, file))
  }
  const packages = join(built, 'test', 'node_modules')
  rmSync(packages, { force: true })
  symlinkSync(join(root, 'test', 'node_modules'), packages)
  await import(join(built, 'test', name, 'main.js'))
}

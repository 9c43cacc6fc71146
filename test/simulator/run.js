// Builds the simulator, which is TypeScript like all else here, and runs it: `npm run simulate`.

import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const built = join(root, 'node_modules', '.cache', 'simulator')
const compiler = join(root, 'node_modules', '.bin', 'tsc')
const { status } = spawnSync(compiler, ['-p', join('test', 'simulator', 'tsconfig.json')], {
  cwd: root,
  stdio: 'inherit',
})
if (status !== 0) process.exit(status ?? 1)
// Where the built sources look for it.
mkdirSync(join(built, 'dist', 'decode'), { recursive: true })
copyFileSync(join(root, 'dist', 'decode', 'scanner.wasm'), join(built, 'dist', 'decode', 'scanner.wasm'))
await import(join(built, 'test', 'simulator', 'main.js'))

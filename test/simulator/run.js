// Builds the simulator, which is TypeScript like all else here, and runs it: `npm run simulate`.

import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const built = join(root, '.cache', 'simulator')
const compiler = join(root, 'node_modules', '.bin', 'tsc')
const { status } = spawnSync(compiler, ['-p', join('test', 'simulator', 'tsconfig.json')], {
  cwd: root,
  stdio: 'inherit',
})
if (status !== 0) process.exit(status ?? 1)
// Where the built sources look for it.
const scripts = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' }).filter((name) =>
  name.endsWith('.lua'),
)
for (const name of [join('dist', 'decode', 'scanner.wasm'), ...scripts.map((script) => join('src', script))]) {
  mkdirSync(dirname(join(built, name)), { recursive: true })
  copyFileSync(join(root, name), join(built, name))
}
await import(join(built, 'test', 'simulator', 'main.js'))

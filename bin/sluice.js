#!/usr/bin/env node
// The package's bin. It exists before the first build, because npx caches the path that it finds first.

import { existsSync } from 'node:fs'
import { refuseOldNode } from './node-version.js'

refuseOldNode()
const built = new URL('../dist/main.js', import.meta.url)
if (existsSync(built)) {
  await import(built.href)
} else {
  process.stderr.write('sluice: not built yet; npm run build, or npm start, builds it\n')
  process.exitCode = 1
}

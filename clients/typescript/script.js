// How esbuild makes the script for a page, sluice.min.js.

import { join } from 'node:path'

/** Syntax of 2020, as browsers of 2021 read it. What is newer is asked for before it is used. */
export const TARGET = 'es2020'
/** Members that neither a page nor the service sees, which the script for a page may call by a shorter name. */
const NAMES = `
  acquire addTo beacon busy compress correct dropItem forget hasBeacon isExpired isHeld isInMemory
  isOffline isOwn learn loaded mayCure maySend mirrorOf mustWaitMs names noteViolation nowMs release
  settled timers transport watchPages platform
`
const INTERNAL = new RegExp(`^(${NAMES.trim().split(/\s+/).join('|')})$`)

const contents = "import { createClient } from './index.ts'; globalThis.sluice = { createClient }"

/** @type {import('esbuild').BuildOptions} */
export const SCRIPT_OPTIONS = {
  stdin: { contents, resolveDir: join(import.meta.dirname, 'src'), sourcefile: 'src/script.js' },
  bundle: true,
  format: 'iife',
  target: TARGET,
  minify: true,
  mangleProps: INTERNAL,
}

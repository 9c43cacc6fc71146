// How esbuild makes the script for a page, sluice.min.js.

import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** Syntax that browsers of 2021 read. What is newer is asked for before it is used. */
export const TARGET = 'es2021'
/** Members that neither a page nor the service sees, which the script for a page may call by a shorter name. */
const NAMES = `
  page bytes clock stop send acquire addTo amend beacon busy clear compress correct drop forget hasBeacon header hold isConsentRead isExpired isHeld
  isInMemory isOffline isOwn keep learn loaded mayAsk mayCure maySend mirrorOf monotonicMs mustWaitMs names noteViolation nowMs
  parts queue read release report settled storage takeItem tell timers transport wake watchPages
`
const INTERNAL = new RegExp(`^(${NAMES.trim().split(/\s+/).join('|')})$`)

const contents = "import { createClient } from './index.ts'; globalThis.sluice = { createClient }"

const CONSTANT = /^(export )?const ([A-Z][A-Z_]+) = ([\d_.*+\-/ ]+|'[\w/.-]+')$/gm

/** Figures at the places where they are used: esbuild does so within functions alone. @type {import('esbuild').Plugin} */
const inlined = {
  name: 'inlined',
  setup(build) {
    build.onLoad({ filter: /\.ts$/ }, ({ path }) => {
      let code = readFileSync(path, 'utf8')
      for (const [, exported, name, value] of Array.from(code.matchAll(CONSTANT)))
        if (!exported)
          code = code.replace(`const ${name} = ${value}\n`, '').replace(new RegExp(`\\b${name}\\b`, 'g'), `(${value})`)
      return { contents: code, loader: 'ts' }
    })
  },
}

/** @type {import('esbuild').BuildOptions} */
export const SCRIPT_OPTIONS = {
  stdin: { contents, resolveDir: join(import.meta.dirname, 'src'), sourcefile: 'src/script.js' },
  bundle: true,
  format: 'iife',
  target: TARGET,
  minify: true,
  mangleProps: INTERNAL,
  plugins: [inlined],
}

// What pictures and measurements of the console share with its tests: the double with its scenes, and a browser. Not every
// Node runs TypeScript, so the scenes are bundled, as deep in the tree as their source, so that they find dist/.

import { execFileSync } from 'node:child_process'
import { join, resolve } from 'node:path'
import { build } from 'esbuild'
import { chromium } from 'playwright-core'

/** @typedef {import('playwright-core').CDPSession} Session */

const root = resolve(import.meta.dirname, '../..')

/** @returns {Promise<typeof import('./console-scenes.ts')>} */
export async function loadScenes() {
  const outfile = join(root, '.cache', 'screenshots', 'console-scenes.mjs')
  const source = join(root, 'test', 'support', 'console-scenes.ts')
  await build({ entryPoints: [source], outfile, bundle: true, platform: 'node', format: 'esm' })
  return await import(outfile)
}

export function launchChromium() {
  const executablePath = execFileSync('which', ['chromium-headless-shell'], { encoding: 'utf8' }).trim()
  return chromium.launch({ executablePath })
}

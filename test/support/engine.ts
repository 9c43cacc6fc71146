// Which HTTP engine the services run on that tests start: one of the two generations of uWebSockets.js, or Node's own server where
// SLUICE_HTTP_ENGINE says so or the other does not load.

import { createRequire } from 'node:module'

/** The binaries for this version of Node's binary interface (Node 22) and later are of 2026, those before of 2024. */
const FIRST_NEW_ABI = 127

/** Of uWebSockets.js. */
export const GENERATION: 'old' | 'new' = Number(process.versions.modules) < FIRST_NEW_ABI ? 'old' : 'new'
/** Node's own server is what the service was told to use. */
export const IS_NODE_WANTED = process.env['SLUICE_HTTP_ENGINE'] === 'node'
export const ENGINE: 'old' | 'new' | 'node' = IS_NODE_WANTED || !loads() ? 'node' : GENERATION

function loads(): boolean {
  try {
    createRequire(import.meta.url)('uWebSockets.js')
    return true
  } catch {
    return false
  }
}

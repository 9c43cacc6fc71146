// @ts-check
// Takes out of an installed node_modules what the service never loads on this machine: uWebSockets.js brings a binary
// for every system and every version of Node, and packages bring maps, types and papers. Licences stay.

import { readdirSync, rmSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join, resolve } from 'node:path'

const UWS = 'uWebSockets.js'
const UWS_KEPT = new Set([
  'package.json',
  'uws.js',
  'ESM_wrapper.mjs',
  'LICENSE',
  'source_commit',
  `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`,
])
const NOT_LOADED = /\.(map|md|markdown|d\.[cm]?ts)$/i
const LICENCE = /^(licen[cs]e|copying|notice)/i

const [folder] = process.argv.slice(2)
if (folder === undefined) {
  console.error('Usage: node prune.js NODE_MODULES')
  process.exit(2)
}
const root = resolve(folder)
const before = sizeOf(root)

for (const name of readdirSync(join(root, UWS))) {
  if (!UWS_KEPT.has(name)) rmSync(join(root, UWS, name), { recursive: true })
}
for (const path of filesUnder(root)) {
  const name = path.slice(path.lastIndexOf('/') + 1)
  if (NOT_LOADED.test(name) && !LICENCE.test(name)) rmSync(path)
}
// Where the binary for this Node is missing, the build fails here and not a container at its start.
createRequire(import.meta.url)(join(root, UWS))
console.log(`pruned ${folder}: ${megabytes(before)} MB before, ${megabytes(sizeOf(root))} MB after`)

/**
 * @param {string} path
 * @returns {string[]}
 */
function filesUnder(path) {
  const entries = readdirSync(path, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
}

/** @param {string} path */
function sizeOf(path) {
  return filesUnder(path).reduce((sum, file) => sum + statSync(file).size, 0)
}

/** @param {number} bytes */
function megabytes(bytes) {
  return (bytes / 1e6).toFixed(1)
}

// What is written in AssemblyScript: its source and its place in dist/, from src/ and dist/, and the WebAssembly that it was
// compiled to. This is kept in the repository, since the compiler weighs 100 MB: wasm.js.

import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

// Not by import.meta.dirname: main.js loads this before it refuses a Node that has none.
const kept = fileURLToPath(new URL('wasm', import.meta.url))
/** Of the sources that it was compiled from. */
export const KEPT_HASH = join(kept, 'sources.sha256')

/** @type {readonly { readonly source: string, readonly output: string, readonly kept: string }[]} */
export const ASSEMBLED = [
  {
    source: join('decode', 'assembly', 'scanner.ts'),
    output: join('decode', 'scanner.wasm'),
    kept: join(kept, 'scanner.wasm'),
  },
  { source: join('lib', 'assembly', 'crc32c.ts'), output: join('lib', 'crc32c.wasm'), kept: join(kept, 'crc32c.wasm') },
]

/** A line with the hash of all AssemblyScript in src/. @param {string} src */
export function hashOfSources(src) {
  const hash = createHash('sha256')
  for (const room of readdirSync(src).sort()) {
    const folder = join(src, room, 'assembly')
    const names = existsSync(folder) ? readdirSync(folder).sort() : []
    for (const name of names) hash.update(`${room}/${name}\n`).update(readFileSync(join(folder, name)))
  }
  return `${hash.digest('hex')}\n`
}

// `npm run build:scanner`: compiles src/*/assembly to tools/build/wasm/. With --check it writes nothing, and ends with 1 where what is
// kept there is not what the sources compile to.

import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { ASSEMBLED, hashOfSources, KEPT_HASH } from './assembled.js'

const root = join(import.meta.dirname, '../..')
const checks = process.argv.includes('--check')
// Of a module's own nothing lies in memory but what it puts there: no static data, no heap, no stack. 65,536 pages are
// any memory's most.
const memory = '--importMemory --noExportMemory --sharedMemory --initialMemory 1 --maximumMemory 65536 --memoryBase 0'
const options = `--runtime stub --enable simd,threads,bulk-memory -O3 --noAssert ${memory}`

const folder = mkdtempSync(join(tmpdir(), 'sluice-wasm-'))
try {
  for (const { source, kept } of ASSEMBLED) {
    const made = join(folder, basename(kept))
    const args = ['tools/run.js', 'asc', join('src', source), '--outFile', made, ...options.split(' ')]
    const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' })
    if (status !== 0) process.exitCode = status ?? 1
    else if (!checks) copyFileSync(made, kept)
    else if (!readFileSync(made).equals(readFileSync(kept))) {
      console.error(`${kept} is not what src/${source} compiles to: npm run build:scanner`)
      process.exitCode = 1
    }
  }
  const hash = hashOfSources(join(root, 'src'))
  if (!checks && process.exitCode === undefined) writeFileSync(KEPT_HASH, hash)
  else if (checks && readFileSync(KEPT_HASH, 'utf8') !== hash) {
    console.error(`${KEPT_HASH} is not of src/*/assembly: npm run build:scanner`)
    process.exitCode = 1
  }
} finally {
  rmSync(folder, { recursive: true })
}

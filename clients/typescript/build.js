// Builds the package into dist/, or into the folder that is named: node build.js [FOLDER]. For bundlers and Node one module
// each of index and file, to import and to require, with their types; for a page sluice.min.js, whose SRI hash lies beside it.

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'

const here = import.meta.dirname
const dist = resolve(process.argv[2] ?? join(here, 'dist'))
const tools = join(here, '../../tools/run.js')
const SCRIPT = 'sluice.min.js'
const { version, homepage } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'))

// A folder that somebody named may hold more than this.
if (process.argv[2] === undefined) rmSync(dist, { recursive: true, force: true })
mkdirSync(dist, { recursive: true })
writeTypes()
const entries = { index: join(here, 'src/index.ts'), file: join(here, 'src/file.ts') }
await bundle({ entryPoints: entries, format: 'esm', platform: 'node' })
await bundle({ entryPoints: entries, format: 'cjs', platform: 'node', outExtension: { '.js': '.cjs' } })
await bundle({
  entryPoints: { 'sluice.min': entries.index },
  format: 'iife',
  globalName: 'sluice',
  minify: true,
  banner: { js: `/* sluice-client ${version}, MIT, ${homepage} */` },
})
const script = readFileSync(join(dist, SCRIPT))
const integrity = `sha384-${createHash('sha384').update(script).digest('base64')}`
writeFileSync(join(dist, `${SCRIPT}.integrity`), `${integrity}\n`)
// Not to stdout, where npm pack says the tarball's name.
console.error(`${SCRIPT}: ${script.length} bytes, gzipped ${gzipSync(script, { level: 9 }).length}, ${integrity}`)

/** @param {import('esbuild').BuildOptions} options */
async function bundle(options) {
  await build({
    absWorkingDir: here,
    outdir: dist,
    bundle: true,
    sourcemap: true,
    // Syntax of 2020, as browsers of 2021 read it. What is newer is asked for before it is used.
    target: 'es2020',
    logLevel: 'warning',
    ...options,
  })
}

/** What a program that requires the package compiles against has to end in .cts, and so has what that refers to. */
function writeTypes() {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-client-'))
  execFileSync(process.execPath, [tools, 'tsc', '-p', here, '--outDir', folder], { stdio: 'inherit' })
  for (const name of ['index', 'file', 'types']) {
    const text = readFileSync(join(folder, `${name}.d.ts`), 'utf8')
    writeFileSync(join(dist, `${name}.d.ts`), text.replaceAll(".ts'", ".js'"))
    writeFileSync(join(dist, `${name}.d.cts`), text.replaceAll(".ts'", ".cjs'"))
  }
  rmSync(folder, { recursive: true })
}

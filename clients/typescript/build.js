// Builds the package into dist/, or into the folder that is named: node build.js [FOLDER]. For bundlers and Node one module
// each of index and file, to import and to require, with their types; for a page sluice.min.js, whose SRI hash lies beside it.

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { SCRIPT_OPTIONS, TARGET } from './script.js'

const here = import.meta.dirname
const dist = resolve(process.argv[2] ?? join(here, 'dist'))
const tools = join(here, '../../tools/run.js')
const SCRIPT = 'sluice.min.js'
const MAX_GZIPPED_BYTES = 8500
const { version } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'))

// A folder that somebody named may hold more than this.
if (process.argv[2] === undefined) rmSync(dist, { recursive: true, force: true })
mkdirSync(dist, { recursive: true })
writeTypes()
const entries = { index: join(here, 'src/index.ts'), file: join(here, 'src/file.ts') }
await bundle({ entryPoints: entries, format: 'esm', platform: 'node' })
await bundle({ entryPoints: entries, format: 'cjs', platform: 'node', outExtension: { '.js': '.cjs' } })
await bundle({
  ...SCRIPT_OPTIONS,
  outfile: join(dist, SCRIPT),
  banner: { js: `/* sluice-client ${version}, MIT */` },
})
const script = readFileSync(join(dist, SCRIPT))
const integrity = `sha384-${createHash('sha384').update(script).digest('base64')}`
writeFileSync(join(dist, `${SCRIPT}.integrity`), `${integrity}\n`)
const gzippedBytes = gzipSync(script, { level: 9 }).length
// Not to stdout, where npm pack says the tarball's name.
console.error(`${SCRIPT}: ${script.length} bytes, gzipped ${gzippedBytes}, ${integrity}`)
console.error(`createSmallClient alone, by a bundler: gzipped ${await smallBytes()}`)
if (gzippedBytes > MAX_GZIPPED_BYTES) throw new Error(`${SCRIPT} may have ${MAX_GZIPPED_BYTES} bytes gzipped`)

/** What a page gets that imports no more than this. */
async function smallBytes() {
  const stdin = { contents: `export { createSmallClient } from './index.js'`, resolveDir: dist }
  const { outputFiles } = await build({
    stdin,
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    target: TARGET,
  })
  return gzipSync(outputFiles[0].contents, { level: 9 }).length
}

/** @param {import('esbuild').BuildOptions} options */
async function bundle(options) {
  await build({
    absWorkingDir: here,
    ...(options.outfile === undefined && { outdir: dist }),
    bundle: true,
    sourcemap: true,
    target: TARGET,
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

// TypeScript into JavaScript, file by file, with source maps: what tsc would write, without its check of the types.

import { writeFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'

/** In what esbuild writes; as long as what takes its place, so that the source maps hold. */
const IMPORTED_TS = /(?<=\b(?:from |import |import\()"\.{1,2}\/[^"\n]*)\.ts(?=")/g

/**
 * Ends the process where a file is not TypeScript: esbuild has said then what is wrong.
 * @param {string} from a folder
 * @param {readonly string[]} names of its files, as paths from there
 * @param {string} to the folder of what is written
 */
export async function transpile(from, names, to) {
  // Only where it is needed: the package comes built, without esbuild.
  const { build } = await import('esbuild')
  const options = {
    absWorkingDir: dirname(from),
    outdir: to,
    sourcemap: true,
    sourcesContent: false,
    write: false,
  }
  // With the place of each output: esbuild writes another one where the path of the folder has a `:`, `?` or `"`.
  const entryPoints = names.map((name) => ({ in: join(from, name), out: name.replace(/\.ts$/, '') }))
  const result = await build({ ...options, entryPoints, format: 'esm', target: 'es2022', logLevel: 'warning' }).catch(
    () => process.exit(1),
  )
  await Promise.all(
    [...new Set(names.map((name) => dirname(join(to, name))))].map((one) => mkdir(one, { recursive: true })),
  )
  for (const { path, text } of result.outputFiles ?? []) {
    writeFileSync(path, path.endsWith('.map') ? text : text.replace(IMPORTED_TS, '.js'))
  }
}

// What esbuild makes. The pages of the console: dist/console/index.html, and under assets/ one script, one style sheet and two
// fonts, named by their content so that a browser may keep them for ever. And typebox in one file.

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const PAGES = join('console', 'index.html')
/** Cleaned by `buildConsole`. */
export const CONSOLE_ASSETS = join('console', 'assets')

export const CONSOLE_SOURCE = join('console', 'web')

/** A module of src/ that is built with what it imports in it. */
export const TYPEBOX = join('contract', 'admin', 'typebox.ts')

/** The files that the last build left, as paths from dist/. @param {string} dist */
export function consoleOutputs(dist) {
  const page = join(dist, PAGES)
  const names = existsSync(page) ? assetsOf(readFileSync(page, 'utf8')) : []
  return [PAGES, ...names.map((name) => join(CONSOLE_ASSETS, name))]
}

/** @param {string} page */
function assetsOf(page) {
  return [...page.matchAll(/"\/assets\/([^"]+)"/g)].map(([, name]) => name)
}

/** @param {string} dist */
export async function buildConsole(dist) {
  // Only where it is needed: the package comes built, without esbuild.
  const { build } = await import('esbuild')
  const source = join(root, 'src', CONSOLE_SOURCE)
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: { console: join(source, 'main.tsx') },
    tsconfig: join(source, 'tsconfig.json'),
    outdir: join(dist, CONSOLE_ASSETS),
    entryNames: '[name]-[hash]',
    bundle: true,
    minify: true,
    metafile: true,
    format: 'esm',
    target: 'es2022',
    loader: { '.woff2': 'file' },
    publicPath: '/assets',
    banner: { js: licences(['preact']), css: comment(readFileSync(join(source, 'fonts', 'OFL.txt'), 'utf8')) },
    logLevel: 'warning',
  })
  const names = Object.keys(metafile.outputs).map((path) => basename(path))
  for (const name of readdirSync(join(dist, CONSOLE_ASSETS)))
    if (!names.includes(name)) rmSync(join(dist, CONSOLE_ASSETS, name))
  let page = readFileSync(join(source, 'index.html'), 'utf8')
  for (const name of names) page = page.replace(`"/assets/${name.replace(/-[A-Z0-9]{8}\./, '.')}"`, `"/assets/${name}"`)
  mkdirSync(join(dist, 'console'), { recursive: true })
  // Last, so that a failed build is repeated.
  writeFileSync(join(dist, PAGES), page)
}

/** In the place of what tsc has made. @param {string} dist */
export async function bundleTypebox(dist) {
  const { build } = await import('esbuild')
  const outfile = join(dist, TYPEBOX.replace(/\.ts$/, '.js'))
  // So that a failed build is repeated.
  rmSync(outfile)
  await build({
    absWorkingDir: root,
    entryPoints: [join(root, 'src', TYPEBOX)],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    sourcemap: true,
    sourcesContent: false,
    banner: { js: licences(['typebox']) },
    logLevel: 'warning',
  })
}

/** They want their licences to come with every copy. @param {string[]} packages */
function licences(packages) {
  const texts = packages.map((name) => {
    const folder = join(root, 'node_modules', name)
    const file = readdirSync(folder).find((one) => one.toUpperCase() === 'LICENSE')
    if (file === undefined) throw new Error(`${folder} has no licence`)
    return `${name}\n\n${readFileSync(join(folder, file), 'utf8')}`
  })
  return comment(texts.join('\n'))
}

/** One that stays. @param {string} text */
function comment(text) {
  return `/*!\n${text.trim()}\n*/`
}

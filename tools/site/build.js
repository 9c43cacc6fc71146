// @ts-check
// `npm run site`: the repository's Markdown as static pages, with search, in dist/ of this folder. The pages themselves stay
// readable where they are: a copy of them is built, in which what a page names becomes a link. Links are checked by the build.

import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build as bundle } from 'esbuild'
import { installPackages } from '../install.js'
import { DOORS, OPENAPI } from './doors.js'
import { linked, llmsText } from './pages.js'

const FOLDER = fileURLToPath(new URL('.', import.meta.url))
const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const PAGES = join(FOLDER, 'pages')
const DIST = join(FOLDER, 'dist')
const SWAGGER = ['swagger-ui.css', 'swagger-ui-bundle.js']

installPackages(FOLDER, 'the generator of the site')
const paths = DOORS.flatMap(({ pages }) => pages)
rmSync(PAGES, { recursive: true, force: true })
for (const path of paths) write(path, linked(read(path), path, paths))
for (const folder of readdirSync(join(ROOT, 'docs'), { withFileTypes: true })) {
  if (folder.isDirectory() || folder.name.endsWith('.svg')) copy(`docs/${folder.name}`)
}
for (const { name, title, file } of OPENAPI) {
  cpSync(join(ROOT, file), join(PAGES, 'public', file))
  write(`public/api/${name}.html`, apiPage(title, file))
}
for (const name of SWAGGER) {
  cpSync(join(FOLDER, 'node_modules/swagger-ui-dist', name), join(PAGES, 'public', 'api', name))
}
cpSync(join(FOLDER, 'explain', 'page.html'), join(PAGES, 'public', 'explain.html'))
await bundle({
  entryPoints: [join(FOLDER, 'explain', 'explain.js')],
  outfile: join(PAGES, 'public', 'explain.js'),
  bundle: true,
  minify: true,
  format: 'esm',
  target: 'es2022',
  alias: { 'node:buffer': join(FOLDER, 'explain', 'buffer.js') },
  inject: [join(FOLDER, 'explain', 'buffer.js')],
})
const build = spawnSync(join(FOLDER, 'node_modules/.bin/vitepress'), ['build', FOLDER], {
  cwd: FOLDER,
  stdio: 'inherit',
})
if (build.status !== 0) process.exit(build.status ?? 1)
// The generator goes on where a page throws while it is rendered, and leaves the page out or empty.
const empty = paths.filter((path) => !/<h1\b/.test(htmlOf(path)))
if (empty.length > 0) throw new Error(`not rendered: ${empty.join(', ')}`)
// Each page as it is in the repository, beside the one that was made of it, and what there is in one list.
for (const path of paths) {
  mkdirSync(dirname(join(DIST, path)), { recursive: true })
  cpSync(join(ROOT, path), join(DIST, path))
}
writeFileSync(
  join(DIST, 'llms.txt'),
  llmsText(DOORS, (path) => read(path)),
)
console.log(`site: ${paths.length} pages in ${DIST}`)

/** @param {string} path */
function read(path) {
  return readFileSync(join(ROOT, path), 'utf8')
}

/** @param {string} path @param {string} text */
function write(path, text) {
  mkdirSync(dirname(join(PAGES, path)), { recursive: true })
  writeFileSync(join(PAGES, path), text)
}

/** @param {string} path */
function htmlOf(path) {
  const file = join(DIST, path === 'README.md' ? 'index.html' : path.replace(/md$/, 'html'))
  return existsSync(file) ? readFileSync(file, 'utf8') : ''
}

/** @param {string} path */
function copy(path) {
  cpSync(join(ROOT, path), join(PAGES, path), { recursive: true })
}

/** A page that renders an OpenAPI file where it is read. @param {string} title @param {string} file */
function apiPage(title, file) {
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · sluice</title>
<link rel="stylesheet" href="swagger-ui.css">
<style>body{margin:0}nav{padding:12px 20px;font:14px system-ui,sans-serif}.swagger-ui .wrapper{padding:0 16px}</style>
<nav><a href="../">sluice</a> · <a href="../${file}">${file}</a></nav>
<div id="api"></div>
<script src="swagger-ui-bundle.js"></script>
<script>
  if (matchMedia('(prefers-color-scheme: dark)').matches) document.documentElement.classList.add('dark-mode')
  SwaggerUIBundle({ url: '../${file}', dom_id: '#api', deepLinking: true, docExpansion: 'list', validatorUrl: null })
</script>
</html>
`
}

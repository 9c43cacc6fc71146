// tools/build/main.js over a small tree of its own: dist/ holds what src/ is, and nothing else.

import { spawnSync } from 'node:child_process'
import { cp, mkdir, mkdtemp, readdir, readFile, rename, rm, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest'
import { hashOfSources } from '../../tools/build/assembled.js'
import { makeFolder } from '../support/service.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const LONG_AGO = new Date('2024-01-01')

let tree: string
let folder: string
beforeAll(async () => {
  tree = await mkdtemp(join(tmpdir(), 'sluice-build-'))
  folder = tree
  for (const part of ['bin', 'tools/build']) {
    await cp(join(ROOT, part), join(folder, part), { recursive: true, preserveTimestamps: false })
    for (const name of await readdir(join(folder, part), { recursive: true }))
      await utimes(join(folder, part, name), LONG_AGO, LONG_AGO)
  }
  const settings = ['package.json', 'package-lock.json', 'tsconfig.json']
  for (const name of [...settings, 'src/console/web/tsconfig.json', 'src/console/web/index.html']) {
    await cp(join(ROOT, name), join(folder, name))
    await utimes(join(folder, name), LONG_AGO, LONG_AGO)
  }
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  await source('main.ts', "console.log('main')")
  await source('redis/take.lua', 'return 1')
  await source('console/web/main.tsx', "import './style.css'\ndocument.title = 'one'")
  // Those that index.html names.
  const faces = ['inter', 'mono'].map((name) => `@font-face { font-family: ${name}; src: url(fonts/${name}.woff2) }`)
  await source('console/web/style.css', faces.join('\n'))
  for (const name of ['inter', 'mono']) await source(`console/web/fonts/${name}.woff2`, name)
  await source('console/web/fonts/OFL.txt', 'the licence of a font')
  await source('decode/assembly/scanner.ts', '// Its WebAssembly lies in tools/build/.')
  await writeFile(join(folder, 'tools/build/wasm/sources.sha256'), hashOfSources(join(folder, 'src')))
  build()
})
afterAll(() => rm(tree, { recursive: true }))

/** Each test has a tree of its own, as the first build left it. */
beforeEach(async () => {
  folder = await makeFolder()
  spawnSync('cp', ['-a', `${tree}/.`, folder])
})

/** Written long ago, as a checkout's file is that was moved here. */
async function source(name: string, text: string, changed = LONG_AGO): Promise<void> {
  const path = join(folder, 'src', name)
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, `${text}\n`)
  await utimes(path, changed, changed)
}

function build(): { status: number | null; said: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(folder, 'tools/build/main.js')], {
    encoding: 'utf8',
  })
  return { status, said: stdout + stderr }
}

/** The hashes in the names of the console's files are left out. */
const built = async (): Promise<string[]> =>
  (await readdir(join(folder, 'dist'), { recursive: true }))
    .map((name) => name.replace(/-[0-9A-Z]{8}\./, '-HASH.'))
    .toSorted()
const inDist = (name: string): Promise<string> => readFile(join(folder, 'dist', name), 'utf8')

const ASSETS = ['console-HASH.css', 'console-HASH.js', 'inter-HASH.woff2', 'mono-HASH.woff2']
const CONSOLE = ['', '/assets', ...ASSETS.map((name) => `/assets/${name}`), '/index.html']
const OUTPUTS = [
  ...CONSOLE.map((name) => `console${name}`),
  'decode',
  'decode/scanner.wasm',
  'main.js',
  'main.js.map',
  'redis',
  'redis/take.lua',
]

it('makes all outputs, and says nothing where there is nothing to build', async () => {
  expect(await built()).toEqual(OUTPUTS)
  expect(build()).toEqual({ status: 0, said: '' })
})

it('makes all outputs in a folder with an odd name', async () => {
  const odd = join(folder, "12:30 100% sure? it's #1")
  await mkdir(odd)
  for (const name of await readdir(folder))
    if (join(folder, name) !== odd) await rename(join(folder, name), join(odd, name))
  folder = odd
  await rm(join(folder, 'dist'), { recursive: true })
  expect(build()).toEqual({ status: 0, said: 'building…\n' })
  expect(await built()).toEqual(OUTPUTS)
})

it('makes again what is missing in dist/', async () => {
  for (const name of ['console/assets', 'decode', 'main.js.map', 'redis'])
    await rm(join(folder, 'dist', name), { recursive: true })
  expect(build()).toEqual({ status: 0, said: 'building…\n' })
  expect(await built()).toEqual(OUTPUTS)
})

it('says in a line what the disk refuses', async () => {
  await rm(join(folder, 'dist'), { recursive: true })
  await writeFile(join(folder, 'dist'), '')
  const { status, said } = build()
  expect(status).toBe(1)
  expect(said).toMatch(/^sluice: dist\/ cannot be built: ENOTDIR: .*\n$/)
})

it('leaves nothing of a source that was deleted or moved, in its old place or its new', async () => {
  await source('lib/old.ts', 'export const old = 1')
  await source('lib/place.ts', "export const place = 'before'")
  await source('redis/deep/old.lua', 'return 2', new Date())
  expect(build()).toEqual({ status: 0, said: 'building…\n' })
  await writeFile(join(folder, 'dist/lib/old.d.ts'), '')
  await rm(join(folder, 'src/redis/deep'), { recursive: true })
  await rename(join(folder, 'src/lib/old.ts'), join(folder, 'src/lib/place.ts'))
  expect(build()).toEqual({ status: 0, said: 'building…\n' })
  expect(await built()).toEqual([...OUTPUTS, 'lib', 'lib/place.js', 'lib/place.js.map'].toSorted())
  expect(await inDist('lib/place.js')).toContain('old = 1')
})

it('warns where the WebAssembly is not of these sources, and changes nothing', async () => {
  await source('decode/assembly/scanner.ts', '// Another one.')
  expect(build()).toEqual({
    status: 0,
    said: 'sluice: the WebAssembly in tools/build/wasm is not of the sources in src/*/assembly: npm run build:scanner\n',
  })
  expect(await built()).toEqual(OUTPUTS)
})

it('fails again where the last build failed, until the source is mended', async () => {
  await source('main.ts', 'export const wrong number', new Date())
  const failure = { status: 1, said: expect.stringContaining('src/main.ts:1:19:') }
  expect(build()).toMatchObject(failure)
  expect(build()).toMatchObject(failure)
  expect(await inDist('main.js')).toContain('console.log("main")')
})

it('gives a changed page new names, and its index.html names them', async () => {
  const before = await inDist('console/index.html')
  await source('console/web/main.tsx', "document.title = 'two'", new Date())
  expect(build()).toEqual({ status: 0, said: 'building…\n' })
  expect(await built()).toEqual(OUTPUTS.filter((name) => !/\.(?:css|woff2)$/.test(name)))
  const page = await inDist('console/index.html')
  expect(page).not.toBe(before)
  const [, script] = /src="\/(assets\/[^"]+)"/.exec(page) ?? []
  expect(await inDist(`console/${script}`)).toContain('two')
})

it('lets an older build stand where the packages to make it anew are missing, and says so', async () => {
  await rm(join(folder, 'node_modules'))
  await source('main.ts', "console.log('changed')", new Date())
  expect(build()).toMatchObject({ status: 0, said: expect.stringContaining('using the build in dist/ as it is') })
  expect(await inDist('main.js')).toContain('console.log("main")')
  await rm(join(folder, 'dist'), { recursive: true })
  expect(build()).toMatchObject({ status: 1, said: expect.stringContaining('building needs esbuild') })
})

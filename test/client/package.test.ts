// The package as others get it: the tarball of npm pack, unpacked elsewhere.

import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, it } from 'vitest'
import { freshFolder } from './support/stored.ts'

const PACKAGE = resolve(import.meta.dirname, '../../clients/typescript')
const TSC = resolve(import.meta.dirname, '../../node_modules/.bin/tsc')

const EXAMPLE = `
import { createClient, type Client, type DropReason } from 'sluice-client'
import { fileStore } from 'sluice-client/file'
const dropped: DropReason[] = []
const client: Client = createClient({
  url: 'http://127.0.0.1:9',
  appKey: 'ak_demo',
  store: fileStore('events'),
  onDropped: (reason) => dropped.push(reason),
})
client.track('signup', { plan: 'yearly' }, { context: { locale: 'en_GB' } })
`

/** The code of the README, and what its text says beside it. */
const SNIPPETS = Array.from(
  readFileSync(join(PACKAGE, 'README.md'), 'utf8').matchAll(/```js\n(.*?)```/gs),
  ([, code]) => `declare const ids: import('sluice-client').Overrides\n${code}`,
)

it('holds what a user needs and no more, compiles as its README says, without types of a browser, and runs', async () => {
  const folder = await freshFolder()
  // A copy: other tests may be building in the original.
  cpSync(PACKAGE, join(folder, 'clients/typescript'), { recursive: true, filter: (path) => !path.endsWith('dist') })
  cpSync(resolve(PACKAGE, '../../tsconfig.json'), join(folder, 'tsconfig.json'))
  const copy = join(folder, 'clients/typescript')
  execFileSync(TSC, ['-p', copy, '--typeRoots', resolve(PACKAGE, '../../node_modules/@types')], { stdio: 'inherit' })
  const packed = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder]
  const [{ filename, files }] = JSON.parse(execFileSync('npm', packed, { cwd: copy, encoding: 'utf8' })) as [
    { filename: string; files: { path: string }[] },
  ]
  const names = files.map((file) => file.path)
  expect(names).toEqual(
    expect.arrayContaining(['README.md', 'package.json', 'dist/index.js', 'dist/index.d.ts', 'dist/file.js']),
  )
  expect(names.filter((name) => !/^(README\.md|package\.json|dist\/\w+\.(js|d\.ts))$/.test(name))).toEqual([])
  const manifest = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8')) as Record<string, unknown>
  expect(manifest).not.toHaveProperty('dependencies')

  const user = join(folder, 'user')
  const installed = join(user, 'node_modules/sluice-client')
  mkdirSync(installed, { recursive: true })
  execFileSync('tar', ['-xzf', join(folder, filename), '-C', installed, '--strip-components=1'])
  writeFileSync(join(user, 'package.json'), '{"type":"module"}')
  writeFileSync(join(user, 'main.ts'), EXAMPLE)
  expect(SNIPPETS.length).toBeGreaterThan(1)
  for (const [index, code] of SNIPPETS.entries()) writeFileSync(join(user, `snippet${index}.ts`), code)
  const types = ['--typeRoots', resolve(PACKAGE, '../../node_modules/@types'), '--types', 'node']
  const strict = ['--ignoreConfig', '--strict', '--lib', 'es2022', '--outDir', 'out']
  const compile = (module: string, resolution: string, ...rest: string[]): unknown =>
    execFileSync(TSC, [...strict, '--module', module, '--moduleResolution', resolution, ...rest], {
      cwd: user,
      stdio: 'inherit',
    })
  for (const [module, resolution] of [
    ['node16', 'node16'],
    ['nodenext', 'nodenext'],
    ['esnext', 'bundler'],
  ]) {
    compile(module, resolution, 'main.ts', '--types', '')
    compile(module, resolution, ...SNIPPETS.map((_, index) => `snippet${index}.ts`), ...types)
  }
  // Its backoff does not keep the process from ending.
  execFileSync(process.execPath, ['out/main.js'], { cwd: user, stdio: 'inherit', timeout: 20_000 })
})

it('can be imported where there is nothing of a browser and nothing of Node', async () => {
  const folder = await freshFolder()
  const tsconfig = join(PACKAGE, 'tsconfig.json')
  execFileSync(TSC, ['-p', tsconfig, '--outDir', join(folder, 'dist')], { stdio: 'inherit' })
  const script = `
    for (const name of ['process', 'navigator', 'fetch', 'crypto', 'setTimeout', 'CompressionStream', 'Response'])
      Object.defineProperty(globalThis, name, { get() { throw new Error(name + ' was read') } })
    const { createClient } = await import('${join(folder, 'dist/index.js')}')
    if (typeof createClient !== 'function') throw new Error('no createClient')`
  writeFileSync(join(folder, 'import.mjs'), script)
  expect(execFileSync(process.execPath, [join(folder, 'import.mjs')], { encoding: 'utf8' })).toBe('')
})

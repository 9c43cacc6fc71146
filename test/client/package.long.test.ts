// The package as others get it: the tarball of npm pack, unpacked elsewhere.

import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { beforeAll, describe, expect, it, test } from 'vitest'
import { makeFolder } from '../support/service.ts'
import { buildClient } from './support/stored.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const PACKAGE = join(ROOT, 'clients/typescript')
const README = readFileSync(join(PACKAGE, 'README.md'), 'utf8')
const REPOSITORY = 'https://github.com/sluice-events/sluice'

interface Manifest {
  readonly version: string
  readonly main: string
  readonly [member: string]: unknown
}

const folder = await makeFolder()
/** A project that has the package installed. */
let user: string
let installed: string
let packed: string[]

const manifest = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8')) as Manifest
const read = (path: string): string => readFileSync(join(installed, path), 'utf8')
const runNode = (...args: string[]): string =>
  execFileSync(process.execPath, args, { cwd: user, encoding: 'utf8', timeout: 20_000 })

beforeAll(async () => {
  // A copy: other tests may be building in the original.
  const copy = join(folder, 'package')
  cpSync(PACKAGE, copy, { recursive: true, filter: (path) => !path.endsWith('dist') })
  cpSync(buildClient(folder), join(copy, 'dist'), { recursive: true })
  const pack = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder]
  const [{ filename, files }] = JSON.parse(execFileSync('npm', pack, { cwd: copy, encoding: 'utf8' })) as [
    { filename: string; files: { path: string }[] },
  ]
  packed = files.map((file) => file.path)
  user = join(folder, 'user')
  installed = join(user, 'node_modules/sluice-client')
  mkdirSync(installed, { recursive: true })
  execFileSync('tar', ['-xzf', join(folder, filename), '-C', installed, '--strip-components=1'])
})

describe('the tarball', () => {
  test('holds what a user needs and no more, and wants no other package', () => {
    const modules = ['index', 'file'].flatMap((name) => [`${name}.js`, `${name}.cjs`])
    const scripts = [...modules, 'sluice.min.js'].flatMap((name) => [name, `${name}.map`])
    const types = ['index', 'file', 'types'].flatMap((name) => [`${name}.d.ts`, `${name}.d.cts`])
    const built = [...scripts, ...types, 'sluice.min.js.integrity'].map((name) => `dist/${name}`)
    expect(packed.toSorted()).toEqual(['LICENSE', 'README.md', 'package.json', ...built].toSorted())
    expect(manifest).not.toHaveProperty('dependencies')
    expect(read('LICENSE')).toBe(readFileSync(join(ROOT, 'LICENSE'), 'utf8'))
  })

  test('has files at every place that its manifest names', () => {
    const { main, types, unpkg, jsdelivr, exports } = manifest
    const places = JSON.stringify([main, types, unpkg, jsdelivr, exports]).matchAll(/"(\.\/[^"]*\.\w+)":?/g)
    const named = [...places].map(([, path]) => path)
    expect(named.length).toBeGreaterThan(10)
    expect(named.filter((path) => !existsSync(join(installed, path)) && path !== './sluice.min.js')).toEqual([])
    expect(manifest).toMatchObject({
      homepage: expect.stringContaining(REPOSITORY),
      repository: { url: `git+${REPOSITORY}.git` },
    })
    expect(manifest['keywords']).toContain('analytics')
  })

  test('has source maps that hold the sources', () => {
    const maps = packed.filter((name) => name.endsWith('.map'))
    expect(maps).toHaveLength(5)
    for (const name of maps) {
      expect(read(name.replace(/\.map$/, ''))).toContain(`//# sourceMappingURL=${name.replace('dist/', '')}`)
      const { sources, sourcesContent } = JSON.parse(read(name)) as { sources: string[]; sourcesContent: string[] }
      expect(sourcesContent.map((text) => text.length > 0)).toEqual(sources.map(() => true))
    }
  })

  test('has a README whose links work wherever it is read', () => {
    const links = [...README.matchAll(/\]\(([^)]*)\)/g)].map(([, link]) => link)
    expect(links.length).toBeGreaterThan(2)
    for (const link of links) {
      const [, path] = link.replace(/#.*$/, '').split(`${REPOSITORY}/blob/main/`)
      expect(path, link).toBeDefined()
      expect(existsSync(join(ROOT, path)), link).toBe(true)
    }
  })
})

const CALLS = `
const dropped: DropReason[] = []
const client: Client = createClient({
  url: 'http://127.0.0.1:9',
  appKey: 'ak_demo',
  store: fileStore('events'),
  onDropped: (reason) => dropped.push(reason),
})
client.track('signup', { plan: 'yearly' }, { context: { locale: 'en_GB' } })
// @ts-expect-error A name is text: what resolves to nothing would be any.
client.track(1)
client.identify('user-17')
client.register({ plan: 'yearly' })
client.unregister('plan')
client.reset()

interface Events {
  signup: { plan: 'monthly' | 'yearly' }
  logout: {}
  search?: { text?: string }
}
for (const typed of [createClient<Events>, createSmallClient<Events>].map((create) => create({ url: '/', appKey: 'ak_demo' }))) {
  typed.track('signup', { plan: 'yearly' }, { user_id: 'u' })
  typed.track('logout')
  typed.track('search', { text: 'shoes' })
  typed.screen('any name')
  // @ts-expect-error No such name.
  typed.track('sginup', { plan: 'yearly' })
  // @ts-expect-error Another type.
  typed.track('signup', { plan: 42 })
  // @ts-expect-error Without a property that is wanted.
  typed.track('signup', {})
  // @ts-expect-error Without properties.
  typed.track('signup')
}
createClient({ url: '/', appKey: 'ak_demo', store: { keys: async () => [], get: async () => null, set: async () => {}, remove: async () => {} } })
// @ts-expect-error It has no page views.
createSmallClient({ url: '/', appKey: 'ak_demo', pageViews: true })
`
const MODULE = `
import { createClient, createSmallClient, type Client, type DropReason } from 'sluice-client'
import { fileStore } from 'sluice-client/file'
${CALLS}`
const REQUIRED = `
import client_ = require('sluice-client')
import { fileStore } from 'sluice-client/file'
import type { Client, DropReason } from 'sluice-client'
const { createClient, createSmallClient } = client_
${CALLS}`

describe('types', () => {
  const TSC = {
    5: [join(ROOT, 'test/node_modules/.bin/tsc')],
    7: [process.execPath, join(ROOT, 'tools/run.js'), 'tsc'],
  }
  // TypeScript 7 knows node10 no more.
  it.each([
    [5, 'commonjs', 'node10', ['main.ts']],
    [5, 'node16', 'node16', ['main.mts', 'main.cts']],
    [7, 'node16', 'node16', ['main.mts', 'main.cts']],
    [5, 'nodenext', 'nodenext', ['main.mts', 'main.cts']],
    [7, 'nodenext', 'nodenext', ['main.mts', 'main.cts']],
    [5, 'esnext', 'bundler', ['main.mts']],
    [7, 'esnext', 'bundler', ['main.mts']],
  ] as const)(
    'resolve with TypeScript %i, module %s, moduleResolution %s',
    (version, module, moduleResolution, files) => {
      writeFileSync(join(user, 'main.ts'), MODULE)
      writeFileSync(join(user, 'main.mts'), MODULE)
      writeFileSync(join(user, 'main.cts'), REQUIRED)
      // Without the types of a browser, and without skipLibCheck.
      const compilerOptions = { module, moduleResolution, strict: true, lib: ['es2022'], types: [], noEmit: true }
      writeFileSync(join(user, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }))
      const [program, ...args] = TSC[version]
      const options = { cwd: user, encoding: 'utf8' } as const
      expect(execFileSync(program, [...args, '-p', user], options)).toBe('')
    },
  )

  it('fit the code of the README', () => {
    const snippets = Array.from(README.matchAll(/```[jt]s\n(.*?)```/gs), ([, code]) => code)
    expect(snippets.length).toBeGreaterThan(1)
    const files = snippets.map((code, index) => {
      writeFileSync(join(user, `snippet${index}.mts`), `declare const ids: import('sluice-client').Overrides\n${code}`)
      return `snippet${index}.mts`
    })
    const types = { typeRoots: [join(ROOT, 'node_modules/@types')], types: ['node'], lib: ['es2022'] }
    const compilerOptions = { module: 'nodenext', strict: true, noEmit: true, skipLibCheck: true, ...types }
    writeFileSync(join(user, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }))
    const [program, ...args] = TSC[7]
    expect(execFileSync(program, [...args, '-p', user], { encoding: 'utf8' })).toBe('')
  })
})

describe('on Node', () => {
  const END = `
    createClient({ url: 'http://127.0.0.1:9', appKey: 'ak_demo', store: fileStore('events') }).track('signup')
    console.log('ran')`

  it('runs imported, and its backoff does not keep the process from ending', () => {
    const imports = `import { createClient } from 'sluice-client'; import { fileStore } from 'sluice-client/file'`
    expect(runNode('--input-type=module', '-e', `${imports}${END}`)).toBe('ran\n')
  })

  it('runs required, also where Node cannot require an ES module', () => {
    const requires = `const { createClient } = require('sluice-client'); const { fileStore } = require('sluice-client/file')`
    const args = ['--no-experimental-require-module', '--input-type=commonjs', '-e', `${requires}${END}`]
    expect(runNode(...args)).toBe('ran\n')
  })

  it.each(['index.js', 'index.cjs'])(
    '%s can be loaded where there is nothing of a browser and nothing of Node',
    (file) => {
      const names = ['process', 'navigator', 'fetch', 'crypto', 'setTimeout', 'CompressionStream', 'Response']
      const script = `
      for (const name of ${JSON.stringify(names)})
        Object.defineProperty(globalThis, name, { get() { throw new Error(name + ' was read') } })
      const { createClient } = await import('${join(installed, 'dist', file)}')
      if (typeof createClient !== 'function') throw new Error('no createClient')`
      writeFileSync(join(user, 'import.mjs'), script)
      expect(runNode('import.mjs')).toBe('')
    },
  )
})

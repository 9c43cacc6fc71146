// The versions of Node that package.json, the pages and the image name, and which of them have a binary of uWebSockets.js.

import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { NODE_OF_ABI, OLD_ENGINE_WARNING } from '../../src/http/uws/load.ts'

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
/** Of the two systems that sluice is run on. */
const withBinary = ['linux_x64', 'linux_arm64'].map((place) =>
  readdirSync(new URL('../../node_modules/uWebSockets.js/', import.meta.url))
    .flatMap((name) => new RegExp(`^uws_${place}_(\\d+)\\.node$`).exec(name)?.[1] ?? [])
    .flatMap((abi) => NODE_OF_ABI[abi] ?? [])
    .toSorted((one, other) => one - other),
)

describe('the versions of Node', () => {
  it("that package.json allows need no binary: without one, Node's own server reads HTTP", () => {
    expect(JSON.parse(read('package.json'))).toMatchObject({ engines: { node: '20.12 - 20 || >=22' } })
  })

  it('that docs/operations.md gives a generation of uWebSockets.js have a binary, and no other has', () => {
    const [, table = ''] = /^## Which Node$.*?^(\|.*?)\n\n/ms.exec(read('docs/operations.md')) ?? []
    const rows = table
      .split('\n')
      .slice(2)
      .map((row) => row.split('|').map((cell) => cell.trim()))
    const nodes = rows.flatMap(([, names = '', , engine]) =>
      /^(of|the same)/.test(engine ?? '') ? (names.match(/\b2\d\b/g) ?? []) : [],
    )
    expect(nodes.map(Number).toSorted((one, other) => one - other)).toEqual(withBinary[0])
  })

  it('of the image is the reference, on a system with the C library that it wants', () => {
    expect(read('Dockerfile')).toMatch(/^ARG BASE=node:24\.\d+\.\d+-trixie-slim@sha256:[0-9a-f]{64}$/m)
  })

  it('the warning of an older engine stands in the page as it is logged', () => {
    expect(read('docs/operations.md')).toContain(`\n${OLD_ENGINE_WARNING}\n`)
  })
})

describe('on a Node that says to be', () => {
  const module = (text: string): string => `data:text/javascript,${encodeURIComponent(text)}`
  /** Takes out of each module what Node 18 has not. */
  const without = module(`export async function load(url, context, next) {
    const loaded = await next(url, context)
    if (loaded.format !== 'module') return loaded
    const text = String(loaded.source).replaceAll('import.meta.dirname', 'undefined').replaceAll('styleText', 'noStyleText')
    return { ...loaded, source: text }
  }`)
  const program = (name: string, version: string, isOld = false) => {
    const hooks = isOld ? `import { register } from 'node:module'; register(${JSON.stringify(without)});` : ''
    const versions = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })`
    const path = fileURLToPath(new URL(`../../${name}`, import.meta.url))
    const args = ['--import', module(hooks + versions), path]
    const { status, stderr } = spawnSync(process.execPath, [...args, 'version'], { encoding: 'utf8' })
    return { status, stderr }
  }

  const ENTRIES = ['tools/build/main.js', 'bin/sluice.js', 'dist/main.js']

  it.each([
    ['18.20.8', 'is too old'],
    ['20.11.1', 'is too old'],
    ['21.6.2', 'is not supported'],
    ['21.7.3', 'is not supported'],
  ])(
    '%s, which %s, npm start, npx sluice and the built program say which one to install, and no more',
    (version, what) => {
      const { engines } = JSON.parse(read('package.json')) as { engines: { node: string } }
      const stderr = `sluice: Node ${version} ${what}: install Node 24 (it runs on ${engines.node}; README.md, "What it runs on")\n`
      for (const name of ENTRIES) expect(program(name, version, true)).toEqual({ status: 1, stderr })
    },
  )

  it.each(['20.12.0', '22.0.0', '23.0.0', '24.0.0', '26.0.0'])('%s, npx sluice runs', (version) => {
    for (const name of ENTRIES.slice(1)) expect(program(name, version)).toEqual({ status: 0, stderr: '' })
  })
})

// The versions of Node that package.json, the pages and the image name are those that have a binary of the HTTP engine.

import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { NODE_OF_ABI, OLD_ENGINE_WARNING } from '../../src/http/engine.ts'

const read = (path: string): string => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
/** Of the two systems that sluice is run on. */
const withBinary = ['linux_x64', 'linux_arm64'].map((place) =>
  readdirSync(new URL('../../node_modules/uWebSockets.js/', import.meta.url))
    .flatMap((name) => new RegExp(`^uws_${place}_(\\d+)\\.node$`).exec(name)?.[1] ?? [])
    .flatMap((abi) => NODE_OF_ABI[abi] ?? [])
    .toSorted((one, other) => one - other),
)

describe('the versions of Node', () => {
  it('that engines in package.json allows have a binary, and no other has', () => {
    const { engines } = JSON.parse(read('package.json')) as { engines: { node: string } }
    const allowed = engines.node.split(' || ').flatMap((range) => {
      const [least = 0, most = 0] = range.split(' - ').map((version) => Math.floor(Number(version)))
      return Array.from({ length: most - least + 1 }, (_, index) => least + index)
    })
    expect([allowed, allowed]).toEqual(withBinary)
  })

  it('that docs/operations.md gives an engine have a binary, and no other has', () => {
    const [, table = ''] = /^## Which Node$.*?^(\|.*?)\n\n/ms.exec(read('docs/operations.md')) ?? []
    const rows = table
      .split('\n')
      .slice(2)
      .map((row) => row.split('|').map((cell) => cell.trim()))
    const nodes = rows.flatMap(([, names = '', , engine]) => (engine === 'none' ? [] : (names.match(/\b2\d\b/g) ?? [])))
    expect(nodes.map(Number).toSorted((one, other) => one - other)).toEqual(withBinary[0])
  })

  it('of the image is the reference, on a system with the C library that it wants', () => {
    expect(read('Dockerfile')).toMatch(/^ARG BASE=node:24-trixie-slim$/m)
  })

  it('the warning of an older engine stands in the page as it is logged', () => {
    expect(read('docs/operations.md')).toContain(`\n${OLD_ENGINE_WARNING}\n`)
  })
})

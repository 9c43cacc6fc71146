// The messages for an operator where the HTTP engine has no suitable binary, and the table that they use.

import { readdirSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { chooseEngine } from '../../../src/http/engines.ts'
import { explainMissing, loadEngine, type Machine, NODE_OF_ABI } from '../../../src/http/uws/load.ts'
import { GENERATION } from '../../support/engine.ts'

const FILES = readdirSync(new URL('../../../node_modules/uWebSockets.js/', import.meta.url))
const NODE_26: Machine = {
  nodeVersion: '26.10.0',
  abi: '147',
  platform: 'linux',
  arch: 'x64',
  glibc: '2.41',
  files: FILES,
}
const NODE_24: Machine = { ...NODE_26, nodeVersion: '24.21.0', abi: '137' }
const NOT_FOUND = "This version of uWS.js supports only…\n\nError: Cannot find module './uws_linux_x64_147.node'"

describe('the message for an engine that does not load', () => {
  it('lists the versions of Node that have a binary', () => {
    expect(explainMissing(NOT_FOUND, NODE_26)).toBe(
      'the HTTP engine (uWebSockets.js) has no binary for Node 26.10.0 on linux x64; it has one for each of Node 20, 22, 24, 25: use Node 24',
    )
  })

  it('says which systems Node 24 has one for, where this one is too old for it', () => {
    expect(explainMissing(NOT_FOUND, { ...NODE_26, glibc: '2.36' })).toMatch(
      /: use Node 24 on Debian 13, Ubuntu 24\.04 or later$/,
    )
  })

  it('lists only the versions for this system and processor', () => {
    const machine = { ...NODE_26, arch: 'arm' }
    expect(explainMissing(NOT_FOUND, machine)).toContain('Node 26.10.0 on linux arm; it has one for each of Node 20:')
  })

  it('lists the systems and processors that have a binary', () => {
    expect(explainMissing(NOT_FOUND, { ...NODE_24, arch: 'ia32' })).toBe(
      'the HTTP engine (uWebSockets.js) has no binary for linux ia32; it has some for darwin arm64, darwin x64, linux arm, linux arm64, linux x64, win32 x64',
    )
  })

  it('names the version of glibc, and the one that is needed', () => {
    const cause = "Error: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by /a/b.node)"
    expect(explainMissing(cause, { ...NODE_24, glibc: '2.36' })).toBe(
      'the HTTP engine (uWebSockets.js) wants glibc 2.38 on Node 24.21.0, and this system has 2.36: use Debian 13, Ubuntu 24.04 or later; on older ones Node 20 works, with the engine of 2024',
    )
  })

  it('names another C library first, whatever else is missing', () => {
    const cause = 'Error: Error loading shared library ld-linux-x86-64.so.2: No such file or directory'
    expect(explainMissing(cause, { ...NODE_26, glibc: null })).toContain(
      'wants glibc, and this system has another C library',
    )
  })

  it('gives any other error in one line', () => {
    expect(explainMissing('This version of uWS.js…\n\nError: file too short\n', NODE_24)).toBe(
      'the HTTP engine (uWebSockets.js) does not load on Node 24.21.0, linux x64: Error: file too short',
    )
  })
})

describe('the table of binary interfaces', () => {
  it('has every binary of the package that Node 20 or later can load, but those of 21, on which sluice does not run', () => {
    const abis = FILES.flatMap((name) => /_(\d+)\.node$/.exec(name)?.[1] ?? []).filter((abi) => Number(abi) >= 115)
    expect(abis.length).toBeGreaterThan(0)
    expect(new Set(abis.filter((abi) => !(abi in NODE_OF_ABI)))).toEqual(new Set(['120']))
  })

  it('agrees with the Node that runs this test', () => {
    expect(NODE_OF_ABI[process.versions.modules]).toBe(Number(process.versions.node.split('.')[0]))
  })
})

it('the installed engine is recognized as old or new', async () => {
  expect(await loadEngine()).toEqual({ isOld: GENERATION === 'old' })
})

describe('the choice', () => {
  it('is uWebSockets.js where it loads, unless it is to be the other one', async () => {
    for (const httpEngine of ['auto', 'uws'] as const) {
      expect(await chooseEngine({ httpEngine, processes: 2 })).toMatchObject({ name: 'uws' })
    }
    expect(await chooseEngine({ httpEngine: 'node', processes: 1 })).toMatchObject({ name: 'node', warning: null })
  })

  it("of Node's own server wants a Node that lets several processes share a port, where there are several", async () => {
    const chosen = chooseEngine({ httpEngine: 'node', processes: 2 })
    const [major, minor] = process.versions.node.split('.').map(Number)
    if (major > 22 || (major === 22 && minor >= 12)) expect(await chosen).toMatchObject({ name: 'node' })
    else await expect(chosen).rejects.toThrow('SLUICE_PROCESSES must be 1 before Node 22.12')
  })
})

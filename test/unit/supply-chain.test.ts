// What is installed is what was looked at: the engine's files by hash, and how much comes with it. The scripts that
// change it are held to what they say.

import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const ENGINE_FOLDER = 'node_modules/uWebSockets.js'
/** Packages that an installation without tools and tests has, and those of them that come only where they fit. */
const MOST_NEEDED = 49
const MOST_OPTIONAL = 20

interface LockedPackage {
  readonly dev?: boolean
  readonly devOptional?: boolean
  readonly optional?: boolean
  readonly version?: string
  readonly resolved?: string
  readonly integrity?: string
}

const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as {
  packages: Record<string, LockedPackage>
}
const production = Object.entries(lock.packages).filter(([path, { dev, devOptional }]) => path && !dev && !devOptional)

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-test-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

describe('the engine', () => {
  it('is file for file what tools/engine.sha256 records', () => {
    const recorded = readFileSync(join(ROOT, 'tools/engine.sha256'), 'utf8').trimEnd().split('\n')
    const found = execFileSync(join(ROOT, 'tools/engine-hashes.sh'), { encoding: 'utf8' }).trimEnd().split('\n')
    expect(recorded).toEqual(found)
    const binary = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`
    for (const name of ['uws.js', 'ESM_wrapper.mjs', 'package.json', binary]) {
      expect(recorded.filter((line) => line.endsWith(`  ${name}`))).toHaveLength(1)
    }
  })

  it('is named with its exact version in package.json, and with its hash in the lock file', () => {
    const { dependencies } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
      dependencies: Record<string, string>
    }
    expect(dependencies['uWebSockets.js']).toMatch(
      /^(npm:uwebsockets@|github:uNetworking\/uWebSockets\.js#v)\d+\.\d+\.\d+$/,
    )
    const { integrity, resolved } = lock.packages[ENGINE_FOLDER] ?? {}
    expect(integrity ?? resolved).toMatch(/^sha512-|#[0-9a-f]{40}$/)
  })
})

it('a production installation stays small', () => {
  const optional = production.filter(([, entry]) => entry.optional)
  expect(production.length - optional.length).toBeLessThanOrEqual(MOST_NEEDED)
  expect(optional.length).toBeLessThanOrEqual(MOST_OPTIONAL)
})

it('typebox is in the build, whole and with its licence, and is not installed', () => {
  const built = readFileSync(join(ROOT, 'dist/contract/admin/typebox.js'), 'utf8')
  expect(built).toMatch(/^\/\*!\ntypebox\n[^]*MIT License/)
  expect(built).not.toMatch(/^(?:import|export)\b.*['"]/m)
  expect(production.map(([path]) => path)).not.toContain('node_modules/typebox')
})

describe("the change to the author's own release", () => {
  const switchTo = (...args: readonly string[]) =>
    spawnSync(join(folder, 'tools/use-official-engine.sh'), args, { encoding: 'utf8' })
  const manifest = (): string => readFileSync(join(folder, 'package.json'), 'utf8')

  beforeEach(() => {
    mkdirSync(join(folder, 'tools'))
    cpSync(join(ROOT, 'tools/use-official-engine.sh'), join(folder, 'tools/use-official-engine.sh'))
    cpSync(join(ROOT, 'package.json'), join(folder, 'package.json'))
  })

  it('changes one line of package.json', () => {
    const before = manifest().split('\n')
    expect(switchTo('v20.66.0', '--edit-only')).toMatchObject({ status: 0 })
    const changed = manifest()
      .split('\n')
      .filter((line) => !before.includes(line))
    expect(changed).toEqual(['    "uWebSockets.js": "github:uNetworking/uWebSockets.js#v20.66.0"'])
    expect(manifest().split('\n')).toHaveLength(before.length)
  })

  it.each([[], ['20.66.0'], ['v20.66'], ['v20.66.0', '--no'], ['v20.66.0;true', '--edit-only']])(
    'changes nothing when asked for %j %j',
    (...args: string[]) => {
      const before = manifest()
      expect(switchTo(...args)).toMatchObject({ status: 2, stderr: expect.stringContaining('Usage:') })
      expect(manifest()).toBe(before)
    },
  )

  it('installs, and records the hashes of what came', () => {
    // In place of the real source, which no test reaches: an npm that puts down an engine.
    const bin = join(folder, 'bin')
    mkdirSync(bin)
    cpSync(join(ROOT, 'tools/engine-hashes.sh'), join(folder, 'tools/engine-hashes.sh'))
    const engine = join(folder, ENGINE_FOLDER)
    const install = `mkdir -p '${engine}' && for name in uws.js ESM_wrapper.mjs uws_linux_x64_137.node package.json; do echo x > '${engine}/'$name; done`
    writeFileSync(join(bin, 'npm'), `#!/bin/sh\necho "npm $*"\n[ "$1" = install ] || exit 0\n${install}\n`, {
      mode: 0o755,
    })
    const { status, stdout } = spawnSync(join(folder, 'tools/use-official-engine.sh'), ['v20.69.0'], {
      encoding: 'utf8',
      env: { PATH: `${bin}:${process.env['PATH']}` },
    })
    expect({ status, npm: stdout.match(/^npm .*/gm) }).toEqual({
      status: 0,
      npm: ['npm pkg set dependencies[uWebSockets.js]=github:uNetworking/uWebSockets.js#v20.69.0', 'npm install'],
    })
    const hash = '73cb3858a687a8494ca3323053016282f3dad39d42cf62ca4e79dda2aac7d9ac'
    const names = ['uws.js', 'ESM_wrapper.mjs', 'uws_linux_x64_137.node', 'package.json']
    expect(readFileSync(join(folder, 'tools/engine.sha256'), 'utf8')).toBe(
      names.map((name) => `${hash}  ${name}\n`).join(''),
    )
  })
})

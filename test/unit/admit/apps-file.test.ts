import {
  chmodSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  closeSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { AppRecord } from '../../../src/admit/app-record.ts'
import {
  type AppsFile,
  demoAppRecords,
  MAX_APPS_FILE_BYTES,
  openAppsFile,
  readAppRecords,
  writeAppRecords,
} from '../../../src/admit/apps-file.ts'

const record = (id: string, parts: Partial<AppRecord> = {}): AppRecord => ({
  app_key: `ak_${id}`,
  app_id: id,
  plan: '10k',
  subscription: 'active',
  ...parts,
})
const textOf = (...ids: string[]) => JSON.stringify({ apps: ids.map((id) => record(id)) })

let folder: string
let path: string
let store: AppsFile | null
const reloads: number[] = []
const badFiles: (readonly string[])[] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-apps-'))
  path = join(folder, 'apps.json')
  store = null
  reloads.length = 0
  badFiles.length = 0
})

afterEach(() => {
  store?.stop()
  rmSync(folder, { recursive: true })
})

function open(): AppsFile {
  store = openAppsFile({
    path,
    pollMs: 5,
    onReload: (count) => reloads.push(count),
    onBadFile: (reasons) => badFiles.push(reasons),
  })
  return store
}

const eventually = (check: () => void) => vi.waitFor(check, { timeout: 20_000, interval: 5 })
const aFewPolls = () => new Promise((resolve) => setTimeout(resolve, 60))

describe('an app file', () => {
  it('answers for its keys from the start', () => {
    writeFileSync(path, textOf('a', 'b'))
    const apps = open()
    expect(apps.find('ak_a')).toMatchObject({ appId: 'a', eventsPerMonth: 11_000 })
    expect(apps.find('ak_c')).toBe('unknown')
    expect(apps.find('__proto__')).toBe('unknown')
    expect(Array.from(apps.all(), (app) => app.appId)).toEqual(['a', 'b'])
    expect(apps.reloadFailures).toBe(0)
  })

  it('that is missing, no file, not JSON or wrong at start is an error that names it and every mistake', () => {
    expect(() => open()).toThrow(`${path} cannot be used:\n  ENOENT`)
    mkdirSync(path)
    expect(() => open()).toThrow('not a file')
    rmSync(path, { recursive: true })
    writeFileSync(path, '{"apps": [')
    expect(() => open()).toThrow('not JSON')
    writeFileSync(path, JSON.stringify({ apps: [{ ...record('a'), plan: 'x' }, record('b', { name: 5 as never })] }))
    expect(() => open()).toThrow(
      /apps\.json cannot be used:\n {2}apps\[0\]\.plan: must be .*\n {2}apps\[1\]\.name: must be .*$/,
    )
  })

  it('that is larger than 64 MB is not read', () => {
    const file = openSync(path, 'w')
    ftruncateSync(file, MAX_APPS_FILE_BYTES + 1)
    closeSync(file)
    expect(() => open()).toThrow('67108865 bytes, at most 67108864 are read')
  })

  it('is read again when it is written in place', async () => {
    writeFileSync(path, textOf('a'))
    const apps = open()
    writeFileSync(path, textOf('b', 'c'))
    await eventually(() => expect(reloads).toEqual([2]))
    expect(apps.find('ak_a')).toBe('unknown')
    expect(apps.find('ak_c')).toMatchObject({ appId: 'c' })
  })

  it('is read again when another file is renamed over it, of the same size', async () => {
    writeFileSync(path, textOf('a'))
    const apps = open()
    writeFileSync(`${path}.new`, textOf('b'))
    renameSync(`${path}.new`, path)
    await eventually(() => expect(reloads).toEqual([1]))
    expect(apps.find('ak_b')).toMatchObject({ appId: 'b' })
  })

  it('is read again when a link on the way to it is swapped, as a mounted ConfigMap does', async () => {
    for (const version of ['a', 'b']) {
      mkdirSync(join(folder, version))
      writeFileSync(join(folder, version, 'apps.json'), textOf(version))
    }
    symlinkSync('a', join(folder, '..data'))
    symlinkSync(join('..data', 'apps.json'), path)
    const apps = open()
    symlinkSync('b', join(folder, '..data.new'))
    renameSync(join(folder, '..data.new'), join(folder, '..data'))
    await eventually(() => expect(reloads).toEqual([1]))
    expect(apps.find('ak_b')).toMatchObject({ appId: 'b' })
  })

  it('that turns bad is reported once, and the last good one stays in force until a good one comes', async () => {
    writeFileSync(path, textOf('a'))
    const apps = open()
    writeFileSync(path, '{"apps": 5}')
    await eventually(() => expect(badFiles).toEqual([['apps: required, an array of app records']]))
    await aFewPolls()
    expect(badFiles).toHaveLength(1)
    expect(apps.reloadFailures).toBe(1)
    expect(apps.find('ak_a')).toMatchObject({ appId: 'a' })
    writeFileSync(path, 'also bad')
    await eventually(() => expect(badFiles).toHaveLength(2))
    writeFileSync(path, textOf('b'))
    await eventually(() => expect(reloads).toEqual([1]))
    expect(apps.find('ak_b')).toMatchObject({ appId: 'b' })
    expect(apps.reloadFailures).toBe(2)
  })

  it('that vanishes is a bad file, and is read again when it is back', async () => {
    writeFileSync(path, textOf('a'))
    const apps = open()
    unlinkSync(path)
    await eventually(() => expect(badFiles).toEqual([[expect.stringContaining('ENOENT')]]))
    expect(apps.find('ak_a')).toMatchObject({ appId: 'a' })
    writeFileSync(path, textOf('b'))
    await eventually(() => expect(reloads).toEqual([1]))
  })

  it('is not looked at any more once it is stopped', async () => {
    writeFileSync(path, textOf('a'))
    const apps = open()
    apps.stop()
    writeFileSync(path, textOf('b', 'c'))
    await aFewPolls()
    expect(reloads).toEqual([])
    expect(apps.find('ak_a')).toMatchObject({ appId: 'a' })
  })
})

describe('editing an app file', () => {
  it('gives back the records that were written, in their order', () => {
    const records = [record('b', { name: 'Bé', events_per_day: 5 }), record('a')]
    writeAppRecords(path, records)
    expect(readAppRecords(path)).toEqual(records)
    expect(readFileSync(path, 'utf8')).toBe(`${JSON.stringify({ apps: records }, null, 2)}\n`)
    expect(readdirSync(folder)).toEqual(['apps.json'])
  })

  it('makes a new file readable to its owner alone, and keeps the mode of an old one', () => {
    writeAppRecords(path, [])
    expect(statSync(path).mode & 0o777).toBe(0o600)
    chmodSync(path, 0o664)
    writeAppRecords(path, [record('a')])
    expect(statSync(path).mode & 0o777).toBe(0o664)
  })

  it('replaces the file in one step: whoever has the old one open keeps it whole', () => {
    writeAppRecords(path, [record('a')])
    const before = openSync(path, 'r')
    writeAppRecords(path, [record('b')])
    expect(readFileSync(before, 'utf8')).toContain('ak_a')
    closeSync(before)
  })

  it('writes through a link, and leaves the link', () => {
    const target = join(folder, 'real.json')
    writeAppRecords(target, [record('a')])
    symlinkSync(target, path)
    writeAppRecords(path, [record('b')])
    expect(lstatSync(path).isSymbolicLink()).toBe(true)
    expect(readAppRecords(target)).toEqual([record('b')])
  })

  it('does not write what a service would refuse to read', () => {
    writeAppRecords(path, [record('a')])
    expect(() => writeAppRecords(path, [record('b'), record('b')])).toThrow('apps[1].app_key: same as apps[0].app_key')
    expect(readAppRecords(path)).toEqual([record('a')])
  })

  it('leaves no litter where it fails, and is not stopped by litter of a crash', () => {
    mkdirSync(path)
    expect(() => writeAppRecords(path, [record('a')])).toThrow('EISDIR')
    expect(readdirSync(folder)).toEqual(['apps.json'])
    rmSync(path, { recursive: true })
    writeFileSync(join(folder, `.apps.json.${process.pid}.new`), 'half')
    writeAppRecords(path, [record('a')])
    expect(readdirSync(folder)).toEqual(['apps.json'])
  })

  it('reads no bad file', () => {
    writeFileSync(path, '{}')
    expect(() => readAppRecords(path)).toThrow('apps: required')
  })

  it('starts with a demo app, whose key ends as asked', () => {
    writeAppRecords(path, demoAppRecords('2f6c1d'))
    expect(open().find('ak_demo_2f6c1d')).toMatchObject({ appId: 'demo', plan: '100k', subscription: 'active' })
  })
})

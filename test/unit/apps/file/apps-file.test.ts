import {
  chmodSync,
  closeSync,
  ftruncateSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { AppIndex } from '../../../../src/apps/app-index.ts'
import type { AppRecord } from '../../../../src/apps/app-record.ts'
import { type AppsFile, type AppsFileOptions, openAppsFile } from '../../../../src/apps/file/apps-file.ts'
import {
  demoAppRecords,
  makeAppsFile,
  readAppRecords,
  writeAppRecords,
} from '../../../../src/apps/file/apps-file-edit.ts'
import { MAX_APPS_FILE_BYTES } from '../../../../src/apps/file/apps-text.ts'

const links = vi.hoisted(() => ({ refused: null as string | null }))
vi.mock('node:fs', async (original) => {
  const actual = await original<typeof import('node:fs')>()
  return {
    ...actual,
    linkSync: (from: string, to: string) => {
      if (links.refused !== null) throw Object.assign(new Error(links.refused), { code: links.refused })
      actual.linkSync(from, to)
    },
  }
})
/** How often the file was polled. */
const looks = vi.hoisted(() => ({ count: 0 }))
vi.mock('node:fs/promises', async (original) => {
  const actual = await original<typeof import('node:fs/promises')>()
  return {
    ...actual,
    stat: (path: string) => {
      looks.count++
      return actual.stat(path)
    },
  }
})

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

async function open(options: Partial<AppsFileOptions> = {}): Promise<AppsFile> {
  store = await openAppsFile({
    path,
    clock: Date.now,
    pollMs: 5,
    onReload: (count) => reloads.push(count),
    onBadFile: (reasons) => badFiles.push(reasons),
    ...options,
  })
  return store
}

const eventually = (check: () => void) => vi.waitFor(check, { timeout: 50_000, interval: 5 })
/** Polls never overlap, however long a read takes. */
async function aFewLooks(): Promise<void> {
  const after = looks.count + 10
  await eventually(() => expect(looks.count).toBeGreaterThanOrEqual(after))
}

describe('an app file', () => {
  it('is in force from the start', async () => {
    writeFileSync(path, textOf('a', 'b'))
    const apps = await open()
    expect(apps.find('ak_a')).toMatchObject({ appId: 'a', eventsPerMonth: 11_000 })
    expect(apps.find('ak_c')).toBe('unknown')
    expect(apps.find('__proto__')).toBe('unknown')
    expect(Array.from(apps.all(), (app) => app.appId)).toEqual(['a', 'b'])
    expect(badFiles).toEqual([])
  })

  it('that is missing, not a file, not JSON or wrong at start is an error that names it and every mistake', async () => {
    await expect(open()).rejects.toThrow(`${path} cannot be used:\n  ENOENT`)
    mkdirSync(path)
    await expect(open()).rejects.toThrow('not a file')
    rmSync(path, { recursive: true })
    writeFileSync(path, '{"apps": [')
    await expect(open()).rejects.toThrow('not JSON')
    writeFileSync(path, JSON.stringify({ apps: [{ ...record('a'), plan: 'x' }, record('b', { name: 5 as never })] }))
    await expect(open()).rejects.toThrow(
      /apps\.json cannot be used:\n {2}apps\[0\]\.plan: must be .*\n {2}apps\[1\]\.name: must be .*$/,
    )
  })

  it('that is larger than 64 MB is not read', async () => {
    const file = openSync(path, 'w')
    ftruncateSync(file, MAX_APPS_FILE_BYTES + 1)
    closeSync(file)
    await expect(open()).rejects.toThrow('67108865 bytes, at most 67108864 are read')
  })

  it('is read again when it is written in place', async () => {
    writeFileSync(path, textOf('a'))
    const apps = await open()
    writeFileSync(path, textOf('b', 'c'))
    await eventually(() => expect(reloads).toEqual([2]))
    expect(apps.find('ak_a')).toBe('unknown')
    expect(apps.find('ak_c')).toMatchObject({ appId: 'c' })
  })

  it('is read again when another file is renamed over it, of the same size', async () => {
    writeFileSync(path, textOf('a'))
    const apps = await open()
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
    const apps = await open()
    symlinkSync('b', join(folder, '..data.new'))
    renameSync(join(folder, '..data.new'), join(folder, '..data'))
    await eventually(() => expect(reloads).toEqual([1]))
    expect(apps.find('ak_b')).toMatchObject({ appId: 'b' })
  })

  it('that turns bad is reported once, and the last good one stays in force until a good one comes', async () => {
    writeFileSync(path, textOf('a'))
    const apps = await open()
    writeFileSync(path, '{"apps": 5}')
    await eventually(() => expect(badFiles).toEqual([['apps: required, an array of app records']]))
    expect(apps.status.state).toBe('error')
    await aFewLooks()
    expect(badFiles).toHaveLength(1)
    expect(apps.find('ak_a')).toMatchObject({ appId: 'a' })
    writeFileSync(path, 'also bad')
    await eventually(() => expect(badFiles).toHaveLength(2))
    writeFileSync(path, textOf('b'))
    await eventually(() => expect(reloads).toEqual([1]))
    expect(apps.find('ak_b')).toMatchObject({ appId: 'b' })
    expect([badFiles.length, apps.status.state]).toEqual([2, 'ok'])
  })

  it('that disappears is a bad file, and is read again when it is back', async () => {
    writeFileSync(path, textOf('a'))
    const apps = await open()
    unlinkSync(path)
    await eventually(() => expect(badFiles).toEqual([[expect.stringContaining('ENOENT')]]))
    expect(apps.find('ak_a')).toMatchObject({ appId: 'a' })
    writeFileSync(path, textOf('b'))
    await eventually(() => expect(reloads).toEqual([1]))
  })

  it('that cannot be read is a bad file, whatever took its place, and is in force again when it is back', async () => {
    writeFileSync(path, textOf('a'))
    const apps = await open()
    const places: [put: () => void, reason: string][] = [
      [() => mkdirSync(path), 'not a file'],
      [() => symlinkSync('apps.json', path), 'ELOOP'],
      [() => writeFileSync(path, ''), 'not JSON'],
      [() => (writeFileSync(path, ''), truncateSync(path, MAX_APPS_FILE_BYTES + 1)), 'at most 67108864 are read'],
    ]
    for (const [put, reason] of places) {
      rmSync(path, { recursive: true, force: true })
      put()
      await eventually(() => expect(badFiles.at(-1)).toEqual([expect.stringContaining(reason)]))
      expect(apps.find('ak_a')).toMatchObject({ appId: 'a' })
    }
    rmSync(path)
    writeFileSync(path, textOf('a'))
    await eventually(() => expect(reloads).toEqual([1]))
    const { length } = badFiles
    await aFewLooks()
    expect(badFiles).toHaveLength(length)
  })

  it('that is written again and again is always in force as one complete version, in the end the last one', async () => {
    const version = (number: number) =>
      JSON.stringify({ apps: Array.from({ length: 300 }, (_, at) => record(`app-${at}`, { name: `v${number}` })) })
    writeFileSync(path, version(0))
    const apps = await open()
    const namesInForce = () => new Set(Array.from(apps.all(), ({ name }) => name))
    for (let number = 1; number <= 60; number++) {
      // In place and in two steps, so that it is incomplete in between.
      const text = version(number)
      writeFileSync(path, text.slice(0, text.length / 2))
      await new Promise((resolve) => setImmediate(resolve))
      writeFileSync(path, text.slice(text.length / 2), { flag: 'a' })
      await new Promise((resolve) => setTimeout(resolve, 2))
      expect(namesInForce().size).toBe(1)
    }
    await eventually(() => expect(namesInForce()).toEqual(new Set(['v60'])))
    expect(apps.find('ak_app-7')).toMatchObject({ name: 'v60' })
  })

  it('that never stops changing is reported once', async () => {
    writeFileSync(path, textOf('a'))
    const apps = await open()
    writeFileSync(path, 'a log')
    const writer = setInterval(() => writeFileSync(path, ' more', { flag: 'a' }), 1)
    try {
      await eventually(() => expect(badFiles).toEqual([['it changes again each time it is read']]))
    } finally {
      clearInterval(writer)
    }
    expect(apps.find('ak_a')).toMatchObject({ appId: 'a' })
    writeFileSync(path, textOf('a'))
    await eventually(() => expect(reloads).toEqual([1]))
  })

  it('whose text has not changed is not reloaded', async () => {
    writeFileSync(path, textOf('a'))
    const apps = await open()
    const before = apps.find('ak_a')
    const soon = new Date(Date.now() + 60_000)
    utimesSync(path, soon, soon)
    await aFewLooks()
    writeFileSync(path, textOf('a', 'b'))
    await eventually(() => expect(reloads).toEqual([2]))
    expect(apps.find('ak_a')).toEqual(before)
  })

  it('is parsed on another thread, and its apps are made here a few in each turn of the event loop', async () => {
    const ids = Array.from({ length: 5000 }, (_, at) => `app-${at}`)
    writeFileSync(path, textOf('a'))
    const parse = vi.spyOn(JSON, 'parse')
    const add = vi.spyOn(AppIndex.prototype, 'add')
    let mostInATurn = 0
    let seen = 0
    let turn = setImmediate(function look() {
      mostInATurn = Math.max(mostInATurn, add.mock.calls.length - seen)
      seen = add.mock.calls.length
      turn = setImmediate(look)
    })
    try {
      const apps = await open()
      writeFileSync(path, textOf(...ids))
      await eventually(() => expect(reloads).toEqual([5000]))
      expect(parse).not.toHaveBeenCalled()
      expect(mostInATurn).toBe(250)
      expect(apps.find('ak_app-4999')).toMatchObject({ appId: 'app-4999' })
    } finally {
      clearImmediate(turn)
      parse.mockRestore()
      add.mockRestore()
    }
  })

  it('is not polled after stop', async () => {
    writeFileSync(path, textOf('a'))
    const apps = await open()
    apps.stop()
    const others: number[] = []
    const other = await openAppsFile({
      path,
      clock: Date.now,
      pollMs: 5,
      onReload: (count) => others.push(count),
      onBadFile: () => {},
    })
    writeFileSync(path, textOf('b', 'c'))
    await eventually(() => expect(others).toEqual([2]))
    await aFewLooks()
    other.stop()
    expect(reloads).toEqual([])
    expect(apps.find('ak_a')).toMatchObject({ appId: 'a' })
  })
})

describe('editing an app file', () => {
  it('returns the records that were written, in their order', () => {
    const records = [record('b', { name: 'Bé', events_per_day: 5 }), record('a')]
    writeAppRecords(path, records)
    expect(readAppRecords(path)).toEqual(records)
    expect(readFileSync(path, 'utf8')).toBe(`${JSON.stringify({ apps: records }, null, 2)}\n`)
    expect(readdirSync(folder)).toEqual(['apps.json'])
  })

  it('makes a new file readable only by its owner, and keeps the mode of an old one', () => {
    writeAppRecords(path, [])
    expect(statSync(path).mode & 0o777).toBe(0o600)
    chmodSync(path, 0o664)
    writeAppRecords(path, [record('a')])
    expect(statSync(path).mode & 0o777).toBe(0o664)
  })

  it('replaces the file in one step: a reader of the old one still reads all of it', () => {
    writeAppRecords(path, [record('a')])
    const before = openSync(path, 'r')
    writeAppRecords(path, [record('b')])
    expect(readFileSync(before, 'utf8')).toContain('ak_a')
    closeSync(before)
  })

  it('writes to the target of a link, and keeps the link', () => {
    const target = join(folder, 'real.json')
    writeAppRecords(target, [record('a')])
    symlinkSync(target, path)
    writeAppRecords(path, [record('b')])
    expect(lstatSync(path).isSymbolicLink()).toBe(true)
    expect(readAppRecords(target)).toEqual([record('b')])
  })

  it('does not write records that a service would refuse', () => {
    writeAppRecords(path, [record('a')])
    expect(() => writeAppRecords(path, [record('b'), record('b')])).toThrow('apps[1].app_key: same as apps[0].app_key')
    expect(readAppRecords(path)).toEqual([record('a')])
  })

  it('does not write more than a service would read', () => {
    writeAppRecords(path, [record('a')])
    // Few records that are large: as many small ones take seconds to be checked.
    const origins = Array.from({ length: 100 }, (_, at) => `https://${at}${'.a'.repeat(120)}`)
    const many = Array.from({ length: 2600 }, (_, at) => record(`${at}`, { origins }))
    expect(() => writeAppRecords(path, many)).toThrow('at most 67108864 are read')
    expect(readAppRecords(path)).toEqual([record('a')])
  })

  it('leaves no temporary file when it fails, and works beside one left by a crash', () => {
    mkdirSync(path)
    expect(() => writeAppRecords(path, [record('a')])).toThrow('EISDIR')
    expect(readdirSync(folder)).toEqual(['apps.json'])
    rmSync(path, { recursive: true })
    writeFileSync(join(folder, `.apps.json.${process.pid}.new`), 'half')
    writeAppRecords(path, [record('a')])
    expect(readdirSync(folder)).toEqual(['apps.json'])
  })

  it('changes nothing where its lock was lost just before the replacement', () => {
    writeAppRecords(path, [record('a')])
    const lost = () => {
      throw new Error('another edit took over')
    }
    expect(() => writeAppRecords(path, [record('b')], lost)).toThrow('took over')
    expect(readAppRecords(path)).toEqual([record('a')])
    expect(readdirSync(folder)).toEqual(['apps.json'])
  })

  it('refuses a bad file', () => {
    writeFileSync(path, '{}')
    expect(() => readAppRecords(path)).toThrow('apps: required')
  })

  it('creates a first file in one step, and keeps an existing one', () => {
    expect(makeAppsFile(path, [record('a')])).toBe(true)
    expect(makeAppsFile(path, [record('b')])).toBe(false)
    expect(readAppRecords(path)).toEqual([record('a')])
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(readdirSync(folder)).toEqual(['apps.json'])
  })

  it('creates a first file on a file system without links, and keeps an existing one', () => {
    links.refused = 'EPERM'
    try {
      expect(makeAppsFile(path, [record('a')])).toBe(true)
      expect(makeAppsFile(path, [record('b')])).toBe(false)
    } finally {
      links.refused = null
    }
    expect(readAppRecords(path)).toEqual([record('a')])
    expect(readdirSync(folder)).toEqual(['apps.json'])
  })

  it('reports why a first file cannot be created, and leaves no temporary file', () => {
    links.refused = 'ENOSPC'
    try {
      expect(() => makeAppsFile(path, [record('a')])).toThrow('ENOSPC')
    } finally {
      links.refused = null
    }
    expect(readdirSync(folder)).toEqual([])
  })

  it('starts with a demo app whose key has the given suffix', async () => {
    writeAppRecords(path, demoAppRecords('2f6c1d'))
    expect((await open()).find('ak_demo_2f6c1d')).toMatchObject({ appId: 'demo', plan: '100k', subscription: 'active' })
  })
})

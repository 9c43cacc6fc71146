// Polling the app file when the disk hangs, and when a poll fails.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type AppsFile, type AppsFileOptions, openAppsFile } from '../../../../src/apps/file/apps-file.ts'
import { startAppsThread } from '../../../../src/apps/file/apps-thread.ts'

const disk = vi.hoisted(() => ({
  stats: 0,
  threads: 0,
  isReadLate: false,
  /** What each poll waits for, and the end of each thread. */
  statHangs: null as Promise<void> | null,
  threadHangs: null as Promise<void> | null,
}))
vi.mock('node:fs/promises', async (original) => {
  const actual = await original<typeof import('node:fs/promises')>()
  return {
    ...actual,
    stat: async (path: string) => {
      disk.stats++
      await disk.statHangs
      return actual.stat(path)
    },
  }
})
vi.mock('../../../../src/apps/file/apps-thread.ts', async (original) => {
  const actual = await original<typeof import('../../../../src/apps/file/apps-thread.ts')>()
  return {
    startAppsThread: ((data) => {
      disk.threads++
      // A thread takes longer to start.
      const thread = actual.startAppsThread(data, disk.isReadLate ? 0 : 30_000)
      return disk.threadHangs === null ? thread : { ...thread, ended: disk.threadHangs }
    }) satisfies typeof startAppsThread,
  }
})

const textOf = (...ids: string[]) =>
  JSON.stringify({ apps: ids.map((id) => ({ app_key: `ak_${id}`, app_id: id, plan: '10k', subscription: 'active' })) })
const eventually = (check: () => void) => vi.waitFor(check, { timeout: 20_000, interval: 5 })

let folder: string
let path: string
let store: AppsFile | null
const reloads: number[] = []
const badFiles: (readonly string[])[] = []

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-apps-'))
  path = join(folder, 'apps.json')
  writeFileSync(path, textOf('a'))
  store = null
  Object.assign(disk, { stats: 0, threads: 0, isReadLate: false, statHangs: null, threadHangs: null })
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

/** Until the function that this gives is called. */
function hang(what: 'statHangs' | 'threadHangs'): () => void {
  let goOn = (): void => {}
  disk[what] = new Promise((resolve) => {
    goOn = resolve
  })
  return () => {
    disk[what] = null
    goOn()
  }
}

describe('a disk that hangs', () => {
  it('is reported once and asked once, and changes are found again when it answers', async () => {
    await open({ readTimeoutMs: 500 })
    const goOn = hang('statHangs')
    const { stats } = disk
    await eventually(() => expect(badFiles).toEqual([['no answer from the disk in 0.5 s']]))
    expect(disk.stats).toBeLessThanOrEqual(stats + 1)
    writeFileSync(path, textOf('b', 'c'))
    goOn()
    await eventually(() => expect(reloads).toEqual([2]))
    expect(badFiles).toHaveLength(1)
  })

  it('is reported as working again, also without a change', async () => {
    await open({ readTimeoutMs: 500 })
    const goOn = hang('statHangs')
    await eventually(() => expect(badFiles).toHaveLength(1))
    goOn()
    await eventually(() => expect(reloads).toEqual([1]))
  })

  it('is reported once; the reading thread is ended, and a new one tries until the disk answers', async () => {
    const apps = await open()
    disk.isReadLate = true
    const { threads } = disk
    writeFileSync(path, textOf('b', 'c'))
    await eventually(() => expect(disk.threads).toBeGreaterThan(threads + 2))
    expect(badFiles).toEqual([['no answer from the disk in 30 s']])
    expect(apps.find('ak_a')).toMatchObject({ appId: 'a' })
    disk.isReadLate = false
    await eventually(() => expect(reloads).toEqual([2]))
  })

  it('gets no second thread while the terminated first one still waits for it', async () => {
    await open()
    disk.isReadLate = true
    const goOn = hang('threadHangs')
    writeFileSync(path, textOf('b', 'c'))
    await eventually(() => expect(badFiles).toHaveLength(1))
    const { stats } = disk
    disk.isReadLate = false
    writeFileSync(`${path}.other`, textOf('a'))
    // The polls of another file show that enough time has passed for this one to have read.
    const other = await openAppsFile({
      path: `${path}.other`,
      clock: Date.now,
      pollMs: 5,
      onReload: () => {},
      onBadFile: () => {},
    })
    await eventually(() => expect(disk.stats).toBeGreaterThan(stats + 20))
    other.stop()
    expect(reloads).toEqual([])
    goOn()
    await eventually(() => expect(reloads).toEqual([2]))
  })

  it('at the start ends the start', async () => {
    disk.isReadLate = true
    await expect(open()).rejects.toThrow(`${path} cannot be used:\n  no answer from the disk in 30 s`)
  })
})

it('a thread that is stopped before its answer gives none, and ends', async () => {
  disk.isReadLate = true
  const thread = startAppsThread({ path, knownDigest: null }, 0)
  expect(await thread.answer).toEqual({ kind: 'late' })
  await thread.ended
})

it('a failed poll is a bad file, and polling goes on', async () => {
  let failures = 0
  await open({
    rereadAfterMs: { good: 50, bad: 50 },
    onReload: (count) => {
      if (failures++ === 0) throw new Error('no room for it')
      reloads.push(count)
    },
  })
  writeFileSync(path, textOf('b', 'c'))
  await eventually(() => expect(badFiles).toEqual([['polling it failed: no room for it']]))
  await eventually(() => expect(reloads).toEqual([2]))
  writeFileSync(path, textOf('d'))
  await eventually(() => expect(reloads).toEqual([2, 1]))
  expect(badFiles).toHaveLength(1)
})

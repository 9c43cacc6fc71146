import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { withEditLock } from '../../../src/lib/edit-lock.ts'
import { mountSmall, takeAllRoom } from '../../support/small-disk.ts'

const HOLDER = resolve(import.meta.dirname, '../../support/edit-lock-holder.mjs')
/** For a lock that is held, and for one that must be free. */
const SHORT = { waitMs: 60 }
const LONG = { waitMs: 5000 }
/** For a lock whose holder was killed or is stopped. */
const IMPATIENT = { waitMs: 20_000, maxHoldMs: 200 }
const done = () => 'done'
const holders: ChildProcess[] = []
let folder = ''
let path = ''

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-lock-'))
  path = join(folder, 'apps.json')
})
afterEach(async () => {
  for (const holder of holders.splice(0)) await kill(holder)
  rmSync(folder, { recursive: true, force: true })
})

/** A process that has the lock. */
async function startHolder(file = path): Promise<ChildProcess> {
  const holder = spawn(process.execPath, [HOLDER, file], { stdio: ['ignore', 'pipe', 'inherit'] })
  holders.push(holder)
  expect(await said(holder)).toBe('locked')
  return holder
}

/** The next line of the process. */
async function said({ stdout }: ChildProcess): Promise<string> {
  if (stdout === null) throw new Error('the holder has no pipe')
  const [chunk] = (await once(stdout, 'data')) as [Buffer]
  return chunk.toString().trim()
}

async function kill(holder: ChildProcess): Promise<void> {
  if (holder.exitCode !== null || holder.signalCode !== null) return
  const ended = once(holder, 'exit')
  holder.kill('SIGKILL')
  await ended
}

test('edits at the same time run one after the other, and leave nothing behind', async () => {
  const ended = new Set<number>()
  const edits = Array.from({ length: 8 }, (_, number) =>
    withEditLock(path, (confirm) => {
      expect(readdirSync(folder)).toEqual(['.apps.json.lock'])
      confirm()
      ended.add(number)
    }),
  )
  await Promise.all(edits)
  expect(ended.size).toBe(8)
  expect(readdirSync(folder)).toEqual([])
})

test('an edit that fails lets go, and its error comes through', async () => {
  const fails = withEditLock(path, () => {
    throw new Error('edit failed')
  })
  await expect(fails).rejects.toThrow('edit failed')
  await expect(withEditLock(path, done, SHORT)).resolves.toBe('done')
})

describe('the lock of a living process', () => {
  test('holds, however old it looks, and names the process', async () => {
    const holder = await startHolder()
    const longAgo = new Date(Date.now() - 3_600_000)
    for (const name of readdirSync(folder)) utimesSync(join(folder, name), longAgo, longAgo)
    await expect(withEditLock(path, done, SHORT)).rejects.toThrow(
      new RegExp(
        `^cannot lock ${path} for an edit: another edit still runs: process ${holder.pid} on .* holds ${folder}/`,
      ),
    )
  })

  test('is passed on when the edit ends', async () => {
    const holder = await startHolder()
    const next = withEditLock(path, done)
    writeFileSync(`${path}.go`, '')
    expect(await said(holder)).toBe('kept')
    expect(await next).toBe('done')
  })

  test('holds for every path to the file, and no other file', async () => {
    writeFileSync(path, '')
    const link = join(folder, 'link.json')
    symlinkSync('apps.json', link)
    mkdirSync(join(folder, 'other'))
    await startHolder()
    await expect(withEditLock(link, done, SHORT)).rejects.toThrow('still runs')
    await expect(withEditLock(join(folder, 'other', 'apps.json'), done, LONG)).resolves.toBe('done')
    await expect(withEditLock(join(folder, 'apps'), done, LONG)).resolves.toBe('done')
  })

  test('is not given up while others try in vain', async () => {
    const holder = await startHolder()
    await Promise.all(
      Array.from({ length: 5 }, () => expect(withEditLock(path, done, SHORT)).rejects.toThrow('still runs')),
    )
    writeFileSync(`${path}.go`, '')
    expect(await said(holder)).toBe('kept')
  })
})

describe('the lock of a process that was killed', () => {
  test('is taken over, and nothing is left behind', async () => {
    await kill(await startHolder())
    expect(readdirSync(folder)).toEqual(['.apps.json.lock'])
    await expect(withEditLock(path, done, SHORT)).rejects.toThrow('still runs')
    await expect(withEditLock(path, done, IMPATIENT)).resolves.toBe('done')
    expect(readdirSync(folder)).toEqual([])
  })

  test('is taken over by one of several at a time', async () => {
    await kill(await startHolder())
    let edits = 0
    const edit = (confirm: () => void) => {
      confirm()
      edits++
    }
    await Promise.all(Array.from({ length: 8 }, () => withEditLock(path, edit, IMPATIENT)))
    expect(edits).toBe(8)
    expect(readdirSync(folder)).toEqual([])
  })
})

describe('a process that is stopped in an edit', () => {
  test('loses the lock, and replaces nothing when it goes on', async () => {
    const holder = await startHolder()
    holder.kill('SIGSTOP')
    await expect(withEditLock(path, done, IMPATIENT)).resolves.toBe('done')
    writeFileSync(`${path}.go`, '')
    holder.kill('SIGCONT')
    expect(await said(holder)).toBe('another edit took the lock over meanwhile: nothing is changed; try again')
  })

  test('leaves the lock to whoever took it over', async () => {
    const lock = join(folder, '.apps.json.lock')
    await withEditLock(path, () => writeFileSync(lock, 'another process'))
    expect(readFileSync(lock, 'utf8')).toBe('another process')
  })
})

test('a pipe in the place of the lock makes nobody wait for its writer', async () => {
  execFileSync('mkfifo', [join(folder, '.apps.json.lock')])
  await expect(withEditLock(path, done, SHORT)).rejects.toThrow(/still runs: an unknown process holds/)
  await expect(withEditLock(path, done, IMPATIENT)).resolves.toBe('done')
})

test('a lock that cannot be written, on a full disk, is not left behind', async ({ skip }) => {
  const full = mountSmall('64k', skip)
  const file = join(full, 'apps.json')
  const filler = join(full, 'filler')
  takeAllRoom(filler)
  await expect(withEditLock(file, done)).rejects.toThrow(/^cannot lock .* for an edit: ENOSPC/)
  expect(readdirSync(full)).toEqual(['filler'])
  rmSync(filler)
  await expect(withEditLock(file, done, SHORT)).resolves.toBe('done')
})

test('a folder that cannot be written to is named', async () => {
  writeFileSync(path, '')
  await expect(withEditLock(join(path, 'apps.json'), done)).rejects.toThrow(/cannot lock .*apps\.json for an edit: /)
})

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { withEditLock } from '../../../src/lib/edit-lock.ts'

const HOLDER = resolve(import.meta.dirname, '../../support/edit-lock-holder.mjs')
const SHORT = { waitMs: 60 }
const done = () => Promise.resolve('done')
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
  await once(holder.stdout, 'data')
  return holder
}

async function kill(holder: ChildProcess): Promise<void> {
  if (holder.exitCode !== null || holder.signalCode !== null) return
  const ended = once(holder, 'exit')
  holder.kill('SIGKILL')
  await ended
}

test('edits at the same time run one after the other', async () => {
  let running = 0
  let most = 0
  const edit = async (): Promise<void> => {
    most = Math.max(most, ++running)
    await sleep(5)
    running--
  }
  await Promise.all(Array.from({ length: 8 }, () => withEditLock(path, edit)))
  expect(most).toBe(1)
  expect(readdirSync(folder)).toEqual([])
})

test('an edit that fails lets go, and its error comes through', async () => {
  await expect(withEditLock(path, () => Promise.reject(new Error('edit failed')))).rejects.toThrow('edit failed')
  await expect(withEditLock(path, done, SHORT)).resolves.toBe('done')
})

describe('the lock of a living process', () => {
  test('holds, however old it looks', async () => {
    await startHolder()
    const longAgo = new Date(Date.now() - 3_600_000)
    for (const name of readdirSync(folder)) utimesSync(join(folder, name), longAgo, longAgo)
    await expect(withEditLock(path, done, SHORT)).rejects.toThrow(/another edit holds .*apps\.json\.lock\..*remove it/)
  })

  test('holds while that process is stopped, and is passed on when it goes on and ends', async () => {
    const holder = await startHolder()
    holder.kill('SIGSTOP')
    await expect(withEditLock(path, done, { waitMs: 500 })).rejects.toThrow('another edit holds')
    const next = withEditLock(path, done)
    holder.kill('SIGCONT')
    await kill(holder)
    expect(await next).toBe('done')
  })

  test('holds for every path to the file, and no other file', async () => {
    writeFileSync(path, '')
    const link = join(folder, 'link.json')
    symlinkSync('apps.json', link)
    mkdirSync(join(folder, 'other'))
    await startHolder()
    await expect(withEditLock(link, done, SHORT)).rejects.toThrow('another edit holds')
    await expect(withEditLock(join(folder, 'other', 'apps.json'), done, SHORT)).resolves.toBe('done')
    await expect(withEditLock(join(folder, 'apps'), done, SHORT)).resolves.toBe('done')
  })

  test('holds in a folder whose path is longer than the name of a socket may be', async () => {
    const deep = join(folder, 'd'.repeat(120), 'e'.repeat(120))
    mkdirSync(deep, { recursive: true })
    const holder = await startHolder(join(deep, 'apps.json'))
    await expect(withEditLock(join(deep, 'apps.json'), done, SHORT)).rejects.toThrow('another edit holds')
    await kill(holder)
    await expect(withEditLock(join(deep, 'apps.json'), done, SHORT)).resolves.toBe('done')
    expect(readdirSync(deep)).toEqual([])
  })

  test('is not given up while others try in vain', async () => {
    let isHeld = false
    const tries = withEditLock(path, async () => {
      isHeld = true
      await Promise.all(
        Array.from({ length: 5 }, () => expect(withEditLock(path, done, SHORT)).rejects.toThrow('another edit holds')),
      )
      isHeld = false
    })
    await tries
    expect(isHeld).toBe(false)
    expect(readdirSync(folder)).toEqual([])
  })
})

describe('what was left behind', () => {
  test('by a process that was killed does not stand in the way, and is taken away', async () => {
    await kill(await startHolder())
    expect(readdirSync(folder)).toHaveLength(1)
    await expect(withEditLock(path, done, SHORT)).resolves.toBe('done')
    expect(readdirSync(folder)).toEqual([])
  })

  test('by one that was killed before it showed its lock is taken away too', async () => {
    await kill(await startHolder())
    const [name] = readdirSync(folder)
    renameSync(join(folder, name), join(folder, name.replace('.lock.', '.locking.')))
    await expect(withEditLock(path, done, SHORT)).resolves.toBe('done')
    expect(readdirSync(folder)).toEqual([])
  })

  test('by several at once is taken away by several at once, and one edit runs at a time', async () => {
    await Promise.all(Array.from({ length: 3 }, (_, at) => startHolder(join(folder, `other-${at}.json`)).then(kill)))
    for (const name of readdirSync(folder)) {
      renameSync(join(folder, name), join(folder, name.replace(/\.other-\d\.json/, '.apps.json')))
    }
    let running = 0
    const edit = async (): Promise<void> => {
      expect(++running).toBe(1)
      await sleep(5)
      running--
    }
    await Promise.all(Array.from({ length: 8 }, () => withEditLock(path, edit)))
    expect(readdirSync(folder)).toEqual([])
  })

  test('on another machine, which cannot be asked, holds until people take it away', async () => {
    await kill(await startHolder())
    const [name] = readdirSync(folder)
    const elsewhere = name.replace(/\.lock\.\w+\./, '.lock.another.')
    renameSync(join(folder, name), join(folder, elsewhere))
    await expect(withEditLock(path, done, SHORT)).rejects.toThrow(`holds ${join(folder, elsewhere)}; remove it`)
    rmSync(join(folder, elsewhere))
    await expect(withEditLock(path, done, SHORT)).resolves.toBe('done')
  })
})

test('a socket of another program beside the file is left alone', async () => {
  const server = createServer()
  server.listen(join(folder, 'other.sock'))
  await once(server, 'listening')
  await expect(withEditLock(path, done, SHORT)).resolves.toBe('done')
  expect(readdirSync(folder)).toEqual(['other.sock'])
  server.close()
})

test('a folder that cannot be written to is named', async () => {
  writeFileSync(path, '')
  await expect(withEditLock(join(path, 'apps.json'), () => Promise.resolve())).rejects.toThrow(
    /cannot make the lock file .*lock/,
  )
})

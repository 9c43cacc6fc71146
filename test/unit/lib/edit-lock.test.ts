import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { withEditLock } from '../../../src/lib/edit-lock.ts'

/** The call that finds its socket gone, as when another took it for that of a dead process. */
const vanish = vi.hoisted(() => ({ at: null as 'chmod' | 'rename' | null, count: 0 }))
vi.mock('node:fs/promises', async (original) => {
  const actual = await original<typeof import('node:fs/promises')>()
  const orVanish =
    <Args extends unknown[]>(name: 'chmod' | 'rename', call: (...args: Args) => Promise<void>) =>
    (...args: Args) => {
      if (vanish.at !== name) return call(...args)
      vanish.count++
      return Promise.reject(Object.assign(new Error('gone'), { code: 'ENOENT' }))
    }
  return { ...actual, chmod: orVanish('chmod', actual.chmod), rename: orVanish('rename', actual.rename) }
})

const HOLDER = resolve(import.meta.dirname, '../../support/edit-lock-holder.mjs')
/** For a lock that is held, and for one that must be free. */
const SHORT = { waitMs: 60 }
const LONG = { waitMs: 5000 }
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

/** A lock whose process was killed, as if it had been begun elsewhere or earlier. Gives its name. */
async function leaveBehind({ machine, boot }: { machine?: string; boot?: string }): Promise<string> {
  await kill(await startHolder())
  const [name] = readdirSync(folder)
  const parts = name.split('.')
  if (machine !== undefined) parts[2] = machine
  if (boot !== undefined) parts[3] = boot
  renameSync(join(folder, name), join(folder, parts.join('.')))
  return parts.join('.')
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
  await expect(withEditLock(path, done, LONG)).resolves.toBe('done')
})

describe('the lock of a living process', () => {
  test('holds, however old it looks', async () => {
    const holder = await startHolder()
    const longAgo = new Date(Date.now() - 3_600_000)
    for (const name of readdirSync(folder)) utimesSync(join(folder, name), longAgo, longAgo)
    await expect(withEditLock(path, done, SHORT)).rejects.toThrow(
      `another edit of ${path} still runs: process ${holder.pid} holds ${join(folder, '.lock-')}`,
    )
  })

  test('holds while that process is stopped, and is passed on when it goes on and ends', async () => {
    const holder = await startHolder()
    holder.kill('SIGSTOP')
    await expect(withEditLock(path, done, { waitMs: 500 })).rejects.toThrow('still runs')
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
    await expect(withEditLock(link, done, SHORT)).rejects.toThrow('still runs')
    await expect(withEditLock(join(folder, 'other', 'apps.json'), done, LONG)).resolves.toBe('done')
    await expect(withEditLock(join(folder, 'apps'), done, LONG)).resolves.toBe('done')
  })

  test('holds in a folder whose path is longer than the name of a socket may be', async () => {
    const deep = join(folder, 'd'.repeat(120), 'e'.repeat(120))
    mkdirSync(deep, { recursive: true })
    const holder = await startHolder(join(deep, 'apps.json'))
    await expect(withEditLock(join(deep, 'apps.json'), done, SHORT)).rejects.toThrow('still runs')
    await kill(holder)
    await expect(withEditLock(join(deep, 'apps.json'), done, LONG)).resolves.toBe('done')
    expect(readdirSync(deep)).toEqual([])
  })

  test('is not given up while others try in vain', async () => {
    let isHeld = false
    const tries = withEditLock(path, async () => {
      isHeld = true
      await Promise.all(
        Array.from({ length: 5 }, () => expect(withEditLock(path, done, SHORT)).rejects.toThrow('still runs')),
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
    await expect(withEditLock(path, done, LONG)).resolves.toBe('done')
    expect(readdirSync(folder)).toEqual([])
  })

  test('by one that was killed before it showed its lock is taken away too', async () => {
    await kill(await startHolder())
    const [name] = readdirSync(folder)
    renameSync(join(folder, name), join(folder, name.replace('.lock-', '.locking-')))
    await expect(withEditLock(path, done, LONG)).resolves.toBe('done')
    expect(readdirSync(folder)).toEqual([])
  })

  test('by several at once is taken away by several at once, and one edit runs at a time', async () => {
    const files = [path, ...Array.from({ length: 3 }, (_, at) => join(folder, `other-${at}.json`))]
    const holders = await Promise.all(files.map((file) => startHolder(file)))
    const nameOf = ({ pid }: ChildProcess) => readdirSync(folder).find((name) => name.includes(`.${pid}.`)) ?? ''
    const [prefix] = nameOf(holders[0]).split('.', 2).slice(1)
    for (const holder of holders) await kill(holder)
    for (const name of readdirSync(folder)) {
      renameSync(join(folder, name), join(folder, name.replace(/^\.lock-\w+/, `.${prefix}`)))
    }
    expect(readdirSync(folder)).toHaveLength(files.length)
    let running = 0
    const edit = async (): Promise<void> => {
      expect(++running).toBe(1)
      await sleep(5)
      running--
    }
    await Promise.all(Array.from({ length: 8 }, () => withEditLock(path, edit)))
    expect(readdirSync(folder)).toEqual([])
  })

  test('before the machine was started anew does not stand in the way, and is taken away', async () => {
    await leaveBehind({ boot: 'earlier' })
    await expect(withEditLock(path, done, LONG)).resolves.toBe('done')
    expect(readdirSync(folder)).toEqual([])
  })

  test('on another machine, which cannot be asked, holds until people take it away', async () => {
    const socket = join(folder, await leaveBehind({ machine: 'another', boot: 'another' }))
    await expect(withEditLock(path, done, SHORT)).rejects.toThrow(
      `holds ${socket}: it was begun on another machine, which cannot be asked from here; remove that socket if no edit`,
    )
    rmSync(socket)
    await expect(withEditLock(path, done, LONG)).resolves.toBe('done')
  })

  test('in another container of this machine is taken away', async () => {
    await leaveBehind({ machine: 'another' })
    await expect(withEditLock(path, done, LONG)).resolves.toBe('done')
    expect(readdirSync(folder)).toEqual([])
  })
})

describe('the socket of a lock', () => {
  const long = 'b'.repeat(55)

  test('can be made whatever the length of the folder and the file name', async () => {
    for (let length = 1; length <= 100; length++) {
      const deep = join(folder, 'd'.repeat(length))
      mkdirSync(deep)
      await expect(withEditLock(join(deep, `${long}.json`), done, LONG)).resolves.toBe('done')
    }
  })

  test('tells files with long names apart', async () => {
    await startHolder(join(folder, `${long}.json`))
    await expect(withEditLock(join(folder, `${long}.json`), done, SHORT)).rejects.toThrow('still runs')
    await expect(withEditLock(join(folder, `${long}-json`), done, LONG)).resolves.toBe('done')
  })

  test('is refused in plain words where the system has no short way to a long folder', async () => {
    const deep = join(folder, 'd'.repeat(100))
    mkdirSync(deep)
    const { platform } = process
    Object.defineProperty(process, 'platform', { value: 'darwin' })
    try {
      await expect(withEditLock(join(deep, 'apps.json'), done, SHORT)).rejects.toThrow('too long for a socket')
    } finally {
      Object.defineProperty(process, 'platform', { value: platform })
    }
    expect(readdirSync(deep)).toEqual([])
  })

  test.each(['chmod', 'rename'] as const)('that vanishes before each %s is made anew, with pauses', async (call) => {
    Object.assign(vanish, { at: call, count: 0 })
    try {
      await expect(withEditLock(path, done, { waitMs: 300 })).rejects.toThrow(
        `cannot lock ${path} for an edit: no socket could be made beside it in time`,
      )
    } finally {
      vanish.at = null
    }
    expect(vanish.count).toBeGreaterThan(1)
    expect(vanish.count).toBeLessThan(20)
  })

  test('can be asked by any user whether its process lives', async () => {
    await withEditLock(path, async () => {
      const [socket = ''] = readdirSync(folder)
      expect(statSync(join(folder, socket)).mode & 0o777).toBe(0o777)
    })
  })
})

test('a socket of another program beside the file is left alone', async () => {
  const server = createServer()
  server.listen(join(folder, 'other.sock'))
  await once(server, 'listening')
  await expect(withEditLock(path, done, LONG)).resolves.toBe('done')
  expect(readdirSync(folder)).toEqual(['other.sock'])
  server.close()
})

test('a folder that cannot be written to is named', async () => {
  writeFileSync(path, '')
  await expect(withEditLock(join(path, 'apps.json'), () => Promise.resolve())).rejects.toThrow(
    /cannot lock .*apps\.json for an edit: /,
  )
})

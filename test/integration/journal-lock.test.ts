import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, readdir, readFile, stat, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { acquireLock, isLocked, type Lock } from '../../src/lib/lock.ts'
import { makeFolder } from '../support/service.ts'

const HOLDER = fileURLToPath(new URL('../support/lock-holder.mjs', import.meta.url))

async function startHolder(directory: string, platform: string): Promise<{ holder: ChildProcess; answer: string }> {
  const holder = spawn(process.execPath, [HOLDER, directory, platform], { stdio: ['ignore', 'pipe', 'inherit'] })
  const answer = await new Promise<string>((resolve) =>
    holder.stdout.once('data', (data) => resolve(String(data).trim())),
  )
  return { holder, answer }
}

async function kill(holder: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => holder.once('exit', resolve))
  holder.kill('SIGKILL')
  await ended
}

it.runIf(process.platform === 'linux')('a lock has the same name on every version of Node', async () => {
  const folder = await makeFolder()
  const lock = await acquireLock(folder)
  const { dev, ino } = await stat(folder)
  // The kernel shows each NUL as @.
  const names = (await readFile('/proc/net/unix', 'latin1')).split('\n').map((line) => line.split(' ').at(-1))
  expect(names).toContain(`@sluice-data-${dev}-${ino}`.padEnd(108, '@'))
  await (lock as Lock).release()
})

it.runIf(process.platform !== 'win32')('the file of a lock is open to this user alone', async () => {
  const folder = await makeFolder()
  const lock = await acquireLock(folder)
  expect((await stat(join(folder, 'lock.sock'))).mode & 0o777).toBe(0o600)
  await (lock as Lock).release()
})

/** A process that takes only the name that version 0.3 takes, as that user. */
async function takeName(folder: string, uid: number): Promise<ChildProcess> {
  const { dev, ino } = await stat(folder)
  const script = `
    const name = '\\0sluice-data-${dev}-${ino}'.padEnd(108, '\\0')
    require('node:net').createServer().listen(name, () => process.stdout.write('taken'))`
  const holder = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'], uid, cwd: '/' })
  await new Promise((resolve) => holder.stdout?.once('data', resolve))
  return holder
}

const isRoot = process.getuid?.() === 0
const NOBODY = 65_534

describe.runIf(process.platform === 'linux')('the name that version 0.3 takes', () => {
  it("keeps out a process of this version, where a process of the folder's user has it", async () => {
    const folder = await makeFolder()
    const holder = await takeName(folder, process.getuid?.() ?? 0)
    expect(await acquireLock(folder)).toEqual({ held: true })
    expect(await isLocked(folder)).toBe(true)
    expect(await readdir(folder)).toEqual([])
    await kill(holder)
  })

  it.runIf(isRoot)('keeps nobody out, where another user has taken it', async () => {
    const folder = await makeFolder()
    const holder = await takeName(folder, NOBODY)
    expect(await isLocked(folder)).toBe(false)
    const lock = await acquireLock(folder)
    expect(lock).not.toHaveProperty('held')
    expect(await acquireLock(folder)).toEqual({ held: true })
    await (lock as Lock).release()
    await kill(holder)
  })
})

it('a folder whose path is too long for a socket has a lock too', async () => {
  const folder = await makeFolder()
  const deep = join(folder, ...Array.from({ length: 8 }, () => 'a folder with a long name'))
  await mkdir(deep, { recursive: true })
  const { holder, answer } = await startHolder(deep, process.platform)
  expect(answer).toBe('locked')
  expect([await isLocked(deep), await acquireLock(deep)]).toEqual([true, { held: true }])
  await kill(holder)
  const lock = await acquireLock(deep)
  expect(lock).not.toHaveProperty('held')
  await (lock as Lock).release()
  expect(await readdir(deep)).toEqual([])
})

// Up to the longest path that a socket may have.
for (const bytes of [90, 98, 99, 106, 107, 108]) {
  it(`a folder whose lock has a path of ${bytes} bytes is free as soon as its holder is killed`, async () => {
    const folder = await makeFolder()
    const exact = join(folder, 'x'.repeat(bytes - Buffer.byteLength(join(folder, '/', '/lock.sock')) - 1))
    await mkdir(exact)
    expect(Buffer.byteLength(join(exact, 'lock.sock'))).toBe(bytes)
    const { holder, answer } = await startHolder(exact, process.platform)
    expect(answer).toBe('locked')
    await kill(holder)
    const lock = await acquireLock(exact)
    expect(lock).not.toHaveProperty('held')
    expect(await acquireLock(exact)).toEqual({ held: true })
    await (lock as Lock).release()
    expect(await readdir(exact)).toEqual([])
  })
}

// The second implementation is for other systems, but works here too.
for (const platform of [process.platform, 'darwin']) {
  describe(`the lock of a data folder, as on ${platform}`, () => {
    it('is held by one process, and free as soon as it is killed', async () => {
      const folder = await makeFolder()
      const { holder, answer } = await startHolder(folder, platform)
      expect(answer).toBe('locked')
      expect(await acquireLock(folder, platform)).toEqual({ held: true })
      await kill(holder)
      const lock = await acquireLock(folder, platform)
      expect(lock).not.toHaveProperty('held')
      const second = await startHolder(folder, platform)
      expect(second.answer).toBe('held')
      await kill(second.holder)
      await (lock as Lock).release()
    })

    it('is refused in one sentence where a folder has its name, and the folder stays', async () => {
      const folder = await makeFolder()
      await mkdir(join(folder, 'lock.sock'))
      const text = `${join(folder, 'lock.sock')} is a folder, and the lock needs this name: move the folder away`
      for (let start = 0; start < 2; start += 1) await expect(acquireLock(folder, platform)).rejects.toThrow(text)
      expect(await readdir(folder)).toEqual(['lock.sock'])
    })

    it('is free after its release, and leaves no file', async () => {
      const folder = await makeFolder()
      for (let round = 0; round < 3; round += 1) {
        const lock = await acquireLock(folder, platform)
        expect(await acquireLock(folder, platform)).toEqual({ held: true })
        await (lock as Lock).release()
      }
      expect(await readdir(folder)).toEqual([])
    })

    it('is the same for every path to the folder, and different for another folder', async () => {
      const folder = await makeFolder()
      const [one, two, link] = ['one', 'two', 'link'].map((name) => join(folder, name))
      await mkdir(one)
      await mkdir(two)
      await symlink(one, link)
      const first = await acquireLock(one, platform)
      expect(await acquireLock(link, platform)).toEqual({ held: true })
      const second = await acquireLock(two, platform)
      expect(second).not.toHaveProperty('held')
      await (first as Lock).release()
      await (second as Lock).release()
    })
  })
}

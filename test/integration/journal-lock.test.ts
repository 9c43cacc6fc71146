import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, readdir, readFile, stat, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { acquireLock, type Lock } from '../../src/lib/lock.ts'
import { withFolder } from '../support/journal.ts'

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

it.runIf(process.platform === 'linux')('a lock has the same name on every version of Node', () =>
  withFolder(async (folder) => {
    const lock = await acquireLock(folder)
    const { dev, ino } = await stat(folder)
    // The kernel shows each NUL as @.
    const names = (await readFile('/proc/net/unix', 'latin1')).split('\n').map((line) => line.split(' ').at(-1))
    expect(names).toContain(`@sluice-data-${dev}-${ino}`.padEnd(108, '@'))
    await (lock as Lock).release()
  }),
)

// The second implementation is for other systems, but works here too.
for (const platform of [process.platform, 'darwin']) {
  describe(`the lock of a data folder, as on ${platform}`, () => {
    it('is held by one process, and free as soon as it is killed', () =>
      withFolder(async (folder) => {
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
      }))

    it('is free after its release, and leaves no file', () =>
      withFolder(async (folder) => {
        for (let round = 0; round < 3; round += 1) {
          const lock = await acquireLock(folder, platform)
          expect(await acquireLock(folder, platform)).toEqual({ held: true })
          await (lock as Lock).release()
        }
        expect(await readdir(folder)).toEqual([])
      }))

    it('is the same for every path to the folder, and different for another folder', () =>
      withFolder(async (folder) => {
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
      }))
  })
}

import { execFileSync } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { openJournal } from '../../src/queue/journal/journal.ts'
import { FailingDisk, makeRecord, publish, readNaively } from '../support/journal.ts'
import { makeFolder } from '../support/service.ts'

/** Mounts a small file system at `folder`. false, and printed: this user may not mount. */
function mountSmall(folder: string): boolean {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=2m', 'tmpfs', folder], { stdio: 'ignore' })
    return true
  } catch {
    console.log('no tmpfs can be mounted here (it takes root on Linux): a failing disk is put in its place')
    return false
  }
}

async function withSmallDisk(use: (folder: string, disk: FailingDisk | null) => Promise<void>): Promise<void> {
  const folder = await makeFolder()
  const isMounted = mountSmall(folder)
  try {
    await use(folder, isMounted ? null : new FailingDisk())
  } finally {
    if (isMounted) execFileSync('umount', ['-l', folder])
  }
}

describe('a full disk', () => {
  it('refuses records without a torn line, and takes them again when there is room', () =>
    withSmallDisk(async (folder, disk) => {
      const directory = join(folder, 'journal')
      let nowMs = 1_800_000_000_000
      const journal = await openJournal({
        directory,
        maxBytes: 1e9,
        keepHours: null,
        segmentBytes: 300_000,
        clock: () => nowMs,
        ...(disk === null ? {} : { disk }),
      })
      let durable = 0
      const fill = async () => {
        for (;;) {
          if (disk !== null && durable >= 300) disk.isFull = true
          const batch = Array.from({ length: 10 }, () => publish(journal, makeRecord({ fillBytes: 5000 })))
          const taken = (await Promise.all(batch)).filter((ack) => ack === 'durable').length
          durable += taken
          if (taken < batch.length) return
        }
      }
      await fill()
      expect(journal.status).toEqual({ state: 'disk_full', reason: 'ENOSPC' })
      expect(await readNaively(directory)).toHaveLength(durable)
      // Still full: each try fails and leaves nothing.
      for (let second = 0; second < 3; second += 1) {
        nowMs += 1000
        await publish(journal, makeRecord({ fillBytes: 400_000 }))
      }
      const before = (await readNaively(directory)).length
      if (disk === null) {
        execFileSync('mount', ['-o', 'remount,size=8m', folder])
      } else {
        disk.isFull = false
      }
      nowMs += 1000
      expect(await publish(journal, makeRecord({ fillBytes: 5000 }))).toBe('durable')
      expect(journal.status.state).toBe('ok')
      await journal.stop()
      expect(await readNaively(directory)).toHaveLength(before + 1)
    }))
})

describe('a journal that cannot be opened', () => {
  it.each<[Error, RegExp]>([
    [Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' }), /ENOSPC.* Make room there\.$/],
    [new RangeError('could not allocate memory'), /^could not allocate memory$/],
  ])('says what to do: %s', async (reason, text) => {
    const disk = new FailingDisk()
    disk.open = () => Promise.reject(reason)
    const directory = join(await makeFolder(), 'journal')
    await expect(openJournal({ directory, maxBytes: 1e9, keepHours: null, disk })).rejects.toThrow(text)
  })
})

describe('a read-only folder', () => {
  it('is an error at the start that names the folder and says what to do', () =>
    withSmallDisk(async (folder, disk) => {
      const directory = join(folder, 'journal')
      await mkdir(directory)
      const options = { directory, maxBytes: 1e9, keepHours: null }
      if (disk === null) execFileSync('mount', ['-o', 'remount,ro', folder])
      else disk.open = () => Promise.reject(new Error('EROFS: read-only file system'))
      const opening = openJournal(disk === null ? options : { ...options, disk })
      await expect(opening).rejects.toThrow(/cannot be written in .*journal.*EROFS.*SLUICE_DATA_DIR/s)
    }))
})

import { chmodSync, mkdirSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Config } from '../../../src/settings/config.ts'
import { riskOf, takeOwnFolder } from '../../../src/start/own-folder.ts'
import { takeSpoolFolder } from '../../../src/start/shared-spool.ts'
import { Started } from '../../../src/start/started.ts'
import { makeFolder } from '../../support/service.ts'

async function take(directory: string, processes = 1) {
  const notices: string[] = []
  const started = new Started()
  const config = { spool: { directory, maxBytes: 1 }, processes } as unknown as Config
  try {
    const folder = await takeSpoolFolder(config, started, (text) => void notices.push(text))
    return { folder, notices }
  } finally {
    await started.stop()
  }
}

const modeOf = (path: string): number => statSync(path).mode & 0o7777

describe('the folder of a spool', () => {
  it('is made for this user alone', async () => {
    const directory = join(await makeFolder(), 'spool')
    expect(await take(directory)).toEqual({ folder: directory, notices: [] })
    expect(modeOf(directory)).toBe(0o700)
    expect(await take(directory)).toEqual({ folder: directory, notices: [] })
  })

  it('that is there keeps its mode, and is a warning where it is open to all', async () => {
    const directory = await makeFolder()
    chmodSync(directory, 0o1777)
    const { notices } = await take(directory)
    expect(notices).toEqual([expect.stringMatching(/is open to every user of this machine: .* mode 0700$/)])
    expect(modeOf(directory)).toBe(0o1777)
  })

  it('that holds what is no spool is refused, and stays as it is', async () => {
    const directory = await makeFolder()
    chmodSync(directory, 0o1777)
    writeFileSync(join(directory, 'something'), '')
    await expect(take(directory)).rejects.toThrow(/holds other files, and is no spool: name another folder/)
    expect(modeOf(directory)).toBe(0o1777)
  })

  it.each(['cursor.json.new', 'apps.ndjson.new', 'lost+found'])('with %s alone is taken', async (name) => {
    const directory = await makeFolder()
    chmodSync(directory, 0o700)
    if (name === 'lost+found') mkdirSync(join(directory, name))
    else symlinkSync('/nowhere', join(directory, name))
    expect(await take(directory)).toEqual({ folder: directory, notices: [] })
  })

  it('that holds the spools of workers is taken by a worker', async () => {
    const directory = join(await makeFolder(), 'spool')
    for (let start = 0; start < 2; start += 1)
      expect((await take(directory, 2)).folder).toBe(join(directory, 'worker-1'))
  })

  it.each([
    [1000, 0o700, null],
    [1000, 0o770, null],
    [1000, 0o755, false],
    [0, 0o2770, null],
    [0, 0o777, false],
    [33, 0o700, false],
    [33, 0o755, false],
    [33, 0o775, true],
    [33, 0o777, true],
  ])('of the user %i with mode %o, for the user 1000: refused %s', (uid, mode, isRefused) => {
    expect(riskOf({ uid, mode }, 1000, true)?.isRefused ?? null).toBe(isRefused)
  })

  it('of a journal may be read by others, and written by no other user', async () => {
    expect(riskOf({ uid: 1000, mode: 0o755 }, 1000, false)).toBe(null)
    expect(riskOf({ uid: 33, mode: 0o775 }, 1000, false)).toMatchObject({ isRefused: true })
    const directory = await makeFolder()
    chmodSync(directory, 0o777)
    const notices: string[] = []
    await takeOwnFolder({ setting: 'SLUICE_DATA_DIR', directory, mode: 0o750, onNotice: (text) => notices.push(text) })
    expect([notices, modeOf(directory)]).toEqual([[], 0o777])
  })
})

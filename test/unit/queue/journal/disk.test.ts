import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { writeAdminAddress } from '../../../../src/lib/admin-address.ts'
import { type OpenMode, RealDisk } from '../../../../src/queue/journal/disk.ts'
import { readSnapshot, writeSnapshot } from '../../../../src/queue/journal/snapshot.ts'
import { readCursor, writeCursor } from '../../../../src/queue/spool/spool-cursor.ts'
import { makeFolder } from '../../../support/service.ts'

const disk = new RealDisk(0o600)

it('what is written anew replaces a link, and not what it leads to, nor what a crash left', async () => {
  const folder = await makeFolder()
  const target = join(folder, 'of-root')
  writeFileSync(target, 'precious')
  for (const name of ['a', 'b']) {
    const path = join(folder, name)
    if (name === 'a') symlinkSync(target, path)
    else writeFileSync(path, 'left by a crash, and longer', { mode: 0o644 })
    const file = await disk.open(path, 'replace')
    await file.writeFile('new')
    await file.close()
    expect(readFileSync(path, 'utf8')).toBe('new')
    expect(statSync(path).mode & 0o777).toBe(0o600)
  }
  expect(readFileSync(target, 'utf8')).toBe('precious')
})

it.each<OpenMode>(['append', 'change', 'create', 'note'])('%s opens no link', async (mode) => {
  const folder = await makeFolder()
  const [target, dangling] = [join(folder, 'of-root'), join(folder, 'nothing')]
  writeFileSync(target, 'precious')
  for (const [at, to] of [target, dangling].entries()) {
    symlinkSync(to, join(folder, `link${at}`))
    await expect(disk.open(join(folder, `link${at}`), mode)).rejects.toThrow(/ELOOP|EEXIST|no regular file/)
  }
  expect(existsSync(dangling)).toBe(false)
})

describe.each<[string, (path: string) => unknown]>([
  ['a pipe', (path) => execFileSync('mkfifo', [path])],
  ['a folder', (path) => mkdirSync(path)],
])('%s', (what, make) => {
  it.each<OpenMode>(['read', 'change', 'append', 'beside', 'note'])('is refused at once: %s', async (mode) => {
    const path = join(await makeFolder(), 'file')
    make(path)
    await expect(disk.open(path, mode)).rejects.toThrow(`${path} is no regular file`)
  })

  it('is not opened for direct writes in the place of the segment', async () => {
    const folder = await makeFolder()
    const file = await disk.open(join(folder, 'file'), 'create')
    make(join(folder, 'other'))
    let direct: unknown = null
    try {
      direct = disk.openDirectly(join(folder, 'other'), file)
    } catch (error) {
      expect(String(error)).toMatch(/ENXIO|EISDIR|EINVAL/)
    }
    expect(direct).toBe(null)
    await file.close()
  })

  it('in the place of the snapshot is a problem that is named, and a pipe is replaced by the next one', async () => {
    const folder = await makeFolder()
    const path = join(folder, 'snapshot.json')
    make(path)
    const problem = `${path} cannot be read: ${path} is no regular file`
    expect(await readSnapshot(folder, disk)).toEqual({ kind: 'problem', problem })
    const position = { segment: 1, offset: 0 }
    const written = writeSnapshot(folder, { writtenAtMs: 1, position, keysFrom: position, usage: {} }, disk)
    if (what === 'a folder') await expect(written).rejects.toThrow('EISDIR')
    else await written.then(async () => expect(await readSnapshot(folder, disk)).toMatchObject({ kind: 'read' }))
  })

  it("in the place of the spool's cursor counts as a damaged one, and a pipe is replaced", async () => {
    const folder = await makeFolder()
    make(join(folder, 'cursor.json'))
    expect(await readCursor(folder, disk)).toBe('damaged')
    const at = { segment: 1, offset: 0 }
    const cursor = { id: '0123456789abcdef', released: at, sent: at, reserved: at, witness: null, sequences: [] }
    const written = writeCursor(folder, cursor, disk)
    if (what === 'a folder') await expect(written).rejects.toThrow('EISDIR')
    else await written.then(async () => expect(await readCursor(folder, disk)).toEqual(cursor))
  })
})

it.each([
  [0o600, 0o700],
  [0o640, 0o750],
])('a folder that is made for files of mode %o is open to no more users than they are', async (fileMode, mode) => {
  const path = join(await makeFolder(), 'journal')
  await new RealDisk(fileMode).makeFolder(path)
  expect(statSync(path).mode & 0o777).toBe(mode)
})

it('the address of the admin port is written through no link', async () => {
  const folder = await makeFolder()
  const target = join(folder, 'of-root')
  writeFileSync(target, 'precious')
  symlinkSync(target, join(folder, 'admin.json.new'))
  await (await writeAdminAddress(folder, { host: '127.0.0.1', port: 1 }))()
  expect(readFileSync(target, 'utf8')).toBe('precious')
})

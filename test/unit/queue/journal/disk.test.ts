import { existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { writeAdminAddress } from '../../../../src/lib/admin-address.ts'
import { type OpenMode, RealDisk } from '../../../../src/queue/journal/disk.ts'
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

it('the address of the admin port is written through no link', async () => {
  const folder = await makeFolder()
  const target = join(folder, 'of-root')
  writeFileSync(target, 'precious')
  symlinkSync(target, join(folder, 'admin.json.new'))
  await (await writeAdminAddress(folder, { host: '127.0.0.1', port: 1 }))()
  expect(readFileSync(target, 'utf8')).toBe('precious')
})

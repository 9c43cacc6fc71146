import { execFileSync } from 'node:child_process'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { readAdminAddress, writeAdminAddress } from '../../../src/lib/admin-address.ts'
import { acquireLock, type Lock } from '../../../src/lib/lock.ts'
import { makeFolder } from '../../support/service.ts'

const ADDRESS = { host: '127.0.0.1', port: 9091 }

async function locked<T>(folder: string, use: () => Promise<T>): Promise<T> {
  const lock = (await acquireLock(folder)) as Lock
  try {
    return await use()
  } finally {
    await lock.release()
  }
}

describe('the address of the admin port', () => {
  it('is read while the folder is locked, and is gone with the service', async () => {
    const folder = await makeFolder()
    await locked(folder, async () => {
      expect(await readAdminAddress(folder)).toBeNull()
      const remove = await writeAdminAddress(folder, ADDRESS)
      expect(await readAdminAddress(folder)).toEqual(ADDRESS)
      await remove()
      expect(await readAdminAddress(folder)).toBeNull()
      expect(await readdir(folder)).toEqual(['lock.sock'])
    })
  })

  it('is none where a pipe has the name, for which nobody waits', async () => {
    const folder = await makeFolder()
    execFileSync('mkfifo', [join(folder, 'admin.json')])
    await locked(folder, async () => expect(await readAdminAddress(folder)).toBeNull())
  })

  it('that a killed service left is not read, and the next service writes its own in its place', async () => {
    const folder = await makeFolder()
    await locked(folder, () => writeAdminAddress(folder, ADDRESS))
    expect(await readFile(join(folder, 'admin.json'), 'utf8')).toBe('{"host":"127.0.0.1","port":9091}\n')
    expect(await readAdminAddress(folder)).toBeNull()
    await locked(folder, async () => {
      await writeAdminAddress(folder, { host: '::1', port: 9092 })
      expect(await readAdminAddress(folder)).toEqual({ host: '::1', port: 9092 })
    })
  })

  it('is not left behind by a service that cannot write it', async () => {
    const folder = await makeFolder()
    await locked(folder, async () => {
      await writeAdminAddress(folder, ADDRESS)
      await mkdir(join(folder, 'admin.json.new'))
      await expect(writeAdminAddress(folder, ADDRESS)).rejects.toThrow('admin.json.new')
      expect(await readAdminAddress(folder)).toBeNull()
    })
  })

  it.each([
    '',
    '{',
    'null',
    '[]',
    '{"host":"h"}',
    '{"host":"h","port":0}',
    '{"host":"","port":1}',
    '{"host":1,"port":1}',
  ])('that is damaged is an error that names the file and the setting: %j', async (text) => {
    const folder = await makeFolder()
    await locked(folder, async () => {
      await writeFile(join(folder, 'admin.json'), text)
      await expect(readAdminAddress(folder)).rejects.toThrow(/admin\.json is damaged: set SLUICE_ADMIN_PORT/)
    })
  })

  it('is none in a folder that is not there', async () => {
    expect(await readAdminAddress('/nowhere/at/all')).toBeNull()
  })
})

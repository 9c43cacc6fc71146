import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { makeFolder } from '../../../src/lib/folder.ts'

const root = mkdtempSync(join(tmpdir(), 'sluice-folder-'))
afterAll(() => rmSync(root, { recursive: true }))

test('a folder is made with those above it, in the mode that was asked for', async () => {
  const path = join(root, 'a', 'b', 'c')
  await makeFolder(path, 0o700)
  expect(statSync(path).mode & 0o777).toBe(0o700)
  expect(statSync(join(root, 'a')).mode & 0o777).toBe(0o700)
})

test('a folder that is there already is fine', async () => {
  await makeFolder(root)
  expect(statSync(root).isDirectory()).toBe(true)
})

test('a file in the way is an error', async () => {
  const file = join(root, 'file')
  writeFileSync(file, '')
  await expect(makeFolder(file)).rejects.toThrow('EEXIST')
  await expect(makeFolder(join(file, 'below'))).rejects.toThrow('ENOTDIR')
})

test.runIf(existsSync('/proc/self'))(
  'a place where the kernel makes no folders is an error, not an endless loop',
  async () => {
    await expect(makeFolder('/proc/self/nowhere')).rejects.toThrow('ENOENT')
    await expect(makeFolder('/proc/nowhere/below')).rejects.toThrow('ENOENT')
  },
)

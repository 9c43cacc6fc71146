import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { makeFolder } from '../../../src/lib/folder.ts'

const root = mkdtempSync(join(tmpdir(), 'sluice-folder-'))
afterAll(() => rmSync(root, { recursive: true }))

test('a folder is made with those above it, in the mode that was asked for', () => {
  const path = join(root, 'a', 'b', 'c')
  makeFolder(path, 0o700)
  expect(statSync(path).mode & 0o777).toBe(0o700)
  expect(statSync(join(root, 'a')).mode & 0o777).toBe(0o700)
})

test('a folder that is there already is fine', () => {
  expect(() => makeFolder(root)).not.toThrow()
})

test('a file in the way is an error', () => {
  const file = join(root, 'file')
  writeFileSync(file, '')
  expect(() => makeFolder(file)).toThrow('EEXIST')
  expect(() => makeFolder(join(file, 'below'))).toThrow('ENOTDIR')
})

test.runIf(existsSync('/proc/self'))(
  'a place where the kernel makes no folders is an error, not an endless loop',
  () => {
    expect(() => makeFolder('/proc/self/nowhere')).toThrow('ENOENT')
    expect(() => makeFolder('/proc/nowhere/below')).toThrow('ENOENT')
  },
)

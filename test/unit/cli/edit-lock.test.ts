import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { withEditLock } from '../../../src/cli/edit-lock.ts'

const SHORT = { waitMs: 60 }
let folder = ''
let path = ''

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-lock-'))
  path = join(folder, 'apps.json')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

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
  await expect(withEditLock(path, () => Promise.resolve('next'), SHORT)).resolves.toBe('next')
})

describe('a lock that was left behind', () => {
  test('by a process that is gone does not stand in the way', async () => {
    const pid = execFileSync(process.execPath, ['-p', 'process.pid'], { encoding: 'utf8' }).trim()
    writeFileSync(`${path}.lock`, `${pid} ${hostname()}\n`)
    await expect(withEditLock(path, () => Promise.resolve('done'), SHORT)).resolves.toBe('done')
    expect(readdirSync(folder)).toEqual([])
  })

  test('on another machine, or without its text yet, holds while it is young', async () => {
    for (const text of ['1 another-machine\n', '']) {
      writeFileSync(`${path}.lock`, text)
      await expect(withEditLock(path, () => Promise.resolve('done'), SHORT)).rejects.toThrow('another edit holds')
    }
  })

  test('long ago does not stand in the way, whoever left it', async () => {
    writeFileSync(`${path}.lock`, `${process.pid} ${hostname()}\n`)
    const longAgo = new Date(Date.now() - 60_000)
    utimesSync(`${path}.lock`, longAgo, longAgo)
    await expect(withEditLock(path, () => Promise.resolve('done'), SHORT)).resolves.toBe('done')
  })
})

test('a lock of a live process holds', async () => {
  writeFileSync(`${path}.lock`, `${process.pid} ${hostname()}\n`)
  await expect(withEditLock(path, () => Promise.resolve('done'), SHORT)).rejects.toThrow('another edit holds')
})

test('a folder that cannot be written to is named', async () => {
  writeFileSync(path, '')
  await expect(withEditLock(join(path, 'apps.json'), () => Promise.resolve())).rejects.toThrow(
    /cannot make the lock file .*lock/,
  )
})

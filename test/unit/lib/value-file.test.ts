import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { readSettingFile, readValueFile } from '../../../src/lib/value-file.ts'
import { makeFolder } from '../../support/service.ts'

let folder: string
beforeEach(async () => {
  folder = await makeFolder()
})

describe.each([
  ['a value', (path: string) => new Promise<string>((done) => done(readValueFile(path)))],
  ['a file', (path: string) => readSettingFile(path).then(String)],
])('%s that a setting names', (_, read) => {
  it('is read', async () => {
    writeFileSync(join(folder, 'file'), 'what it says')
    expect(await read(join(folder, 'file'))).toBe('what it says')
  })

  it.each([
    ['pipe', 'is not a file'],
    ['folder', 'is not a file'],
    ['gone', 'no such file'],
    ['long', 'has more than'],
  ])('%s: it %s, at once', async (name, reason) => {
    execFileSync('mkfifo', [join(folder, 'pipe')])
    mkdirSync(join(folder, 'folder'))
    writeFileSync(join(folder, 'long'), ' '.repeat(4 * 1024 * 1024 + 1))
    const path = join(folder, name)
    await expect(read(path)).rejects.toThrow(path)
    await expect(read(path)).rejects.toThrow(reason)
  })
})

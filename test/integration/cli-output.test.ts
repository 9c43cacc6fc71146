// What the commands do where their output cannot be written: its reader has gone, or its disk is full.

import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { batch } from '../support/client.ts'
import { appRecord, makeFolder, writeApps } from '../support/service.ts'
import { mountSmall, takeAllRoom } from '../support/small-disk.ts'

const MAIN = resolve('dist/main.js')
/** The reader has gone before the command begins. */
const UNREAD = 'exec 3> >(true); wait $!; exec "$@" >&3'
const FULL = 'exec "$@" > /dev/full'

let folder: string
beforeEach(async () => {
  folder = await makeFolder()
  await writeApps(join(folder, 'apps.json'), [appRecord('one')])
  await writeFile(join(folder, 'good.json'), batch('ak_one', 3))
  await writeFile(join(folder, 'bad.json'), batch('ak_none', 3))
})

/** Exit code, and what was said on stderr. */
async function run(script: string, args: readonly string[], env: Record<string, string> = {}) {
  const settings = { SLUICE_DATA_DIR: folder, PORT: '0', SLUICE_ADMIN_PORT: '0', PATH: process.env['PATH'], ...env }
  const options = { cwd: folder, env: settings, timeout: 30_000 }
  const child = execFile('bash', ['--norc', '-c', script, 'bash', process.execPath, MAIN, ...args], options)
  let said = ''
  child.stderr?.on('data', (text: string) => {
    said += text
  })
  const [code] = await once(child, 'close')
  return [code as number | null, said]
}

async function writeJournal(text: string): Promise<void> {
  await mkdir(join(folder, 'journal'), { recursive: true })
  await writeFile(join(folder, 'journal', '000000000001.ndjson'), text)
}

describe('a reader that has gone', () => {
  test('changes the exit code of no command', async () => {
    expect(await run(UNREAD, ['check'], { SLUICE_JOURNAL_KEEP_HOURS: 'x' })).toEqual([1, ''])
    expect(await run(UNREAD, ['explain', 'bad.json'])).toEqual([1, ''])
    expect(await run(UNREAD, ['explain', 'good.json'])).toEqual([0, ''])
    expect(await run(UNREAD, ['apps', 'list'])).toEqual([0, ''])
    expect(await run(UNREAD, ['--help'])).toEqual([0, ''])
  })

  test('leaves verify the damage that it found', async () => {
    await writeJournal('no record\n')
    expect(await run(UNREAD, ['verify'])).toEqual([1, ''])
    // Longer than what a pipe holds.
    await writeJournal('no record\n'.repeat(2000))
    expect(await run('"$@" | head -c 9 > read; exit "${PIPESTATUS[0]}"', ['verify', '--json'])).toEqual([1, ''])
  })

  test('ends tail, with 0', async () => {
    const record = `{"v":1,"batch_id":"b","app_id":"one","received_at":"2026-11-20T12:00:00.000Z","events":[{"a":1}]}\n`
    await writeJournal(record)
    expect(await run(UNREAD, ['tail', '--from-start'])).toEqual([0, ''])
  })

  test('of what is said on stderr keeps nothing from stdout', async () => {
    const unsaid = 'exec 3> >(true); wait $!; "$@" 2>&3 | grep -q ak_two; exit "${PIPESTATUS[0]}${PIPESTATUS[1]}"'
    expect(await run(unsaid, ['apps', 'add', 'two', '--plan', '10k'])).toEqual([0, ''])
  })
})

describe('a disk that is full', () => {
  const why = 'its output cannot be written: ENOSPC: no space left on device, write\n'

  test('is named in one line, with exit code 1', async () => {
    for (const args of [['check'], ['explain', 'good.json'], ['apps', 'list'], ['help'], ['version']])
      expect(await run(FULL, args)).toEqual([1, `sluice ${args[0]}: ${why}`])
    expect(await run(FULL, ['serve', '--help'])).toEqual([1, `sluice serve: ${why}`])
    // It says first that the last hour is not known.
    expect((await run(FULL, ['usage'])).join()).toMatch(new RegExp(`^1,.*\nsluice usage: ${why}$`))
  })

  test('does not undo what was done, and what was done is said', async () => {
    const [code, said] = await run(FULL, ['apps', 'add', 'two', '--plan', '10k'])
    expect([code, String(said).split('\n').at(-2)]).toEqual([1, `sluice apps: ${why.trimEnd()}`])
    expect(said).toMatch(/^app two/)
  })

  test('cuts off no output without a word', async ({ skip }) => {
    const disk = mountSmall('64k', skip)
    const apps = Array.from({ length: 200 }, (_, number) => appRecord(`app${number}`))
    await writeApps(join(folder, 'apps.json'), apps)
    expect(await run('exec "$@" > backup.json', ['apps', 'export', '-'])).toEqual([0, ''])
    expect(JSON.parse(await readFile(join(folder, 'backup.json'), 'utf8'))).toMatchObject({ apps })
    // Room for the first part of it.
    await writeFile(join(disk, 'other'), Buffer.alloc(52 * 1024))
    const script = `exec "$@" > ${join(disk, 'backup.json')}`
    expect(await run(script, ['apps', 'export', '-'])).toEqual([1, `sluice apps: ${why}`])
    takeAllRoom(join(disk, 'rest'))
    expect(await run(script, ['apps', 'list', '--json'])).toEqual([1, `sluice apps: ${why}`])
  })
})

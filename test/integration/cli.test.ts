// What a transcript cannot show of the commands: disks that are full, pipes, and a process that loses its parent.

import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { batch } from '../support/client.ts'
import { appRecord, type CommandResult, eventually, makeFolder, runCommand, writeApps } from '../support/service.ts'
import { mountSmall, takeAllRoom } from '../support/small-disk.ts'

const MAIN = resolve('dist/main.js')

let folder: string
beforeEach(async () => {
  folder = await makeFolder()
})

function sluice(args: readonly string[], env: Record<string, string> = {}): Promise<CommandResult> {
  return runCommand(args, { SLUICE_DATA_DIR: folder, ...env }, folder)
}

test('explain knows that the journal is full, by its setting and by its disk', async ({ skip }) => {
  const disk = mountSmall('4m', skip)
  await writeApps(join(folder, 'apps.json'), [appRecord('one')])
  await writeFile(join(folder, 'good.json'), batch('ak_one', 3))
  const outcome = async (env: Record<string, string>) => {
    const { stdout } = await sluice(['explain', '--json', 'good.json'], env)
    return (JSON.parse(stdout) as { outcome: string; reason: string | null }).reason
  }
  const onDisk = { SLUICE_DATA_DIR: disk, SLUICE_APPS_FILE: join(folder, 'apps.json') }
  expect(await outcome(onDisk)).toBeNull()
  takeAllRoom(join(disk, 'other'))
  expect(await outcome(onDisk)).toBe('journal_full')
  expect(await outcome({ SLUICE_JOURNAL_MAX_MB: '1' })).toBeNull()
  await mkdir(join(folder, 'journal'))
  await writeFile(join(folder, 'journal', '000000000001.ndjson'), ' '.repeat(1024 * 1024))
  expect(await outcome({ SLUICE_JOURNAL_MAX_MB: '1' })).toBe('journal_full')
})

test('explain puts any key that it is given in place of that of the body, also an empty one', async () => {
  await writeApps(join(folder, 'apps.json'), [appRecord('one')])
  await writeFile(join(folder, 'good.json'), batch('ak_one', 3))
  const explained = (...flags: string[]) => sluice(['explain', ...flags, 'good.json'])
  for (const key of ['', ' ', 'ak_two']) {
    const { code, stdout } = await explained('--app-key', key)
    expect([key, code, stdout]).toEqual([key, 1, expect.stringMatching(/^401 invalid_app_key/)])
  }
  expect((await explained()).stdout).toMatch(/^202 accepted/)
})

test('explain reads a pipe as it fills, and says of one that nobody writes to; apps import takes files alone', async () => {
  await writeApps(join(folder, 'apps.json'), [appRecord('one')])
  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  const { code, output } = await sluice(['explain', pipe])
  expect([code, output]).toEqual([1, `sluice explain: cannot read ${pipe}: nobody writes to this pipe\n`])
  expect((await sluice(['apps', 'import', pipe])).output).toContain('not a file')
  // The shell holds both ends.
  const explain = `explain <(printf %s "$FIRST"; read -t 0.3 < <(read -t 5 _); printf %s "$REST")`
  const body = batch('ak_one', 3)
  const env = { SLUICE_DATA_DIR: folder, FIRST: body.slice(0, 50), REST: body.slice(50), PATH: process.env['PATH'] }
  const command = `"${process.execPath}" "${MAIN}" ${explain}`
  const told = execFileSync('bash', ['-c', command], { env, cwd: folder, encoding: 'utf8', timeout: 30_000 })
  expect(told).toMatch(/^202 accepted/)
})

test('check fails where the disk has no room for a batch', async ({ skip }) => {
  const disk = mountSmall('8m', skip)
  const settings = { PORT: '0', SLUICE_ADMIN_PORT: '0', SLUICE_DATA_DIR: disk }
  expect((await sluice(['check'], settings)).stdout).toMatch(/^warn +journal .*; the disk will be full before /m)
  await writeFile(join(disk, 'other'), Buffer.alloc(8 * 1024 * 1024 - 520 * 1024))
  const { code, stdout } = await sluice(['check'], settings)
  expect(stdout).toMatch(
    /^FAIL +journal .*; its disk is full: a batch of the largest size \(521 KiB\) is answered 503: make room there$/m,
  )
  expect(code).toBe(1)
})

test('serve under npx drains when a SIGTERM reaches npx alone', async () => {
  await mkdir(join(folder, 'node_modules', '.bin'), { recursive: true })
  await symlink(resolve('.'), join(folder, 'node_modules', 'sluice'))
  await symlink('../sluice/bin/sluice.js', join(folder, 'node_modules', '.bin', 'sluice'))
  await writeFile(join(folder, 'package.json'), '{}')
  const npx = spawn('npx', ['--no', 'sluice', 'serve'], {
    cwd: folder,
    env: { ...process.env, SLUICE_DATA_DIR: join(folder, 'data'), PORT: '0', SLUICE_ADMIN_PORT: '0' },
    stdio: ['ignore', 'pipe', 'ignore'],
    // A group of its own, so that the last line ends whatever is left.
    detached: true,
  })
  let output = ''
  npx.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
  })
  // Its output closes when the service has ended too.
  const closed = once(npx, 'close')
  try {
    await eventually('it listens', () => output.includes('"msg":"listening"'))
    npx.kill('SIGTERM')
    await closed
    expect(output).toMatch(/"msg":"draining"[^]*"msg":"stopped"/)
  } finally {
    try {
      process.kill(-(npx.pid ?? 0), 'SIGKILL')
    } catch {
      // All of it has ended.
    }
  }
})

test('apps import refuses a file in which a member is repeated, with its path, and changes nothing', async () => {
  await writeApps(join(folder, 'apps.json'), [appRecord('one')])
  const before = readFileSync(join(folder, 'apps.json'), 'utf8')
  const text = JSON.stringify({ apps: [appRecord('two')] }).replace('"plan"', '"plan":"10k","plan"')
  await writeFile(join(folder, 'twice.json'), text)
  const { code, output } = await sluice(['apps', 'import', 'twice.json'])
  expect([code, output]).toEqual([
    1,
    'sluice apps: the app file twice.json cannot be used:\n  apps[0].plan: stands twice in its object\n',
  ])
  expect(readFileSync(join(folder, 'apps.json'), 'utf8')).toBe(before)
  await writeFile(join(folder, 'twice.json'), text.replace('"plan":"10k",', ''))
  expect((await sluice(['apps', 'import', 'twice.json'])).code).toBe(0)
})

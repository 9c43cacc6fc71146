// The built program, run as its users run it: exit codes, files, signals and pipes.

import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { appendFile, mkdir, readdir, symlink, writeFile } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import { createServer } from 'node:net'
import { join, resolve } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { batch, bodyOfSize, get, post } from '../support/client.ts'
import {
  appRecord,
  type CommandResult,
  eventually,
  makeFolder,
  removeFolder,
  runCommand,
  type Service,
  startCommand,
  startService,
  writeApps,
} from '../support/service.ts'
import { mountSmall, takeAllRoom } from '../support/small-disk.ts'

const MAIN = resolve('dist/main.js')

let folder: string
let service: Service | null = null
beforeEach(async () => {
  folder = await makeFolder()
})
afterEach(async () => {
  await service?.kill()
  service = null
  await removeFolder(folder)
})

function sluice(args: readonly string[], env: Record<string, string> = {}): Promise<CommandResult> {
  return runCommand(args, { SLUICE_DATA_DIR: folder, ...env }, folder)
}

/** Runs a script in which `sluice` is the built program; resolves with what it printed. */
function shell(script: string): Promise<string> {
  const env = { PATH: process.env['PATH'] ?? '', SLUICE_DATA_DIR: folder }
  const whole = `sluice() { "${process.execPath}" "${MAIN}" "$@"; }; ${script}`
  return new Promise((done, fail) => {
    execFile('bash', ['--norc', '-c', whole], { env, cwd: folder }, (error, stdout, stderr) => {
      if (error) fail(new Error(`${error.message}\n${stderr}`))
      else done(stdout)
    })
  })
}

/** Runs a command on a pseudo-terminal of script(1), which Debian has in bsdutils, and types an answer once it is asked. */
async function onTerminal(
  args: readonly string[],
  question: string,
  answer: string,
): Promise<{ code: number | null; output: string }> {
  const command = [process.execPath, MAIN, ...args].map((word) => `'${word}'`).join(' ')
  const child = spawn('script', ['--quiet', '--return', '--command', command, '/dev/null'], {
    env: { PATH: process.env['PATH'] ?? '', SLUICE_DATA_DIR: folder, SHELL: '/bin/sh' },
    cwd: folder,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  try {
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text
    })
    // It may have ended before the answer.
    child.stdin.on('error', () => {})
    const ended = once(child, 'close') as Promise<[number | null]>
    await Promise.race([ended, eventually(`it says ${question}`, () => output.includes(question))])
    child.stdin.write(answer)
    const [code] = await ended
    return { code, output }
  } finally {
    child.kill('SIGKILL')
  }
}

function endGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL')
  } catch {
    // All of it has ended.
  }
}

function appsOnDisk(): Record<string, unknown>[] {
  return (JSON.parse(readFileSync(join(folder, 'apps.json'), 'utf8')) as { apps: Record<string, unknown>[] }).apps
}

function record(number: number, events: string): string {
  const id = `0b9e3a52-6f0c-7d7e-9a55-${String(number).padStart(12, '0')}`
  return `{"v":1,"batch_id":"${id}","app_id":"a${number % 2}","received_at":"2026-11-20T12:00:00.000Z","events":${events}}\n`
}

function notesIn(output: string): string[] {
  return output.split('\n').filter((line) => line.startsWith('sluice tail: '))
}

async function writeJournal(lines: string): Promise<void> {
  await mkdir(join(folder, 'journal'), { recursive: true })
  await writeFile(join(folder, 'journal', '000000000001.ndjson'), lines)
}

describe('the command line', () => {
  test.each([
    [[]],
    [['nope']],
    [['serve', 'now']],
    [['serve', '--fast']],
    [['apps']],
    [['apps', 'add']],
    [['explain']],
    [['tail', '--app']],
  ])('of %j is wrong: exit 2, and help on stderr', async (args) => {
    const { code, stdout, output } = await sluice(args)
    expect(code).toBe(2)
    expect(stdout).toBe('')
    expect(output).toContain('--help')
  })

  test.each(['serve', 'apps', 'tail', 'explain', 'check'])('%s --help is on stdout, with an example', async (name) => {
    const { code, stdout } = await sluice([name, '--help'])
    expect(code).toBe(0)
    expect(stdout).toMatch(new RegExp(`^Usage: sluice ${name}[^]*\nExample:\n {2}`))
  })

  test('sluice version and --version print the package’s', async () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
    for (const word of ['version', '--version']) expect((await sluice([word])).stdout).toBe(`${version}\n`)
  })

  test('sluice help is sluice --help, and sluice help tail is sluice tail --help', async () => {
    const general = await sluice(['--help'])
    expect(general.stdout).toMatch(/^Usage: sluice COMMAND/)
    expect(await sluice(['help'])).toEqual(general)
    expect(await sluice(['help', 'tail'])).toEqual(await sluice(['tail', '--help']))
    expect(await sluice(['help', 'tial'])).toMatchObject({ code: 2, stdout: '' })
  })

  test.each([
    [['tial'], 'no such command: tial; did you mean tail?'],
    [['help', 'chek'], 'no such command: chek; did you mean check?'],
    [['tail', '--form-start'], 'no such option: --form-start; did you mean --from-start?'],
    [['explain', '--app-kye=ak_1', 'x'], 'no such option: --app-kye; did you mean --app-key?'],
    [['tail', '--nonsense'], 'no such option: --nonsense\n'],
    [['apps', 'lsit'], 'unknown action "lsit"; did you mean list?'],
  ])('of %j names what was probably meant, and nothing where nothing is near', async (args, message) => {
    const { code, output } = await sluice(args)
    expect(code).toBe(2)
    expect(output).toContain(message)
  })

  test('every command refuses wrong settings with all their mistakes and exit 1', async () => {
    for (const args of [['serve'], ['apps', 'list'], ['tail'], ['explain', 'x'], ['check']]) {
      const { code, output } = await sluice(args, { PORT: 'x', SLUICE_SPEED: '1' })
      expect(code).toBe(1)
      expect(output).toMatch(/SLUICE_SPEED: no such setting[^]*PORT: must be/)
      expect(output).not.toMatch(/^ +at /m)
    }
  })
})

describe('apps', () => {
  test('that are not there are looked for in another folder first', async () => {
    for (const command of [['usage'], ['apps', 'list']]) {
      const { code, output } = await sluice(command)
      expect([code, output]).toEqual([
        1,
        `sluice ${command[0]}: there is no app file ${join(folder, 'apps.json')}: SLUICE_DATA_DIR names the folder that it is in; ` +
          'sluice apps add makes one there, and so does the first start\n',
      ])
    }
    expect((await sluice(['apps', 'list'], { SLUICE_APPS_FILE: 'other.json' })).output).toBe(
      'sluice apps: there is no app file other.json, which SLUICE_APPS_FILE names; sluice apps add makes one there\n',
    )
    expect(await readdir(folder)).toEqual([])
  })

  test('are listed without the control characters of a name', async () => {
    await writeApps(join(folder, 'apps.json'), [appRecord('shop', { name: 'S\u0007h\u009bop\u007f' })])
    expect((await sluice(['apps', 'list'])).stdout).toContain(' S?h?op?\n')
    const listed = (await sluice(['apps', 'list', '--json'])).stdout
    expect(listed).toContain('"name": "S\\u0007h\\u009bop\\u007f"')
  })

  test('are added, changed, given a new key and removed, and each step is in the file', async () => {
    const added = await sluice(['apps', 'add', '--app-id', 'shop', '--plan', '100k', '--events-per-day', '200'])
    const key = added.stdout.trim()
    expect(key).toMatch(/^ak_shop_[0-9a-f]{24}$/)
    expect(appsOnDisk()).toEqual([
      { app_key: key, app_id: 'shop', plan: '100k', subscription: 'active', events_per_day: 200 },
    ])
    await sluice(['apps', 'set', 'shop', '--plan', '1m', '--events-per-day', '', '--name', 'Shop'])
    expect(appsOnDisk()).toEqual([{ app_key: key, app_id: 'shop', plan: '1m', subscription: 'active', name: 'Shop' }])
    const rotated = (await sluice(['apps', 'rotate', 'shop'])).stdout.trim()
    expect(rotated).not.toBe(key)
    expect(appsOnDisk()[0]).toMatchObject({ app_key: rotated })
    expect((await sluice(['apps', 'list', '--json'])).stdout).toBe(
      `${JSON.stringify({ apps: appsOnDisk() }, null, 2)}\n`,
    )
    await sluice(['apps', 'remove', 'shop', '--yes'])
    expect(appsOnDisk()).toEqual([])
    expect(await readdir(folder)).toEqual(['apps.json'])
  })

  test('that are changed are told of on stderr, and stdout holds the new keys alone', async () => {
    const told = async (...args: string[]): Promise<string[]> => {
      const { stdout, output } = await sluice(['apps', ...args])
      return [output.replace(stdout, ''), stdout.replace(/^ak_shop_[0-9a-f]{24}\n$/, 'KEY')]
    }
    expect(await told('add', '--app-id', 'shop', '--plan', '10k')).toEqual([
      'app shop: added, plan 10k, active\n',
      'KEY',
    ])
    expect(await told('set', 'shop', '--plan', '100k')).toEqual(['app shop: plan 10k → 100k\n', ''])
    expect(await told('rotate', 'shop', '--overlap', '0')).toEqual([
      'app shop: has a new key, the one before it is no longer valid\n',
      'KEY',
    ])
    expect(await told('remove', 'shpo', '--yes')).toEqual([
      'sluice apps: there is no app shpo; did you mean shop?\n',
      '',
    ])
    const gone = ['app shop: removed; its keys are refused from now on\n', '']
    expect(await told('remove', 'shop', '--yes')).toEqual(gone)
  })

  test('are not removed by a script that does not say --yes', async () => {
    await writeApps(join(folder, 'apps.json'), [appRecord('one')])
    const { code, output } = await sluice(['apps', 'remove', 'one'])
    expect(code).toBe(2)
    expect(output).toContain('no terminal to ask on: add --yes')
    expect(appsOnDisk()).toHaveLength(1)
  })

  test('are removed on a terminal once the question is answered with yes, and stay after a no', async () => {
    await writeApps(join(folder, 'apps.json'), [appRecord('one')])
    const no = await onTerminal(['apps', 'remove', 'one'], 'Remove app one, plan 5m, active?', 'no\n')
    expect(no.code).toBe(1)
    expect(no.output).toContain('app one: not removed')
    expect(appsOnDisk()).toHaveLength(1)
    const yes = await onTerminal(['apps', 'remove', 'one'], 'Remove app one, plan 5m, active?', 'yes\n')
    expect(yes.code, yes.output).toBe(0)
    expect(yes.output).toContain('app one: removed')
    expect(appsOnDisk()).toEqual([])
    expect((await onTerminal(['apps', 'remove', 'one'], 'there is no app one', '')).code).toBe(1)
  })

  test('that do not fit are refused with every mistake, and the file stays as it was', async () => {
    await writeApps(join(folder, 'apps.json'), [appRecord('one')])
    const before = readFileSync(join(folder, 'apps.json'), 'utf8')
    for (const args of [
      ['add', '--app-id', 'one', '--plan', '1m'],
      ['add', '--app-id', 'bad id', '--plan', 'huge'],
      ['set', 'one', '--events-per-minute=-3'],
      ['set', 'one', '--plan', ''],
      ['set', 'two', '--plan', '1m'],
      ['remove', 'two', '--yes'],
      ['rotate', 'two'],
    ]) {
      expect((await sluice(['apps', ...args])).code).toBe(1)
    }
    expect(readFileSync(join(folder, 'apps.json'), 'utf8')).toBe(before)
    const { output } = await sluice(['apps', 'add', '--app-id', 'bad id', '--plan', 'huge'])
    expect(output).toMatch(/app_id: must[^]*plan: must/)
  })

  test('in a file that is broken are not overwritten', async () => {
    await writeFile(join(folder, 'apps.json'), '{"apps": [')
    const { code, output } = await sluice(['apps', 'add', '--app-id', 'one', '--plan', '1m'])
    expect(code).toBe(1)
    expect(output).toContain('apps.json')
    expect(readFileSync(join(folder, 'apps.json'), 'utf8')).toBe('{"apps": [')
  })

  test('edited by eight at once, over and over, are all there afterwards', async () => {
    const editors = Array.from({ length: 8 }, (_, editor) => `app${editor}`)
    await Promise.all(
      editors.map(async (id) => {
        for (const round of [1, 2, 3]) {
          const added = await sluice(['apps', 'add', '--app-id', `${id}-${round}`, '--plan', 'trial'])
          expect(added.output.replace(added.stdout, '')).toBe(`app ${id}-${round}: added, plan trial, active\n`)
          expect(added.code).toBe(0)
        }
        expect((await sluice(['apps', 'set', `${id}-2`, '--name', id])).code).toBe(0)
        expect((await sluice(['apps', 'remove', `${id}-3`, '--yes'])).code).toBe(0)
      }),
    )
    const expected = editors.flatMap((id) => [
      [`${id}-1`, undefined],
      [`${id}-2`, id],
    ])
    expect(new Map(appsOnDisk().map((app) => [app['app_id'], app['name']]))).toEqual(
      new Map(expected as [string, string][]),
    )
    expect(await readdir(folder)).toEqual(['apps.json'])
  })

  test('changed beside a running service hold there soon', async () => {
    service = await startService({ dataDir: folder, apps: [appRecord('one')] })
    const key = (await sluice(['apps', 'rotate', 'one', '--overlap', '0'])).stdout.trim()
    const to = service
    await eventually('the new key is taken', async () => (await post(to, batch(key))).status === 202)
    expect((await post(to, batch('ak_one'))).status).toBe(401)
  })
})

describe('tail', () => {
  test('prints every byte of an event as it was sent', async () => {
    const event = '{"n":12345678901234567890,"x":1e999, "s":"\\ud83d é"}'
    await writeJournal(record(1, `[${event},{"b":1.10}]`) + record(2, '[{"c":2}]'))
    const { code, stdout } = await sluice(['tail', '--from-start', '--no-follow', '--app', 'a1'])
    expect(code).toBe(0)
    const lines = stdout.trimEnd().split('\n')
    expect(lines.map((line) => line.slice(line.indexOf(',"event":')))).toEqual([
      `,"event":${event}}`,
      ',"event":{"b":1.10}}',
    ])
    const stored = await sluice(['tail', '--from-start', '--no-follow', '--records'])
    expect(stored.stdout).toBe(readFileSync(join(folder, 'journal', '000000000001.ndjson'), 'utf8'))
  })

  test('of an app that has no record is an error, which names the one that was probably meant', async () => {
    await writeApps(join(folder, 'apps.json'), [appRecord('shop')])
    await writeJournal(record(1, '[{"a":1}]'))
    expect(await sluice(['tail', '--app', 'sohp'])).toMatchObject({
      code: 1,
      output: 'sluice tail: there is no app sohp; did you mean shop?\n',
    })
    expect(await sluice(['tail', '--app', 'sohp', '--from-start', '--no-follow'])).toMatchObject({
      code: 1,
      stdout: '',
    })
  })

  test('of an app that was removed prints from the start what is left of it', async () => {
    await writeApps(join(folder, 'apps.json'), [appRecord('shop')])
    await writeJournal(record(1, '[{"left":1}]'))
    const { code, stdout } = await sluice(['tail', '--app', 'a1', '--from-start', '--no-follow'])
    expect(code).toBe(0)
    expect(stdout).toContain('"left":1')
  })

  test('of an app is no error where no app records can be read', async () => {
    await writeJournal(record(1, '[{"a":1}]'))
    expect((await sluice(['tail', '--app', 'a1', '--no-follow'])).code).toBe(0)
  })

  test('ends quietly with 0 when its reader has seen enough', async () => {
    const many = Array.from({ length: 3000 }, (_, number) => record(number, `[{"p":"${'x'.repeat(200)}"}]`)).join('')
    await writeJournal(many)
    const output = await shell('sluice tail --from-start --no-follow | head -n 1 | wc -l; echo "${PIPESTATUS[0]}"')
    expect(output).toBe('1\n0\n')
  })

  test('says so where a line is no record, and goes on', async () => {
    await writeJournal(`${record(1, '[{"a":1}]')}edited by hand\n${record(2, '[{"b":1}]')}`)
    const { code, stdout, output } = await sluice(['tail', '--from-start', '--no-follow'])
    expect(code).toBe(0)
    expect(stdout.trimEnd().split('\n')).toHaveLength(2)
    expect(notesIn(output)).toEqual(['sluice tail: skipped a line that is not a queue record'])
  })

  test('says once that lines are no records, and how many at its end', async () => {
    await writeJournal(`${'no record\n'.repeat(1200)}${record(1, '[{"a":1}]')}`)
    const { code, stdout, output } = await sluice(['tail', '--from-start', '--no-follow'])
    expect([code, stdout.trimEnd().split('\n').length]).toEqual([0, 1])
    expect(notesIn(output)).toEqual([
      'sluice tail: skipped a line that is not a queue record',
      'sluice tail: skipped 1,200 such lines in all',
    ])
  })

  test('prints what comes after its start, and Ctrl-C ends it with 0', async () => {
    await writeJournal(record(1, '[{"early":1}]'))
    const tail = startCommand(['tail'], { SLUICE_DATA_DIR: folder }, folder)
    try {
      let number = 1
      await eventually('an event is printed', async () => {
        await appendFile(join(folder, 'journal', '000000000001.ndjson'), record(++number, `[{"late":${number}}]`))
        return tail.stdout().includes('"event":{"late":')
      })
      expect(tail.stdout()).not.toContain('early')
      process.kill(tail.pid, 'SIGINT')
      expect(await tail.exited).toMatchObject({ code: 0, signal: null })
    } finally {
      tail.kill()
    }
  })
})

describe('explain', () => {
  beforeEach(() => writeApps(join(folder, 'apps.json'), [appRecord('one', { events_per_day: 5 })]))

  test('counts what is on disk, writes nothing, and says by its exit code what would happen', async () => {
    await writeFile(join(folder, 'good.json'), batch('ak_one', 3))
    const before = await readdir(folder)
    const accepted = await sluice(['explain', '--json', 'good.json'])
    expect(accepted.code).toBe(0)
    expect(JSON.parse(accepted.stdout)).toMatchObject({ outcome: 'accepted', status: 202, events: 3, violations: [] })
    expect(await readdir(folder)).toEqual(before)

    service = await startService({ dataDir: folder })
    expect((await post(service, batch('ak_one', 3))).status).toBe(202)
    const refused = await sluice(['explain', '--json', 'good.json'])
    expect(refused.code).toBe(1)
    expect(JSON.parse(refused.stdout)).toMatchObject({
      outcome: 'daily_limit_exceeded',
      status: 429,
      limits: { day: { limit: 5, used: 3, remaining: 2 } },
    })
    expect((await post(service, batch('ak_one', 2))).status).toBe(202)
  })

  test('knows that the journal is full, by its setting and by its disk', async ({ skip }) => {
    const disk = mountSmall('4m', skip)
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
    await writeJournal(' '.repeat(1024 * 1024))
    expect(await outcome({ SLUICE_JOURNAL_MAX_MB: '1' })).toBe('journal_full')
  })

  test('reads standard input, and knows a body that is too large', async () => {
    expect(await shell('echo "{}" | sluice explain - || echo "$?"')).toMatch(
      /^400 validation_failed: app_key: required[^]*\n1\n$/,
    )
    const large = await shell('head -c 600000 /dev/zero | sluice explain --json - || true')
    expect(JSON.parse(large)).toMatchObject({ outcome: 'payload_too_large', body_bytes: null })
  })

  test('without an app file, or without the body’s file, says which is missing', async () => {
    expect((await sluice(['explain', 'none.json'])).output).toContain('none.json')
    const { code, output } = await sluice(['explain', 'none.json'], { SLUICE_APPS_FILE: 'other.json' })
    expect(code).toBe(1)
    expect(output).toContain('no app file other.json')
  })
})

describe('check', () => {
  const ports = { PORT: '0', SLUICE_ADMIN_PORT: '0' }

  test('passes on an empty machine, and leaves nothing behind', async () => {
    const { code, stdout } = await sluice(['check'], { ...ports, SLUICE_DATA_DIR: join(folder, 'new', 'data') })
    expect(stdout).toMatch(/^ok +settings[^]*^ok +data folder .*can be made$/m)
    expect(code).toBe(0)
    expect(await readdir(folder)).toEqual([])
  })

  test('knows a service that runs on the same settings', async () => {
    service = await startService({ dataDir: folder, apps: [appRecord('one')] })
    const env = { HOST: '127.0.0.1', PORT: String(service.port), SLUICE_ADMIN_PORT: String(service.adminPort) }
    const { code, stdout } = await sluice(['check'], env)
    expect(stdout).toMatch(/data folder .*in use by a running sluice/)
    expect(stdout.match(/is held by the running sluice/g)).toHaveLength(2)
    expect(code).toBe(0)
  })

  test('fails where the running service cannot write, whatever this shell may do', async () => {
    service = await startService({ dataDir: folder, apps: [appRecord('one')] })
    const env = { HOST: '127.0.0.1', PORT: String(service.port), SLUICE_ADMIN_PORT: String(service.adminPort) }
    execFileSync('prlimit', [`--pid=${service.pid}`, '--fsize=1000'])
    expect((await post(service, batch('ak_one', 20))).status).toBe(503)
    const { code, stdout } = await sluice(['check'], env)
    expect([code, stdout]).toEqual([
      1,
      expect.stringMatching(/^FAIL +journal +the running sluice: disk error: EFBIG: /m),
    ])
    expect(service.output()).toContain('until the limit on the size of files (ulimit -f) is raised')
    expect(service.output()).not.toContain('SLUICE_JOURNAL_MAX_MB')
  })

  test('leaves no request in the metrics of a running service', async () => {
    const running = await startService({ dataDir: folder, apps: [appRecord('one')] })
    service = running
    const requests = async (): Promise<string[]> => {
      const { text } = await get(running.adminPort, '/metrics')
      return text.split('\n').filter((line) => line.startsWith('sluice_requests_total{'))
    }
    const before = await requests()
    const env = { HOST: '127.0.0.1', PORT: String(running.port), SLUICE_ADMIN_PORT: String(running.adminPort) }
    expect((await sluice(['check'], env)).stdout).toMatch(/^ok +port .*held by the running sluice$/m)
    expect(await requests()).toEqual(before)
  })

  test('knows another program on the public port, even where a service runs in the same folder', async () => {
    service = await startService({ dataDir: folder, apps: [appRecord('one')] })
    const other = createHttpServer((_, response) => response.end('hello'))
    await new Promise<void>((done) => other.listen(0, '127.0.0.1', done))
    const { port } = other.address() as { port: number }
    const env = { HOST: '127.0.0.1', PORT: String(port), SLUICE_ADMIN_PORT: String(service.adminPort) }
    const { code, stdout } = await sluice(['check'], env)
    other.close()
    expect(stdout).toMatch(/^FAIL +port .*another program$/m)
    expect(code).toBe(1)
  })

  test('fails on a port that another program holds, on a bad app file and on a folder that is none', async () => {
    const other = createServer()
    await new Promise<void>((done) => other.listen(0, '127.0.0.1', done))
    const { port } = other.address() as { port: number }
    await writeFile(join(folder, 'file'), '')
    await writeFile(join(folder, 'apps.json'), '{"apps":[{}]}')
    const { code, stdout } = await sluice(['check'], {
      ...ports,
      HOST: '127.0.0.1',
      PORT: String(port),
      SLUICE_DATA_DIR: join(folder, 'file'),
      SLUICE_APPS_FILE: join(folder, 'apps.json'),
    })
    other.close()
    expect(code).toBe(1)
    expect(stdout).toMatch(/^FAIL +port .*another program$/m)
    expect(stdout).toMatch(/^FAIL +apps /m)
    expect(stdout).toMatch(/^FAIL +data folder .*not a folder$/m)
  })

  test('fails where the journal has no room for a batch of the largest size, as a service would refuse it', async () => {
    const mib = 1024 * 1024
    const settings = { ...ports, SLUICE_JOURNAL_MAX_MB: '2' }
    await writeJournal(`${' '.repeat(2 * mib - 524_288 - 1)}\n`)
    const { code, stdout } = await sluice(['check'], settings)
    expect(stdout).toMatch(
      /^FAIL +journal .*; full: a batch of the largest size \(521 KiB\) is answered 503: raise SLUICE_JOURNAL_MAX_MB or lower SLUICE_JOURNAL_KEEP_HOURS$/m,
    )
    expect(code).toBe(1)
    service = await startService({ dataDir: folder, apps: [appRecord('one')], env: { SLUICE_JOURNAL_MAX_MB: '2' } })
    expect((await post(service, bodyOfSize('ak_one', 524_288))).status).toBe(503)
    await service.kill()
    // As a record it has a head, and its commit fills blocks.
    await writeJournal(`${' '.repeat(2 * mib - 524_288 - 1024 - 8192 - 1)}\n`)
    expect(await sluice(['check'], settings)).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^ok +journal /m),
    })
    service = await startService({ dataDir: folder, apps: [appRecord('one')], env: { SLUICE_JOURNAL_MAX_MB: '2' } })
    expect((await post(service, bodyOfSize('ak_one', 524_288))).status).toBe(202)
  })

  test('fails where the disk has no room for it', async ({ skip }) => {
    const disk = mountSmall('8m', skip)
    const settings = { ...ports, SLUICE_DATA_DIR: disk }
    expect((await sluice(['check'], settings)).stdout).toMatch(/^warn +journal .*; the disk will be full before /m)
    await writeFile(join(disk, 'other'), Buffer.alloc(8 * 1024 * 1024 - 520 * 1024))
    const { code, stdout } = await sluice(['check'], settings)
    expect(stdout).toMatch(
      /^FAIL +journal .*; its disk is full: a batch of the largest size \(521 KiB\) is answered 503: make room there$/m,
    )
    expect(code).toBe(1)
  })

  test('warns where the journal is nearly full', async () => {
    const settings = { ...ports, SLUICE_JOURNAL_MAX_MB: '10' }
    await writeJournal(' '.repeat(8.1 * 1024 * 1024))
    const { code, stdout } = await sluice(['check'], settings)
    expect(stdout).toMatch(
      /^warn +journal .*; nearly full; when full, requests get 503: raise SLUICE_JOURNAL_MAX_MB or /m,
    )
    expect(code).toBe(0)
    await writeJournal(' '.repeat(7.8 * 1024 * 1024))
    expect((await sluice(['check'], settings)).stdout).toMatch(/^ok +journal /m)
  })

  test('says how long the journal is kept: for good where an earlier version made it', async () => {
    const kept = async (env: Record<string, string> = {}) =>
      /journal .* kept (.*), free/.exec((await sluice(['check'], { ...ports, ...env })).stdout)?.[1]
    expect(await kept()).toBe('72 h')
    await writeJournal(record(1, '[]'))
    expect(await kept()).toBe('whatever its age')
    expect(await kept({ SLUICE_JOURNAL_KEEP_HOURS: '5' })).toBe('5 h')
    expect(await readdir(join(folder, 'journal'))).toEqual(['000000000001.ndjson'])
  })
})

test('tail prints events as they were sent to a pipe, and compact ones to a terminal', async () => {
  await writeJournal(record(1, '[{ "type": "track" }]'))
  expect((await sluice(['tail', '--from-start', '--no-follow'])).stdout).toContain('"event":{ "type": "track" }}\n')
  const { output, code } = await onTerminal(['tail', '--from-start', '--no-follow'], 'track', '')
  expect(output).toContain('"event":{"type":"track"}}\r\n')
  expect(code).toBe(0)
})

describe('the running service', () => {
  const refused = (env: Record<string, string> = {}) => sluice(['tail', '--refused', '--no-follow'], env)

  test('is found on its data folder by usage and tail --refused, without its admin port', async () => {
    service = await startService({ dataDir: folder, apps: [appRecord('one')] })
    await post(service, batch('ak_one', 3))
    await post(service, '{')
    const { stdout, code } = await sluice(['usage', '--app', 'one'])
    expect(stdout).toMatch(/^accepted in the last hour +3 events$/m)
    expect(code).toBe(0)
    expect((await refused()).stdout).toContain('"code":"invalid_json"')
    expect((await refused({ SLUICE_ADMIN_PORT: '0' })).stdout).toContain('"code":"invalid_json"')
  })

  test('is asked at an explicit SLUICE_ADMIN_PORT instead', async () => {
    service = await startService({ dataDir: folder, apps: [appRecord('one')] })
    const other = createHttpServer((_, response) => response.end('{"refusals":[{"code":"of_another"}]}'))
    await new Promise<void>((done) => other.listen(0, '127.0.0.1', done))
    const { port } = other.address() as { port: number }
    const { stdout } = await refused({ SLUICE_ADMIN_PORT: String(port) })
    other.close()
    expect(stdout).toContain('of_another')
  })

  test('that was killed leaves an address that misleads nobody, and one that ends takes it away', async () => {
    const first = await startService({ dataDir: folder, apps: [appRecord('one')] })
    await first.kill()
    expect(await readdir(folder)).toContain('admin.json')
    expect((await refused({ SLUICE_ADMIN_PORT: '0' })).output).toContain('SLUICE_ADMIN_PORT is 0')
    service = await startService({ dataDir: folder })
    await post(service, '{')
    expect((await refused()).stdout).toContain('invalid_json')
    await service.stop()
    expect(await readdir(folder)).not.toContain('admin.json')
  })

  test('whose address is damaged is a clear error', async () => {
    service = await startService({ dataDir: folder, apps: [appRecord('one')] })
    await writeFile(join(folder, 'admin.json'), '{')
    const { code, output } = await refused()
    expect(output).toMatch(
      /^sluice tail: .*admin\.json is damaged: set SLUICE_ADMIN_PORT to the admin_port that the service logged$/m,
    )
    expect(code).toBe(1)
  })
})

describe('serve', () => {
  test.each([
    ['PORT', 'HOST and PORT'],
    ['SLUICE_ADMIN_PORT', 'SLUICE_ADMIN_HOST and SLUICE_ADMIN_PORT'],
  ])('names %s where that port is taken, before it changes the folder', async (name, names) => {
    const other = createServer()
    await new Promise<void>((done) => other.listen(0, '127.0.0.1', done))
    const { port } = other.address() as { port: number }
    const env = { HOST: '127.0.0.1', PORT: '0', SLUICE_ADMIN_PORT: '0', [name]: String(port) }
    const { code, output } = await sluice(['serve'], env)
    other.close()
    expect(output).toContain(
      `sluice serve: cannot listen on 127.0.0.1:${port}, which ${names} name: the port is taken\n`,
    )
    expect(code).toBe(1)
    expect(await readdir(folder)).toEqual([])
  })

  test.each(['HOST', 'SLUICE_ADMIN_HOST'])('names %s where the machine has no such address', async (name) => {
    const { code, output } = await sluice(['serve'], { PORT: '0', SLUICE_ADMIN_PORT: '0', [name]: '192.0.2.1' })
    expect(output).toContain(`cannot listen on 192.0.2.1:0, which ${name} and `)
    expect(output).toContain('this machine has no such address')
    expect(code).toBe(1)
  })

  test('prints the demo key and the curl line to stderr, and JSON lines alone to stdout', async () => {
    const env = { SLUICE_DATA_DIR: folder, PORT: '0', SLUICE_ADMIN_PORT: '0' }
    const serve = startCommand(['serve'], env, folder)
    try {
      await eventually('it listens', () => serve.stdout().includes('"msg":"listening"'))
      await eventually('the curl line is there', () => /^curl /m.test(serve.output()))
      process.kill(serve.pid, 'SIGTERM')
      expect(await serve.exited).toMatchObject({ code: 0 })
      for (const line of serve.stdout().trimEnd().split('\n')) expect(() => JSON.parse(line) as unknown).not.toThrow()
      expect(serve.stdout()).not.toContain('ak_demo')
    } finally {
      serve.kill()
    }
  })

  test('under npx drains when a SIGTERM reaches npx alone', async () => {
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
      endGroup(npx.pid)
    }
  })

  test('goes on when nobody reads its log any more', async () => {
    const child = spawn(process.execPath, [MAIN, 'serve'], {
      env: { PATH: '', SLUICE_DATA_DIR: folder, PORT: '0', SLUICE_ADMIN_PORT: '0' },
      cwd: folder,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    const exited = new Promise<number | null>((done) => {
      child.once('exit', (code) => done(code))
    })
    try {
      let output = ''
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        output += text
      })
      await eventually('it listens', () => output.includes('"msg":"listening"'))
      child.stdout.destroy()
      // A change of the app file is logged; then it still drains in good order.
      await sluice(['apps', 'add', '--app-id', 'late', '--plan', 'trial'])
      const { port } = JSON.parse(output.trimEnd().split('\n').at(-1) ?? '') as { port: number }
      const key = String(appsOnDisk()[1]?.['app_key'])
      await eventually('the change holds', async () => (await post({ port }, batch(key))).status === 202)
      child.kill('SIGTERM')
      expect(await exited).toBe(0)
    } finally {
      child.kill('SIGKILL')
    }
  })
})

// The commands as someone at a terminal meets them: the first start, tail, explain, apps.

import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { batch, event, expectAccepted, figures, post, single } from '../support/client.ts'
import { readJournal } from '../support/journal-files.ts'
import {
  appRecord,
  eventually,
  makeFolder,
  removeFolder,
  roomInMinute,
  runCommand,
  type Service,
  startCommand,
  startService,
} from '../support/service.ts'

describe('the first start, with no settings', () => {
  test('writes a demo app, and prints a curl line that works as it stands', async () => {
    const place = await makeFolder()
    // Ports of its own, since the usual ones may be taken here; all else is left to itself.
    const service = await startService({ dataDir: place })
    await eventually('the curl line is printed', () => /^\s*curl .*\n/m.test(service.output()))
    const curl = /^\s*(curl (?:.*\\\n)*.*)$/m.exec(service.output())?.[1] ?? ''
    expect(curl, service.output()).toContain(`:${service.port}/api/v1/events`)
    const apps = JSON.parse(readFileSync(join(place, 'apps.json'), 'utf8')) as { apps: [{ app_key: string }] }
    const key = apps.apps[0].app_key
    expect(key).toMatch(/^ak_/)
    expect(service.output()).toContain(key)
    const { stdout } = await promisify(execFile)('bash', ['-c', curl])
    expect(stdout).toContain('"status":"accepted"')
    await service.stop()
    const again = await startService({ dataDir: place })
    expectAccepted(await post(again, single(key)), 1)
    expect(JSON.parse(readFileSync(join(place, 'apps.json'), 'utf8'))).toEqual(apps)
    await again.kill()
    await removeFolder(place)
  })
})

interface TailLine {
  readonly batch_id: string
  readonly app_id: string
  readonly received_at: string
  readonly sdk_version?: string | null
  readonly event: Record<string, unknown>
}

describe('beside a running service', () => {
  let folder: string
  let service: Service
  let env: Record<string, string>

  beforeAll(async () => {
    folder = await makeFolder()
    const apps = [
      appRecord('one'),
      appRecord('two', { events_per_minute: 55 }),
      appRecord('gone', { subscription: 'canceled' }),
    ]
    service = await startService({ dataDir: folder, apps })
    env = { SLUICE_DATA_DIR: folder }
    expectAccepted(await post(service, batch('ak_one', 2, { sdk_version: '2.1.0' })), 2)
    expectAccepted(await post(service, batch('ak_two', 3)), 3)
  })

  afterAll(async () => {
    await service?.kill()
    await removeFolder(folder)
  })

  const linesOf = (text: string): TailLine[] =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as TailLine)

  describe('tail', () => {
    test('from the start gives one event a line', async () => {
      const result = await runCommand(['tail', '--from-start', '--no-follow'], env, folder)
      expect(result.code, result.output).toBe(0)
      const lines = linesOf(result.stdout)
      expect(lines.map((line) => line.app_id)).toEqual(['one', 'one', 'two', 'two', 'two'])
      expect(lines[0]?.sdk_version).toBe('2.1.0')
      expect(lines[0]?.event).toMatchObject({ type: 'track', name: 'signup' })
      const stored = readJournal(folder)
      expect(lines[0]?.batch_id).toBe(stored[0]?.batch_id)
      expect(lines[0]?.received_at).toBe(stored[0]?.received_at)
    })

    test('shows one app alone', async () => {
      const result = await runCommand(['tail', '--from-start', '--no-follow', '--app', 'two'], env, folder)
      expect(linesOf(result.stdout).map((line) => line.app_id)).toEqual(['two', 'two', 'two'])
    })

    test('shows records as stored', async () => {
      const result = await runCommand(['tail', '--from-start', '--no-follow', '--records'], env, folder)
      expect(result.stdout.trimEnd().split('\n')).toEqual(readJournal(folder).map((record) => record.line))
    })

    test('keeps the text of what was sent', async () => {
      const plain = JSON.stringify(event())
      const text = `${plain.slice(0, -1)},"properties":{"n":1.000e999,"s":"\\u0041\\ud83d"}}`
      expectAccepted(await post(service, `{"app_key":"ak_one","events":[${text}]}`), 1)
      const result = await runCommand(['tail', '--from-start', '--no-follow', '--app', 'one'], env, folder)
      expect(result.stdout).toContain(`"event":${text}`)
    })

    test('follows what comes, and only that', async () => {
      const tail = startCommand(['tail', '--app', 'one'], env, folder)
      try {
        let sent = 0
        await eventually('tail shows an event sent after its start', async () => {
          expectAccepted(await post(service, single('ak_one', { name: `late_${sent}` })), 1)
          sent++
          return tail.stdout().includes('late_')
        })
        expect(tail.stdout()).not.toContain('signup')
      } finally {
        tail.kill()
        await tail.exited
      }
    })
  })

  describe('explain', () => {
    async function explain(body: string, ...args: string[]): Promise<{ code: number | null; output: string }> {
      const file = join(folder, 'body.json')
      await writeFile(file, body)
      return runCommand(['explain', ...args, file], env, folder)
    }

    test('says that a good body would be accepted, and spends and queues nothing', async () => {
      await roomInMinute(10)
      const before = figures(await post(service, batch('ak_two', 1)))
      const stored = readJournal(folder).length
      const result = await explain(batch('ak_two', 5))
      expect(result.output).toMatch(/202|accepted/)
      expect(readJournal(folder).length).toBe(stored)
      expect(figures(await post(service, batch('ak_two', 1))).remaining).toBe(before.remaining - 1)
    })

    test('names every offending member, not only the first', async () => {
      const result = await explain(batch('ak_one', 1, { events: [event({ name: '', type: 'x', context: {} })] }))
      expect(result.output).toContain('validation_failed')
      for (const path of ['events[0].name', 'events[0].type', 'events[0].context.os']) {
        expect(result.output).toContain(path)
      }
    })

    test('names the refusals that come before the schema', async () => {
      expect((await explain(single('ak_nobody'))).output).toContain('invalid_app_key')
      expect((await explain(single('ak_gone'))).output).toContain('subscription_inactive')
      expect((await explain('{"app_key":')).output).toContain('invalid_json')
    })

    test('takes another app key than the one in the body', async () => {
      expect((await explain(single('ak_one'), '--app-key', 'ak_gone')).output).toContain('subscription_inactive')
    })

    test('says what is left of the limits', async () => {
      await roomInMinute(10)
      const { limit, remaining } = figures(await post(service, single('ak_two')))
      const { output } = await explain(single('ak_two'), '--json')
      expect(output).toContain(String(limit))
      // The running service writes its counters to the journal, so that another process knows them.
      expect(output).toMatch(new RegExp(`\\b(${remaining}|${limit - remaining})\\b`))
    })

    test('of a missing file is a clear error', async () => {
      const result = await runCommand(['explain', join(folder, 'nothing.json')], env, folder)
      expect(result.code).not.toBe(0)
      expect(result.output).toContain('nothing.json')
      expect(result.output).not.toMatch(/\n\s+at .*\.[jt]s:\d+/)
    })
  })

  describe('explain and the service', () => {
    const bodies: Record<string, () => string> = {
      'a good body': () => single('ak_one'),
      'no app_key': () => '{"events":[]}',
      'app_key twice': () => '{"app_key":"ak_one","app_key":"ak_one","events":[]}',
      'too many events': () => batch('ak_one', 101),
      'a repeated member': () => '{"app_key":"ak_one","events":[],"events":[]}',
      'a batch over the limit': () => batch('ak_two', 60),
    }
    for (const [claim, body] of Object.entries(bodies)) {
      test(`agree on ${claim}`, async () => {
        const answer = await post(service, body())
        const file = join(folder, 'agree.json')
        await writeFile(file, body())
        const result = await runCommand(['explain', '--json', file], env, folder)
        expect(() => JSON.parse(result.stdout) as unknown).not.toThrow()
        expect(result.code).toBe(answer.status === 202 ? 0 : 1)
        expect(result.stdout).toContain(answer.status === 202 ? 'accepted' : answer.json['error'])
      })
    }
  })

  describe('apps', () => {
    const apps = (...args: string[]): Promise<{ code: number | null; stdout: string; output: string }> =>
      runCommand(['apps', ...args], env, folder)
    const answers = (key: string, status: number): Promise<void> =>
      eventually(`${key} is answered ${status}`, async () => (await post(service, single(key))).status === status)

    test('lists what is in the file', async () => {
      const result = await apps('list')
      expect(result.code).toBe(0)
      for (const id of ['one', 'two', 'gone']) expect(result.stdout).toContain(id)
    })

    test('adds, changes, rotates and removes an app, and a running service follows', async () => {
      const added = await apps('add', 'shop', '--plan', '100k')
      expect(added.code).toBe(0)
      const key = /ak_\w+/.exec(added.stdout)?.[0] ?? ''
      await answers(key, 202)
      expect((await apps('set', 'shop', '--plan', '1m')).code).toBe(0)
      await eventually(
        'the new plan is in force',
        async () => figures(await post(service, single(key))).limit === 5_000,
      )
      expect((await apps('set', 'shop', '--subscription', 'paused')).code).toBe(0)
      await answers(key, 402)
      expect((await apps('set', 'shop', '--subscription', 'active')).code).toBe(0)
      const rotated = await apps('rotate', 'shop')
      const next = /ak_\w+/.exec(rotated.stdout)?.[0] ?? ''
      expect(next).not.toBe(key)
      await answers(next, 202)
      await answers(key, 202)
      const last = /ak_\w+/.exec((await apps('rotate', 'shop', '--overlap', '0')).stdout)?.[0] ?? ''
      await answers(last, 202)
      await answers(next, 401)
      await answers(key, 401)
      expect((await apps('remove', 'shop', '--yes')).code).toBe(0)
      await answers(last, 401)
    })

    test('names what it can do, and says how much it exported', async () => {
      const mistaken = await apps('rm', 'one')
      expect(mistaken).toMatchObject({ code: 2, stdout: '' })
      expect(mistaken.output).toContain(
        'unknown action "rm"; the actions are list, add, set, remove, rotate, export, import',
      )
      const exported = await apps('export', join(folder, 'backup.json'))
      expect(exported).toMatchObject({ code: 0, stdout: '' })
      expect(exported.output).toMatch(/^wrote \d+ app records to .*backup\.json$/m)
    })

    test('refuses what does not fit, and leaves the file as it was', async () => {
      const before = readFileSync(service.appsFile, 'utf8')
      for (const args of [
        ['add', '--app-id', 'one', '--plan', '1m'],
        ['add', '--app-id', 'a.b', '--plan', '1m'],
        ['add', '--app-id', 'new', '--plan', '7m'],
        ['add', '--app-id', 'new', '--plan', '1m', '--app-key', 'ak_one'],
        ['add', '--app-id', 'new', '--plan', '1m', '--app-key', 'nokey'],
        ['set', 'one', '--subscription', 'gone'],
        ['set', 'nobody', '--plan', '1m'],
        ['remove', 'nobody', '--yes'],
        ['rotate', 'nobody'],
      ]) {
        const result = await apps(...args)
        expect(`${args.join(' ')}: ${result.code === 0}`).toBe(`${args.join(' ')}: false`)
      }
      expect(readFileSync(service.appsFile, 'utf8')).toBe(before)
      expectAccepted(await post(service, single('ak_one')), 1)
    })
  })

  describe('check', () => {
    test('is well beside a running service, and fails on a folder that is none', async () => {
      const ports = { PORT: '0', SLUICE_ADMIN_PORT: '0' }
      const well = await runCommand(['check'], { ...env, ...ports }, folder)
      expect(`${well.code}: ${well.output}`).toMatch(/^0: /)
      const file = join(folder, 'a-file')
      await writeFile(file, 'x')
      const ill = await runCommand(['check'], { SLUICE_DATA_DIR: file, ...ports }, folder)
      expect(ill.code).toBe(1)
      expectAccepted(await post(service, single('ak_one')), 1)
    })
  })

  describe('anything else', () => {
    test('an unknown command, or an unknown option, is a clear error', async () => {
      for (const args of [['nonsense'], ['tail', '--nonsense'], ['serve', '--nonsense'], ['apps', 'nonsense']]) {
        const result = await runCommand(args, env, folder)
        expect(result.code, args.join(' ')).not.toBe(0)
        expect(result.output).not.toMatch(/\n\s+at .*\.[jt]s:\d+/)
      }
    })

    test('help names the commands', async () => {
      const result = await runCommand(['--help'], env, folder)
      expect(result.code).toBe(0)
      for (const command of ['serve', 'apps', 'tail', 'explain', 'check']) expect(result.output).toContain(command)
    })
  })
})

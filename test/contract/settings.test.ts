// Settings are checked at start, all at once; and what start needs besides them: a folder of its own, TLS files.

import { mkdir, writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { expectAccepted, expectSound, get, post, single } from '../support/client.ts'
import { aService, tlsSettings } from '../support/fixture.ts'
import { expectClosed } from '../support/hostile.ts'
import { openRaw, rawPost } from '../support/raw-http.ts'
import { appRecord, makeFolder, runCommand, startService } from '../support/service.ts'

const folder = await makeFolder()

const withForeign = test.extend(
  'service',
  { scope: 'file' },
  aService({ apps: [appRecord('plain')], env: { SLUICEGATE: 'x', FOO: 'y' } }),
)

async function expectStartRefused(env: Record<string, string>, mentions: readonly string[]): Promise<void> {
  const place = await makeFolder()
  const ports = { PORT: '0', SLUICE_ADMIN_PORT: '0', SLUICE_DATA_DIR: place }
  const result = await runCommand(['serve'], { ...ports, ...env }, place)
  expect(result.code, result.output).toBe(1)
  for (const mention of mentions) expect(result.output).toContain(mention)
  expect(result.output, 'a message, not a stack').not.toMatch(/\n\s+at .*\.[jt]s:\d+/)
}

const BAD_VALUES: Record<string, string[]> = {
  PORT: ['abc', '-1', '65536', '80.5', ' '],
  SLUICE_ADMIN_PORT: ['x', '70000'],
  SLUICE_RING_MB: ['0', '-1', 'much', '1e3x'],
  SLUICE_PARSERS: ['0', '-2', 'two'],
  SLUICE_PROCESSES: ['0', 'many'],
  SLUICE_DECODER: ['fast', 'SIMDJSON'],
  SLUICE_PARTITIONS: ['0', 'x'],
  SLUICE_STREAM_KEEP_HOURS: ['0', 'x'],
  SLUICE_STREAM_MAX_GB: ['0', 'x'],
  SLUICE_JOURNAL_MAX_MB: ['0', '-5', 'x'],
  SLUICE_JOURNAL_KEEP_HOURS: ['-1', 'x'],
  SLUICE_SHUTDOWN_SECONDS: ['-1', 'x'],
  SLUICE_DRAIN_DELAY_SECONDS: ['-1', 'x'],
  REDIS_URL: ['nonsense', 'http://localhost'],
  NATS_URL: ['http://localhost'],
}

describe('a bad value is a clear error', () => {
  const rounds = Math.max(...Object.values(BAD_VALUES).map((values) => values.length))
  for (let round = 0; round < rounds; round++) {
    const env = Object.fromEntries(
      Object.entries(BAD_VALUES).flatMap(([name, values]) =>
        values[round] === undefined ? [] : [[name, values[round]]],
      ),
    ) as Record<string, string>
    // One start for many mistakes: each must be told, so one that is taken shows.
    test(`and all are told at once: ${Object.values(env).join(' · ')}`, () => expectStartRefused(env, Object.keys(env)))
  }

  test('an unknown SLUICE_ name is refused', () =>
    expectStartRefused({ SLUICE_RING_MBS: '64', SLUICE_NONSENSE: '1', PORT: 'x' }, [
      'SLUICE_RING_MBS',
      'SLUICE_NONSENSE',
      'PORT',
    ]))

  test('a certificate that is not there is refused', () =>
    expectStartRefused({ SLUICE_TLS_CERT: '/tmp/none-c.pem', SLUICE_TLS_KEY: '/tmp/none-k.pem' }, ['none-c.pem']))

  withForeign('a foreign variable is none of our business', async ({ service }) => {
    expectAccepted(await post(service, single('ak_plain')), 1)
  })
})

test('serve --help lists every setting with its default', async () => {
  const result = await runCommand(['serve', '--help'], {}, folder)
  expect(result.code).toBe(0)
  const names =
    'PORT HOST SLUICE_ADMIN_PORT SLUICE_ADMIN_HOST SLUICE_DATA_DIR SLUICE_APPS_FILE REDIS_URL NATS_URL ' +
    'SLUICE_RING_MB SLUICE_PARSERS SLUICE_PROCESSES SLUICE_DECODER SLUICE_PARTITIONS SLUICE_JOURNAL_MAX_MB ' +
    'SLUICE_STREAM_KEEP_HOURS SLUICE_STREAM_MAX_GB SLUICE_STREAM_REPLICAS ' +
    'SLUICE_JOURNAL_KEEP_HOURS SLUICE_SHUTDOWN_SECONDS SLUICE_DRAIN_DELAY_SECONDS SLUICE_TLS_CERT SLUICE_TLS_KEY'
  expect(names.split(' ').filter((name) => !result.output.includes(name))).toEqual([])
  for (const value of ['8080', '0.0.0.0', '9090', '127.0.0.1', './data', '64', '10240', '25', '16', 'scanner']) {
    expect(result.output).toContain(value)
  }
})

describe('the data folder', () => {
  test('is used by one process at a time', async () => {
    const place = await makeFolder()
    const first = await startService({ dataDir: place, apps: [appRecord('plain')] })
    const env = { PORT: '0', SLUICE_ADMIN_PORT: '0', SLUICE_DATA_DIR: place }
    const second = await runCommand(['serve'], env, place)
    expect(second.code, second.output).toBe(1)
    expect(second.output).toContain(place)
    expect(second.output).not.toMatch(/\n\s+at .*\.[jt]s:\d+/)
    expectAccepted(await post(first, single('ak_plain')), 1)
    await first.kill()
    const third = await startService({ dataDir: place })
    expectAccepted(await post(third, single('ak_plain')), 1)
    await third.kill()
  })

  test('is made where it is missing', async () => {
    const deep = join(folder, 'a', 'b', 'c')
    const apps = join(folder, 'elsewhere.json')
    await writeFile(apps, JSON.stringify({ apps: [appRecord('plain')] }))
    const started = await startService({ dataDir: deep, env: { SLUICE_APPS_FILE: apps } }).catch(
      async (error: Error) => {
        // The harness runs the program inside the folder; where the folder is missing it is made first.
        if (!/ENOENT/.test(error.message)) throw error
        await mkdir(deep, { recursive: true })
        return startService({ dataDir: deep, env: { SLUICE_APPS_FILE: apps } })
      },
    )
    expectAccepted(await post(started, single('ak_plain')), 1)
    await started.kill()
  })

  test('that is a file is a clear error', async () => {
    const file = join(folder, 'file')
    await writeFile(file, 'x')
    await expectStartRefused({ SLUICE_DATA_DIR: file }, [file])
  })

  for (const place of ['/sys/nowhere', '/proc/self/nowhere']) {
    test(`that cannot be made is a clear error: ${place}`, () =>
      expectStartRefused({ SLUICE_DATA_DIR: place }, [place]))
  }

  // Not even root may write there.
  test('in which this user may not write is a clear error, before anything else is said of it', async () => {
    const result = await runCommand(
      ['serve'],
      { PORT: '0', SLUICE_ADMIN_PORT: '0', SLUICE_DATA_DIR: '/proc/self' },
      folder,
    )
    expect(result.output).toMatch(
      /^sluice serve: SLUICE_DATA_DIR: cannot make \/proc\/self or write in it: \w+: .*; give it to the user that runs sluice, or name another folder$/m,
    )
    expect(result.output).not.toContain('admin.json')
    expect(result.code).toBe(1)
  })
})

const withTls = test.extend(
  'service',
  { scope: 'file' },
  aService((dataDir) => ({ apps: [appRecord('plain')], env: tlsSettings(dataDir) })),
)

describe('a .env file', () => {
  const startIn = async (place: string, env: Record<string, string>) => {
    const { output } = await runCommand(
      ['serve'],
      { SLUICE_DATA_DIR: '/proc/self', SLUICE_ADMIN_PORT: '0', ...env },
      place,
    )
    return output.split('\n').filter((line) => line.includes('.env'))
  }

  test('is not read, and the log names each setting in it that is not set', async () => {
    const place = await makeFolder()
    await writeFile(join(place, '.env'), '# ports\nexport PORT=1\nSLUICE_ADMIN_PORT=2\nDATABASE_URL=x\n')
    const [line = '', ...others] = await startIn(place, { PORT: '' })
    expect(JSON.parse(line)).toMatchObject({
      level: 'warn',
      settings: ['PORT'],
      msg: expect.stringMatching(/^these settings are only in \.env, which sluice does not read: /),
    })
    expect(others).toEqual([])
    expect(await startIn(place, { PORT: '0' })).toEqual([])
  })

  test('that is a folder is nothing to speak of', async () => {
    const place = await makeFolder()
    await mkdir(join(place, '.env'))
    expect(await startIn(place, { PORT: '0' })).toEqual([])
  })
})

describe('TLS', () => {
  withTls('two settings put the public port under TLS; the admin port stays plain', async ({ service }) => {
    const status = await new Promise<number>((done, fail) => {
      const options = { host: '127.0.0.1', port: service.port, path: '/api/v1/events', method: 'POST' }
      const outgoing = request(
        { ...options, rejectUnauthorized: false, headers: { 'Content-Type': 'application/json' } },
        (response) => {
          response.resume()
          response.on('end', () => done(response.statusCode ?? 0))
        },
      )
      outgoing.on('error', fail)
      outgoing.end(single('ak_plain'))
    })
    expect(status).toBe(202)
    expect((await get(service.adminPort, '/livez')).status).toBe(200)
  })

  withTls('plain HTTP on the TLS port is not served, and harms nobody', async ({ service }) => {
    const raw = await openRaw(service.port)
    raw.write(rawPost(single('ak_plain')))
    await expectClosed(raw)
    expect(raw.unread()).not.toContain('HTTP/1.1')
    expect((await get(service.adminPort, '/livez')).status).toBe(200)
  })
})

withForeign('the public port answers on its own path only, soundly', async ({ service }) => {
  for (const path of ['/metrics', '/livez', '/readyz', '/', '/favicon.ico']) {
    const answer = await get(service.port, path)
    expect(answer.status).toBe(404)
    expectSound(answer)
  }
  expect((await service.stop()).code).toBe(0)
})

// What sluice says of the HTTP engine at its start, and that only what serves needs it.

import { spawn } from 'node:child_process'
import { cp, mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { beforeAll, beforeEach, describe, expect, it, test } from 'vitest'
import { event, expectAccepted, post, single } from '../support/client.ts'
import { ENGINE } from '../support/engine.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { appRecord, makeFolder, runCommand, type Service, startService, writeApps } from '../support/service.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const WARNING = 'this build of the HTTP engine is from 2024; use Node 24 for production'
const BINARY = `uws_${process.platform}_${process.arch}_${process.versions.modules}.node`

let folder: string

beforeEach(async () => {
  folder = await makeFolder()
})

describe('the start log', () => {
  const told = (service: Service): unknown[] =>
    service
      .output()
      .split('\n')
      .filter((line) => line.includes(WARNING))
      .map((line) => (JSON.parse(line) as { level: string }).level)
  const expected = ENGINE === 'old' ? ['warn'] : []

  it(`has ${ENGINE === 'old' ? 'one line of warning' : 'no word'} of an older engine on this Node`, async () => {
    const service = await startService({ dataDir: folder, apps: [appRecord('plain')] })
    expectAccepted(await post(service, single('ak_plain')), 1)
    await service.kill()
    expect(told(service)).toEqual(expected)
  })

  it('has it no more often with several processes', async () => {
    const stores = await Promise.allSettled([startRedis(), startNats()])
    const [redis, nats] = stores.map((store) => (store.status === 'fulfilled' ? store.value : undefined)) as [
      RedisServer | undefined,
      NatsServer | undefined,
    ]
    try {
      const service = await startService({
        dataDir: folder,
        apps: [appRecord('plain')],
        env: {
          REDIS_URL: redis?.url ?? '',
          NATS_URL: nats?.url ?? '',
          SLUICE_APPS_FILE: join(folder, 'apps.json'),
          SLUICE_ADMIN_HOST: '127.0.0.1',
          SLUICE_PROCESSES: '2',
          SLUICE_RING_MB: '8',
        },
      })
      await service.stop()
      expect(told(service)).toEqual(expected)
    } finally {
      await Promise.all([redis?.stop(), nats?.stop()])
    }
  })
})

test(`sluice check ${ENGINE === 'old' ? 'warns of the older engine' : 'finds nothing wrong with the engine'} on this Node`, async () => {
  await writeApps(join(folder, 'apps.json'), [appRecord('plain')])
  const env = { PORT: '0', SLUICE_ADMIN_PORT: '0', SLUICE_DATA_DIR: folder }
  const { code, stdout } = await runCommand(['check'], env, folder)
  expect(code).toBe(0)
  expect(stdout).toMatch(
    ENGINE === 'old' ? new RegExp(`^warn +engine +.*${WARNING}`, 'm') : /^ok +engine +uWebSockets\.js on Node/m,
  )
})

describe('without a binary of the engine for this Node', () => {
  /** A program installed like any other, but for that one file. */
  let installed: string

  beforeAll(async () => {
    installed = await makeFolder()
    await cp(join(ROOT, 'dist'), join(installed, 'dist'), { recursive: true })
    await cp(join(ROOT, 'package.json'), join(installed, 'package.json'))
    await linkAll(join(ROOT, 'node_modules'), join(installed, 'node_modules'), 'uWebSockets.js')
    await linkAll(join(ROOT, 'node_modules/uWebSockets.js'), join(installed, 'node_modules/uWebSockets.js'), BINARY)
    // A link would lead the loader back to the whole package.
    for (const name of ['uws.js', 'package.json']) {
      await rm(join(installed, 'node_modules/uWebSockets.js', name))
      await cp(join(ROOT, 'node_modules/uWebSockets.js', name), join(installed, 'node_modules/uWebSockets.js', name))
    }
  })

  async function linkAll(from: string, to: string, except: string): Promise<void> {
    await mkdir(to)
    for (const name of await readdir(from)) {
      if (name !== except) await symlink(join(from, name), join(to, name))
    }
  }

  interface Run {
    readonly code: number | null
    readonly stdout: string
    readonly stderr: string
  }

  function run(...args: readonly string[]): Promise<Run> {
    const env = { PATH: process.env['PATH'], PORT: '0', SLUICE_ADMIN_PORT: '0', SLUICE_DATA_DIR: folder }
    const child = spawn(process.execPath, [join(installed, 'dist/main.js'), ...args], { cwd: folder, env })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
    return new Promise((done, fail) => {
      child.once('error', fail)
      child.once('close', (code) => done({ code, stdout, stderr }))
    })
  }

  test('serve says in one line which Nodes have one, and exits 1', async () => {
    const { code, stdout, stderr } = await run('serve')
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    const others = [20, 22, 24, 25].filter((node) => node !== Number.parseInt(process.versions.node, 10)).join(', ')
    expect(stderr).toContain(`has no binary for Node ${process.versions.node} on ${process.platform} ${process.arch}`)
    expect(stderr).toContain(`it has one for each of Node ${others}: use Node 24`)
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
  })

  test('check says the same of the engine, and all it knows of the rest', async () => {
    await writeApps(join(folder, 'apps.json'), [appRecord('plain')])
    const { code, stdout, stderr } = await run('check')
    expect({ code, stderr }).toEqual({ code: 1, stderr: '' })
    expect(stdout).toMatch(/^FAIL +engine +the HTTP engine .* has no binary for Node/m)
    expect(stdout.match(/^FAIL/gm)).toHaveLength(1)
    expect(stdout).toMatch(/^ok +apps /m)
  })

  test('apps, explain and tail do without it', async () => {
    await writeApps(join(folder, 'apps.json'), [appRecord('plain')])
    expect(await run('apps', 'list')).toMatchObject({ code: 0, stdout: expect.stringContaining('plain') })
    await writeFile(join(folder, 'body.json'), JSON.stringify({ app_key: 'ak_plain', events: [event()] }))
    expect(await run('explain', 'body.json')).toMatchObject({ code: 0, stdout: expect.stringContaining('202') })
    expect(await run('tail', '--from-start', '--no-follow')).toMatchObject({ code: 0, stdout: '' })
  })
})

// What sluice says of the HTTP engine at its start, and that only what serves needs it.

import { cp, mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { beforeAll, beforeEach, describe, expect, it, test } from 'vitest'
import { event, expectAccepted, get, post, single } from '../support/client.ts'
import { ENGINE, IS_NODE_WANTED } from '../support/engine.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { runToEnd, startNode } from '../support/processes.js'
import { type RedisServer, startRedis } from '../support/redis.ts'
import { appRecord, makeFolder, runCommand, type Service, startService, writeApps } from '../support/service.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const NODE = Number.parseInt(process.versions.node, 10)
const WARNING =
  'this build of the HTTP engine is from 2024; for production use Node 24 on Debian 13, Ubuntu 24.04 or later'
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

  it('has it no more often with several processes, which the engine of Node wants Node 22.12 for', async () => {
    const stores = await Promise.allSettled([startRedis(), startNats()])
    const [redis, nats] = stores.map((store) => (store.status === 'fulfilled' ? store.value : undefined)) as [
      RedisServer | undefined,
      NatsServer | undefined,
    ]
    try {
      const starting = startService({
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
      if (ENGINE === 'node' && NODE < 22) {
        await expect(starting).rejects.toThrow('SLUICE_PROCESSES must be 1 before Node 22.12')
        return
      }
      const service = await starting
      expectAccepted(await post(service, single('ak_plain')), 1)
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
  const node = IS_NODE_WANTED ? /^ok +engine +node:http on Node/m : /^warn +engine +node:http on Node/m
  const ok = ENGINE === 'node' ? node : /^ok +engine +uWebSockets\.js on Node/m
  expect(stdout).toMatch(ENGINE === 'old' ? new RegExp(`^warn +engine +.*${WARNING}`, 'm') : ok)
})

describe('without a binary of the engine for this Node', () => {
  /** A program installed like any other, but for that one file. */
  let installed: string

  beforeAll(async () => {
    installed = await makeFolder()
    await cp(join(ROOT, 'dist'), join(installed, 'dist'), { recursive: true })
    for (const name of ['package.json', 'bin/node-version.js']) await cp(join(ROOT, name), join(installed, name))
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

  function run(...args: readonly string[]) {
    return runWith({}, ...args)
  }

  function runWith(more: Readonly<Record<string, string>>, ...args: readonly string[]) {
    const env = { PORT: '0', SLUICE_ADMIN_PORT: '0', SLUICE_DATA_DIR: folder, SLUICE_HTTP_ENGINE: 'auto', ...more }
    return runToEnd({ command: [process.execPath, join(installed, 'dist/main.js'), ...args], cwd: folder, env })
  }

  const others = [20, 22, 24, 25].filter((node) => node !== NODE).join(', ')
  const why = `has no binary for Node ${process.versions.node} on ${process.platform} ${process.arch}; it has one for each of Node ${others}: use Node 24`

  test("serve goes on with Node's own server, and says once why, and what that costs", async () => {
    await writeApps(join(folder, 'apps.json'), [appRecord('plain')])
    const program = [process.execPath, join(installed, 'dist/main.js')]
    const service = await startNode({
      program,
      cwd: folder,
      env: { SLUICE_DATA_DIR: folder, SLUICE_HTTP_ENGINE: 'auto' },
    })
    expectAccepted(await post(service, single('ak_plain')), 1)
    const lines = service.output().trimEnd().split('\n')
    const told = lines.filter((line) => line.includes(why))
    expect(told.map((line) => (JSON.parse(line) as { level: string }).level)).toEqual(['warn'])
    expect(told[0]).toContain("HTTP is read by Node's own server, which carries about seven tenths as much")
    expect(JSON.parse(lines.at(-1) ?? '')).toMatchObject({ msg: 'listening', engine: 'node' })
    expect((await get(service.adminPort, '/readyz?verbose')).text).toContain(
      "\nhttp: Node's own HTTP server, since uWebSockets.js does not load: it carries about seven tenths as much\n",
    )
    expect((await get(service.adminPort, '/metrics')).text).toContain('\nsluice_http_engine{name="node"} 1\n')
    await service.kill()
  })

  test('serve that is to use it says in one line which Nodes have one, and exits 1', async () => {
    const { code, output } = await runWith({ SLUICE_HTTP_ENGINE: 'uws' }, 'serve')
    expect(code).toBe(1)
    expect(output).toContain(why)
    expect(output.trimEnd().split('\n')).toHaveLength(1)
  })

  test('check says the same of the engine, and all it knows of the rest', async () => {
    await writeApps(join(folder, 'apps.json'), [appRecord('plain')])
    const { code, stdout } = await run('check')
    expect(code).toBe(0)
    expect(stdout).toMatch(/^warn +engine +node:http on Node .* has no binary for Node/m)
    expect(stdout).toMatch(/^ok +apps /m)
    const strict = await runWith({ SLUICE_HTTP_ENGINE: 'uws' }, 'check')
    expect(strict.code).toBe(1)
    expect(strict.stdout).toMatch(/^FAIL +engine +the HTTP engine .* has no binary for Node/m)
    expect(strict.stdout.match(/^FAIL/gm)).toHaveLength(1)
  })

  test('apps, explain and tail do without it', async () => {
    await writeApps(join(folder, 'apps.json'), [appRecord('plain')])
    expect(await run('apps', 'list')).toMatchObject({ code: 0, stdout: expect.stringContaining('plain') })
    await writeFile(join(folder, 'body.json'), JSON.stringify({ app_key: 'ak_plain', events: [event()] }))
    expect(await run('explain', 'body.json')).toMatchObject({ code: 0, stdout: expect.stringContaining('202') })
    expect(await run('tail', '--from-start', '--no-follow')).toMatchObject({ code: 0, stdout: '' })
  })
})

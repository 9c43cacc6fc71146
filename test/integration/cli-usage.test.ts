// `sluice usage`, as someone at a terminal meets it: on one machine, whether or not the service runs, and over Redis.

import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { batch, expectAccepted, expectRefused, post } from '../support/client.ts'
import { startNats } from '../support/nats.ts'
import { startRedis } from '../support/redis.ts'
import {
  appRecord,
  eventually,
  makeFolder,
  removeFolder,
  roomInMinute,
  runCommand,
  type Service,
  startService,
  writeApps,
} from '../support/service.ts'

const TOKEN = 'a-token-of-the-tests'

interface ShownApp {
  readonly app_id: string
  readonly minute: { readonly used: number; readonly limit: number }
  readonly day: { readonly used: number; readonly limit: number | null }
  readonly month: { readonly used: number; readonly limit: number }
  readonly last_hour: { readonly accepted_events: number; readonly refused: Record<string, number> } | null
  readonly keys: readonly { readonly key: string }[]
}

interface Shown {
  readonly code: number | null
  readonly output: string
  readonly apps: readonly ShownApp[]
  readonly total: number
}

async function usage(args: readonly string[], env: Record<string, string>): Promise<Shown> {
  const { code, stdout, output } = await runCommand(['usage', '--json', ...args], env)
  const { apps, total_apps: total } = JSON.parse(stdout) as { apps: ShownApp[]; total_apps: number }
  return { code, output, apps, total }
}

const APPS = [
  appRecord('quiet'),
  appRecord('busy', { plan: '100k', events_per_day: 10 }),
  appRecord('some', { plan: '100k', events_per_day: 100 }),
]

describe('on one machine', () => {
  let folder: string
  let service: Service
  let env: Record<string, string>

  beforeAll(async () => {
    folder = await makeFolder()
    await roomInMinute(20)
    service = await startService({ dataDir: folder, apps: APPS })
    env = { SLUICE_DATA_DIR: folder, SLUICE_ADMIN_PORT: String(service.adminPort) }
    expectAccepted(await post(service, batch('ak_busy', 9)), 9)
    expectRefused(await post(service, batch('ak_busy', 2)), 429, 'daily_limit_exceeded')
    expectAccepted(await post(service, batch('ak_some', 10)), 10)
  })
  afterAll(async () => {
    await service?.kill()
    await removeFolder(folder)
  })

  test('the apps that are nearest to a limit come first, with their last hour from the running service', async () => {
    const { code, output, apps, total } = await usage([], env)
    expect({ code, total }, output).toEqual({ code: 0, total: 3 })
    expect(apps.map(({ app_id, day, month }) => [app_id, day.used, day.limit, month.used, month.limit])).toEqual([
      ['busy', 9, 10, 9, 110_000],
      ['some', 10, 100, 10, 110_000],
      ['quiet', 0, null, 0, 5_500_000],
    ])
    expect(apps.map(({ last_hour }) => last_hour)).toEqual([
      { accepted_events: 9, refused: { daily_limit_exceeded: 1 } },
      { accepted_events: 10, refused: {} },
      { accepted_events: 0, refused: {} },
    ])
    expect(output).not.toContain('ak_busy')
    expect((await usage(['--top', '1'], env)).apps.map(({ app_id }) => app_id)).toEqual(['busy'])
  })

  test('one app is shown with what is left, for people', async () => {
    const { code, stdout } = await runCommand(['usage', '--app', 'busy'], env)
    expect(code).toBe(0)
    expect(stdout).toContain('busy, plan 100k, active\n')
    expect(stdout).toMatch(/^day +9 +10 +1 +90% +\S+Z$/m)
    expect(stdout).toContain('refused in the last hour   daily_limit_exceeded 1\n')
  })

  test('an unknown app is an error that names the near one, and a wrong command line ends with 2', async () => {
    const { code, output } = await runCommand(['usage', '--app', 'bussy'], env)
    expect(code).toBe(1)
    expect(output).toMatch(/^sluice usage: there is no app bussy.*busy/)
    expect((await runCommand(['usage', 'busy'], env)).output).toContain('write the app as --app busy')
    for (const args of [
      ['--top', '0'],
      ['--top', '10001'],
      ['--top', 'x'],
      ['--app', 'busy', '--top', '3'],
      ['busy'],
    ]) {
      expect((await runCommand(['usage', ...args], env)).code, args.join(' ')).toBe(2)
    }
  })

  // The last one, since it ends the service.
  test('without a service the counters are read from its folder, and the last hour is not known', async () => {
    await service.kill()
    const { code, output, apps } = await usage(['--top', '2'], env)
    expect(code).toBe(0)
    expect(apps.map(({ app_id, day, last_hour }) => [app_id, day.used, last_hour])).toEqual([
      ['busy', 9, null],
      ['some', 10, null],
    ])
    expect(output).toMatch(/^sluice usage: the last hour is not known: no service answers at [^\n]+$/m)
    expect((await runCommand(['usage'], env)).stdout).toMatch(/^busy .* – +–$/m)
  })
})

test('over Redis, the counters of all nodes are shown, and the last hour to whoever has the token', async () => {
  const [redis, nats] = await Promise.all([startRedis(), startNats()])
  onTestFinished(async () => {
    await Promise.all([redis.stop(), nats.stop()])
  })
  const shared = { REDIS_URL: redis.url, NATS_URL: nats.url, SLUICE_ADMIN_HOST: '127.0.0.1' }
  const folders = await Promise.all([makeFolder(), makeFolder()])
  onTestFinished(async () => {
    await Promise.all(folders.map(removeFolder))
  })
  await roomInMinute(20)
  const file = join(folders[0], 'records.json')
  await writeApps(file, APPS)
  expect(await runCommand(['apps', 'import', file], shared)).toMatchObject({ code: 0 })
  const env = { ...shared, SLUICE_CONSOLE_TOKEN: TOKEN }
  const nodes = await Promise.all(folders.map((dataDir) => startService({ dataDir, env })))
  onTestFinished(async () => {
    await Promise.all(nodes.map((node) => node.kill()))
  })
  const [one, other] = nodes
  expectAccepted(await post(one, batch('ak_some', 20)), 20)
  expectAccepted(await post(other, batch('ak_some', 22)), 22)
  expectRefused(await post(other, batch('ak_busy', 11)), 429, 'daily_limit_exceeded')
  const at = { ...shared, SLUICE_ADMIN_PORT: String(one.adminPort) }
  // The nodes find each other for the console within seconds.
  await eventually('the last hour of both nodes is shown', async () => {
    const { apps } = await usage(['--app', 'some'], { ...at, SLUICE_CONSOLE_TOKEN: TOKEN })
    expect(apps[0]).toMatchObject({ app_id: 'some', day: { used: 42, limit: 100 }, month: { used: 42 } })
    return apps[0].last_hour?.accepted_events === 42
  })
  const refused = await usage(['--app', 'busy'], { ...at, SLUICE_CONSOLE_TOKEN: TOKEN })
  expect(refused.apps[0].last_hour).toEqual({ accepted_events: 0, refused: { daily_limit_exceeded: 1 } })
  const without = await usage(['--top', '1'], at)
  expect(without.code).toBe(0)
  expect(without.apps).toMatchObject([{ app_id: 'some', day: { used: 42 }, last_hour: null }])
  expect(without.output).toMatch(/the last hour is not known: the service at \S+ wants its token/)
  const away = await runCommand(['usage'], { ...at, REDIS_URL: 'redis://127.0.0.1:1' })
  expect(away.code).toBe(1)
  expect(away.output).toContain('sluice usage: Redis at 127.0.0.1:1 is ')
})

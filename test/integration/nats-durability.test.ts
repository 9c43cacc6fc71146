// What sluice learns of real NATS servers, and says of them: in a line, in the readiness of a node, and in `sluice check`.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { jetstreamManager, StorageType } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { describe, expect, it, onTestFinished, type TestContext } from 'vitest'
import { systemTimers } from '../../src/lib/timers.ts'
import { connectNats } from '../../src/nats/connection.ts'
import { DurabilityWatch, learnDurability } from '../../src/nats/durability-watch.ts'
import { inspectSpool } from '../../src/queue/spool/inspect-spool.ts'
import { ensureStream } from '../../src/queue/stream/stream.ts'
import { expectAccepted, get, post, single } from '../support/client.ts'
import { metric } from '../support/cluster.ts'
import { NEW_STREAM } from '../support/jetstream.ts'
import { NATS_SERVER, needCurrentNats } from '../support/nats.ts'
import { freePort, type Program, startProgram } from '../support/programs.ts'
import { startRedis } from '../support/redis.ts'
import { appRecord, eventually, makeFolder, runCommand, startService } from '../support/service.ts'
import { readRecords } from '../support/stream.ts'

const ELECTION_MS = 45_000

interface MonitoredNats extends Program {
  readonly monitorUrl: string
  /** From the next start on. */
  configure(text: string): void
}

/** One server with a monitoring address; `jetstream` is what its configuration has beside the folder. */
async function startConfigured(jetstream: string, rest = '', program = NATS_SERVER): Promise<MonitoredNats> {
  const monitorPort = await freePort()
  let settings = jetstream
  const nats = await startProgram({
    name: 'nats',
    command: ({ port, folder }) => {
      const file = join(folder, 'nats.conf')
      const address = `host: 127.0.0.1\nport: ${port}\nhttp: "127.0.0.1:${monitorPort}"\nserver_name: one\n`
      const store = `jetstream { store_dir: ${JSON.stringify(join(folder, 'data'))}, ${settings} }\n`
      writeFileSync(file, address + store + rest)
      return [program, '--config', file]
    },
  })
  const monitorUrl = `http://127.0.0.1:${monitorPort}`
  return Object.assign(Object.create(nats) as Program, { monitorUrl, configure: (text: string) => (settings = text) })
}

function urlOf({ port }: Program, user = ''): string {
  return `nats://${user}127.0.0.1:${port}`
}

async function withConnection<T>(url: string, use: (connection: NatsConnection) => Promise<T>): Promise<T> {
  const connection = await connectNats(url)
  try {
    return await use(connection)
  } finally {
    await connection.close()
  }
}

async function makeStream(url: string): Promise<void> {
  const make = async (connection: NatsConnection): Promise<boolean> =>
    (await ensureStream(connection, NEW_STREAM, Date.now())).kind === 'present'
  await eventually('the stream is there', () => withConnection(url, make), ELECTION_MS)
}

async function lineOf(url: string, monitorUrls: readonly string[]): Promise<string | undefined> {
  return (await withConnection(url, (connection) => learnDurability(connection, monitorUrls))).durability?.line
}

describe('one server', () => {
  it('shows by its monitoring address that it syncs later than it acknowledges', async () => {
    const nats = await startConfigured('')
    const url = urlOf(nats)
    expect(await lineOf(url, [])).toBeUndefined()
    await makeStream(url)
    expect(await lineOf(url, [nats.monitorUrl])).toMatch(
      /^a kill of any server, not a power cut of one or a power cut of all \(one syncs every \d+ s\); one replica of SLUICE_EVENTS$/,
    )
  })

  it('is not known to sync where nothing shows it, unless it is too old to be told otherwise', async () => {
    const nats = await startConfigured('')
    await makeStream(urlOf(nats))
    const reason = /one syncs every 60 s|when one syncs is not known: see NATS_MONITOR_URLS/
    expect(await lineOf(urlOf(nats), ['http://127.0.0.1:1'])).toMatch(reason)
  })

  it('shows that it syncs what it acknowledges, and its last word counts while its address is silent', async (context) => {
    const nats = await startConfigured('sync_interval: always', '', needCurrentNats(context))
    await makeStream(urlOf(nats))
    const line = 'a kill of any server, a power cut of one and a power cut of all; one replica of SLUICE_EVENTS'
    expect(await lineOf(urlOf(nats), [`${nats.monitorUrl}/`])).toBe(line)
    const known = new Map()
    await withConnection(urlOf(nats), async (connection) => {
      await learnDurability(connection, [nats.monitorUrl], known)
      expect((await learnDurability(connection, [], known)).durability?.line).toBe(line)
    })
  })

  it('keeps nothing of a stream that is in memory, however it syncs', async (context) => {
    const nats = await startConfigured('sync_interval: always', '', needCurrentNats(context))
    const config = { name: 'SLUICE_EVENTS', subjects: ['sluice.events.*'], storage: StorageType.Memory }
    await withConnection(urlOf(nats), async (connection) => (await jetstreamManager(connection)).streams.add(config))
    const { durability } = await withConnection(urlOf(nats), (connection) =>
      learnDurability(connection, [nats.monitorUrl]),
    )
    expect(durability).toEqual({
      line: 'nothing for certain (SLUICE_EVENTS is kept in memory); one replica of SLUICE_EVENTS',
      isWarning: true,
      isSynced: false,
    })
  })

  it('is asked through the system account where this account may do so', async (context) => {
    const accounts = `
      accounts {
        SYS { users: [{ user: sys, password: sys }], exports: [{ service: "$SYS.REQ.SERVER.PING.VARZ", response: stream }] }
        A { jetstream: enabled, users: [{ user: a, password: a }]
            imports: [{ service: { account: SYS, subject: "$SYS.REQ.SERVER.PING.VARZ" } }] }
      }
      system_account: SYS\n`
    const nats = await startConfigured('sync_interval: always', accounts, needCurrentNats(context))
    await makeStream(urlOf(nats, 'a:a@'))
    expect(await lineOf(urlOf(nats, 'a:a@'), [])).toMatch(/power cut of all;/)
  })

  it('is asked once by a connection that may not ask, and not again', async (context) => {
    const users = `authorization { users: [
      { user: admin, password: a }
      { user: node, password: n, permissions: { publish: ["$JS.API.STREAM.INFO.*"], subscribe: ["_INBOX.>"] } }
    ] }\n`
    const nats = await startConfigured('', users, needCurrentNats(context))
    await makeStream(urlOf(nats, 'admin:a@'))
    const complaints = (): number => nats.output().split('Publish Violation').length - 1
    await withConnection(urlOf(nats, 'node:n@'), async (connection) => {
      for (let look = 0; look < 3; look++) {
        const { durability } = await learnDurability(connection, [])
        expect(durability?.line).toContain('when one syncs is not known')
      }
    })
    await eventually('the server has complained', () => complaints() > 0)
    expect(complaints()).toBe(1)
  })
})

describe('SLUICE_REQUIRE_SYNC', () => {
  const startStores = async (context: TestContext) => {
    const nats = await startConfigured('', '', needCurrentNats(context))
    const redis = await startRedis()
    onTestFinished(() => redis.stop())
    return { nats, redis, dataDir: await makeFolder() }
  }

  it('keeps a node from being ready until the server shows that it syncs what it acknowledges', async (context) => {
    const { nats, redis, dataDir } = await startStores(context)
    const env = {
      REDIS_URL: redis.url,
      NATS_URL: urlOf(nats),
      NATS_MONITOR_URLS: nats.monitorUrl,
      SLUICE_REQUIRE_SYNC: 'true',
      SLUICE_ADMIN_HOST: '127.0.0.1',
      SLUICE_PARSERS: '1',
    }
    const node = await startService({ dataDir, env })
    const parts = async (): Promise<string> => (await get(node.adminPort, '/readyz?verbose')).text
    await eventually('the line is there', async () => (await parts()).includes('one syncs every 120 s'), ELECTION_MS)
    expect(await parts()).toMatch(
      /^not ready\n[^]*queue: ok,[^]*\ndurability: NATS has not shown that it syncs what it acknowledges: a 202 survives a kill of any server, not a power cut/,
    )
    const check = (): ReturnType<typeof runCommand> =>
      runCommand(['check'], { ...env, PORT: '0', SLUICE_ADMIN_PORT: '0' })
    const before = await check()
    expect(before.output).toMatch(/^FAIL +durability +a 202 survives a kill .*a node would not become ready/m)
    expect(before.code).toBe(1)

    await nats.kill()
    nats.configure('sync_interval: always')
    await nats.restart()
    await eventually('it is ready', async () => (await get(node.adminPort, '/readyz')).status === 200, ELECTION_MS)
    expect(await parts()).toContain(
      'durability: a 202 survives: a kill of any server, a power cut of one and a power cut of all; one replica of',
    )
    expect((await check()).output).toMatch(/^warn +durability +a 202 survives a kill/m)
  })

  it('lets a node with a spool start without NATS, and keep to its disk until that is shown', async (context) => {
    const { nats, redis, dataDir } = await startStores(context)
    await nats.kill()
    const appsFile = join(dataDir, 'apps.json')
    writeFileSync(appsFile, JSON.stringify({ apps: [appRecord('one')] }))
    const env = {
      REDIS_URL: redis.url,
      NATS_URL: urlOf(nats),
      NATS_MONITOR_URLS: nats.monitorUrl,
      SLUICE_APPS_FILE: appsFile,
      SLUICE_SPOOL_DIR: join(dataDir, 'spool'),
      SLUICE_REQUIRE_SYNC: 'true',
      SLUICE_ADMIN_HOST: '127.0.0.1',
      SLUICE_PARSERS: '1',
    }
    const node = await startService({ dataDir, env })
    const isReady = async (): Promise<boolean> => (await get(node.adminPort, '/readyz')).status === 200
    const parts = async (): Promise<string> => (await get(node.adminPort, '/readyz?verbose')).text
    const spooled = (): Promise<number | null> => metric(node, 'sluice_spool_batches')
    await eventually('it is ready', isReady)
    for (let sent = 0; sent < 3; sent++) expectAccepted(await post(node, single('ak_one')), 1)
    expect(await spooled()).toBe(3)

    await nats.restart()
    await eventually('it has sent them', async () => (await spooled()) === 0, ELECTION_MS)
    const disk =
      'queue: NATS has not shown that it syncs what it acknowledges: batches go to the disk of this node first'
    await eventually('it tells so', async () => (await parts()).includes(disk))
    const kept = async (): Promise<number> => (await inspectSpool(env.SLUICE_SPOOL_DIR)).keptBatches
    expect(await isReady()).toBe(true)
    expectAccepted(await post(node, single('ak_one')), 1)
    await eventually('that went through the disk', async () => (await kept()) === 4)

    await nats.kill()
    nats.configure('sync_interval: always')
    await nats.restart()
    await eventually('it is shown', async () => (await parts()).includes('durability: a 202 survives: '), ELECTION_MS)
    await eventually('batches go to NATS', async () => (await parts()).includes('queue: ok'), ELECTION_MS)
    expect(await isReady()).toBe(true)
    expect(await readRecords(urlOf(nats))).toHaveLength(4)
  })

  it('takes readiness from a node with a spool a minute after NATS answers and does not show it', async (context) => {
    const nats = await startConfigured('', '', needCurrentNats(context))
    await makeStream(urlOf(nats))
    await nats.kill()
    const notices: string[] = []
    let aheadMs = 0
    const watch = new DurabilityWatch({
      nats: urlOf(nats),
      monitorUrls: [nats.monitorUrl],
      requireSync: true,
      isSpooled: true,
      onNotice: (text) => void notices.push(text),
      timers: { ...systemTimers, monotonicMs: () => systemTimers.monotonicMs() + aheadMs },
    })
    onTestFinished(() => watch.stop())
    await eventually('ready without NATS', () => watch.isReady)
    await nats.restart()
    await eventually('it has answered', () => watch.status.state === 'warn', ELECTION_MS)
    aheadMs = 50_000
    expect(watch.isReady).toBe(true)
    aheadMs = 61_000
    expect(watch.isReady).toBe(false)
    expect(watch.status.state).toBe('unsynced')
    const isTold = (): boolean => notices.some((text) => text.includes('this node is not ready (SLUICE_REQUIRE_SYNC)'))
    await eventually('told', isTold)
    await nats.kill()
    await eventually('ready without NATS again', () => watch.isReady)
    nats.configure('sync_interval: always')
    await nats.restart()
    await eventually('it is shown', () => watch.isSatisfied, ELECTION_MS)
    aheadMs = 200_000
    expect(watch.isReady).toBe(true)
  })

  it('keeps a node with a spool that starts beside NATS from being ready until that is shown', async (context) => {
    const nats = await startConfigured('', '', needCurrentNats(context))
    await makeStream(urlOf(nats))
    const watch = new DurabilityWatch({
      nats: urlOf(nats),
      monitorUrls: [nats.monitorUrl],
      requireSync: true,
      isSpooled: true,
      onNotice: () => {},
    })
    onTestFinished(() => watch.stop())
    expect(watch.isReady).toBe(false)
    await eventually('it has answered', () => watch.status.reason?.includes('syncs every') === true, ELECTION_MS)
    expect(watch.isReady).toBe(false)
  })
})

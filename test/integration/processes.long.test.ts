// SLUICE_PROCESSES: several worker processes on one port are one service, which survives the end of any of them.

import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { readPage } from '../../src/observe/merged-page.ts'
import { batch, expectAccepted, get, post, single } from '../support/client.ts'
import { becomesReady, logOf, metric, partsOf } from '../support/cluster.ts'
import { makeCertificate, tlsSettings } from '../support/fixture.ts'
import { type NatsServer, startNats } from '../support/nats.ts'
import { openRaw, rawPost } from '../support/raw-http.ts'
import { type RedisServer, startRedis } from '../support/redis.ts'
import {
  appRecord,
  eventually,
  makeFolder,
  runCommand,
  type Service,
  type ServiceOptions,
  sleep,
  startService,
  writeApps,
} from '../support/service.ts'
import { readRecords } from '../support/stream.ts'

const FIGURES = { plan: 'trial', events_per_minute: 1_000_000_000, events_per_month: 1_000_000_000 }
const APPS = [appRecord('plain', FIGURES)]
const PROCESSES = 2
const CONNECTIONS = 24
const EVENTS = 3
/** How many connections the kernel had queued when a worker process left the port depends on the machine. */
const MOST_TURNED_AWAY = CONNECTIONS
const CLIENT_PAUSE_MS = 2
/** Signals that come within half a second are one press of a key. */
const LONGER_THAN_A_KEY_PRESS_MS = 700
/** Those that the other worker process has are answered meanwhile. */
const FROZEN_MS = 500

let redis: RedisServer
let nats: NatsServer
let folder: string
let service: Service

beforeAll(async () => {
  ;[redis, nats] = await Promise.all([startRedis(), startNats()])
})

beforeEach(async () => {
  folder = await makeFolder()
})
afterEach(async () => {
  // Its output ends with its last process.
  await service?.kill()
})

const settings = (env: Record<string, string> = {}): Record<string, string> => ({
  REDIS_URL: redis.url,
  NATS_URL: nats.url,
  SLUICE_APPS_FILE: `${folder}/apps.json`,
  SLUICE_ADMIN_HOST: '127.0.0.1',
  SLUICE_PROCESSES: String(PROCESSES),
  SLUICE_RING_MB: '8',
  ...env,
})

async function start(env: Record<string, string> = {}, options: Partial<ServiceOptions> = {}): Promise<Service> {
  const started = await startService({ dataDir: folder, apps: APPS, ...options, env: settings(env) })
  await becomesReady(started)
  return started
}

/** The process ids of the worker processes, by place. */
function workers(supervisor: number): number[] {
  const found: [place: number, pid: number][] = []
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    try {
      const parent = readFileSync(`/proc/${name}/stat`, 'utf8')
        .replace(/^.*\) /s, '')
        .split(' ')[1]
      if (Number(parent) !== supervisor) continue
      const args = readFileSync(`/proc/${name}/cmdline`, 'utf8').split('\0')
      found.push([Number(args.at(-2)), Number(name)])
    } catch {
      // It ended meanwhile.
    }
  }
  return found.toSorted(([left], [right]) => left - right).map(([, pid]) => pid)
}

function isRunning(pid: number): boolean {
  try {
    // A zombie still has a line here, but has ended.
    return !readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .startsWith('Z')
  } catch {
    return false
  }
}

interface Tally {
  readonly batchIds: string[]
  /** How often each client lost an established connection before an answer. */
  readonly dropped: number[]
  /** Connections that ended before a first answer: the kernel had queued them when a worker process left the port. */
  turnedAway: number
  readonly otherStatus: number[]
}

interface Load {
  readonly tally: Tally
  stop(): Promise<Tally>
}

/** Clients that reconnect when they lose their connection, until connections are refused. */
function startLoad(port: number): Load {
  const dropped = Array.from({ length: CONNECTIONS }, () => 0)
  const tally: Tally = { batchIds: [], dropped, turnedAway: 0, otherStatus: [] }
  const stopping = new AbortController()
  const client = async (at: number): Promise<void> => {
    while (!stopping.signal.aborted) {
      const connection = await openRaw(port).catch(() => null)
      if (connection === null) return
      for (let answers = 0; !stopping.signal.aborted; answers++) {
        connection.write(rawPost(batch('ak_plain', EVENTS)))
        const answer = await connection.readAnswer()
        if (answer === null) {
          if (answers > 0) tally.dropped[at]++
          else tally.turnedAway++
          break
        }
        if (answer.status === 202) tally.batchIds.push(expectAccepted(answer, EVENTS))
        else tally.otherStatus.push(answer.status)
        if (answer.headers['connection'] === 'close') break
        await sleep(CLIENT_PAUSE_MS)
      }
      connection.close()
    }
  }
  const clients = dropped.map((_, at) => client(at))
  return {
    tally,
    stop: async () => {
      stopping.abort()
      await Promise.all(clients)
      return tally
    },
  }
}

/** Each of them is stored exactly once. */
async function expectStored(batchIds: readonly string[]): Promise<void> {
  const stored = new Map<string, number>()
  for (const { batch_id } of await readRecords(nats.url)) stored.set(batch_id, (stored.get(batch_id) ?? 0) + 1)
  expect(batchIds.filter((batchId) => stored.get(batchId) !== 1)).toEqual([])
}

/** The lines of a page without their values. */
function seriesOf(page: string): string[] {
  const lines = page.split('\n').map((line) => (line.startsWith('#') ? line : line.replace(/ [^ ]+$/, '')))
  // The kinds of handles and of garbage collections differ between processes.
  return lines.filter((line) => !/^nodejs_(active|gc)_/.test(line))
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0)

describe('several worker processes', () => {
  test('share one port and one page of metrics', async () => {
    service = await start()
    const names = ['worker process 1', 'worker process 2'].flatMap((one) =>
      ['queue', 'limits', 'apps', 'durability', 'audit'].map((part) => `${one} ${part}`),
    )
    expect(Object.keys(await partsOf(service))).toEqual(names)
    const connections = await Promise.all(Array.from({ length: CONNECTIONS }, () => openRaw(service.port)))
    const [frozen = 0] = workers(service.pid)
    process.kill(frozen, 'SIGSTOP')
    let answered = 0
    const answers = connections.map(async (connection) => {
      connection.write(rawPost(batch('ak_plain', EVENTS)))
      const answer = await connection.readAnswer()
      answered++
      return answer?.status
    })
    await eventually('some are answered without the frozen one', () => answered > 0)
    await sleep(FROZEN_MS)
    expect(answered, 'some are dealt to the frozen one').toBeLessThan(CONNECTIONS)
    process.kill(frozen, 'SIGCONT')
    expect(await Promise.all(answers)).toEqual(connections.map(() => 202))
    expect(await metric(service, 'sluice_requests_total{status="202",code="accepted"}')).toBe(CONNECTIONS)
    expect(await metric(service, 'sluice_events_accepted_total{type="track"}')).toBe(CONNECTIONS * EVENTS)
    expect(await metric(service, 'sluice_request_duration_seconds_count')).toBe(CONNECTIONS)
    expect(await metric(service, 'sluice_ring_size_bytes')).toBe(PROCESSES * 8 * 1024 * 1024)
    expect(await metric(service, 'sluice_workers')).toBe(PROCESSES)
    for (const connection of connections) connection.close()
  })

  test('show every metric that one process shows', async () => {
    const folderOfOne = await makeFolder()
    const one = await start({ SLUICE_PROCESSES: '1' }, { dataDir: folderOfOne })
    try {
      service = await start()
      for (const node of [one, service]) expectAccepted(await post(node, single('ak_plain')), 1)
      const nodes = [one, service]
      const seriesOfNodes = async (): Promise<string[][]> => {
        return Promise.all(nodes.map(async (node) => seriesOf((await get(node.adminPort, '/metrics')).text)))
      }
      expect((await seriesOfNodes())[0].length).toBeGreaterThan(200)
      // Each audit reports its lag after its first round.
      await expect
        .poll(
          async () => {
            const [alone, merged] = await seriesOfNodes()
            return alone.filter((line) => !merged.includes(line))
          },
          { timeout: 15_000 },
        )
        .toEqual([])
    } finally {
      await one.kill()
    }
  })
})

describe('a worker process that is killed under load', () => {
  test('takes its own connections with it and no others, is replaced, and no counter goes back', async () => {
    service = await start()
    const load = startLoad(service.port)
    const before = new Map<string, number>()
    const wentBack: string[] = []
    const look = async (): Promise<void> => {
      for (const family of readPage((await get(service.adminPort, '/metrics')).text).values()) {
        if (family.type === 'gauge') continue
        for (const [series, value] of family.samples) {
          if (value < (before.get(series) ?? 0)) wentBack.push(`${series}: ${before.get(series)}, then ${value}`)
          before.set(series, value)
        }
      }
    }
    await eventually('the load runs', () => load.tally.batchIds.length > 10 * CONNECTIONS)
    await look()
    const [victim = 0, other = 0] = workers(service.pid)
    process.kill(victim, 'SIGKILL')
    await eventually('another is there', async () => {
      await look()
      return (
        (await metric(service, 'sluice_worker_restarts_total')) === 1 &&
        (await metric(service, 'sluice_workers')) === PROCESSES
      )
    })
    const acceptedByThen = load.tally.batchIds.length
    await eventually('the load goes on', () => load.tally.batchIds.length > acceptedByThen + 10 * CONNECTIONS)
    await look()
    const tally = await load.stop()
    expect(workers(service.pid)[1], 'the other is left alone').toBe(other)
    expect(workers(service.pid)[0]).not.toBe(victim)
    expect(tally.otherStatus).toEqual([])
    expect(Math.max(...tally.dropped), 'each client lost one connection at most').toBeLessThanOrEqual(1)
    expect(sum(tally.dropped), 'its own clients lost theirs').toBeGreaterThan(0)
    expect(sum(tally.dropped), 'clients of the other lost none').toBeLessThan(CONNECTIONS)
    expect(tally.turnedAway).toBeLessThan(MOST_TURNED_AWAY)
    expect(wentBack).toEqual([])
    expect(before.get('sluice_requests_received_total')).toBeGreaterThan(acceptedByThen / PROCESSES / 2)
    expect(
      logOf(service).filter(({ msg }) => msg === 'the worker process ended: starting another after the pause'),
    ).toHaveLength(1)
    await expectStored(tally.batchIds)
  })
})

test('SIGHUP reaches each worker process, which reads its certificate at once, and ends none', async () => {
  service = await start(tlsSettings(folder))
  const pids = workers(service.pid)
  makeCertificate({ cert: `${folder}/cert.pem`, key: `${folder}/key.pem` }, 'second')
  service.signal('SIGHUP')
  await eventually('each has read it', () => {
    const read = service
      .output()
      .split('\n')
      .filter((line) => line.includes('was read again'))
    return [1, 2].every((worker) => read.some((line) => line.includes(`"worker":${worker},`)))
  })
  expect(workers(service.pid)).toEqual(pids)
  expect([...pids, service.pid].every(isRunning)).toBe(true)
  expect(await metric(service, 'sluice_tls_not_after_seconds')).toBeGreaterThan(Date.now() / 1000)
})

describe('the stop', () => {
  test('on SIGTERM under load loses no request, and leaves no process', async () => {
    service = await start()
    const load = startLoad(service.port)
    await eventually('the load runs', () => load.tally.batchIds.length > 10 * CONNECTIONS)
    const pids = workers(service.pid)
    expect(pids).toHaveLength(PROCESSES)
    const exit = await service.stop()
    const tally = await load.stop()
    expect(exit.code, exit.output).toBe(0)
    expect([sum(tally.dropped), tally.otherStatus.filter((status) => status !== 503)]).toEqual([0, []])
    expect(tally.turnedAway).toBeLessThan(MOST_TURNED_AWAY)
    expect(pids.filter(isRunning)).toEqual([])
    await expectStored(tally.batchIds)
  })

  test('drains once, even if a terminal signals every process', async () => {
    service = await start({ SLUICE_DRAIN_DELAY_SECONDS: '3' })
    const pids = [...workers(service.pid), service.pid]
    for (const pid of pids) process.kill(pid, 'SIGINT')
    await eventually('readiness is off', async () => (await get(service.adminPort, '/readyz')).status === 503)
    expect((await get(service.adminPort, '/livez')).status).toBe(200)
    expect(await metric(service, 'sluice_draining')).toBe(1)
    // The supervisor alone would take it for a second one.
    await sleep(LONGER_THAN_A_KEY_PRESS_MS)
    for (const pid of pids.slice(0, PROCESSES)) process.kill(pid, 'SIGINT')
    expectAccepted(await post(service, single('ak_plain')), 1)
    const exit = await service.exited
    expect(exit.code, exit.output).toBe(0)
  })

  test('is immediate after a second signal', async () => {
    service = await start({ SLUICE_DRAIN_DELAY_SECONDS: '20' })
    const pids = workers(service.pid)
    service.signal('SIGTERM')
    await sleep(LONGER_THAN_A_KEY_PRESS_MS)
    service.signal('SIGTERM')
    // Half of the delay during which worker processes would still run without the supervisor.
    await eventually('nothing is left running', () => ![...pids, service.pid].some(isRunning), 10_000)
    expect((await service.exited).code).toBe(1)
  })

  test('of the supervisor alone makes its worker processes drain and end', async () => {
    service = await start()
    const load = startLoad(service.port)
    await eventually('the load runs', () => load.tally.batchIds.length > 10 * CONNECTIONS)
    const pids = workers(service.pid)
    process.kill(service.pid, 'SIGKILL')
    await eventually('nothing is left running', () => !pids.some(isRunning))
    const tally = await load.stop()
    expect([sum(tally.dropped), tally.otherStatus.filter((status) => status !== 503)]).toEqual([0, []])
    expect(tally.turnedAway).toBeLessThan(MOST_TURNED_AWAY)
    await expectStored(tally.batchIds)
  })

  test('ends by the deadline even if a worker process is frozen', async () => {
    service = await start({ SLUICE_SHUTDOWN_SECONDS: '2' })
    const pids = workers(service.pid)
    process.kill(pids[1] ?? 0, 'SIGSTOP')
    const exit = await service.stop()
    expect(exit.code).toBe(1)
    expect(exit.output).toContain('worker process 2 was ended by SIGKILL')
    expect(pids.filter(isRunning)).toEqual([])
  })
})

describe('a start is refused', () => {
  const refused = async (env: Record<string, string>): Promise<string> => {
    await writeApps(`${folder}/apps.json`, APPS)
    const { code, output } = await runCommand(
      ['serve'],
      settings({ SLUICE_ADMIN_PORT: '0', HOST: '127.0.0.1', ...env }),
    )
    expect(code, output).toBe(1)
    return output
  }

  test('where another program has the port', async () => {
    const other = createServer()
    await new Promise<void>((done) => void other.listen(0, '127.0.0.1', done))
    const { port } = other.address() as { port: number }
    const named = `cannot listen on 127.0.0.1:${port}, which HOST and PORT name: the port is taken`
    expect(await refused({ PORT: String(port) })).toContain(named)
    other.close()
  })

  test('where another service shares the port among its own worker processes', async () => {
    service = await start()
    const output = await refused({ PORT: String(service.port) })
    expect(output).toContain(
      `cannot listen on 127.0.0.1:${service.port}, which HOST and PORT name: sluice runs here already `,
    )
    expectAccepted(await post(service, single('ak_plain')), 1)
  })

  test('without further tries, where no worker process can start', async () => {
    const output = await refused({ PORT: '0', SLUICE_APPS_FILE: `${folder}/none.json` })
    expect(output).toContain('none.json')
    expect(output).not.toContain('another is started')
  })
})

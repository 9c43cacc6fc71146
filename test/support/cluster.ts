// Nodes of the built service over one Redis and one NATS, with a relay before each of the two where a test wants to
// delay or cut what passes. What a test learns of them comes over ports, the stream and the commands.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { get, post, single } from './client.ts'
import { type NatsServer, startNats } from './nats.ts'
import { metricsOf } from './processes.js'
import { type Proxy, startProxy } from './proxy.ts'
import { type RedisServer, startRedis } from './redis.ts'
import { type AppRecord, eventually, makeFolder, runCommand, type Service, sleep, startService } from './service.ts'
import { readRecords, STREAM, withStreams } from './stream.ts'

/** Nodes tell what is settled within a second; a busy machine gets more. */
const COUNTED_MS = 15_000
/** Until the audit has closed the last minute: two minutes, and what a busy machine adds. */
export const AUDITED_MS = 130_000
/** Each look is a process of its own. */
const LOOK_EVERY_MS = 1000

export interface Cluster {
  readonly redis: RedisServer
  readonly nats: NatsServer
  /** Nodes go through these two. */
  readonly redisProxy: Proxy
  readonly natsProxy: Proxy
  /** Those that run, in the order in which they were started. */
  readonly nodes: readonly Service[]
  /** Those that have ended, too. */
  readonly everyNode: readonly Service[]
  /** Settings under which commands reach Redis and NATS, past the relays. */
  readonly commandEnv: Readonly<Record<string, string>>
  /** Returns once it listens, which may be long before it is ready. */
  startNode(env?: Readonly<Record<string, string>>): Promise<Service>
  /** Returns once it is ready and knows every app. */
  addNode(env?: Readonly<Record<string, string>>): Promise<Service>
  /** Those that were added. */
  readonly apps: readonly AppRecord[]
  /** Returns once every node knows them: a busy machine may lose sight of Redis in between. */
  addApps(records: readonly AppRecord[]): Promise<void>
  /** Events that count in the app's running day and month. */
  used(appKey: string): Promise<Used>
  stop(): Promise<void>
}

export interface Used {
  readonly minute: number
  readonly day: number
  readonly month: number
}

export interface ClusterOptions {
  readonly nodes: number
  readonly apps: readonly AppRecord[]
  /** Settings of nodes and commands: other stores than the two that are started, say. */
  readonly env?: Readonly<Record<string, string>>
  /** How Redis keeps its data. */
  readonly redisArgs?: readonly string[]
}

export async function startCluster({
  nodes: count,
  apps,
  env: common,
  redisArgs = [],
}: ClusterOptions): Promise<Cluster> {
  const folder = await makeFolder()
  // Writes reach the system before they are answered, so that kill -9 loses none; no answer waits for a busy disk.
  const [redis, nats] = await Promise.all([startRedis(['--appendfsync', 'no', ...redisArgs]), startNats()])
  const [redisProxy, natsProxy] = await Promise.all([startProxy(redis.port), startProxy(nats.port)])
  const commandEnv = { REDIS_URL: redis.url, NATS_URL: nats.url, SLUICE_DATA_DIR: folder, ...common }
  const nodes: Service[] = []
  const everyNode: Service[] = []
  const known: AppRecord[] = []

  const startNode = async (env: Readonly<Record<string, string>> = {}): Promise<Service> => {
    const node = await startService({
      env: {
        REDIS_URL: `redis://127.0.0.1:${redisProxy.port}`,
        NATS_URL: `nats://127.0.0.1:${natsProxy.port}`,
        SLUICE_ADMIN_HOST: '127.0.0.1',
        ...common,
        ...env,
      },
    })
    nodes.push(node)
    everyNode.push(node)
    void node.exited.then(() => nodes.splice(nodes.indexOf(node), 1))
    return node
  }

  const addNode = async (env: Readonly<Record<string, string>> = {}): Promise<Service> => {
    const node = await startNode(env)
    await becomesReady(node)
    await knowsApps(node, known)
    return node
  }

  const addApps = async (records: readonly AppRecord[]): Promise<void> => {
    for (const record of records) {
      const { code, output } = await runCommand(['apps', 'add', ...addFlags(record)], commandEnv)
      if (code !== 0) throw new Error(`sluice apps add: ${output}`)
      known.push(record)
    }
    await Promise.all(nodes.map((node) => knowsApps(node, records)))
  }

  const bodyFile = join(folder, 'body.json')
  const used = async (appKey: string): Promise<Used> => {
    writeFileSync(bodyFile, single(appKey))
    const { stdout, output } = await runCommand(['explain', '--json', bodyFile], commandEnv)
    const { limits } = JSON.parse(stdout) as { limits: Record<keyof Used, { used: number }> | null }
    if (limits === null) throw new Error(`sluice explain: ${output}`)
    return { minute: limits.minute.used, day: limits.day.used, month: limits.month.used }
  }

  const stop = async (): Promise<void> => {
    await Promise.all(nodes.map((node) => node.kill()))
    await Promise.all([redisProxy.stop(), natsProxy.stop()])
    await Promise.all([redis.stop(), nats.stop()])
  }

  await addApps(apps)
  await Promise.all(Array.from({ length: count }, () => addNode()))
  const servers = { redis, nats, redisProxy, natsProxy }
  return { ...servers, nodes, everyNode, apps: known, commandEnv, startNode, addNode, addApps, used, stop }
}

/** The command line of `sluice apps add`: its flags are the record's members. */
function addFlags(record: AppRecord): string[] {
  return Object.entries(record).flatMap(([member, value]) => [`--${member.replaceAll('_', '-')}`, String(value)])
}

/** Asks with bodies that no app may send, and that cost nothing. */
async function knowsApps(node: Service, records: readonly AppRecord[]): Promise<void> {
  for (const { app_key } of records) {
    const body = JSON.stringify({ app_key })
    await eventually(`${app_key} is known`, async () => (await post(node, body)).status === 400)
  }
}

export function becomesReady(node: Service): Promise<void> {
  return eventually('the node is ready', async () => (await get(node.adminPort, '/readyz')).status === 200)
}

/** What each part of a node says of itself. */
export async function partsOf(node: Service): Promise<Record<string, string>> {
  const { text } = await get(node.adminPort, '/readyz?verbose')
  const lines = text.split('\n').slice(1)
  return Object.fromEntries(lines.filter((line) => line !== '').map((line) => line.split(/: (.*)/s, 2)))
}

/** A durable consumer of the stream; returns once every node has measured it. */
export async function addReader({ nats, nodes }: Cluster): Promise<void> {
  await withStreams(nats.url, (streams) =>
    streams.consumers.add(STREAM, { durable_name: 'reader', ack_policy: 'explicit' }),
  )
  for (const node of nodes) {
    const lag = () => metric(node, 'sluice_stream_consumer_lag_seconds{consumer="reader"}')
    await eventually('the consumer is measured', async () => (await lag()) !== null)
  }
}

/** Several looks of a node at what NATS holds, on a busy machine. */
export const LOOKED_MS = 60_000

interface SharedRecord {
  readonly writtenAtMs: number
  readonly stores: Record<string, { readonly messages: number; readonly lastSequence: number }>
}

/** What the nodes remember of what NATS holds. */
export async function sharedRecord({ redis }: Cluster): Promise<SharedRecord | null> {
  const client = new Redis(redis.url)
  try {
    const text = await client.get('sluice:installation')
    return text === null ? null : (JSON.parse(text) as SharedRecord)
  } finally {
    client.disconnect()
  }
}

/** Until the nodes have looked so many times again at what NATS holds: two nodes take turns. */
export async function looksAgain(cluster: Cluster, times: number): Promise<void> {
  for (let look = 0; look < times; look++) {
    const before = (await sharedRecord(cluster))?.writtenAtMs ?? 0
    await eventually(
      'one has looked',
      async () => ((await sharedRecord(cluster))?.writtenAtMs ?? 0) > before,
      LOOKED_MS,
    )
  }
}

/** One series, as `sluice_degraded{part="limits"}`; null: it is not on the page. */
export async function metric(node: Service, series: string): Promise<number | null> {
  return (await metricsOf(node)).get(series) ?? null
}

/** Until so many events are counted in the app's month, and no others. */
export async function expectUsed(
  cluster: Cluster,
  appKey: string,
  events: number,
  timeoutMs = COUNTED_MS,
): Promise<void> {
  const deadlineMs = Date.now() + timeoutMs
  for (;;) {
    const { month } = await cluster.used(appKey)
    if (month === events) return
    if (Date.now() > deadlineMs) {
      const seen = cluster.everyNode.map((node) => `node on port ${node.port}:\n${noticesOf(node)}`).join('\n')
      throw new Error(`${month} events are counted of ${appKey}, where ${events} should be\n${seen}`)
    }
    await sleep(LOOK_EVERY_MS)
  }
}

/** What is stored is counted at once, though more may be for a while. */
export function expectCovered(cluster: Cluster, appKey: string, events: number): Promise<void> {
  return eventually('what is stored is counted', async () => (await cluster.used(appKey)).month >= events, COUNTED_MS)
}

/** Until so many events are counted of each app that was added as the stream holds of it. */
export async function expectExact(cluster: Cluster): Promise<void> {
  const deadlineMs = Date.now() + AUDITED_MS
  const stored = new Map<string, number>()
  for (const { app_id, events } of await readRecords(cluster.nats.url)) {
    stored.set(app_id, (stored.get(app_id) ?? 0) + events.length)
  }
  for (const { app_id, app_key } of cluster.apps) {
    await expectUsed(cluster, app_key, stored.get(app_id) ?? 0, deadlineMs - Date.now())
  }
}

const MOST_ATTEMPTS = 3

/**
 * Tries what holds as long as Redis answers. On a machine so busy that a node loses sight of it once more than the
 * test itself brings about, a failure proves nothing, and the next attempt is to tell, on apps of its own.
 */
export async function whileRedisAnswers(
  cluster: Cluster,
  attempt: (number: number) => Promise<void>,
  expectedLosses = 0,
): Promise<void> {
  for (let number = 1; ; number++) {
    const from = new Map(cluster.everyNode.map((node) => [node, node.output().length]))
    try {
      return await attempt(number)
    } catch (error) {
      const losses = cluster.everyNode.map((node) => lossesOfRedis(logOf(node, from.get(node) ?? 0)))
      if (number === MOST_ATTEMPTS || losses.every((count) => count <= expectedLosses)) throw error
    }
  }
}

function lossesOfRedis(lines: readonly LogLine[]): number {
  let losses = 0
  let isAway = false
  for (const { part, msg } of lines) {
    if (part !== 'redis') continue
    if (msg.startsWith('Redis is away') && !isAway) losses++
    isAway = msg.startsWith('Redis is away')
  }
  return losses
}

/** What a node has said of its stores, for whoever reads why a test failed. */
function noticesOf(node: Service): string {
  const lines = logOf(node).filter(({ part }) => part !== undefined)
  return lines.map(({ time, part, msg }) => `  ${new Date(time).toISOString()} ${part}: ${msg}`).join('\n')
}

export interface LogLine {
  /** Unix ms. */
  readonly time: number
  readonly level: string
  readonly part?: string
  readonly msg: string
}

/** What a node has logged, from a place in its output on. */
export function logOf(node: Service, from = 0): LogLine[] {
  return node
    .output()
    .slice(from)
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as LogLine)
}

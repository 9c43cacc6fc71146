// One connection to Redis, or one to each node of a Redis Cluster. A session never reconnects: a new one is opened
// instead, so that no call of the old one is left in a client's queue.

import type { Cluster, ClusterNode, Redis, RedisOptions } from 'ioredis'
import { mustHaveMethods } from '../lib/client-library.ts'
import type { Timers } from '../lib/timers.ts'
import { readSettingFile } from '../lib/value-file.ts'
import type { RedisAddress } from './address.ts'
import { connectionFault, greetingFault, isErrorReply, type RedisFault, SURPLUS } from './fault.ts'
import type { RedisClient } from './link.ts'
import { must, text } from './reply.ts'
import { evaluate, loadScripts, redisScript } from './script.ts'

/** For each step: connecting, selecting the database, loading the scripts. */
const OPEN_TIMEOUT_MS = 3000
/** Cluster nodes kept for the next session, since the host of the URL may be gone by then. */
const MAX_KNOWN_NODES = 64
/** Redis must run scripts that write. SET with XX on a key that never exists checks this and writes nothing. */
const PROBE = redisScript("return redis.call('SET', KEYS[1], '1', 'XX')")
/** Keys that a probe of a cluster uses, each in its own hash slot, so that most likely every master runs the script. */
const CLUSTER_PROBES = 16

export interface RedisSession {
  readonly client: RedisClient
  readonly isCluster: boolean
  /** Addresses of a cluster's nodes. */
  readonly knownNodes: readonly ClusterNode[]
  /** Resolves once every node has answered, and scripts run and can write. */
  probe(): Promise<unknown>
  /** Ends the session at once. Calls without an answer fail. */
  drop(): void
}

export interface SessionOptions {
  readonly address: RedisAddress
  /** Addresses of the cluster's nodes in the last session. */
  readonly knownNodes: readonly ClusterNode[]
  /** A connection has ended, or has to: `fault` says why, where it is known. Also called by `drop`. */
  readonly onEnd: (fault?: RedisFault) => void
  /** Aborts the opening. */
  readonly signal: AbortSignal
  readonly timers: Timers
}

/** Rejects with the error that prevented it. */
export type OpenSession = (options: SessionOptions) => Promise<RedisSession>

export async function openSession(options: SessionOptions): Promise<RedisSession> {
  const { address, knownNodes, signal, timers } = options
  if (knownNodes.length > 0) return openCluster(options)
  // Loaded here, since many commands that could ask Redis do not.
  const ioredis = await import('ioredis')
  const client = new ioredis.Redis({
    ...(await connectionOptions(address)),
    host: address.host,
    port: address.port,
    db: address.database,
    retryStrategy: null,
    enableOfflineQueue: false,
    lazyConnect: true,
  })
  const drop = () => dropNode(client)
  let failure: unknown = null
  const onFailure = (error: unknown): void => {
    failure = greetingFault(error) === null ? (failure ?? error) : error
  }
  client.on('error', onFailure)
  guard(client, options.onEnd)
  try {
    await withTimeout(client.connect(), OPEN_TIMEOUT_MS, signal, timers)
    // Alone, and waited for: what Redis says to a connection that it closes is lost where there is more to write.
    await withTimeout(setName(client), OPEN_TIMEOUT_MS, signal, timers)
    if (await withTimeout(isClusterNode(client), OPEN_TIMEOUT_MS, signal, timers)) {
      drop()
      return await openCluster(options)
    }
    // ioredis stays in database 0 without an error where its `db` does not exist: SELECT gives the error.
    if (address.database !== 0) await withTimeout(client.select(address.database), OPEN_TIMEOUT_MS, signal, timers)
    await withTimeout(loadScripts(client), OPEN_TIMEOUT_MS, signal, timers)
  } catch (error) {
    drop()
    throw failure ?? error
  }
  client.on('close', () => options.onEnd())
  return { client, isCluster: false, knownNodes: [], probe: () => tryScript(client), drop }
}

async function openCluster({ address, knownNodes, onEnd, signal, timers }: SessionOptions): Promise<RedisSession> {
  const ioredis = await import('ioredis')
  const redisOptions = await connectionOptions(address)
  const named: ClusterNode = { host: address.host, port: address.port }
  const cluster = new ioredis.Cluster([named, ...knownNodes], {
    redisOptions,
    lazyConnect: true,
    enableOfflineQueue: false,
    // The probe checks it.
    enableReadyCheck: false,
    clusterRetryStrategy: null,
    slotsRefreshTimeout: OPEN_TIMEOUT_MS / 3,
    // The caller waits 250 ms at most. So a call fails at once where its node is lost or the cluster is down, and is repeated after
    // a millisecond where its slot is being moved. One call may be sent on by MOVED and by ASK, and answered TRYAGAIN after each.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    retryDelayOnTryAgain: 1,
    maxRedirections: 5,
    // Certificates name hosts, so with TLS the client must connect by name.
    ...(address.tls ? { dnsLookup: (host, done) => done(null, host) } : {}),
  })
  const drop = () => {
    const nodes = cluster.nodes()
    cluster.disconnect()
    for (const node of nodes) dropNode(node)
  }
  let failure: unknown = null
  const onFailure = (error: unknown): void => {
    failure = greetingFault(error) === null ? (failure ?? error) : error
  }
  cluster.on('error', () => {})
  cluster.on('node error', onFailure)
  cluster.on('+node', (node: Redis) => guard(node, onEnd))
  try {
    await withTimeout(cluster.connect(), OPEN_TIMEOUT_MS, signal, timers)
    // The client connects to a node at its first call, and fails calls until it is connected.
    await withTimeout(pingMasters(cluster), OPEN_TIMEOUT_MS, signal, timers)
    await withTimeout(Promise.all(cluster.nodes('master').map(setName)), OPEN_TIMEOUT_MS, signal, timers)
    await withTimeout(Promise.all(cluster.nodes('master').map(loadScripts)), OPEN_TIMEOUT_MS, signal, timers)
  } catch (error) {
    drop()
    throw failure ?? error
  }
  // Other nodes may leave: the client drops the one named by the URL once it knows its address.
  const masters = new Set(cluster.nodes('master'))
  cluster.on('-node', (node: Redis) => masters.has(node) && onEnd())
  cluster.on('end', () => onEnd())
  return {
    client: cluster,
    isCluster: true,
    get knownNodes() {
      return cluster
        .nodes('master')
        .slice(0, MAX_KNOWN_NODES)
        .map(({ options: { host, port } }): ClusterNode => ({ host: host ?? address.host, port: port ?? address.port }))
    },
    probe: () => Promise.all([pingMasters(cluster), trySlots(cluster)]),
    drop,
  }
}

/** Rejects with the error reply of a Redis that refuses scripts or writes. */
export async function tryScript(client: RedisClient, hashTag = ''): Promise<void> {
  const reply = await evaluate(client, PROBE, [`sluice:probe${hashTag}`], [])
  must(reply === null || reply === 'OK')
}

/** Where the cluster does not serve some hash slots now, the others can be used. */
async function trySlots(cluster: Cluster): Promise<void> {
  const scripts = Array.from({ length: CLUSTER_PROBES }, (_, partition) => tryScript(cluster, `{p${partition}}`))
  const errors: unknown[] = (await Promise.allSettled(scripts)).flatMap((tried) =>
    tried.status === 'rejected' ? [tried.reason] : [],
  )
  const ofSlots = errors.filter((error) => connectionFault(error).isOfSlot)
  if (errors.length > ofSlots.length || ofSlots.length === CLUSTER_PROBES) {
    throw errors.find((error) => !ofSlots.includes(error)) ?? errors[0]
  }
}

async function pingMasters(cluster: Cluster): Promise<void> {
  for (const reply of await Promise.all(cluster.nodes('master').map((node) => node.ping()))) must(reply === 'PONG')
}

/** Throws a StartError where the client is of a version that `guard` does not fit. */
export async function checkClient(): Promise<void> {
  const { Redis } = await import('ioredis')
  const client = new Redis({ lazyConnect: true })
  mustHaveMethods('ioredis', [
    [client, 'asking'],
    [queueOf(client) ?? {}, 'shift'],
  ])
}

/** Of the calls without an answer. */
function queueOf(client: Redis): { shift(): unknown } {
  return (client as unknown as { readonly commandQueue: { shift(): unknown } }).commandQueue
}

/**
 * What the client leaves undone. It drops the promise of ASKING, whose rejection would end this process, and goes on with a connection
 * whose answers no longer belong to its calls.
 */
function guard(node: Redis, onEnd: (fault: RedisFault) => void): void {
  const asking: () => Promise<'OK'> = node.asking.bind(node)
  node.asking = () => {
    const reply = asking()
    reply.catch(() => {})
    return reply
  }
  // Its queue of calls is made at each connection, and no answer was read yet.
  node.on('connect', () => {
    const commandQueue = queueOf(node)
    const shift = commandQueue.shift.bind(commandQueue)
    commandQueue.shift = () => {
      const call = shift()
      if (call === undefined && node.status === 'ready') onEnd(SURPLUS)
      return call
    }
  })
}

/** For those who look at CLIENT LIST. A user without the right to it can do without. */
async function setName(node: Redis): Promise<void> {
  await node.client('SETNAME', 'sluice').catch((error: unknown) => {
    if (!isErrorReply(error) || greetingFault(error) !== null) throw error
  })
}

/** For every connection, to one server or to a node of a cluster. */
async function connectionOptions(address: RedisAddress) {
  return {
    ...(address.username === null ? {} : { username: address.username }),
    ...(address.password === null ? {} : { password: address.password }),
    ...(address.tls ? { tls: await tlsOf(address) } : {}),
    protocol: 2,
    connectTimeout: OPEN_TIMEOUT_MS,
    disableClientInfo: true,
    enableReadyCheck: false,
    enableAutoPipelining: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
  } satisfies RedisOptions
}

/** The files are read at each connection. */
async function tlsOf({ caFile, certFile, keyFile }: RedisAddress) {
  const read = async (name: 'ca' | 'cert' | 'key', file: string | null) => {
    return file === null ? {} : { [name]: await readSettingFile(file) }
  }
  const parts = await Promise.all([read('ca', caFile), read('cert', certFile), read('key', keyFile)])
  return Object.assign({}, ...parts) as { ca?: Buffer; cert?: Buffer; key?: Buffer }
}

async function isClusterNode(client: Redis): Promise<boolean> {
  try {
    return text(await client.info('cluster')).includes('cluster_enabled:1')
  } catch (error) {
    // A user without INFO: not taken for a cluster. The probe fails if the user lacks what the service needs.
    if (isErrorReply(error)) return false
    throw error
  }
}

/** `disconnect` alone waits for the other side, which may be frozen. */
function dropNode(node: Redis): void {
  node.disconnect()
  // Absent until the first attempt to connect.
  const { stream } = node as Partial<Pick<Redis, 'stream'>>
  stream?.destroy()
}

/** Rejects if `promise` has not settled in time, or `signal` aborts. */
export function withTimeout<T>(
  promise: Promise<T>,
  timeoutMs: number,
  signal: AbortSignal,
  timers: Timers,
): Promise<T> {
  let end = (): void => {}
  return new Promise<T>((resolve, reject) => {
    const giveUp = () => reject(new Error('given up'))
    const timer = timers.setTimeout(() => reject(new Error(`no answer in ${timeoutMs} ms`)), timeoutMs)
    signal.addEventListener('abort', giveUp)
    end = () => {
      timers.clear(timer)
      signal.removeEventListener('abort', giveUp)
    }
    if (signal.aborted) giveUp()
    promise.then(resolve, reject)
    // Not when `promise` settles: a server that is silent may never answer.
  }).finally(() => end())
}

// One connection to Redis, or one to each node of a Redis Cluster, from its making to its end. It is never mended:
// whoever wants a new one opens a new session, so that nothing asked of the old one lingers in a client's queue.

import { Cluster, type ClusterNode, Redis, type RedisOptions } from 'ioredis'
import type { Timers } from '../lib/timers.ts'
import type { RedisAddress } from './address.ts'
import { isReply } from './fault.ts'
import type { RedisClient } from './link.ts'
import { evaluate, loadScripts, redisScript } from './script.ts'

/** From the first packet until the first answer. */
const OPEN_TIMEOUT_MS = 3000
/** Nodes of a cluster that are remembered for the next session, since the one that the URL names may be gone. */
const MAX_KNOWN_NODES = 64
/** It sets a key that never exists, where it exists: only a script's write shows that scripts may run and write. */
const PROBE = redisScript("return redis.call('SET', KEYS[1], '1', 'XX')")
/** Keys of a cluster that a probe tries, each in a hash slot of its own, so that every master is likely to be asked. */
const CLUSTER_PROBES = 16

export interface RedisSession {
  readonly client: RedisClient
  readonly isCluster: boolean
  /** Of a cluster: where its nodes are. */
  readonly knownNodes: readonly ClusterNode[]
  /** Settles once every node has answered, and has shown that it runs scripts and takes writes. */
  probe(): Promise<unknown>
  /** Ends it at once. What is still unanswered fails. */
  drop(): void
}

export interface SessionOptions {
  readonly address: RedisAddress
  /** Where the nodes of the cluster were when it was last seen. */
  readonly knownNodes: readonly ClusterNode[]
  /** A connection has ended; also called while the session is dropped. */
  readonly onEnd: () => void
  /** Gives the attempt up. */
  readonly signal: AbortSignal
  readonly timers: Timers
}

/** Rejects with what stood in the way. */
export type OpenSession = (options: SessionOptions) => Promise<RedisSession>

export async function openSession(options: SessionOptions): Promise<RedisSession> {
  const { address, knownNodes, signal, timers } = options
  if (knownNodes.length > 0) return openCluster(options)
  const client = new Redis({
    ...connectionOptions(address),
    host: address.host,
    port: address.port,
    db: address.database,
    retryStrategy: null,
    enableOfflineQueue: false,
    lazyConnect: true,
  })
  const drop = () => dropNode(client)
  let failure: unknown = null
  client.on('error', (error: unknown) => (failure ??= error))
  try {
    await within(client.connect(), OPEN_TIMEOUT_MS, signal, timers)
    if (await within(isClusterNode(client), OPEN_TIMEOUT_MS, signal, timers)) {
      drop()
      return await openCluster(options)
    }
    // The client goes on in database 0, and says nothing, where the one it was told to select does not exist.
    if (address.database !== 0) await within(client.select(address.database), OPEN_TIMEOUT_MS, signal, timers)
    await within(loadScripts(client), OPEN_TIMEOUT_MS, signal, timers)
  } catch (error) {
    drop()
    throw failure ?? error
  }
  client.on('close', options.onEnd)
  return { client, isCluster: false, knownNodes: [], probe: () => tryScript(client), drop }
}

async function openCluster({ address, knownNodes, onEnd, signal, timers }: SessionOptions): Promise<RedisSession> {
  const named: ClusterNode = { host: address.host, port: address.port }
  const cluster = new Cluster([named, ...knownNodes], {
    redisOptions: connectionOptions(address),
    lazyConnect: true,
    enableOfflineQueue: false,
    // The probe tells whether the cluster takes writes.
    enableReadyCheck: false,
    clusterRetryStrategy: null,
    slotsRefreshTimeout: OPEN_TIMEOUT_MS / 3,
    // A call that fails is not sent again later: its budget is over by then, and nobody waits for it.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    // Certificates name hosts, so that with TLS they are not turned into addresses first.
    ...(address.tls ? { dnsLookup: (host, done) => done(null, host) } : {}),
  })
  const drop = () => {
    const nodes = cluster.nodes()
    cluster.disconnect()
    for (const node of nodes) dropNode(node)
  }
  let failure: unknown = null
  cluster.on('error', () => {})
  cluster.on('node error', (error: unknown) => (failure ??= error))
  try {
    await within(cluster.connect(), OPEN_TIMEOUT_MS, signal, timers)
    // The client connects to a node when it is first asked, and fails what is asked until it is connected.
    await within(pingMasters(cluster), OPEN_TIMEOUT_MS, signal, timers)
    await within(Promise.all(cluster.nodes('master').map(loadScripts)), OPEN_TIMEOUT_MS, signal, timers)
  } catch (error) {
    drop()
    throw failure ?? error
  }
  // Other nodes leave without harm: the one that the URL names, for one, once its address is known.
  const masters = new Set(cluster.nodes('master'))
  cluster.on('-node', (node: Redis) => masters.has(node) && onEnd())
  cluster.on('end', onEnd)
  return {
    client: cluster,
    isCluster: true,
    get knownNodes() {
      return cluster
        .nodes('master')
        .slice(0, MAX_KNOWN_NODES)
        .map(({ options: { host, port } }): ClusterNode => ({ host: host ?? address.host, port: port ?? address.port }))
    },
    probe: () => {
      const scripts = Array.from({ length: CLUSTER_PROBES }, (_, partition) => tryScript(cluster, `{p${partition}}`))
      return Promise.all([pingMasters(cluster), ...scripts])
    },
    drop,
  }
}

/** Rejects with the reply of a Redis that refuses scripts or writes. */
export function tryScript(client: RedisClient, hashTag = ''): Promise<unknown> {
  return evaluate(client, PROBE, [`sluice:probe${hashTag}`], [])
}

function pingMasters(cluster: Cluster): Promise<unknown> {
  return Promise.all(cluster.nodes('master').map((node) => node.ping()))
}

/** What holds for every connection, to one server or to a node of a cluster. */
function connectionOptions(address: RedisAddress) {
  return {
    ...(address.username === null ? {} : { username: address.username }),
    ...(address.password === null ? {} : { password: address.password }),
    ...(address.tls ? { tls: {} } : {}),
    protocol: 2,
    connectionName: 'sluice',
    connectTimeout: OPEN_TIMEOUT_MS,
    disableClientInfo: true,
    enableReadyCheck: false,
    enableAutoPipelining: false,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
  } satisfies RedisOptions
}

async function isClusterNode(client: Redis): Promise<boolean> {
  try {
    return (await client.info('cluster')).includes('cluster_enabled:1')
  } catch (error) {
    // A user who may not ask this is told so by the probe, where it matters.
    if (isReply(error)) return false
    throw error
  }
}

/** `disconnect` alone would wait for the other side, which may be frozen. */
function dropNode(node: Redis): void {
  node.disconnect()
  // Absent until a connection has been tried.
  const { stream } = node as Partial<Pick<Redis, 'stream'>>
  stream?.destroy()
}

/** Rejects where `promise` has not settled in time, or `signal` gives it up. */
export function within<T>(promise: Promise<T>, timeoutMs: number, signal: AbortSignal, timers: Timers): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(new Error('given up'))
    const timer = timers.setTimeout(() => reject(new Error(`no answer in ${timeoutMs} ms`)), timeoutMs)
    signal.addEventListener('abort', giveUp, { once: true })
    if (signal.aborted) giveUp()
    promise.then(resolve, reject).finally(() => {
      timers.clear(timer)
      signal.removeEventListener('abort', giveUp)
    })
  })
}

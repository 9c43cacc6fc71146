// What can be learned of the NATS servers themselves: their version, and when they sync what they have acknowledged. From
// the connection's greeting, their monitoring addresses, and the system account where this one may ask it.

import type { NatsConnection } from '@nats-io/transport-node'
import { isOlderVersion } from '../lib/version.ts'
import type { Placement } from './placement.ts'

const MONITOR_TIMEOUT_MS = 2000
const SYSTEM_TIMEOUT_MS = 1000
const ASK_ALL_SERVERS = '$SYS.REQ.SERVER.PING.VARZ'
const NANOSECONDS = 1_000_000_000
/** Of servers before 2.10, which cannot be detected otherwise. */
const OLD_SYNC_SECONDS = 60

/** When a server syncs what it has acknowledged: before that, or each so many seconds. */
export type Sync = 'always' | number

export interface ServerFacts {
  readonly version: string
  /** null: not known. */
  readonly sync: Sync | null
  /** What its streams take of its disk, and may; null: it has shown no limit. */
  readonly storage?: Omit<ServerStorage, 'server'> | null
}

export interface ServerStorage {
  readonly server: string
  readonly usedBytes: number
  readonly maxBytes: number
}

/** By the server's name. */
export type KnownServers = Map<string, ServerFacts>

/** Adds what can be learned now to what was known before. Never rejects. */
export async function learnServers(
  connection: NatsConnection,
  monitorUrls: readonly string[],
  known: KnownServers,
  wanted: ReadonlySet<string>,
): Promise<void> {
  const { server_name: name, version = '' } = connection.info ?? {}
  if (name !== undefined) {
    const { sync = null, storage = null } = known.get(name) ?? {}
    known.set(name, { version, sync: syncOf(version, null) ?? sync, storage })
  }
  const note = (varz: unknown): void => {
    const learned = readVarz(varz)
    if (learned !== null) known.set(learned.name, learned)
  }
  const pages = await Promise.all(monitorUrls.map(readMonitor))
  pages.forEach(note)
  // Where addresses are named they are the way: a server logs each question that this account may not ask.
  if (monitorUrls.length === 0) await askSystemAccount(connection, note)
  for (const server of known.keys()) if (server !== name && !wanted.has(server)) known.delete(server)
}

/** Of the servers that hold these copies of a stream, as far as they have shown it. */
export function storageOf(replicas: Placement['replicas'], known: ReadonlyMap<string, ServerFacts>): ServerStorage[] {
  return replicas.flatMap(({ server }) => {
    const storage = known.get(server)?.storage ?? null
    return storage === null ? [] : [{ server, ...storage }]
  })
}

/** null: it does not answer. */
async function readMonitor(url: string): Promise<unknown> {
  try {
    const answer = await fetch(`${url.replace(/\/+$/, '')}/varz`, { signal: AbortSignal.timeout(MONITOR_TIMEOUT_MS) })
    return await answer.json()
  } catch {
    return null
  }
}

/** Connections that may not ask: the server would log each question. */
const refused = new WeakSet<NatsConnection>()

async function askSystemAccount(connection: NatsConnection, note: (varz: unknown) => void): Promise<void> {
  if (refused.has(connection)) return
  try {
    const options = { strategy: 'stall', maxWait: SYSTEM_TIMEOUT_MS } as const
    for await (const message of await connection.requestMany(ASK_ALL_SERVERS, '', options)) {
      note(message.json<{ data?: unknown } | null>()?.data)
    }
  } catch {
    refused.add(connection)
  }
}

interface Varz {
  readonly server_name?: unknown
  readonly version?: unknown
  readonly jetstream?: {
    readonly config?: {
      readonly sync_always?: unknown
      readonly sync_interval?: unknown
      readonly max_storage?: unknown
    }
    readonly stats?: { readonly storage?: unknown }
  }
}

/** null: it is no such page, or that of a server without JetStream. */
function readVarz(page: unknown): (ServerFacts & { readonly name: string }) | null {
  const { server_name: name, version, jetstream } = (page ?? {}) as Varz
  const config = jetstream?.config
  if (typeof name !== 'string' || typeof version !== 'string' || config === undefined) return null
  const { sync_always: isAlways, sync_interval: interval } = config
  const shown = isAlways === true ? 'always' : typeof interval === 'number' ? interval / NANOSECONDS : null
  const [usedBytes, maxBytes] = [jetstream?.stats?.storage, config.max_storage]
  const isLimited = typeof usedBytes === 'number' && typeof maxBytes === 'number' && maxBytes > 0
  return { name, version, sync: syncOf(version, shown), storage: isLimited ? { usedBytes, maxBytes } : null }
}

function syncOf(version: string, shown: Sync | null): Sync | null {
  return shown ?? (version !== '' && isOlderVersion(version, '2.10') ? OLD_SYNC_SECONDS : null)
}

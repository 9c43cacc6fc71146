// Where the copies of a stream are: which servers hold them, who leads, and which of them are behind or gone.

import { type PeerInfo, StorageType, type StreamConfig, type StreamInfo } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { askStream } from './api.ts'
import { APPS_BUCKET, COUNTS_BUCKET, EVENTS_STREAM, streamOfBucket } from './store-names.ts'

/** The stream of events first, and those of the two buckets: app records, and the audit's counts. */
export const STREAMS = [EVENTS_STREAM, streamOfBucket(APPS_BUCKET), streamOfBucket(COUNTS_BUCKET)] as const

/** Under load a follower is always some messages behind the leader, which says `current: false` of it at times. */
const MAX_FOLLOWER_LAG = 1000
/** A follower answers its leader every second. Of one that was killed the servers do not say `offline` for minutes. */
const MAX_FOLLOWER_SILENCE_NANOSECONDS = 5_000_000_000

export type ReplicaState = 'current' | 'lagging' | 'offline'

/** One copy of a stream. */
export interface Replica {
  /** The name of the server that holds it. */
  readonly server: string
  readonly state: ReplicaState
}

export interface Placement {
  readonly stream: string
  readonly replicas: readonly Replica[]
  /** Why an acknowledged message may be on no disk, however its server syncs; null: nothing. */
  readonly unwritten: string | null
}

/** 'leaderless': nobody answers for the stream. */
export type PlacementReport = Placement | 'absent' | 'leaderless'

/** Never rejects. */
export async function readPlacement(connection: NatsConnection, stream: string): Promise<PlacementReport> {
  const server = connection.info?.server_name ?? 'the server'
  const answer = await askStream(connection, stream, (info) => placementOf(stream, info, server))
  if (answer.kind === 'present') return answer.facts
  return answer.kind === 'absent' ? 'absent' : 'leaderless'
}

/** `server`: which is connected. Alone it says nothing of a cluster. */
export function placementOf(stream: string, { cluster, config }: StreamInfo, server: string): PlacementReport {
  const leader = cluster === undefined ? server : cluster.leader
  if (leader === undefined || leader === '') return 'leaderless'
  const followers = (cluster?.replicas ?? []).map(followerOf)
  return {
    stream,
    replicas: [{ server: leader, state: 'current' }, ...followers],
    unwritten: unwrittenOf(stream, config),
  }
}

function unwrittenOf(stream: string, config: StreamConfig & { readonly persist_mode?: unknown }): string | null {
  if (config.storage === StorageType.Memory) return `${stream} is kept in memory`
  return config.persist_mode === 'async' ? `persist_mode of ${stream} is async` : null
}

/** The server leaves out what is zero or false. `active`: since it was heard; 0: never. */
function followerOf({ name = '', current = false, offline = false, active = 0, lag = 0 }: Partial<PeerInfo>): Replica {
  if (offline || active > MAX_FOLLOWER_SILENCE_NANOSECONDS || (active === 0 && !current))
    return { server: name, state: 'offline' }
  return { server: name, state: current || lag <= MAX_FOLLOWER_LAG ? 'current' : 'lagging' }
}

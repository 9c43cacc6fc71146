// The JetStream stream that holds the events: what it must be like, how it is made, and how one that is there differs.

import {
  DiscardPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  jetstreamManager,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
  type StreamInfo,
} from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { IDEMPOTENCY_WINDOW_SECONDS } from '../admit/deduplicator.ts'
import { describeFault } from './nats-connection.ts'

export const STREAM_NAME = 'SLUICE_EVENTS'
const SUBJECT_PREFIX = 'sluice.events.'
export const ALL_SUBJECTS = `${SUBJECT_PREFIX}*`
/** JetStream stores one message under an id within the duplicate window. */
export const ID_HEADER = 'Nats-Msg-Id'
/** Which process published the message. */
export const NODE_HEADER = 'Sluice-Node'

const NANOSECONDS = 1_000_000_000
export const API_TIMEOUT_MS = 1000
/** The largest record: a body of 512 KiB, and a head before its events. */
export const MAX_RECORD_BYTES = 600 * 1024
const FNV_OFFSET = 0x811c9dc5
const FNV_PRIME = 0x01000193

/** Everything that sluice relies on; the rest is the operator's to choose. */
const WANTED = {
  name: STREAM_NAME,
  subjects: [ALL_SUBJECTS],
  storage: StorageType.File,
  retention: RetentionPolicy.Limits,
  discard: DiscardPolicy.New,
  duplicate_window: IDEMPOTENCY_WINDOW_SECONDS * NANOSECONDS,
  allow_direct: true,
} as const

export interface StreamFacts {
  readonly messages: number
  readonly bytes: number
  readonly firstSequence: number
  readonly lastSequence: number
  readonly replicas: number
  /** Any replica may be asked for a message; otherwise only the leader answers. */
  readonly allowsDirect: boolean
  /** ISO 8601: one that was deleted and made again has another. */
  readonly createdAt: string
  /** Each one a clause: `duplicate_window is 120 s, sluice wants 300 s`. */
  readonly differences: readonly string[]
  /** It takes no record, or acknowledges none: every batch is answered 503. */
  readonly isUnusable: boolean
}

/** What NATS says of the stream. `reason` is fit for the log. */
export type StreamReport =
  | { readonly kind: 'present'; readonly facts: StreamFacts; readonly created: boolean }
  | { readonly kind: 'absent' }
  | { readonly kind: 'unreadable'; readonly reason: string }

export function subjectOf(partition: number): string {
  return SUBJECT_PREFIX + partition
}

/** FNV-1a, 32 bits, over the bytes of the app_id, which is ASCII; then the rest by the number of partitions. */
export function partitionOf(appId: string, partitions: number): number {
  let hash = FNV_OFFSET
  for (let index = 0; index < appId.length; index += 1) {
    hash = Math.imul(hash ^ appId.charCodeAt(index), FNV_PRIME)
  }
  return (hash >>> 0) % partitions
}

/** Fewer replicas than `leastReplicas` are a difference. Never rejects. */
export async function describeStream(connection: NatsConnection, leastReplicas = 1): Promise<StreamReport> {
  try {
    const manager = await jetstreamManager(connection, { checkAPI: false, timeout: API_TIMEOUT_MS })
    const info = await manager.streams.info(STREAM_NAME)
    return { kind: 'present', facts: factsOf(info, leastReplicas), created: false }
  } catch (error) {
    if (codeOf(error) === JetStreamApiCodes.StreamNotFound) return { kind: 'absent' }
    return { kind: 'unreadable', reason: reasonOf(error) }
  }
}

/** Makes the stream where there is none; one that is there stays as it is. Never rejects. */
export async function ensureStream(connection: NatsConnection, replicas = 1): Promise<StreamReport> {
  const report = await describeStream(connection, replicas)
  if (report.kind !== 'absent') return report
  try {
    const manager = await jetstreamManager(connection, { checkAPI: false, timeout: API_TIMEOUT_MS })
    const info = await manager.streams.add({ ...WANTED, num_replicas: replicas, subjects: [...WANTED.subjects] })
    return { kind: 'present', facts: factsOf(info, replicas), created: true }
  } catch (error) {
    // Another node may have made it in the same moment, which JetStream tells in several ways.
    const again = await describeStream(connection, replicas)
    if (again.kind === 'present') return again
    return { kind: 'unreadable', reason: `it cannot be created: ${reasonOf(error)}` }
  }
}

/** The sentence for the log; null: the stream is what it should be. */
export function differenceText(differences: readonly string[]): string | null {
  return differences.length === 0 ? null : `stream ${STREAM_NAME} differs: ${differences.join('; ')}`
}

/** What the contract fixes, and whatever else would lose or refuse what should be stored. */
export function differencesOf(config: StreamConfig, leastReplicas = 1): string[] {
  const found: string[] = []
  const compare = (name: string, is: string, wanted: string): void => {
    if (is !== wanted) found.push(`${name} is ${is}, sluice wants ${wanted}`)
  }
  compare('subjects', (config.subjects ?? []).join(' ') || 'none', WANTED.subjects.join(' '))
  compare('storage', config.storage, WANTED.storage)
  compare('retention', config.retention, WANTED.retention)
  compare('discard', config.discard, WANTED.discard)
  compare('duplicate_window', secondsText(config.duplicate_window), secondsText(WANTED.duplicate_window))
  compare('max_age', config.max_age > 0 ? secondsText(config.max_age) : 'none', 'none')
  compare('max_msgs_per_subject', limitText(config.max_msgs_per_subject), 'none')
  if (config.max_msg_size > 0 && config.max_msg_size < MAX_RECORD_BYTES) {
    compare('max_msg_size', `${config.max_msg_size} bytes`, `at least ${MAX_RECORD_BYTES} bytes`)
  }
  if (config.num_replicas < leastReplicas) {
    compare('num_replicas', String(config.num_replicas), `at least ${leastReplicas}`)
  }
  compare('no_ack', String(config.no_ack ?? false), 'false')
  compare('sealed', String(config.sealed ?? false), 'false')
  return found
}

function factsOf({ config, created, state }: StreamInfo, leastReplicas: number): StreamFacts {
  return {
    messages: state.messages,
    bytes: state.bytes,
    firstSequence: state.first_seq,
    lastSequence: state.last_seq,
    replicas: config.num_replicas,
    allowsDirect: config.allow_direct,
    createdAt: created,
    differences: differencesOf(config, leastReplicas),
    isUnusable: config.no_ack === true || config.sealed || !takesOurs(config.subjects ?? []),
  }
}

/** Of the subjects that a stream may have for ours, without going into those that take some partitions only. */
function takesOurs(subjects: readonly string[]): boolean {
  return subjects.some((subject) => ['>', 'sluice.>', 'sluice.*.*', 'sluice.events.>', ALL_SUBJECTS].includes(subject))
}

function secondsText(nanoseconds: number): string {
  return `${nanoseconds / NANOSECONDS} s`
}

function limitText(limit: number): string {
  return limit > 0 ? String(limit) : 'none'
}

function reasonOf(error: unknown): string {
  // Also where its servers have no leader yet.
  return error instanceof Error && error.name === 'JetStreamNotEnabled'
    ? 'JetStream is not enabled'
    : describeFault(error)
}

function codeOf(error: unknown): number | null {
  return error instanceof JetStreamApiError ? error.code : null
}

// The JetStream stream that holds the events: its configuration, how it is created, and how an existing one differs.

import {
  DiscardPolicy,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
  type StreamInfo,
  type StreamState,
} from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { IDEMPOTENCY_WINDOW_SECONDS } from '../../contract/bounds.ts'
import { askStream, managerOf, reasonOf } from '../../nats/api.ts'
import { EVENTS_STREAM } from '../../nats/store-names.ts'
import { heldText } from './stream-hold.ts'

const SUBJECT_PREFIX = 'sluice.events.'
export const ALL_SUBJECTS = `${SUBJECT_PREFIX}*`
/** Of messages without records, which decide what is in doubt. */
export const PROBE_SUBJECT = `${SUBJECT_PREFIX}probe`
/** JetStream stores at most one message for each id within the duplicate window. */
export const ID_HEADER = 'Nats-Msg-Id'
/** Of a message that a node had in its spool: it may name a minute that was closed long before. */
export const SPOOL_HEADER = 'Sluice-Spool'
/** Of the messages of an atomic batch: its id, the place in it from 1 on, and the end. */
export const BATCH_HEADERS = { id: 'Nats-Batch-Id', place: 'Nats-Batch-Sequence', end: 'Nats-Batch-Commit' } as const

const NANOSECONDS = 1_000_000_000
const NANOSECONDS_A_MS = 1_000_000
/** Twice 300 s: a repeat renews the promise of 300 s, and its batch may have been stored up to 300 s before. */
export const DUPLICATE_WINDOW_MINUTES = (2 * IDEMPOTENCY_WINDOW_SECONDS) / 60
const DUPLICATE_WINDOW_NANOSECONDS = DUPLICATE_WINDOW_MINUTES * 60 * NANOSECONDS
/** Lost counters are rebuilt from the stream, and consumers need time to read it. */
const MIN_AGE_NANOSECONDS = 3600 * NANOSECONDS
/** The largest record: a body of 512 KiB, and the record's head. */
export const MAX_RECORD_BYTES = 600 * 1024

/** Of NATS 2.12 and later: acknowledges what is not written yet, whatever sync_interval says. */
const ASYNC = 'async'

/** What else makes room. */
export const PURGE_ADVICE = 'purge what all consumers have had (docs/runbooks.md, SluiceQueueRefuses)'

/** The settings of a new stream. */
export interface NewStream {
  readonly replicas: number
  readonly keepMs: number
  /** On each copy; null: none. */
  readonly maxBytes: number | null
}

/** Everything that sluice relies on; the operator chooses the rest. */
const WANTED = {
  name: EVENTS_STREAM,
  subjects: [ALL_SUBJECTS],
  storage: StorageType.File,
  retention: RetentionPolicy.Limits,
  discard: DiscardPolicy.New,
  duplicate_window: DUPLICATE_WINDOW_NANOSECONDS,
  allow_direct: true,
  // Of NATS 2.12 and later. Servers before it ignore it when they create the stream.
  allow_atomic: true,
} as const

export interface StreamFacts {
  readonly messages: number
  readonly bytes: number
  /** On each copy; null: none. */
  readonly maxBytes: number | null
  readonly maxMessages: number | null
  /** When full, it drops its oldest messages instead of refusing new ones. */
  readonly discardsOld: boolean
  /** null: forever. */
  readonly keepMs: number | null
  /** null: the stream is empty. */
  readonly oldestAtMs: number | null
  /** Why it does not take or acknowledge every record, and what to do about it. null: it does. */
  readonly refusal: string | null
  /** Why no record may be given to it: what it acknowledges could be lost or not found. null: every record may. */
  readonly unsafe: string | null
  /** It takes atomic batches of messages: all of one are stored, or none. */
  readonly isAtomic: boolean
  readonly firstSequence: number
  readonly lastSequence: number
  readonly replicas: number
  readonly consumers: number
  /** ISO 8601. A stream that was deleted and created again has another. */
  readonly createdAt: string
  /** Settings that would break a promise, such as `duplicate_window is 120 s, sluice wants at least 600 s`. */
  readonly differences: readonly string[]
}

/** `reason` is safe to log. */
export type StreamReport =
  | { readonly kind: 'present'; readonly facts: StreamFacts; readonly created: boolean }
  /** `held`: why it is not made again, while somebody restores a backup. */
  | { readonly kind: 'absent'; readonly held?: string }
  | { readonly kind: 'unreadable'; readonly reason: string }

export function subjectOf(partition: number): string {
  return SUBJECT_PREFIX + partition
}

/** Never rejects. */
export async function describeStream(connection: NatsConnection): Promise<StreamReport> {
  let isPerSubject = false
  const uncounted = await askStream(connection, EVENTS_STREAM, (info) => {
    // Any server of a cluster describes a stream, but none takes a message for one without a leader.
    if (info.cluster !== undefined && (info.cluster.leader ?? '') === '') throw new Error('the stream has no leader')
    isPerSubject = refusesPerSubject(info.config)
    return factsOf(info)
  })
  const answer = isPerSubject ? await askStream(connection, EVENTS_STREAM, factsOf, ALL_SUBJECTS) : uncounted
  return answer.kind === 'present' ? { ...answer, created: false } : answer
}

/** Creates the stream where there is none and no restore holds it; an existing one stays as it is. Never rejects. */
export async function ensureStream(
  connection: NatsConnection,
  wanted: NewStream,
  nowMs: number,
): Promise<StreamReport> {
  const report = await describeStream(connection)
  if (report.kind !== 'absent') return report
  // Read after the stream was found to be gone: whoever deletes it has made the entry before.
  const held = await heldText(connection, nowMs)
  if (held !== null) return { kind: 'absent', held }
  try {
    const manager = await managerOf(connection)
    const info = await manager.streams.add({
      ...WANTED,
      subjects: [...WANTED.subjects],
      num_replicas: wanted.replicas,
      max_age: wanted.keepMs * NANOSECONDS_A_MS,
      ...(wanted.maxBytes === null ? {} : { max_bytes: wanted.maxBytes }),
    })
    return { kind: 'present', facts: factsOf(info), created: true }
  } catch (error) {
    // Another node may have created it at the same moment, which JetStream reports in several ways.
    const again = await describeStream(connection)
    if (again.kind === 'present') return again
    return { kind: 'unreadable', reason: `it cannot be created: ${reasonOf(error)}` }
  }
}

/** A sentence for the log; null: the stream breaks no promise. */
export function differenceText(differences: readonly string[]): string | null {
  return differences.length === 0 ? null : `stream ${EVENTS_STREAM} would break a promise: ${differences.join('; ')}`
}

/** Only settings that would lose, repeat or refuse events after a 202. The operator chooses age, size and replicas. */
export function differencesOf(config: StreamConfig): string[] {
  const found: string[] = []
  const say = (name: string, is: string, wanted: string): void => {
    found.push(`${name} is ${is}, sluice wants ${wanted}`)
  }
  const { duplicate_window: window, max_age: age, max_msgs_per_subject: perSubject, max_msg_size: size } = config
  const subjects = config.subjects ?? []
  if (!takesOurs(subjects)) say('subjects', subjects.join(' ') || 'none', ALL_SUBJECTS)
  if (config.storage !== WANTED.storage) say('storage', config.storage, WANTED.storage)
  if (config.retention !== WANTED.retention) say('retention', config.retention, WANTED.retention)
  if (config.discard !== WANTED.discard) say('discard', config.discard, WANTED.discard)
  if (window < DUPLICATE_WINDOW_NANOSECONDS) {
    say('duplicate_window', secondsText(window), `at least ${secondsText(DUPLICATE_WINDOW_NANOSECONDS)}`)
  }
  if (age > 0 && age < MIN_AGE_NANOSECONDS) {
    say('max_age', secondsText(age), `at least ${secondsText(MIN_AGE_NANOSECONDS)}`)
  }
  if (perSubject > 0) say('max_msgs_per_subject', String(perSubject), 'none')
  if (size > 0 && size < MAX_RECORD_BYTES) say('max_msg_size', `${size} bytes`, `at least ${MAX_RECORD_BYTES} bytes`)
  if (config.no_ack === true) say('no_ack', 'true', 'false')
  if (config.persist_mode === ASYNC) say('persist_mode', ASYNC, 'default')
  if (config.subject_transform !== undefined) say('subject_transform', 'set', 'none')
  if (config.sealed) say('sealed', 'true', 'false')
  return found
}

function factsOf({ config, created, state }: StreamInfo): StreamFacts {
  return {
    messages: state.messages,
    bytes: state.bytes,
    maxBytes: limitOf(config.max_bytes),
    maxMessages: limitOf(config.max_msgs),
    discardsOld: config.discard !== DiscardPolicy.New,
    keepMs: config.max_age > 0 ? config.max_age / NANOSECONDS_A_MS : null,
    oldestAtMs: state.messages > 0 ? Date.parse(state.first_ts) : null,
    refusal: unsafeOf(config) ?? refusalOf(config, state),
    unsafe: unsafeOf(config),
    isAtomic: config.allow_atomic === true,
    firstSequence: state.first_seq,
    lastSequence: state.last_seq,
    replicas: config.num_replicas,
    consumers: state.consumer_count,
    createdAt: created,
    differences: differencesOf(config),
  }
}

function unsafeOf(config: StreamConfig): string | null {
  if (config.persist_mode === ASYNC)
    return 'it acknowledges before it has written, and loses what it acknowledged (persist_mode async): delete it once its consumers have had everything, and the nodes create a new one'
  if (config.subject_transform !== undefined)
    return 'it stores messages under other subjects than ours, where limits are not counted: remove its subject_transform'
  return null
}

function refusalOf(config: StreamConfig, { messages, bytes, subjects }: StreamState): string | null {
  if (config.sealed) return 'it is sealed for good: back it up and delete it, and the nodes create a new one'
  if (config.no_ack === true) return 'it acknowledges nothing: set no_ack to false'
  if (!takesOurs(config.subjects ?? [])) return `it does not take all our subjects: give it ${ALL_SUBJECTS}`
  const { max_msg_size: size } = config
  if (size > 0 && size < MAX_RECORD_BYTES)
    return `it has no room for a batch of the largest size: raise max_msg_size to ${MAX_RECORD_BYTES} bytes, or -1`
  if (config.discard !== DiscardPolicy.New) return null
  const way = `or ${PURGE_ADVICE}`
  const maxMessages = limitOf(config.max_msgs)
  if (maxMessages !== null && messages >= maxMessages) return `it is full: raise max_msgs, ${way}`
  const maxBytes = limitOf(config.max_bytes)
  if (maxBytes !== null && maxBytes - bytes < MAX_RECORD_BYTES) {
    return `it has no room for a batch of the largest size: raise max_bytes, ${way}`
  }
  const full = Object.entries(subjects ?? {}).find(
    ([, count]) => refusesPerSubject(config) && count >= config.max_msgs_per_subject,
  )
  if (full !== undefined) return `its subject ${full[0]} is full: set max_msgs_per_subject to -1, ${way}`
  return null
}

/** A subject that is full refuses messages; otherwise it would drop its oldest. */
function refusesPerSubject({ discard_new_per_subject: isNew, max_msgs_per_subject: most }: StreamConfig): boolean {
  return isNew && most > 0
}

function limitOf(limit: number): number | null {
  return limit > 0 ? limit : null
}

/** Whether the subjects cover all of ours. A stream that covers only some partitions does not count. */
function takesOurs(subjects: readonly string[]): boolean {
  return subjects.some((subject) => ['>', 'sluice.>', 'sluice.*.*', 'sluice.events.>', ALL_SUBJECTS].includes(subject))
}

function secondsText(nanoseconds: number): string {
  return `${nanoseconds / NANOSECONDS} s`
}

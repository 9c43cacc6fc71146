// The gauges of the metrics page, and where they get their values: functions that the parts of the service provide, called
// at each scrape.

import type { LabelledRead, MetricsPage, Series } from './page.ts'

/** How the values of several worker processes become one. farthest: from 0. */
export type Merge = 'sum' | 'max' | 'min' | 'farthest'
type Named = readonly [merge: Merge, name: string, help: string]

/** By the member of the sampler that has the value. */
const NUMBERS = {
  requestsInFlight: ['sum', 'sluice_requests_in_flight', 'Requests without an outcome yet.'],
  ringUsedBytes: ['sum', 'sluice_ring_used_bytes', 'Bytes of the ring in use.'],
  ringSizeBytes: ['sum', 'sluice_ring_size_bytes', 'Bytes of the ring.'],
  ringRequests: ['sum', 'sluice_ring_requests', 'Requests whose body is in the ring.'],
  parserQueue: ['sum', 'sluice_parser_queue', 'Requests that wait to be decoded.'],
  connections: ['sum', 'sluice_connections', 'Open connections on the port for events.'],
  connectionsMax: ['sum', 'sluice_connections_max', 'Most connections; beyond it new ones are closed.'],
  tlsNotAfterSeconds: [
    'min',
    'sluice_tls_not_after_seconds',
    'When the certificate of the port for events ends, in Unix time. No series without TLS.',
  ],
  keysRemembered: ['sum', 'sluice_keys_remembered', 'Idempotency keys held in this process.'],
  keysMax: [
    'sum',
    'sluice_keys_max',
    'Most idempotency keys held; full is a 503 for requests with one. No series with Redis.',
  ],
  journalBytes: ['sum', 'sluice_journal_bytes', 'Size of the embedded queue. No series with NATS.'],
  journalMaxBytes: [
    'sum',
    'sluice_journal_max_bytes',
    'At which size it is full, by its setting or disk. No series with NATS.',
  ],
  badAppRecordsNow: [
    'max',
    'sluice_bad_app_records',
    'App records that cannot be used as they are now; a file counts as one. The last good ones stay in force.',
  ],
  openFiles: ['max', 'process_open_fds', 'Open file descriptors. No series where the system does not count them.'],
  maxOpenFiles: ['min', 'process_max_fds', 'Most file descriptors, as the system has it now.'],
} as const satisfies Record<string, Named>

const FLAGS = {
  ready: ['max', 'sluice_ready', '1 from the first successful start until the drain, as /readyz says.'],
  draining: ['max', 'sluice_draining', '1 from the signal to stop until the end.'],
  redisUp: [
    'min',
    'sluice_redis_up',
    '1 while Redis answers, 0 while it does not. No series where none is configured.',
  ],
  natsUp: [
    'min',
    'sluice_nats_up',
    '1 while NATS is connected, 0 while it is not. No series where none is configured.',
  ],
  streamLeader: [
    'max',
    'sluice_stream_leader',
    '1 while the stream has a leader, 0 while nobody answers for it. No series while NATS is away.',
  ],
} as const satisfies Record<string, Named>

/** By the member of the stream's sample. */
const STREAM = {
  bytes: ['max', 'sluice_stream_bytes', 'Size of the stream on each copy. No series while NATS is away.'],
  maxBytes: [
    'max',
    'sluice_stream_max_bytes',
    'The size at which the stream is full, by its own limit or that of its account or servers. No series where it has none.',
  ],
  oldestSeconds: ['max', 'sluice_stream_oldest_seconds', 'Age of the oldest message in the stream; 0: it is empty.'],
  keepSeconds: [
    'max',
    'sluice_stream_keep_seconds',
    'The age at which the stream drops messages, read or not. No series where it keeps them for good.',
  ],
} as const satisfies Partial<Record<keyof StreamSample, Named>>

/** By the member of the spool's sample. */
const SPOOL = {
  batches: [
    'sum',
    'sluice_spool_batches',
    'Batches in the spool of this node, which are not in NATS yet. No series without one.',
  ],
  bytes: ['sum', 'sluice_spool_bytes', 'Bytes of these batches.'],
  oldestSeconds: ['max', 'sluice_spool_oldest_seconds', 'Age of the oldest of these batches; 0: there is none.'],
  maxBytes: ['sum', 'sluice_spool_max_bytes', 'The size at which the spool is full, by its setting or its disk.'],
} as const satisfies Record<keyof SpoolSample, Named>

/** The rest, by what it tells. */
const OTHERS = {
  auditLag: [
    'max',
    'sluice_audit_lag_seconds',
    'Since the end of the last minute that is audited, of the partitions audited here.',
  ],
  auditSkewed: [
    'max',
    'sluice_audit_skewed',
    '1 while this node audits nothing, because its clock is wrong or no two clocks agree.',
  ],
  clockSkew: [
    'farthest',
    'sluice_clock_skew_seconds',
    "How far the clock of Redis or NATS is ahead of this node's; below 0: behind.",
  ],
  consumerLag: [
    'max',
    'sluice_stream_consumer_lag_seconds',
    'Age of the first message that a durable consumer of the stream has not acknowledged; 0: it has had all.',
  ],
  replicas: [
    'max',
    'sluice_stream_replicas',
    'Copies of the stream: current, lagging behind its leader, or on a server that is offline. Looked at once a minute.',
  ],
  degraded: ['max', 'sluice_degraded', '1 while a part goes on without what it depends on.'],
} as const satisfies Record<string, Named>

/** By the name of the gauge. */
export const MERGES: ReadonlyMap<string, Merge> = new Map(
  [NUMBERS, FLAGS, STREAM, SPOOL, OTHERS].flatMap((table) =>
    Object.values<Named>(table).map(([merge, name]) => [name, merge]),
  ),
)

/** A gauge whose function is absent has no series, so that alerts on it stay quiet. */
export type Sampler = { readonly [Member in keyof typeof NUMBERS]?: () => number | undefined } & {
  readonly [Member in keyof typeof FLAGS]?: () => boolean | undefined
} & {
  /** The age at which segments are removed; null: never. */
  readonly journalKeepSeconds?: () => number | null
  readonly linesDropped?: () => number
  /** Records in NATS that could not be used, each time that one came. */
  readonly badAppRecords?: () => number
  /** Measured some seconds ago; null: not known. Absent where no NATS is configured. */
  readonly stream?: () => StreamSample | null
  /** Copies of the stream by their state; null: not known now. Absent where no NATS is configured. */
  readonly replicas?: () => Readonly<Record<string, number>> | null
  /** null: this node has not audited yet. Absent where no NATS is configured. */
  readonly audit?: () => AuditSample | null
  /** Losses of what NATS held, by store: a closed set of names. Absent where no NATS is configured. */
  readonly storesLost?: () => Readonly<Record<LostStore, number>>
  /** What the disk of this node holds until NATS takes it. Absent where there is no spool. */
  readonly spool?: () => SpoolSample
  /** For each part that can work without its dependency: whether it does so now. A closed set of names. */
  readonly degraded?: () => Readonly<Record<string, boolean>>
}

const LOST_STORES = ['stream', 'apps', 'counts'] as const
type LostStore = (typeof LOST_STORES)[number]

export interface SpoolSample {
  readonly batches: number
  readonly bytes: number
  /** Of the oldest batch; 0: there is none. */
  readonly oldestSeconds: number
  readonly maxBytes: number
}

export interface StreamSample {
  readonly bytes: number
  readonly maxBytes: number | null
  readonly oldestSeconds: number
  /** The age at which it drops messages, read or not; null: never. */
  readonly keepSeconds: number | null
  /** For each durable consumer, by name: the age of the first message that it has not acknowledged. */
  readonly consumerLagSeconds: Readonly<Record<string, number>>
}

export interface AuditSample {
  /** null: this node audits no partition. */
  readonly lagSeconds: number | null
  readonly badMessages: number
  readonly futureEvents: number
  readonly unsettledDoubts: number
  /** By whose clock it is, ahead of this node's. */
  readonly clockSkewSeconds: Readonly<Record<string, number>>
  /** The clocks keep this node from auditing. */
  readonly isSkewed: boolean
}

export function addGauges(page: MetricsPage, sampler: () => Sampler): void {
  addLinesDropped(page, () => sampler().linesDropped?.() ?? 0)
  const gauge = ([, name, help]: Named, read: Series['read']): void =>
    page.numbers(name, 'gauge', help, [{ labels: {}, read }])
  const counter = (name: string, help: string, read: Series['read']): void =>
    page.numbers(name, 'counter', help, [{ labels: {}, read }])
  for (const [member, named] of entriesOf({ ...NUMBERS, ...FLAGS })) gauge(named, () => sampler()[member]?.())
  for (const [member, named] of entriesOf(STREAM)) gauge(named, () => sampler().stream?.()?.[member])
  for (const [member, named] of entriesOf(SPOOL)) gauge(named, () => sampler().spool?.()[member])
  const byLabel = ([, name, help]: Named, label: string, read: LabelledRead): void =>
    page.gaugeByLabel(name, help, label, read)
  gauge(OTHERS.auditLag, () => sampler().audit?.()?.lagSeconds)
  counter(
    'sluice_audit_bad_messages_total',
    'Messages of the stream without a valid Sluice-Cost header, seen by this process.',
    () => sampler().audit?.()?.badMessages,
  )
  gauge(OTHERS.auditSkewed, () => sampler().audit?.()?.isSkewed)
  byLabel(OTHERS.clockSkew, 'of', () => sampler().audit?.()?.clockSkewSeconds ?? {})
  counter(
    'sluice_audit_future_events_total',
    'Events that named a minute that had not begun, because a clock was wrong; they were charged to the running one.',
    () => sampler().audit?.()?.futureEvents,
  )
  page.numbers(
    'sluice_store_lost_total',
    'counter',
    'Losses of what NATS held, noticed by this process: a store that is gone, new, emptied, or cut short.',
    LOST_STORES.map((store) => ({ labels: { store }, read: () => sampler().storesLost?.()[store] })),
  )
  counter(
    'sluice_doubt_unsettled_total',
    'Batches in doubt that could not be settled, or came after their minute was closed: windows may hold more than their limits.',
    () => sampler().audit?.()?.unsettledDoubts,
  )
  byLabel(OTHERS.consumerLag, 'consumer', () => sampler().stream?.()?.consumerLagSeconds ?? {})
  byLabel(OTHERS.replicas, 'state', () => sampler().replicas?.() ?? {})
  byLabel(OTHERS.degraded, 'part', () => sampler().degraded?.() ?? {})
}

/** A supervisor has a log of its own. */
export function addLinesDropped(page: MetricsPage, read: () => number): void {
  const help = 'Lines of the log that were dropped, since its output did not take them.'
  page.numbers('sluice_log_lines_dropped_total', 'counter', help, [{ labels: {}, read }])
}

function entriesOf<Table extends object>(table: Table): [keyof Table, Table[keyof Table]][] {
  return Object.entries(table) as [keyof Table, Table[keyof Table]][]
}

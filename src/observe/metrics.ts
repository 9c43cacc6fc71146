// Every metric of the service, in one place. The request's path adds to plain numbers and own histograms,
// which are read only when a scrape comes; prom-client gives Node's own metrics.

import { Registry } from 'prom-client'
import { type RefusalCode, STATUS_OF_REFUSAL } from '../outcome.ts'
import { Histogram } from './histogram.ts'
import { MetricsPage } from './page.ts'
import { collectRuntimeMetrics } from './runtime.ts'

/** `aborted`: the client left before its answer, which has no status; 499 is what proxies write for it. */
export type OutcomeName = 'accepted' | 'replayed' | 'aborted' | RefusalCode
export type Stage = 'receive' | 'parse' | 'admit' | 'publish'

export interface StreamSample {
  readonly bytes: number
  readonly maxBytes: number | null
  readonly oldestSeconds: number
  /** By the name of a durable consumer, the age of the first message that it has not acknowledged. */
  readonly consumerLagSeconds: Readonly<Record<string, number>>
}

/** Read at each scrape. What is absent has no series: an alert on it then stays quiet instead of firing. */
export interface Sampler {
  readonly ringUsedBytes?: () => number
  readonly ringSizeBytes?: () => number
  readonly ringRequests?: () => number
  readonly parserQueue?: () => number
  readonly requestsInFlight?: () => number
  readonly connections?: () => number | undefined
  readonly connectionsMax?: () => number
  readonly keysRemembered?: () => number
  /** Absent where more keys than that are left to Redis. */
  readonly keysMax?: () => number
  readonly journalBytes?: () => number
  readonly journalMaxBytes?: () => number
  /** As /readyz has it. */
  readonly ready?: () => boolean
  readonly draining?: () => boolean
  /** Of those in Redis, how many were found that could not be used. */
  readonly badAppRecords?: () => number
  /** Absent where no Redis is configured. */
  readonly redisUp?: () => boolean
  /** Absent where no NATS is configured. */
  readonly natsUp?: () => boolean
  /** As it was some seconds ago; null: not known. Absent where no NATS is configured. */
  readonly stream?: () => StreamSample | null
  /** null: this node has not audited yet. Absent where no NATS is configured. */
  readonly audit?: () => AuditSample | null
  /** Parts that can go on without what they depend on, and whether each does so now. A closed set of names. */
  readonly degraded?: () => Readonly<Record<string, boolean>>
}

export interface AuditSample {
  /** null: this node audits no partition. */
  readonly lagSeconds: number | null
  readonly badMessages: number
}

/** Of the port for events. What the engine answers by itself is no request of ours, and is seen only here. */
export interface ConnectionCounts {
  opened: number
  /** All that were closed, by whomever. */
  ended: number
  /**
   * Closed by the service: beyond the most connections; because another request came, or the client left, while an
   * answer waited for the end of the event loop's turn; because earlier answers were left unread; because a body came in
   * too many pieces of a few bytes.
   */
  readonly closed: { limit: number; pipelined: number; unread: number; fragmented: number }
}

/** Counters are plain numbers: add to them where the thing happens. They only ever grow. */
export interface Metrics {
  requestsReceived: number
  replays: number
  publishErrors: number
  ringRefusals: number
  explainRefusals: number
  appsReloadFailures: number
  readonly events: { track: number; screen: number; revenue: number }
  readonly limitCalls: { answered: number; slow: number; failed: number; without: number }
  readonly connections: ConnectionCounts
  readonly requestSeconds: Histogram
  readonly stageSeconds: Readonly<Record<Stage, Histogram>>
  readonly bodyBytes: Histogram
  readonly batchEvents: Histogram
  /** Records in each durable write or message. */
  readonly publishRecords: Histogram
  readonly redisCallSeconds: Histogram
  /** Ends a request: each one that was received comes here exactly once. */
  outcome(name: OutcomeName): void
  outcomeTotals(): Record<OutcomeName, number>
  /** From now on gauges are read from here. */
  sampleFrom(sampler: Sampler): void
  readonly contentType: string
  /** The page, in Prometheus text format. */
  scrape(): Promise<string>
}

const OUTCOME_NAMES: readonly OutcomeName[] = [
  'accepted',
  'replayed',
  'aborted',
  ...(Object.keys(STATUS_OF_REFUSAL) as RefusalCode[]),
]

const REQUEST_SECONDS = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]
const STAGE_SECONDS = [0.00001, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 2.5]
const BODY_BYTES = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288]
const BATCH_EVENTS = [0, 1, 2, 5, 10, 20, 50, 100]
/** 20 ms is what the alert goes by, and 250 ms the longest that a request waits. */
const REDIS_CALL_SECONDS = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1]
const PUBLISH_RECORDS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]

/** `runtime: false` leaves out Node's own metrics, whose observers cannot be stopped again. */
export function createMetrics(options: { version: string; runtime?: boolean }): Metrics {
  const indexOfOutcome = new Map(OUTCOME_NAMES.map((name, index) => [name, index]))
  // A typed array, since counters kept as properties and added to by name cost four times as much.
  const outcomeCounts = new Float64Array(OUTCOME_NAMES.length)
  const page = new MetricsPage()
  const runtimeRegistry = options.runtime === false ? new Registry() : collectRuntimeMetrics(page)
  let sampler: Sampler = {}

  const metrics: Metrics = {
    requestsReceived: 0,
    replays: 0,
    publishErrors: 0,
    ringRefusals: 0,
    explainRefusals: 0,
    appsReloadFailures: 0,
    events: { track: 0, screen: 0, revenue: 0 },
    limitCalls: { answered: 0, slow: 0, failed: 0, without: 0 },
    connections: { opened: 0, ended: 0, closed: { limit: 0, pipelined: 0, unread: 0, fragmented: 0 } },
    requestSeconds: new Histogram(REQUEST_SECONDS),
    stageSeconds: {
      receive: new Histogram(STAGE_SECONDS),
      parse: new Histogram(STAGE_SECONDS),
      admit: new Histogram(STAGE_SECONDS),
      publish: new Histogram(STAGE_SECONDS),
    },
    bodyBytes: new Histogram(BODY_BYTES),
    batchEvents: new Histogram(BATCH_EVENTS),
    publishRecords: new Histogram(PUBLISH_RECORDS),
    redisCallSeconds: new Histogram(REDIS_CALL_SECONDS),
    outcome: (name) => {
      outcomeCounts[indexOfOutcome.get(name) as number] += 1
    },
    outcomeTotals: () => {
      const totals = OUTCOME_NAMES.map((name, index) => [name, outcomeCounts[index]])
      return Object.fromEntries(totals) as Record<OutcomeName, number>
    },
    sampleFrom: (next) => {
      sampler = next
    },
    contentType: runtimeRegistry.contentType,
    scrape: async () => page.text() + (await runtimeRegistry.metrics()),
  }

  addCounters(page, metrics, () => sampler)
  page.numbers(
    'sluice_requests_total',
    'counter',
    'Requests by their outcome; status 499 is a client that left before its answer.',
    OUTCOME_NAMES.map((code, index) => ({
      labels: { status: statusOf(code), code },
      read: () => outcomeCounts[index],
    })),
  )
  addHistograms(page, metrics)
  addGauges(page, () => sampler)
  page.numbers('sluice_build_info', 'gauge', 'Always 1; the labels say what runs.', [
    { labels: { version: options.version, node: process.version }, read: () => 1 },
  ])
  return metrics
}

function addCounters(page: MetricsPage, metrics: Metrics, sampler: () => Sampler): void {
  const single = (name: string, help: string, read: () => number) =>
    page.numbers(name, 'counter', help, [{ labels: {}, read }])

  single('sluice_requests_received_total', 'Requests that reached the service: outcomes and those in flight.', () => {
    return metrics.requestsReceived
  })
  single('sluice_replays_total', 'Requests that repeated an accepted Idempotency-Key.', () => metrics.replays)
  single('sluice_publish_errors_total', 'Records that the queue did not take.', () => metrics.publishErrors)
  single('sluice_ring_refusals_total', 'Requests that found no room in the ring.', () => metrics.ringRefusals)
  single('sluice_explain_refusals_total', 'Requests answered 503 because too many bad bodies waited.', () => {
    return metrics.explainRefusals
  })
  single('sluice_apps_reload_failures_total', 'Changed app files, or records in NATS, that could not be used.', () => {
    return metrics.appsReloadFailures + (sampler().badAppRecords?.() ?? 0)
  })
  page.numbers('sluice_events_accepted_total', 'counter', 'Events that were durably queued, by their type.', [
    { labels: { type: 'track' }, read: () => metrics.events.track },
    { labels: { type: 'screen' }, read: () => metrics.events.screen },
    { labels: { type: 'revenue' }, read: () => metrics.events.revenue },
  ])
  single('sluice_connections_total', 'Connections that were opened to the port for events.', () => {
    return metrics.connections.opened
  })
  const { closed } = metrics.connections
  page.numbers(
    'sluice_connections_closed_total',
    'counter',
    'Connections to the port for events that have ended. limit: beyond SLUICE_MAX_CONNECTIONS; pipelined: requests ' +
      'behind one whose refusal was not sent yet; unread: answers were not read; fragmented: a body came in thousands of chunks of a few bytes; other: closed by the client, idle, or ' +
      'requests behind one that was being handled.',
    [
      { labels: { reason: 'limit' }, read: () => closed.limit },
      { labels: { reason: 'pipelined' }, read: () => closed.pipelined },
      { labels: { reason: 'unread' }, read: () => closed.unread },
      { labels: { reason: 'fragmented' }, read: () => closed.fragmented },
      {
        labels: { reason: 'other' },
        read: () => metrics.connections.ended - closed.limit - closed.pipelined - closed.unread - closed.fragmented,
      },
    ],
  )
  page.numbers(
    'sluice_limit_calls_total',
    'counter',
    'Calls to Redis for limits and keys, each for all requests of one turn of the event loop. slow: no answer in 250 ms.',
    [
      { labels: { result: 'answered' }, read: () => metrics.limitCalls.answered },
      { labels: { result: 'slow' }, read: () => metrics.limitCalls.slow },
      { labels: { result: 'failed' }, read: () => metrics.limitCalls.failed },
    ],
  )
  page.numbers(
    'sluice_limits_without_redis_total',
    'counter',
    "Requests judged by this node's share of the limits, since Redis was away.",
    [{ labels: {}, read: () => metrics.limitCalls.without }],
  )
}

function addHistograms(page: MetricsPage, metrics: Metrics): void {
  const single = (name: string, help: string, histogram: Histogram) =>
    page.histograms(name, help, [{ labels: {}, histogram }])

  single('sluice_request_duration_seconds', 'From the request line to the answer.', metrics.requestSeconds)
  page.histograms(
    'sluice_stage_duration_seconds',
    'Time that a request spends in each stage.',
    (Object.keys(metrics.stageSeconds) as Stage[]).map((stage) => ({
      labels: { stage },
      histogram: metrics.stageSeconds[stage],
    })),
  )
  single('sluice_body_bytes', 'Size of the bodies that were read, after decompression.', metrics.bodyBytes)
  single('sluice_batch_events', 'Events in each accepted request.', metrics.batchEvents)
  single('sluice_publish_records', 'Records in each durable write or message.', metrics.publishRecords)
  single(
    'sluice_redis_call_duration_seconds',
    'From a call to Redis to its reply, or failure.',
    metrics.redisCallSeconds,
  )
}

function addGauges(page: MetricsPage, sampler: () => Sampler): void {
  const gauge = (name: string, help: string, read: () => number | boolean | undefined) =>
    page.numbers(name, 'gauge', help, [
      {
        labels: {},
        read: () => {
          const value = read()
          return typeof value === 'boolean' ? Number(value) : value
        },
      },
    ])
  gauge('sluice_requests_in_flight', 'Requests without an outcome yet.', () => sampler().requestsInFlight?.())
  gauge('sluice_ring_used_bytes', 'Bytes of the ring in use.', () => sampler().ringUsedBytes?.())
  gauge('sluice_ring_size_bytes', 'Bytes of the ring.', () => sampler().ringSizeBytes?.())
  gauge('sluice_ring_requests', 'Requests whose body is in the ring.', () => sampler().ringRequests?.())
  gauge('sluice_parser_queue', 'Requests that wait for a thread to decode them.', () => sampler().parserQueue?.())
  gauge('sluice_connections', 'Open connections on the port for events.', () => sampler().connections?.())
  gauge('sluice_connections_max', 'Most connections; beyond it new ones are closed.', () =>
    sampler().connectionsMax?.(),
  )
  gauge('sluice_keys_remembered', 'Idempotency keys held in this process.', () => sampler().keysRemembered?.())
  gauge(
    'sluice_keys_max',
    'Most idempotency keys held; full is a 503 for requests with one. No series with Redis.',
    () => sampler().keysMax?.(),
  )
  gauge('sluice_journal_bytes', 'Size of the embedded queue. No series with NATS.', () => sampler().journalBytes?.())
  gauge('sluice_journal_max_bytes', 'The size at which the embedded queue is full. No series with NATS.', () => {
    return sampler().journalMaxBytes?.()
  })
  gauge('sluice_ready', '1 from the first successful start until the drain, as /readyz says.', () =>
    sampler().ready?.(),
  )
  gauge('sluice_draining', '1 from the signal to stop until the end.', () => sampler().draining?.())
  gauge('sluice_redis_up', '1 while Redis answers, 0 while it does not. No series where none is configured.', () => {
    return sampler().redisUp?.()
  })
  gauge('sluice_nats_up', '1 while NATS is connected, 0 while it is not. No series where none is configured.', () => {
    return sampler().natsUp?.()
  })
  addStreamGauges(gauge, () => sampler().stream?.() ?? null)
  gauge(
    'sluice_audit_lag_seconds',
    'Since the end of the last minute that is audited, of the partitions audited here.',
    () => {
      return sampler().audit?.()?.lagSeconds ?? undefined
    },
  )
  page.numbers(
    'sluice_audit_bad_messages_total',
    'counter',
    'Messages of the stream without a right Sluice-Cost header, seen by this process.',
    [{ labels: {}, read: () => sampler().audit?.()?.badMessages }],
  )
  page.gaugeByLabel(
    'sluice_stream_consumer_lag_seconds',
    'Age of the first message that a durable consumer of the stream has not acknowledged; 0: it has had all.',
    'consumer',
    () => sampler().stream?.()?.consumerLagSeconds ?? {},
  )
  page.gaugeByLabel('sluice_degraded', '1 while a part goes on without what it depends on.', 'part', () => {
    const parts = Object.entries(sampler().degraded?.() ?? {})
    return Object.fromEntries(parts.map(([part, degraded]) => [part, Number(degraded)]))
  })
}

type AddGauge = (name: string, help: string, read: () => number | undefined) => void

function addStreamGauges(gauge: AddGauge, stream: () => StreamSample | null): void {
  gauge('sluice_stream_bytes', 'Size of the stream on each copy. No series while NATS is away.', () => stream()?.bytes)
  gauge('sluice_stream_max_bytes', 'The size at which the stream is full. No series where it has none.', () => {
    return stream()?.maxBytes ?? undefined
  })
  gauge('sluice_stream_oldest_seconds', 'Age of the oldest message in the stream; 0: it is empty.', () => {
    return stream()?.oldestSeconds
  })
}

function statusOf(name: OutcomeName): string {
  if (name === 'accepted' || name === 'replayed') return '202'
  if (name === 'aborted') return '499'
  return STATUS_OF_REFUSAL[name].slice(0, 3)
}

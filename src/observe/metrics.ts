// Every counter and histogram of the service. The path of a request adds to plain numbers and to our own histograms,
// which are read only at a scrape. Node's own metrics come from prom-client.

import { Registry } from 'prom-client'
import { type RefusalCode, type ReplayedBody, STATUS_OF_REFUSAL } from '../contract/outcome.ts'
import { OVERLOAD_REASONS, type OverloadReason, QUEUE_REASONS } from '../contract/overload-advice.ts'
import type { LibraryFaults } from '../lib/library-fault.ts'
import { addGauges, type Sampler } from './gauges.ts'
import { Histogram } from './histogram.ts'
import { MetricsPage, type Series } from './page.ts'
import { collectRuntimeMetrics } from './runtime.ts'

/** `aborted`: the client left before its answer. It has no status; proxies write 499. */
export type OutcomeName = 'accepted' | 'replayed' | 'preflight' | 'aborted' | RefusalCode
export type Stage = 'receive' | 'parse' | 'admit' | 'publish'

export type Metrics = ReturnType<typeof newMetrics>
export type ConnectionCounts = Metrics['connections']

const OUTCOME_NAMES: readonly OutcomeName[] = [
  'accepted',
  'replayed',
  'preflight',
  'aborted',
  ...(Object.keys(STATUS_OF_REFUSAL) as RefusalCode[]),
]

const REQUEST_SECONDS = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5]
const STAGE_SECONDS = [0.00001, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 2.5]
const BODY_BYTES = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288]
const BATCH_EVENTS = [0, 1, 2, 5, 10, 20, 50, 100]
/** The alert uses 20 ms; a request waits for at most 250 ms. */
const REDIS_CALL_SECONDS = [0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1]
const PUBLISH_RECORDS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]

export interface MetricsOptions {
  readonly version: string
  readonly runtime?: boolean
  /** What reads HTTP on the port for events; absent: nothing does. */
  readonly httpEngine?: string
  /** By library: what it left unhandled. */
  readonly libraryFaults?: LibraryFaults | undefined
}

/** `runtime: false` leaves out Node's own metrics, whose observers cannot be stopped. */
export function createMetrics({ version, runtime = true, httpEngine, libraryFaults }: MetricsOptions): Metrics {
  const page = new MetricsPage()
  const metrics = newMetrics(page, runtime ? collectRuntimeMetrics(page) : new Registry())
  addCounters(page, metrics, libraryFaults ?? { ioredis: 0, nats: 0 })
  addHistograms(page, metrics)
  addGauges(page, metrics.sampler)
  page.numbers('sluice_build_info', 'gauge', 'Always 1; the labels say what runs.', [
    { labels: { version, node: process.version }, read: () => 1 },
  ])
  if (httpEngine !== undefined) {
    page.numbers('sluice_http_engine', 'gauge', 'Always 1; the label says what reads HTTP on the port for events.', [
      { labels: { name: httpEngine }, read: () => 1 },
    ])
  }
  return metrics
}

/** Counters are plain numbers that only grow: add to them where the event happens. */
function newMetrics(page: MetricsPage, runtime: Registry) {
  const indexOfOutcome = new Map(OUTCOME_NAMES.map((name, index) => [name, index]))
  // A typed array costs a quarter of properties that are incremented by name.
  const outcomeCounts = new Float64Array(OUTCOME_NAMES.length)
  const indexOfReason = new Map(OVERLOAD_REASONS.map((reason, index) => [reason, index]))
  const reasonCounts = new Float64Array(OVERLOAD_REASONS.length)
  const overloadedAt = OUTCOME_NAMES.indexOf('service_overloaded')
  let sampler: Sampler = {}
  page.numbers(
    'sluice_requests_total',
    'counter',
    'Requests by their outcome; status 499 is a client that left before its answer.',
    OUTCOME_NAMES.map((code, index) => ({
      labels: { status: statusOf(code), code },
      read: () => outcomeCounts[index],
    })),
  )
  page.numbers(
    'sluice_overloaded_total',
    'counter',
    'Requests answered 503, by the reason (docs/runbooks.md). Their sum is sluice_requests_total{status="503"}.',
    OVERLOAD_REASONS.map((reason, index) => ({ labels: { reason }, read: () => reasonCounts[index] })),
  )
  return {
    requestsReceived: 0,
    replays: { same: 0, other: 0, unknown: 0 } satisfies Record<ReplayedBody, number>,
    appsReloadFailures: 0,
    /** Places, by what is wrong there (queue/journal/segment-cursor.ts). */
    journalDamage: { checksum: 0, missing: 0, record: 0, beside: 0, changed: 0, removed: 0, unwritten: 0 },
    events: { track: 0, screen: 0, revenue: 0 },
    storedBytes: 0,
    limitCalls: { answered: 0, slow: 0, failed: 0, without: 0 },
    /** Connections to Redis that were dropped for an answer of another shape, or one too many. */
    redisBadReplies: 0,
    /** Of the port for events. The engine answers some requests itself; only these counts show them. */
    connections: {
      opened: 0,
      /** Closed by either side. */
      ended: 0,
      /**
       * Closed by the service. limit: too many connections; pipelined: another request came, or the client left, while an
       * answer waited for the end of the event loop's turn; unread: the client did not read earlier answers; fragmented: a
       * body came in too many pieces of a few bytes.
       */
      closed: { limit: 0, pipelined: 0, unread: 0, fragmented: 0 },
    },
    requestSeconds: new Histogram(REQUEST_SECONDS),
    /** What the objective of latency goes by: a slow upload is no slow answer. */
    answerSeconds: new Histogram(REQUEST_SECONDS),
    stageSeconds: {
      receive: new Histogram(STAGE_SECONDS),
      parse: new Histogram(STAGE_SECONDS),
      admit: new Histogram(STAGE_SECONDS),
      publish: new Histogram(STAGE_SECONDS),
    } satisfies Record<Stage, Histogram>,
    bodyBytes: new Histogram(BODY_BYTES),
    batchEvents: new Histogram(BATCH_EVENTS),
    /** Records in each durable write or message. */
    publishRecords: new Histogram(PUBLISH_RECORDS),
    redisCallSeconds: new Histogram(REDIS_CALL_SECONDS),
    /** Counts the outcome of a request. This or `overloaded` is called exactly once for each request that was received. */
    outcome: (name: Exclude<OutcomeName, 'service_overloaded'>): void => {
      outcomeCounts[indexOfOutcome.get(name) as number] += 1
    },
    /** Counts a request that was answered 503, and why. */
    overloaded: (reason: OverloadReason): void => {
      outcomeCounts[overloadedAt] += 1
      reasonCounts[indexOfReason.get(reason) as number] += 1
    },
    outcomeTotals: () => totalsOf(OUTCOME_NAMES, outcomeCounts),
    /** Their sum is the outcome `service_overloaded`. */
    overloadedTotals: () => totalsOf(OVERLOAD_REASONS, reasonCounts),
    /** Replaces the source of the gauges. */
    sampleFrom: (next: Sampler): void => {
      sampler = next
    },
    sampler: () => sampler,
    contentType: runtime.contentType as string,
    /** The page, in Prometheus text format. */
    scrape: async () => page.text() + (await runtime.metrics()),
  }
}

function addCounters(page: MetricsPage, metrics: Metrics, libraryFaults: LibraryFaults): void {
  const { replays, events, connections, limitCalls } = metrics
  const { closed } = connections
  const single = (name: string, help: string, read: () => number) =>
    page.numbers(name, 'counter', help, [{ labels: {}, read }])

  single(
    'sluice_requests_received_total',
    'Requests that reached the service: outcomes and those in flight.',
    () => metrics.requestsReceived,
  )
  page.numbers(
    'sluice_replays_total',
    'counter',
    'Requests that repeated an accepted Idempotency-Key. same: with the same events. other: with other events, which are ' +
      'not stored. unknown: the accepted ones are not known here.',
    seriesOf('body', replays),
  )
  single('sluice_publish_errors_total', 'Records that the queue did not take.', () => {
    const totals = metrics.overloadedTotals()
    return QUEUE_REASONS.reduce((sum, reason) => sum + totals[reason], 0)
  })
  single('sluice_apps_reload_failures_total', 'Changed app files, or records in NATS, that could not be used.', () => {
    return metrics.appsReloadFailures + (metrics.sampler().badAppRecords?.() ?? 0)
  })
  page.numbers(
    'sluice_journal_damage_total',
    'counter',
    'Damaged places of the journal on one machine, or of the spool, as this process found them. checksum, record, missing: ' +
      'bytes are not those that were written, a line is no record, or bytes are gone, when they were read. changed, removed: another program did ' +
      'that to a segment since. beside, unwritten: checksums could not be read, or written.',
    seriesOf('kind', metrics.journalDamage),
  )
  page.numbers(
    'sluice_events_accepted_total',
    'counter',
    'Events that were durably queued, by their type.',
    seriesOf('type', events),
  )
  single(
    'sluice_stored_bytes_total',
    "Bytes of the records' lines that were durably queued, or may have been.",
    () => metrics.storedBytes,
  )
  single('sluice_connections_total', 'Connections that were opened to the port for events.', () => connections.opened)
  const otherwise = () => Object.values(closed).reduce((left, count) => left - count, connections.ended)
  page.numbers(
    'sluice_connections_closed_total',
    'counter',
    'Connections to the port for events that have ended. limit: beyond SLUICE_MAX_CONNECTIONS; pipelined: requests ' +
      'behind one whose refusal was not sent yet; unread: answers were not read; fragmented: a body came in thousands of chunks of a few bytes; other: closed by the client, idle, or ' +
      'requests behind one that was being handled.',
    [...seriesOf('reason', closed), { labels: { reason: 'other' }, read: otherwise }],
  )
  page.numbers(
    'sluice_limit_calls_total',
    'counter',
    'Calls to Redis for limits and keys, each for all requests of one turn of the event loop. slow: no answer in 250 ms.',
    seriesOf('result', limitCalls).filter(({ labels }) => labels['result'] !== 'without'),
  )
  single(
    'sluice_limits_without_redis_total',
    "Requests judged by this node's share of the limits, since Redis was away.",
    () => limitCalls.without,
  )
  single(
    'sluice_redis_bad_replies_total',
    'Connections to Redis that were dropped, since it answered something else than it was asked.',
    () => metrics.redisBadReplies,
  )
  page.numbers(
    'sluice_library_faults_total',
    'counter',
    'Errors that the client library of Redis or NATS left unhandled. They end no process.',
    seriesOf('library', libraryFaults),
  )
}

/** One for each of the counts. */
function seriesOf(label: string, counts: Readonly<Record<string, number>>): Series[] {
  return Object.keys(counts).map((value) => ({ labels: { [label]: value }, read: () => counts[value] }))
}

function addHistograms(page: MetricsPage, metrics: Metrics): void {
  const single = (name: string, help: string, histogram: Histogram) =>
    page.histograms(name, help, [{ labels: {}, histogram }])

  single('sluice_request_duration_seconds', 'From the request line to the answer.', metrics.requestSeconds)
  single(
    'sluice_answer_duration_seconds',
    'From the last byte of the body to the answer, of the requests whose body arrived whole.',
    metrics.answerSeconds,
  )
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

function totalsOf<Name extends string>(names: readonly Name[], counts: Float64Array): Record<Name, number> {
  return Object.fromEntries(names.map((name, index) => [name, counts[index]])) as Record<Name, number>
}

function statusOf(name: OutcomeName): string {
  if (name === 'accepted' || name === 'replayed') return '202'
  if (name === 'preflight') return '204'
  if (name === 'aborted') return '499'
  return STATUS_OF_REFUSAL[name].slice(0, 3)
}

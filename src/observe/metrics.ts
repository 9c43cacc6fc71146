// Every counter and histogram of the service. The path of a request adds to plain numbers and to our own histograms,
// which are read only at a scrape. Node's own metrics come from prom-client.

import { Registry } from 'prom-client'
import { type RefusalCode, STATUS_OF_REFUSAL } from '../outcome.ts'
import { addGauges } from './gauges.ts'
import { Histogram } from './histogram.ts'
import { MetricsPage } from './page.ts'
import { collectRuntimeMetrics } from './runtime.ts'
import type { Sampler } from './sampler.ts'

/** `aborted`: the client left before its answer. It has no status; proxies write 499. */
export type OutcomeName = 'accepted' | 'replayed' | 'preflight' | 'aborted' | RefusalCode
export type Stage = 'receive' | 'parse' | 'admit' | 'publish'

/** Connections of the port for events. The engine answers some requests itself; only these counts show them. */
export interface ConnectionCounts {
  opened: number
  /** Closed by either side. */
  ended: number
  /**
   * Closed by the service. limit: too many connections; pipelined: another request came, or the client left, while an
   * answer waited for the end of the event loop's turn; unread: the client did not read earlier answers; fragmented: a
   * body came in too many pieces of a few bytes.
   */
  readonly closed: { limit: number; pipelined: number; unread: number; fragmented: number }
}

/** Counters are plain numbers that only grow: add to them where the event happens. */
export interface Metrics {
  requestsReceived: number
  replays: number
  /** Of `replays`: those whose body is known to differ from the accepted one. */
  replaysOfOtherBody: number
  publishErrors: number
  ringRefusals: number
  explainRefusals: number
  appsReloadFailures: number
  readonly events: { track: number; screen: number; revenue: number }
  readonly limitCalls: { answered: number; slow: number; failed: number; without: number }
  readonly connections: ConnectionCounts
  readonly requestSeconds: Histogram
  /** What the objective of latency goes by: a slow upload is no slow answer. */
  readonly answerSeconds: Histogram
  readonly stageSeconds: Readonly<Record<Stage, Histogram>>
  readonly bodyBytes: Histogram
  readonly batchEvents: Histogram
  /** Records in each durable write or message. */
  readonly publishRecords: Histogram
  readonly redisCallSeconds: Histogram
  /** Counts the outcome of a request. Called exactly once for each request that was received. */
  outcome(name: OutcomeName): void
  outcomeTotals(): Record<OutcomeName, number>
  /** Replaces the source of the gauges. */
  sampleFrom(sampler: Sampler): void
  readonly contentType: string
  /** The page, in Prometheus text format. */
  scrape(): Promise<string>
}

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

/** `runtime: false` leaves out Node's own metrics, whose observers cannot be stopped. */
export function createMetrics(options: { version: string; runtime?: boolean }): Metrics {
  const indexOfOutcome = new Map(OUTCOME_NAMES.map((name, index) => [name, index]))
  // A typed array costs a quarter of properties that are incremented by name.
  const outcomeCounts = new Float64Array(OUTCOME_NAMES.length)
  const page = new MetricsPage()
  const runtimeRegistry = options.runtime === false ? new Registry() : collectRuntimeMetrics(page)
  let sampler: Sampler = {}

  const metrics: Metrics = {
    requestsReceived: 0,
    replays: 0,
    replaysOfOtherBody: 0,
    publishErrors: 0,
    ringRefusals: 0,
    explainRefusals: 0,
    appsReloadFailures: 0,
    events: { track: 0, screen: 0, revenue: 0 },
    limitCalls: { answered: 0, slow: 0, failed: 0, without: 0 },
    connections: { opened: 0, ended: 0, closed: { limit: 0, pipelined: 0, unread: 0, fragmented: 0 } },
    requestSeconds: new Histogram(REQUEST_SECONDS),
    answerSeconds: new Histogram(REQUEST_SECONDS),
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
  page.numbers(
    'sluice_replays_total',
    'counter',
    'Requests that repeated an accepted Idempotency-Key. other: with another body, whose events are not stored. same: ' +
      'with the same body, or where the first one is not known.',
    [
      { labels: { body: 'same' }, read: () => metrics.replays - metrics.replaysOfOtherBody },
      { labels: { body: 'other' }, read: () => metrics.replaysOfOtherBody },
    ],
  )
  single('sluice_publish_errors_total', 'Records that the queue did not take.', () => metrics.publishErrors)
  single(
    'sluice_ring_refusals_total',
    'Requests answered 503 for want of memory: ring, arena of partial bodies, or decoders were full.',
    () => metrics.ringRefusals,
  )
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

function statusOf(name: OutcomeName): string {
  if (name === 'accepted' || name === 'replayed') return '202'
  if (name === 'preflight') return '204'
  if (name === 'aborted') return '499'
  return STATUS_OF_REFUSAL[name].slice(0, 3)
}

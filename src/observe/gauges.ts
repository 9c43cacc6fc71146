// The gauges of the metrics page, and the counters that other parts keep.

import type { MetricsPage } from './page.ts'
import type { Sampler, StreamSample } from './sampler.ts'

export function addGauges(page: MetricsPage, sampler: () => Sampler): void {
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
  gauge('sluice_parser_queue', 'Requests that wait to be decoded.', () => sampler().parserQueue?.())
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
    'Messages of the stream without a valid Sluice-Cost header, seen by this process.',
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
  gauge(
    'sluice_stream_keep_seconds',
    'The age at which the stream drops messages, read or not. No series where it keeps them for good.',
    () => stream()?.keepSeconds ?? undefined,
  )
}

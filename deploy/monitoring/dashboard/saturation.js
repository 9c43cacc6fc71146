// @ts-check
// How near each node is to what it can carry.

import { heatMap, timeseries } from './panels.js'
import { buckets, of, quantile, rate } from './queries.js'

/** A request takes a slot as well, and there is one for each of these bytes: small bodies run out of slots first. */
const SLOT_BYTES = 4096

/** @type {import('./panels.js').Row} */
export const saturation = {
  id: 400,
  title: 'Saturation',
  panels: [
    timeseries(401, 'Ring in use', {
      about:
        'Share of the memory for bodies, and of its slots, that is taken; it fills when the queue falls behind, and full is a 503.',
      unit: 'percentunit',
      max: 1,
      thresholds: [
        [0, 'transparent'],
        [0.5, 'orange'],
        [0.8, 'red'],
      ],
      queries: [
        [`${of('sluice_ring_used_bytes')} / ${of('sluice_ring_size_bytes')}`, '{{instance}} bytes'],
        [`${of('sluice_ring_requests')} * ${SLOT_BYTES} / ${of('sluice_ring_size_bytes')}`, '{{instance}} slots'],
      ],
    }),
    timeseries(402, 'Requests in the ring', {
      about: 'Requests whose body is held until its events are durable; it grows when the queue slows down.',
      unit: 'short',
      queries: [[of('sluice_ring_requests'), '{{instance}}']],
    }),
    timeseries(403, 'Ring refusals', {
      about: 'Requests each second that found no room and were answered 503; it should be 0.',
      unit: 'reqps',
      queries: [[`sum by (instance) (${rate('sluice_ring_refusals_total')})`, '{{instance}}']],
    }),
    timeseries(404, 'Requests in flight', {
      about: 'Requests without an outcome yet, those still on their way in included.',
      unit: 'short',
      queries: [[of('sluice_requests_in_flight'), '{{instance}}']],
    }),
    timeseries(405, 'Parser queue', {
      about: 'Requests that wait for a thread to decode them; a queue that stays wants more cores or SLUICE_PARSERS.',
      unit: 'short',
      queries: [[of('sluice_parser_queue'), '{{instance}}']],
    }),
    timeseries(406, 'Event-loop lag', {
      about: 'Delay of the main thread since the last scrape; above 50 ms it alone breaks the latency objective.',
      unit: 's',
      thresholds: [
        [0, 'transparent'],
        [0.05, 'red'],
      ],
      queries: [
        [of('nodejs_eventloop_lag_p50_seconds'), '{{instance}} p50'],
        [of('nodejs_eventloop_lag_p99_seconds'), '{{instance}} p99'],
        [of('nodejs_eventloop_lag_max_seconds'), '{{instance}} max'],
      ],
    }),
    timeseries(407, 'CPU by node', {
      about: 'Cores that the process uses, all of its threads together; hold it against the limit of the container.',
      unit: 'short',
      queries: [[`sum by (instance) (${rate('process_cpu_seconds_total')})`, '{{instance}}']],
    }),
    timeseries(408, 'CPU for each request', {
      about: 'It falls as load grows, since work is gathered; a step up after a release is a regression.',
      unit: 's',
      queries: [
        [
          // A node without requests would be at infinity.
          `sum by (instance) (${rate('process_cpu_seconds_total')}) / (sum by (instance) (${rate('sluice_requests_received_total')}) > 0)`,
          '{{instance}}',
        ],
      ],
    }),
    timeseries(409, 'Records in each write', {
      about: 'Requests that share one durable write or message: more under load is the service gathering its work.',
      unit: 'short',
      queries: [
        [quantile(0.5, 'sluice_publish_records'), 'p50'],
        [quantile(0.99, 'sluice_publish_records'), 'p99'],
      ],
    }),
    heatMap(410, 'Records in each write', {
      about: 'Writes or messages by the number of records they hold.',
      unit: 'short',
      query: buckets('sluice_publish_records'),
    }),
    timeseries(411, 'Writes and errors', {
      about: 'Durable writes or messages each second, and records that the queue did not take, which are answered 503.',
      unit: 'ops',
      queries: [
        [`sum(${rate('sluice_publish_records_count')})`, 'writes'],
        [`sum(${rate('sluice_publish_errors_total')})`, 'errors'],
      ],
    }),
    timeseries(412, 'Journal', {
      about: 'Disk that the embedded queue takes; where NATS is the queue there is none.',
      empty: 'No node has an embedded queue.',
      unit: 'bytes',
      queries: [[of('sluice_journal_bytes'), '{{instance}}']],
    }),
    timeseries(413, 'Journal in use', {
      about: 'Share of SLUICE_JOURNAL_MAX_MB that is taken; at 1 every batch is answered 503.',
      empty: 'No node has an embedded queue.',
      unit: 'percentunit',
      max: 1,
      thresholds: [
        [0, 'transparent'],
        [0.8, 'red'],
      ],
      queries: [[`${of('sluice_journal_bytes')} / ${of('sluice_journal_max_bytes')}`, '{{instance}}']],
    }),
    timeseries(414, 'Connections', {
      about:
        'Open connections on the port for events; lines that part tell of a load balancer that favours some nodes.',
      unit: 'short',
      queries: [[of('sluice_connections'), '{{instance}}']],
    }),
    timeseries(415, 'Connections used', {
      about: 'Share of the connections that the node may have; at 1 new ones are closed at once.',
      unit: 'percentunit',
      max: 1,
      thresholds: [
        [0, 'transparent'],
        [0.8, 'red'],
      ],
      queries: [[`${of('sluice_connections')} / ${of('sluice_connections_max')}`, '{{instance}}']],
    }),
    timeseries(416, 'Connections opened', {
      about: 'New connections each second; near the rate of requests, clients or a balancer do not keep theirs.',
      unit: 'cps',
      queries: [[`sum by (instance) (${rate('sluice_connections_total')})`, '{{instance}}']],
    }),
    timeseries(417, 'Connections closed, by reason', {
      about: 'Connections that ended each second; limit is beyond SLUICE_MAX_CONNECTIONS, other the client or silence.',
      unit: 'cps',
      queries: [[`sum by (reason) (${rate('sluice_connections_closed_total')})`, '{{reason}}']],
    }),
    timeseries(418, 'Explanations refused', {
      about: 'Requests each second answered 503 because too many bad bodies waited to be explained; it should be 0.',
      unit: 'reqps',
      queries: [[`sum by (instance) (${rate('sluice_explain_refusals_total')})`, '{{instance}}']],
    }),
  ],
}

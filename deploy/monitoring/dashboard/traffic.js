// @ts-check
// What comes in and how it ends.

import { heatMap, timeseries } from './panels.js'
import { buckets, mean, quantile, rate } from './queries.js'

/** @type {import('./panels.js').Row} */
export const traffic = {
  id: 200,
  title: 'Traffic and outcomes',
  panels: [
    timeseries(201, 'Requests by status', {
      about: 'How requests end, one on top of the other; 499 is a client that left before its answer.',
      unit: 'reqps',
      width: 12,
      stacked: true,
      queries: [[`sum by (status) (${rate('sluice_requests_total')})`, '{{status}}']],
    }),
    timeseries(202, 'Requests by outcome', {
      about: 'The same by code: many of one 4xx code point at an SDK or an app, service_overloaded at the nodes.',
      unit: 'reqps',
      width: 12,
      queries: [[`sum by (status, code) (${rate('sluice_requests_total')})`, '{{status}} {{code}}']],
    }),
    timeseries(203, 'Events accepted by type', {
      about: 'Events that were durably queued; replays add nothing here.',
      unit: 'eps',
      stacked: true,
      queries: [[`sum by (type) (${rate('sluice_events_accepted_total')})`, '{{type}}']],
    }),
    timeseries(204, 'Requests by node', {
      about: 'Lines that part tell of a load balancer that favours some nodes, or of a node in trouble.',
      unit: 'reqps',
      queries: [[`sum by (instance) (${rate('sluice_requests_received_total')})`, '{{instance}}']],
    }),
    timeseries(205, 'Body bytes', {
      about: 'Bytes of bodies after decompression that entered the ring each second.',
      unit: 'binBps',
      queries: [[`sum by (instance) (${rate('sluice_body_bytes_sum')})`, '{{instance}}']],
    }),
    timeseries(206, 'Events in a batch', {
      about: 'The mean and quantiles of accepted batches: small batches cost the most for each event.',
      unit: 'short',
      queries: [
        [mean('sluice_batch_events'), 'mean'],
        [quantile(0.5, 'sluice_batch_events'), 'p50'],
        [quantile(0.99, 'sluice_batch_events'), 'p99'],
      ],
    }),
    heatMap(207, 'Batch size', {
      about: 'Accepted batches by their number of events; a row holds those up to the number at its upper edge.',
      unit: 'short',
      query: buckets('sluice_batch_events'),
    }),
    heatMap(208, 'Body size', {
      about: 'Bodies by their size after decompression; above 512 KiB they are refused and do not show.',
      unit: 'bytes',
      query: buckets('sluice_body_bytes'),
    }),
  ],
}

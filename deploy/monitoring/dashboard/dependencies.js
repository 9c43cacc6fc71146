// @ts-check
// What the nodes lean on, as each of them sees it.

import { heatMap, stateTimeline, timeseries } from './panels.js'
import { buckets, of, quantile, rate } from './queries.js'

const REDIS_GIVEN_UP_SECONDS = 0.25
const UP = { 0: { text: 'away', color: 'red' }, 1: { text: 'up', color: 'green' } }
const DEGRADED = { 0: { text: 'normal', color: 'green' }, 1: { text: 'degraded', color: 'orange' } }
const YES_OR_NO = { 0: { text: 'no', color: 'transparent' }, 1: { text: 'yes', color: 'green' } }

/** @type {import('./panels.js').Row} */
export const dependencies = {
  id: 600,
  title: 'Redis, NATS, degraded states',
  panels: [
    stateTimeline(601, 'Redis', {
      about: 'Whether Redis answers each node: away on all is Redis itself, away on one is that node or its network.',
      empty: 'No node has a Redis.',
      unit: 'none',
      states: UP,
      queries: [[of('sluice_redis_up'), '{{instance}}']],
    }),
    stateTimeline(602, 'NATS', {
      about: 'Whether each node is connected to NATS; while it is not, its requests end in 503.',
      empty: 'No node has a NATS.',
      unit: 'none',
      states: UP,
      queries: [[of('sluice_nats_up'), '{{instance}}']],
    }),
    stateTimeline(603, 'Degraded parts', {
      about: 'Parts that go on without what they depend on: limits by shares, keys by NATS, apps from the cache.',
      empty: 'No node has a Redis.',
      unit: 'none',
      states: DEGRADED,
      queries: [[of('sluice_degraded'), '{{instance}} {{part}}']],
    }),
    stateTimeline(604, 'Ready and draining', {
      about: 'Ready as /readyz says. Draining lasts from the signal to stop until the end of the process.',
      unit: 'none',
      states: YES_OR_NO,
      queries: [
        [of('sluice_ready'), '{{instance}} ready'],
        [of('sluice_draining'), '{{instance}} draining'],
      ],
    }),
    timeseries(605, 'Redis call duration', {
      about:
        'At the dashed line a request stops waiting; after three such calls in a row a node goes on without Redis for a while.',
      unit: 's',
      thresholds: [
        [0, 'transparent'],
        [REDIS_GIVEN_UP_SECONDS, 'red'],
      ],
      queries: [
        [quantile(0.5, 'sluice_redis_call_duration_seconds'), 'p50'],
        [quantile(0.99, 'sluice_redis_call_duration_seconds'), 'p99'],
      ],
    }),
    heatMap(606, 'Redis call duration', {
      about: 'Calls of all nodes by the time until their reply or failure.',
      unit: 's',
      query: buckets('sluice_redis_call_duration_seconds'),
    }),
    timeseries(607, 'Redis calls', {
      about: 'Calls each second; keyed requests need some each, others nearly none.',
      unit: 'ops',
      queries: [[`sum by (instance) (${rate('sluice_redis_call_duration_seconds_count')})`, '{{instance}}']],
    }),
    timeseries(608, 'Stream', {
      about: 'Disk that the stream takes on each copy, as each node sees it, and the size at which it is full.',
      empty: 'No node has a NATS.',
      unit: 'bytes',
      queries: [
        [of('sluice_stream_bytes'), '{{instance}} bytes'],
        [of('sluice_stream_max_bytes'), '{{instance}} full'],
      ],
    }),
    timeseries(609, 'Stream in use', {
      about: 'Share of the size of the stream that is taken; at 1 every batch is answered 503.',
      empty: 'No stream has a size at which it is full.',
      unit: 'percentunit',
      max: 1,
      thresholds: [
        [0, 'transparent'],
        [0.8, 'red'],
      ],
      queries: [[`${of('sluice_stream_bytes')} / ${of('sluice_stream_max_bytes')}`, '{{instance}}']],
    }),
    timeseries(610, 'Oldest message in the stream', {
      about: 'Its age: it levels off at the age at which the stream drops events, read or not.',
      empty: 'No node has a NATS.',
      unit: 's',
      queries: [[of('sluice_stream_oldest_seconds'), '{{instance}}']],
    }),
    timeseries(611, 'Consumers behind', {
      about:
        'Age of the first message that a durable consumer has not acknowledged; what it has not had goes with the age of the stream.',
      empty: 'No node has a NATS, or the stream has no durable consumer.',
      unit: 's',
      queries: [[`max by (consumer) (${of('sluice_stream_consumer_lag_seconds')})`, '{{consumer}}']],
    }),
  ],
}

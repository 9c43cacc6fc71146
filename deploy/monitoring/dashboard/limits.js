// @ts-check
// What plans turn away, what is sent again, and the apps that both are counted for.

import { timeseries } from './panels.js'
import { increase, of, rate } from './queries.js'

/** @type {import('./panels.js').Row} */
export const limits = {
  id: 500,
  title: 'Limits and replays',
  panels: [
    timeseries(501, '429 by limit', {
      about: 'Requests of apps that have used up their minute, day or month: the plan at work, no fault of the nodes.',
      unit: 'reqps',
      stacked: true,
      queries: [[`sum by (code) (${rate('sluice_requests_total', 'status="429"')})`, '{{code}}']],
    }),
    timeseries(502, 'Calls to Redis for limits and keys', {
      about: 'Each is for all requests of one turn of the event loop; slow and failed ones mean a slow Redis, or none.',
      unit: 'ops',
      queries: [[`sum by (result) (${rate('sluice_limit_calls_total')})`, '{{result}}']],
    }),
    timeseries(510, 'Judged without Redis', {
      about: "Requests judged by their node's share of what was left, since Redis was away.",
      unit: 'reqps',
      queries: [[`sum by (instance) (${rate('sluice_limits_without_redis_total')})`, '{{instance}}']],
    }),
    timeseries(508, 'Lag of the audit', {
      about: 'Since the end of the last minute whose counters are exact: 5 to 70 s while the audit goes on.',
      unit: 's',
      thresholds: [
        [0, 'transparent'],
        [300, 'red'],
      ],
      queries: [[of('sluice_audit_lag_seconds'), '{{instance}}']],
    }),
    timeseries(509, 'Messages that the audit cannot read', {
      about: 'Messages of the stream without a right Sluice-Cost header, charged to no app: sluice did not write them.',
      unit: 'short',
      queries: [
        [`sum by (instance) (${increase('$__rate_interval', 'sluice_audit_bad_messages_total')})`, '{{instance}}'],
      ],
    }),
    timeseries(503, 'Replays', {
      about: 'Requests that repeat an accepted key: clients that did not get their first answer in time.',
      unit: 'reqps',
      queries: [[`sum by (instance) (${rate('sluice_replays_total')})`, '{{instance}}']],
    }),
    timeseries(504, 'Share of replays', {
      about: 'Of all 202s, those that only repeat an earlier one; a rise means time-outs between clients and nodes.',
      unit: 'percentunit',
      queries: [
        [`sum(${rate('sluice_replays_total')}) / sum(${rate('sluice_requests_total', 'status="202"')})`, 'replays'],
      ],
    }),
    timeseries(505, 'Keys remembered', {
      about: 'Idempotency keys of the last 300 s that each node holds in its memory.',
      unit: 'short',
      queries: [[of('sluice_keys_remembered'), '{{instance}}']],
    }),
    timeseries(507, 'Keys in use', {
      about: 'Share of SLUICE_MAX_KEYS that is taken; at 1 the embedded store answers keyed requests 503.',
      empty: 'No node has an embedded store.',
      unit: 'percentunit',
      max: 1,
      thresholds: [
        [0, 'transparent'],
        [0.8, 'red'],
      ],
      queries: [[`${of('sluice_keys_remembered')} / ${of('sluice_keys_max')}`, '{{instance}}']],
    }),
    timeseries(506, 'App records that could not be used', {
      about: 'Changed app files, or records in NATS, that are wrong: the last good ones stay in force until mended.',
      unit: 'short',
      queries: [
        [`sum by (instance) (${increase('$__rate_interval', 'sluice_apps_reload_failures_total')})`, '{{instance}}'],
      ],
    }),
  ],
}

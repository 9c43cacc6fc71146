// @ts-check
// The first row: is the service what it promises to be, and is anything missing?

import { stat, stateTimeline, timeseries } from './panels.js'
import { badShare, OBJECTIVE, of, rate, slowShare } from './queries.js'

/** @typedef {import('./panels.js').Row} Row */

const allowed = { bad: 1 - OBJECTIVE.good, slow: 1 - OBJECTIVE.quick }

/**
 * Thresholds as text keep the arithmetic out of the query: 1 - 0.999 is not 0.001 to a computer.
 * @param {number} share
 */
const text = (share) => share.toFixed(3)

/** @type {Row} */
export const overview = {
  id: 100,
  title: 'Overview and objectives',
  panels: [
    stat(101, 'Requests', {
      about: 'Requests that reached the nodes each second, whatever became of them.',
      unit: 'reqps',
      queries: [[`sum(${rate('sluice_requests_received_total')})`, 'requests']],
    }),
    stat(102, 'Events accepted', {
      about: 'Events that were durably queued each second; this is the work that counts.',
      unit: 'eps',
      queries: [[`sum(${rate('sluice_events_accepted_total')})`, 'events']],
    }),
    stat(103, 'Not 5xx', {
      about: 'Share of requests, in the time shown, that were not answered 5xx; the objective is 99.9%.',
      unit: 'percentunit',
      decimals: 3,
      wholeRange: true,
      thresholds: [
        [0, 'red'],
        [OBJECTIVE.good, 'green'],
      ],
      queries: [[`1 - ${badShare('$__range')}`, 'not 5xx']],
    }),
    stat(104, 'Under 50 ms', {
      about: 'Share of answers, in the time shown, that came within 50 ms; the objective is 99%.',
      unit: 'percentunit',
      decimals: 2,
      wholeRange: true,
      thresholds: [
        [0, 'red'],
        [OBJECTIVE.quick, 'green'],
      ],
      queries: [[`1 - ${slowShare('$__range')}`, 'under 50 ms']],
    }),
    stat(105, 'Error budget left, 30 d', {
      about:
        'Of the 0.1% of requests that may be answered 5xx in 30 days, the share not spent yet; below 0 the objective is missed.',
      unit: 'percentunit',
      decimals: 1,
      wholeRange: true,
      thresholds: budgetSteps(),
      queries: [[`1 - ${badShare('30d')} / ${text(allowed.bad)}`, 'left']],
    }),
    stat(106, 'Latency budget left, 30 d', {
      about: 'Of the 1% of answers that may take over 50 ms in 30 days, the share not spent yet.',
      unit: 'percentunit',
      decimals: 1,
      wholeRange: true,
      thresholds: budgetSteps(),
      queries: [[`1 - ${slowShare('30d')} / ${text(allowed.slow)}`, 'left']],
    }),
    stat(107, 'Nodes up', {
      about: 'Nodes that Prometheus can scrape.',
      unit: 'none',
      width: 2,
      queries: [[`sum(${of('up')})`, 'up']],
    }),
    stat(111, 'Down', {
      about: 'Nodes that Prometheus knows of but cannot scrape: each is worth a look.',
      unit: 'none',
      width: 2,
      thresholds: [
        [0, 'green'],
        [1, 'red'],
      ],
      queries: [[`count(${of('up')}) - sum(${of('up')})`, 'down']],
    }),
    stat(108, 'Degraded', {
      about: 'Nodes of which some part goes on without Redis; limits are then shares and may be exceeded.',
      unit: 'none',
      width: 2,
      thresholds: [
        [0, 'green'],
        [1, 'orange'],
      ],
      // Nodes without Redis have no such series.
      queries: [[`sum(max by (instance) (${of('sluice_degraded')})) or vector(0)`, 'degraded']],
    }),
    timeseries(109, 'Share of requests answered 5xx', {
      about: 'Above the dashed line the error budget is spent faster than it lasts 30 days.',
      unit: 'percentunit',
      width: 12,
      thresholds: [
        [0, 'transparent'],
        [allowed.bad, 'red'],
      ],
      queries: [[badShare('$__rate_interval'), '5xx']],
    }),
    timeseries(110, 'Share of answers over 50 ms', {
      about: 'Above the dashed line the latency budget is spent faster than it lasts 30 days.',
      unit: 'percentunit',
      width: 12,
      thresholds: [
        [0, 'transparent'],
        [allowed.slow, 'red'],
      ],
      queries: [[slowShare('$__rate_interval'), 'over 50 ms']],
    }),
    stateTimeline(112, 'Alerts', {
      about: 'Alerts that fire, of all nodes of the job; docs/runbooks.md has a section of the same name for each.',
      empty: 'No alert fires.',
      unit: 'none',
      width: 24,
      height: 6,
      states: { 1: { text: 'fires', color: 'red' } },
      // Some are about a node and some about the job, so that the choice of nodes cannot hold here.
      queries: [
        ['max by (alertname) (ALERTS{job="$job", alertname=~"Sluice.*", alertstate="firing"})', '{{alertname}}'],
      ],
    }),
  ],
}

/** @returns {import('./panels.js').Step[]} */
function budgetSteps() {
  return [
    [0, 'red'],
    [0, 'orange'],
    [0.25, 'green'],
  ]
}

// @ts-check
// How long requests take, and in which stage.

import { heatMap, timeseries } from './panels.js'
import { buckets, mean, OBJECTIVE, quantile } from './queries.js'

/** @typedef {import('./panels.js').Query} Query */

/** In the order in which a request passes them, each with what a slow one means. */
const STAGES = {
  receive: 'from the request line to the whole body: slow clients and networks show here, not the service',
  parse: 'until a thread has decoded the body: slow where threads are too few or the processor is full',
  admit: 'app, key and limits: slow where Redis has to be asked and takes its time',
  publish: 'until the queue has the events for good: slow disks, or NATS',
}

/** @type {import('./panels.js').Row} */
export const latency = {
  id: 300,
  title: 'Latency',
  panels: [
    timeseries(301, 'Request duration', {
      about: 'From the request line to the answer, all outcomes; p99 should stay below the dashed line.',
      unit: 's',
      width: 12,
      thresholds: [
        [0, 'transparent'],
        [Number(OBJECTIVE.quickSeconds), 'red'],
      ],
      queries: [0.5, 0.9, 0.99, 0.999].map(
        (share) => /** @type {Query} */ ([quantile(share, 'sluice_request_duration_seconds'), `p${share * 100}`]),
      ),
    }),
    heatMap(302, 'Request duration', {
      about: 'All requests by their duration: two bands mean two kinds of requests, which quantiles hide.',
      unit: 's',
      width: 12,
      query: buckets('sluice_request_duration_seconds'),
    }),
    timeseries(303, 'Mean by stage', {
      about: 'Where an average request spends its time; stages that a request does not reach are not counted for it.',
      unit: 's',
      stacked: true,
      queries: [[mean('sluice_stage_duration_seconds', 'stage'), '{{stage}}']],
    }),
    timeseries(304, 'p50 by stage', {
      about: 'Half of the requests take longer than this in the stage.',
      unit: 's',
      queries: [[quantile(0.5, 'sluice_stage_duration_seconds', 'stage'), '{{stage}}']],
    }),
    timeseries(305, 'p99 by stage', {
      about: 'One request in a hundred takes longer than this in the stage: the highest line is where to look.',
      unit: 's',
      queries: [[quantile(0.99, 'sluice_stage_duration_seconds', 'stage'), '{{stage}}']],
    }),
    ...Object.entries(STAGES).map(([stage, meaning], index) =>
      heatMap(311 + index, `Stage: ${stage}`, {
        about: `Time ${meaning}.`,
        unit: 's',
        width: 12,
        query: buckets('sluice_stage_duration_seconds', `stage="${stage}"`),
      }),
    ),
  ],
}

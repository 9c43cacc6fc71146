// @ts-check
// The load scripts: what a local node is given for it beside the apps of all.

import { defaultsOf } from '../k6/shared/defaults.js'
import { limitRecords } from '../k6/shared/limit-apps.js'
import { verifyLimits } from './verify-limits.js'

/**
 * @typedef {object} Script
 * @property {Readonly<Record<string, string>>} [settings] of its own, beside those of every script; their defaults are in defaults.js
 * @property {(settings: import('../k6/shared/settings.js').Settings) => readonly number[]} [bodySizes] the numbers of events for which it takes bodies
 *   as bytes (`packBodies`); without this EVENTS
 * @property {Readonly<Record<string, string>>} [node] environment of a local node
 * @property {Readonly<Record<string, string>>} [environment] of k6 with a local node, where nothing else is said, such as APP_KEY
 * @property {(given: Readonly<Record<string, string>>) => import('./apps.js').AppRecord[]} [apps] of its own, by the settings that were given
 * @property {(run: import('./verify.js').Run) => Promise<import('./verify.js').Found>} [verify] what only Node can judge, such as the queue
 */

export const SCRIPTS = /** @type {Readonly<Record<string, Script>>} */ ({
  smoke: { bodySizes: () => [] },
  steady: {
    settings: { WARM_UP: 'sent before, and not held to the latency' },
  },
  ramp: {
    settings: {
      STEPS: 'how many',
      GROWTH: 'the rate of a step over the one before',
      STEP_DURATION: 'how long each goes on',
    },
  },
  spike: {
    settings: {
      SPIKE_RATE: 'requests a second in the spike; above what the service can carry, or the run is void',
      SPIKE_DURATION: 'how long the spike goes on',
      BASE_DURATION: 'how long the rate before it, and after it, is held',
      BEST_VUS: 'requests under way at once while the best rate is measured',
      ACCEPTED_SHARE: 'of the best rate, which the spike must reach; off: it is shown and not judged',
    },
    // The smallest ring, so that a spike that k6 can send does not fit into it.
    node: { SLUICE_RING_MB: '4' },
    // Neither may take CPU from the other: the spike would break k6, or the node for want of it.
    environment: { PIN: '1' },
  },
  soak: {
    settings: {
      SAMPLE_EVERY: 'how often the nodes are asked for their memory, at most 120 times in a run',
      GROWTH_PERCENT: 'most growth of memory in an hour',
      GROWTH_MB: 'growth that says nothing in a run of less than 30m, whatever its slope',
    },
    // What is older has been read, or nobody will: a soak of hours must not fill the disk.
    node: { SLUICE_JOURNAL_KEEP_HOURS: '1' },
  },
  sweep: {
    bodySizes: ({ list }) => list('SIZES', 1, 100),
    settings: {
      SIZES: 'events in a body, of each step',
      EVENT_RATE: 'events a second; where that would be more than RATE requests, it is RATE',
      STEP_DURATION: 'how long each goes on',
    },
  },
  limits: {
    settings: {
      EVENTS_PER_MINUTE: 'of the apps that are limited',
      WINDOWS: 'whole UTC minutes; 0: the last seconds of one and the first of the next',
      OVER: 'how many times its plan an app sends (2; 40 with WINDOWS=0)',
    },
    apps: (given) => limitRecords(Number(given.EVENTS_PER_MINUTE ?? defaultsOf('limits').EVENTS_PER_MINUTE)),
    bodySizes: () => [],
    verify: verifyLimits,
  },
})

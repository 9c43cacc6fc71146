// @ts-check
// The load scripts: the question of each, and what a local node is given for it beside the apps of all.

import { makeFleet, readFleetSettings } from '../k6/shared/fleet.js'
import { limitRecords } from '../k6/shared/limit-apps.js'

/**
 * @typedef {object} Script
 * @property {string} question
 * @property {Readonly<Record<string, string>>} [settings] of its own, beside those of every script
 * @property {Readonly<Record<string, string>>} [node] environment of a local node
 * @property {Readonly<Record<string, string>>} [environment] of k6 with a local node, where nothing else is said, such as APP_KEY
 * @property {(given: Readonly<Record<string, string>>) => import('./apps.js').AppRecord[]} [apps] of its own, by the settings that were given
 */

/** Of the script `limits`, where nothing else is said. */
const EVENTS_PER_MINUTE = 1200

export const SCRIPTS = /** @type {Readonly<Record<string, Script>>} */ ({
  smoke: { question: 'Does every kind of answer come as specified?' },
  steady: {
    question: 'Do the objectives hold at this rate?',
    settings: { WARM_UP: 'sent before, and not held to the latency (5s)' },
  },
  ramp: {
    question: 'At which rate does the service break?',
    settings: {
      STEPS: 'how many (8)',
      GROWTH: 'the rate of a step over the one before (1.4)',
      STEP_DURATION: 'how long each goes on (10s)',
    },
  },
  spike: {
    question: 'Does a spike above capacity get quick 503s, and is it over when it is over?',
    settings: {
      SPIKE_RATE: 'requests a second in the spike; above what the service can carry, or the run is void (600)',
      SPIKE_DURATION: 'how long the spike goes on (10s)',
      BASE_DURATION: 'how long the rate before it, and after it, is held (10s)',
      BEST_VUS: 'requests under way at once while the best rate is measured (4)',
      ACCEPTED_SHARE: 'of the best rate, which the spike must reach; off: it is shown and not judged (0.9)',
    },
    // The smallest ring, so that a spike that k6 can send does not fit into it.
    node: { SLUICE_RING_MB: '4' },
    // Neither may take CPU from the other: the spike would break k6, or the node for want of it.
    environment: { PIN: '1' },
  },
  soak: {
    question: 'Does memory stay flat, and do the objectives hold, for hours?',
    settings: {
      SAMPLE_EVERY: 'how often the nodes are asked for their memory (10s; at most 120 times in a run)',
      GROWTH_PERCENT: 'most growth of memory in an hour (5)',
      GROWTH_MB: 'growth in the whole run that says nothing, whatever its slope (32)',
    },
    // What is older has been read, or nobody will: a soak of hours must not fill the disk.
    node: { SLUICE_JOURNAL_KEEP_HOURS: '1' },
  },
  sweep: {
    question: 'What do batches of each size cost?',
    settings: {
      SIZES: 'events in a body, of each step (1,5,10,25,50,100)',
      EVENT_RATE: 'events a second; where that would be more than RATE requests, it is RATE (5000)',
      STEP_DURATION: 'how long each goes on (10s)',
    },
  },
  limits: {
    question: 'Does an app at twice its plan get its plan, and can its client trust what it is told?',
    settings: {
      EVENTS_PER_MINUTE: `of the apps that are limited (${EVENTS_PER_MINUTE})`,
      WINDOWS: 'whole UTC minutes (2); 0: the last seconds of one and the first of the next',
      OVER: 'how many times its plan an app sends (2; 40 with WINDOWS=0)',
    },
    apps: ({ EVENTS_PER_MINUTE: given }) => limitRecords(Number(given ?? EVENTS_PER_MINUTE)),
  },
  retries: {
    question: 'Is a batch that is sent again under its key after timeouts and 503s accepted exactly once?',
    settings: {
      KEY_ON_RETRY: 'same, or fresh: a client that does it wrong, to see that it is found out (same)',
      APP_ID: 'of the app that sends, from which batch ids are told; needed with BASE_URL',
    },
    // The smallest ring: what piles up while the node is frozen does not fit.
    node: { SLUICE_RING_MB: '4' },
    environment: { APP_ID: 'load-ample' },
  },
  'bad-clients': {
    question: 'Do bad clients get their right answers, and do good ones notice nothing of them?',
    settings: { BAD_RATE: 'bad requests a second, beside RATE good ones (50)' },
  },
  mixed: {
    question: 'In a mixed fleet, does each app get what its plan says, and those within their limits in time?',
    settings: {
      APPS: 'in the fleet (500)',
      ZIPF: 'exponent of Zipf’s law: 0 makes all apps equal (1)',
      WAVES: 'how often the rate rises to RATE and falls (3)',
    },
    apps: fleetRecords,
  },
})

/** @param {Readonly<Record<string, string>>} given @returns {import('./apps.js').AppRecord[]} */
function fleetRecords(given) {
  const { options } = readFleetSettings({ ...given, BASE_URL: 'http://127.0.0.1', APP_KEY: 'ak_none' })
  return makeFleet(options).flatMap(({ record }) => (record === null ? [] : [record]))
}

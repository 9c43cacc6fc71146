// @ts-check
// The load scripts: the question of each, and what a local node is given for it beside the apps of all.

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
    settings: { KEY_ON_RETRY: 'same, or fresh: a client that does it wrong, to see that it is found out (same)' },
    // The smallest ring: what piles up while the node is frozen does not fit.
    node: { SLUICE_RING_MB: '4' },
    environment: { NOTES: '1', APP_ID: 'load-ample' },
  },
  'bad-clients': {
    question: 'Do bad clients get their right answers, and do good ones notice nothing of them?',
    settings: { BAD_RATE: 'bad requests a second, beside RATE good ones (100)' },
  },
})

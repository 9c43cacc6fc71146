// @ts-check
// The load scripts: the question of each, and what a local node is given for it beside the apps of all.

/**
 * @typedef {object} Script
 * @property {string} question
 * @property {Readonly<Record<string, string>>} [settings] of its own, beside those of every script
 * @property {Readonly<Record<string, string>>} [node] environment of a local node
 * @property {Readonly<Record<string, string>>} [environment] of k6 with a local node, where nothing else is said, such as APP_KEY
 * @property {(given: Readonly<Record<string, string>>) => import('./apps.js').AppRecord[]} [apps] of its own, by the settings that were given
 */

export const SCRIPTS = /** @type {Readonly<Record<string, Script>>} */ ({
  smoke: { question: 'Does every kind of answer come as specified?' },
  steady: {
    question: 'Do the objectives hold at this rate?',
    settings: { WARM_UP: 'sent before, and not held to the latency (5s)' },
  },
})

// @ts-check
// The apps of a local node: one with room for any load, and one for each way of being refused.

import { endlessApp } from '../shared/service.js'

/** The app that sends where nothing else is said. */
export const AMPLE_KEY = 'ak_load_ample'

/** @typedef {{ app_key: string, app_id: string, plan: string, subscription: string, trial_ends_at?: string, events_per_minute?: number, events_per_day?: number, events_per_month?: number }} AppRecord */

/** The key is `ak_load_` and the name. @param {string} name @param {Partial<AppRecord>} [changes] @returns {AppRecord} */
const app = (name, changes = {}) => ({ ...endlessApp(`ak_load_${name}`, `load-${name}`), ...changes })

export function apps() {
  return [
    app('ample'),
    app('canceled', { subscription: 'canceled' }),
    app('unpaid', { subscription: 'unpaid' }),
    app('paused', { subscription: 'paused' }),
    app('expired', { subscription: 'trialing', trial_ends_at: '2026-01-01T00:00:00Z' }),
    app('minute', { events_per_minute: 5 }),
    app('day', { events_per_day: 5 }),
    // Of what a paid plan names, a tenth more is let in: 5 events.
    app('month', { events_per_month: 5 }),
  ]
}

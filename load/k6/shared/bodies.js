// @ts-check
// Bodies for a script, made once before the load: k6's JavaScript is too slow to make one a request.

import { SharedArray } from 'k6/data'
import exec from 'k6/execution'
import { createRng, uniformBody, uuid, variedBody } from '../../payloads.js'

/** Stands in every prepared body where the app's key goes. */
const KEY_PLACEHOLDER = 'ak_placeholder_of_load'

/** @typedef {{ text: string, events: number }} Prepared */

/**
 * In the init context only. Times in the bodies lie up to an hour before now: good for the 71 hours that follow.
 * @param {import('./settings.js').Settings} settings @param {{ name?: string, events?: number, bodies?: number }} [options] `name` tells lists of a script apart
 */
export function prepareBodies(settings, { name = 'bodies', events = settings.events, bodies = settings.bodies } = {}) {
  const make = settings.body === 'uniform' ? uniformBody : variedBody
  const list = new SharedArray(name, () => {
    const options = { rng: createRng(settings.seed), appKey: KEY_PLACEHOLDER, events, nowMs: Date.now() }
    return Array.from({ length: bodies }, () => make(options))
  })

  /** The body of this number, counted round, for this app. @param {number} index @param {string} [appKey] */
  function at(index, appKey = settings.appKey) {
    return list[index % list.length].replace(KEY_PLACEHOLDER, () => appKey)
  }

  return {
    events,
    at,
    /** The body that is this iteration's turn: the same in every run. @param {string} [appKey] */
    next: (appKey) => at(exec.scenario.iterationInTest, appKey),
  }
}

/** A fresh key for a share of the requests, `undefined` for the rest. @param {number} share */
export function maybeKey(share) {
  return share > 0 && (share >= 1 || Math.random() < share) ? uuid(Math.random) : undefined
}

// @ts-check
// Bodies for a script, made once before the load: k6's JavaScript is too slow to make one a request. `packBodies` is for
// rates, `prepareBodies` for scripts that change a body's text or app before they send it.

import { SharedArray } from 'k6/data'
import exec from 'k6/execution'
import { createRng, MAKERS, uuid } from '../../payloads.js'
import { asciiBytes, cutBody, KEY_PLACEHOLDER, packName, partName } from './packs.js'

/** @typedef {import('./settings.js').Settings} Settings */

/**
 * In the init context only. Times in the bodies lie up to an hour before now: good for the 71 hours that follow.
 * @param {Settings} settings @param {{ name?: string, events?: number, bodies?: number }} [options] `name` tells lists of a script apart
 */
export function prepareBodies(settings, { name = 'bodies', events = settings.events, bodies = settings.bodies } = {}) {
  const make = MAKERS[settings.body]
  // In objects: a string that comes out of a SharedArray by itself is frozen character by character.
  const list = new SharedArray(name, () => {
    const options = { rng: createRng(settings.seed), appKey: KEY_PLACEHOLDER, events, nowMs: Date.now() }
    return Array.from({ length: bodies }, () => ({ text: make(options) }))
  })

  /** The body of this number, counted round, for this app. @param {number} index @param {string} [appKey] */
  function at(index, appKey = settings.appKey) {
    return list[index % list.length].text.replace(KEY_PLACEHOLDER, () => appKey)
  }

  /** The body that is this iteration's turn: the same in every run. */
  const next = () => at(exec.scenario.iterationInTest)
  return { events, at, next }
}

/**
 * The same as bytes, from the files that `npm run load` wrote; without it (`k6 run`) as text, which costs k6 far more.
 * A virtual user holds one part of the bodies and sends those in turn; all of them together send all.
 * @param {Settings} settings @param {{ events?: number }} [options]
 * @returns {{ events: number, next: () => string | ArrayBuffer }}
 */
export function packBodies(settings, { events = settings.events } = {}) {
  const folder = settings.text('PACKS')
  if (folder === '') return prepareBodies(settings, { name: `bodies-${events}`, events })
  const path = `${folder}/${packName({ body: settings.body, events, seed: settings.seed })}`
  const parts = /** @type {number[][][]} */ (JSON.parse(open(`${path}.json`)))
  // k6 gives a virtual user only what was opened before there were any, in the run of this module that has the number 0.
  if (__VU === 0) for (const part of parts.keys()) open(partName(path, part), 'b')
  const mine = __VU % parts.length
  const pack = open(partName(path, mine), 'b')
  const places = parts[mine]
  // Those who hold the same part begin at different bodies of it.
  let turn = Math.floor(__VU / parts.length)
  const key = asciiBytes(settings.appKey)
  return { events, next: () => cutBody(pack, places[turn++ % places.length], key) }
}

/** A fresh key for a share of the requests, `undefined` for the rest. @param {number} share */
export function maybeKey(share) {
  return share > 0 && (share >= 1 || Math.random() < share) ? uuid(Math.random) : undefined
}

// @ts-check
// Writes bodies for k6 as bytes, a file for each number of events: to cut one out costs k6 microseconds, to hand over a
// string of that length milliseconds.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { KEY_PLACEHOLDER, packName } from '../k6/shared/packs.js'
import { COMMON_DEFAULTS } from '../k6/shared/settings.js'
import { createRng, MAKERS } from '../payloads.js'

/** Every virtual user of k6 holds a copy of each file that its script opens. */
const MAX_PACK_BYTES = 524_288
const SIZES = [1, 5, 10, 25, 50, 100]

/**
 * For the settings BODIES, EVENTS and SEED as given, and BODY or, as scripts differ in it, every kind of body.
 * @param {string} parent @param {Readonly<Record<string, string>>} given @returns {string} the folder
 */
export function writePacks(parent, given) {
  const folder = join(parent, 'packs')
  mkdirSync(folder, { recursive: true })
  const number = (/** @type {string} */ name) => Number(given[name] ?? COMMON_DEFAULTS[name])
  const kinds = Object.keys(MAKERS).filter((kind) => given.BODY === undefined || given.BODY === kind)
  // What is out of range is for the script to say.
  const sizes = [...SIZES, number('EVENTS')].filter((events) => events >= 0 && events <= 100)
  for (const body of kinds) {
    for (const events of new Set(sizes))
      writePack(folder, { body, events, seed: number('SEED'), bodies: number('BODIES') })
  }
  return folder
}

/** @param {string} folder @param {{ body: string, events: number, seed: number, bodies: number }} options */
function writePack(folder, { body, events, seed, bodies }) {
  const options = { rng: createRng(seed), appKey: KEY_PLACEHOLDER, events, nowMs: Date.now() }
  const [pieces, places] = [/** @type {Buffer[]} */ ([]), /** @type {number[][]} */ ([])]
  let end = 0
  while (places.length < bodies) {
    const piece = Buffer.from(MAKERS[body](options))
    if (places.length > 0 && end + piece.length > MAX_PACK_BYTES) break
    pieces.push(piece)
    places.push([end, end + piece.indexOf(KEY_PLACEHOLDER), end + piece.length])
    end += piece.length
  }
  const name = packName({ body, events, seed })
  writeFileSync(join(folder, `${name}.bin`), Buffer.concat(pieces))
  writeFileSync(join(folder, `${name}.json`), JSON.stringify(places))
}

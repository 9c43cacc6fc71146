// @ts-check
// Writes bodies for k6 as bytes, a file for each number of events: to cut one out costs k6 microseconds, to hand over a
// string of that length milliseconds.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { KEY_PLACEHOLDER, packName } from '../k6/shared/packs.js'
import { COMMON_DEFAULTS } from '../k6/shared/settings.js'
import { createRng, uniformBody, variedBody } from '../payloads.js'

/** Every virtual user of k6 holds a copy of each file that its script opens. */
const MAX_PACK_BYTES = 524_288
const SIZES = [1, 5, 10, 25, 50, 100]

/**
 * For the settings BODY, BODIES, EVENTS and SEED as given; a script that has other defaults makes its own bodies.
 * @param {string} parent @param {Readonly<Record<string, string>>} given @returns {string} the folder
 */
export function writePacks(parent, given) {
  const folder = join(parent, 'packs')
  mkdirSync(folder, { recursive: true })
  const setting = (/** @type {string} */ name) => given[name] ?? `${COMMON_DEFAULTS[name]}`
  const [body, bodies, seed, own] = [
    setting('BODY'),
    Number(setting('BODIES')),
    Number(setting('SEED')),
    Number(setting('EVENTS')),
  ]
  const make = body === 'uniform' ? uniformBody : variedBody
  for (const events of new Set([...SIZES, own])) {
    if (!(events >= 0 && events <= 100)) continue
    const options = { rng: createRng(seed), appKey: KEY_PLACEHOLDER, events, nowMs: Date.now() }
    const [pieces, places] = [/** @type {Buffer[]} */ ([]), /** @type {number[][]} */ ([])]
    let end = 0
    while (places.length < bodies) {
      const piece = Buffer.from(make(options))
      if (places.length > 0 && end + piece.length > MAX_PACK_BYTES) break
      pieces.push(piece)
      places.push([end, end + piece.indexOf(KEY_PLACEHOLDER), end + piece.length])
      end += piece.length
    }
    const name = packName({ body, events, seed })
    writeFileSync(join(folder, `${name}.bin`), Buffer.concat(pieces))
    writeFileSync(join(folder, `${name}.json`), JSON.stringify(places))
  }
  return folder
}

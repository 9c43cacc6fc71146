// @ts-check
// Writes bodies for k6 as bytes, for each number of events that a script sends: to cut one out costs k6 microseconds, to
// hand over a string of that length milliseconds.

import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { KEY_PLACEHOLDER, packName, partName } from '../k6/shared/packs.js'
import { readSettings } from '../k6/shared/settings.js'
import { createRng, MAKERS } from '../payloads.js'
import { SCRIPTS } from './scripts.js'

/** Every virtual user of k6 holds a copy of one part, or of one body that is larger. */
const MAX_PART_BYTES = 524_288
/** k6 itself holds all parts of all sizes once. */
const MAX_PACK_BYTES = 16_777_216

/**
 * For the settings as given; what is wrong with them is for the script to say.
 * @param {string} parent @param {string} script @param {Readonly<Record<string, string>>} given
 * @returns {Record<string, string>} settings for k6: PACKS, the folder, and BODIES, of which there may be fewer than were asked for
 */
export function writePacks(parent, script, given) {
  const settings = readSettings(given, { script })
  const sizes = SCRIPTS[script].bodySizes?.(settings) ?? [settings.events]
  if (sizes.length === 0 || !settings.isSound()) return {}
  const { body, seed } = settings
  const packs = [...new Set(sizes)].map((events) => ({ events, bodies: makeBodies(settings, events) }))
  // All sizes have the same number, so that the report can say it.
  const count = Math.min(...packs.map(({ bodies }) => bodies.length))
  if (count < settings.bodies) console.log(`BODIES: ${count} rather than ${settings.bodies}, which would not fit`)
  const folder = join(parent, 'packs')
  mkdirSync(folder, { recursive: true })
  for (const { events, bodies } of packs)
    writePack(join(folder, packName({ body, events, seed })), bodies.slice(0, count))
  return { PACKS: folder, BODIES: String(count) }
}

/** At least one. @param {import('../k6/shared/settings.js').Settings} settings @param {number} events */
function makeBodies({ body, bodies: most, seed }, events) {
  const options = { rng: createRng(seed), appKey: KEY_PLACEHOLDER, events, nowMs: Date.now() }
  const bodies = [Buffer.from(MAKERS[body](options))]
  let bytes = bodies[0].length
  while (bodies.length < most) {
    const next = Buffer.from(MAKERS[body](options))
    bytes += next.length
    if (bytes > MAX_PACK_BYTES) break
    bodies.push(next)
  }
  return bodies
}

/** @param {string} path @param {readonly Buffer[]} bodies */
function writePack(path, bodies) {
  const parts = [[bodies[0]]]
  let bytes = bodies[0].length
  for (const body of bodies.slice(1)) {
    bytes += body.length
    if (bytes > MAX_PART_BYTES) {
      parts.push([])
      bytes = body.length
    }
    parts[parts.length - 1].push(body)
  }
  for (const [part, list] of parts.entries()) writeFileSync(partName(path, part), Buffer.concat(list))
  writeFileSync(`${path}.json`, JSON.stringify(parts.map(placesOf)))
}

/** Where each begins, where its key stands, where it ends. @param {readonly Buffer[]} bodies */
function placesOf(bodies) {
  let end = 0
  return bodies.map((body) => {
    const start = end
    end += body.length
    return [start, start + body.indexOf(KEY_PLACEHOLDER), end]
  })
}

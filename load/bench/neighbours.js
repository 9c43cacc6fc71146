// @ts-check
// Bodies of a tenant that would spoil for another what the decoder has learnt of events' layouts, and of one that would not.

import { mixedBody, uniformBody } from '../payloads.js'

const APP_KEY = 'ak_neighbour'
const EVENTS = 100

/** What the neighbour sends. `honest`: an event as the other tenant sends it. @type {Readonly<Record<string, (honest: Record<string, any>, serial: number) => Record<string, unknown>>>} */
export const NEIGHBOURS = {
  'one layout': (honest) => ({ ...honest, name: 'option_checked' }),
  'ever-new layouts': everNew,
  'each new layout 16 times': (honest, serial) => everNew(honest, serial - (serial % 16)),
  "almost the other's": almost,
  'all of these': (honest, serial) =>
    serial % 4 === 3 ? almost(honest, serial) : everNew(honest, serial - (serial % 64)),
}

/** @param {Record<string, any>} honest @param {number} serial */
function everNew(honest, serial) {
  const members = Object.entries({
    ...honest,
    name: `n${serial}`,
    properties: { [`p${serial}`]: 1, ...honest.properties },
  })
  const first = serial % members.length
  return Object.fromEntries([...members.slice(first), ...members.slice(0, first)])
}

/** Differs at its end only. @param {Record<string, any>} honest @param {number} serial */
function almost(honest, serial) {
  return { ...honest, [`a${serial}`]: 1 }
}

/** @param {{ name: string, like: 'uniform' | 'mixed', count: number, rng: import('../payloads.js').Rng, nowMs: number }} options */
export function neighbourBodies({ name, like, count, rng, nowMs }) {
  const make = like === 'mixed' && name !== 'one layout' ? mixedBody : uniformBody
  let serial = 0
  return Array.from({ length: count }, () => {
    const body = JSON.parse(make({ rng, appKey: APP_KEY, events: EVENTS, nowMs }))
    const events = body.events.map((/** @type {Record<string, any>} */ event) => NEIGHBOURS[name](event, serial++))
    return JSON.stringify({ ...body, events })
  })
}

/** The mean, without turns in which the thread had to wait for its core. @param {number[]} list */
export function undisturbedMean(list) {
  const middle = [...list].sort((a, b) => a - b)[list.length >> 1]
  const kept = list.filter((value) => value <= 50 * middle)
  return kept.reduce((sum, value) => sum + value, 0) / kept.length
}

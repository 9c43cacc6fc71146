// @ts-check
// One tenant's bodies decoded alone, and each behind one of another tenant's: the time of the former alone.
// Runs as a process of its own; prints one line of JSON.

import { createRng, MAKERS } from '../payloads.js'
import { SEED } from './cases.js'
import { NEIGHBOURS, neighbourBodies, undisturbedMean } from './neighbours.js'
import { placed } from './scanning.js'

const BODIES = 64
const [rounds, turns] = process.argv.slice(2).map(Number)
const nowMs = Date.now()
const rows = []
for (const body of /** @type {const} */ (['uniform', 'mixed'])) {
  for (const events of [1, 10, 100]) rows.push({ body, events, us: measure(body, events) })
}
console.log(JSON.stringify(rows))

/** Microseconds of a body in each round, by what the neighbour sends. @param {'uniform' | 'mixed'} body @param {number} events */
function measure(body, events) {
  const rng = createRng(SEED)
  const own = Array.from({ length: BODIES }, () => MAKERS[body]({ rng, appKey: 'ak_bench', events, nowMs }))
  const sent = Object.keys(NEIGHBOURS).map((name) => ({
    name,
    bodies: neighbourBodies({ name, like: body, count: BODIES, rng, nowMs }),
  }))
  const { places: lists, scanner } = placed([own, ...sent.map(({ bodies }) => bodies)], nowMs)
  const [ownPlaces, ...others] = lists
  const named = [{ name: 'alone', places: ownPlaces.slice(0, 0) }].concat(
    sent.map(({ name }, at) => ({ name, places: others[at] })),
  )
  const cases = named.flatMap(({ name, places }) => {
    const scan = scanner()
    return [
      { name, scan, scanOther: scan, places, us: /** @type {number[]} */ ([]) },
      { name: `${name}, apart`, scan: scanner(), scanOther: scanner(), places, us: /** @type {number[]} */ ([]) },
    ]
  })
  // The first rounds warm up: after them the neighbour and this tenant have been there for long.
  for (let round = -4; round <= rounds; round++) {
    for (const { scan, scanOther, places, us } of cases) {
      const timer = undisturbedMean(Array.from({ length: turns }, () => -performance.now() + performance.now()))
      const times = Array.from({ length: turns }, (_, turn) => {
        if (places.length > 0) scanOther(places[turn % BODIES])
        const from = performance.now()
        scan(ownPlaces[(turn * 5) % BODIES])
        return performance.now() - from
      })
      if (round > 0) us.push(1000 * (undisturbedMean(times) - timer))
    }
  }
  return Object.fromEntries(cases.map(({ name, us }) => [name, us]))
}

// @ts-check
// One tenant's bodies decoded alone, and each behind one of another tenant's: the time of the former alone.
// Runs as a process of its own; prints one line of JSON.

import { createRng, MAKERS } from '../payloads.js'
import { SEED } from './cases.js'
import { NEIGHBOURS, neighbourBodies, undisturbedMean } from './neighbours.js'

/** @type {typeof import('../../src/decode/decoder.ts')} */
const { createDecoder } = await import(new URL('../../dist/decode/decoder.js', import.meta.url).href)
/** @type {typeof import('../../src/ring/memory.ts')} */
const { createMemory } = await import(new URL('../../dist/ring/memory.js', import.meta.url).href)

const BODIES = 64
const GAP_BYTES = 64
const words = new Int32Array(64)
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
  const memory = createMemory(
    [own, ...sent.map(({ bodies }) => bodies)].flat().join('').length + 6 * BODIES * GAP_BYTES,
  )
  const bytes = Buffer.from(memory.buffer)
  let end = 0
  const place = (/** @type {string} */ text) => {
    const start = end
    end += bytes.write(text, start) + GAP_BYTES
    return [start, end - GAP_BYTES]
  }
  const ownPlaces = own.map(place)
  const scanner = () => {
    const decoder = createDecoder('scanner', memory)
    return (/** @type {number[]} */ [start, until]) => {
      if (decoder.scan(start, until, nowMs, words, 0) !== null) throw new Error('the scanner did not take a body')
    }
  }
  const cases = [{ name: 'alone', bodies: /** @type {string[]} */ ([]) }, ...sent].flatMap(({ name, bodies }) => {
    const places = bodies.map(place)
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

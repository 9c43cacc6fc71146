// @ts-check
// Decoding alone, with no HTTP around it: the service's decoder beside JSON.parse and a compiled schema, in CPU time.
// Runs as a process of its own; prints one line of JSON.

import { isUtf8 } from 'node:buffer'
import { createRng, MAKERS } from '../payloads.js'
import { SEED } from './cases.js'
import { placed } from './scanning.js'
import { compileSchema } from './schema.js'

const ROUNDS = 9

const roundMs = Number(process.argv[2])
const nowMs = Date.now()
const rows = []
for (const body of ['uniform', 'mixed', 'varied']) {
  for (const events of [1, 10, 100]) rows.push({ events, body, ...compare(events, MAKERS[body]) })
}
console.log(JSON.stringify(rows))

/** @param {number} events @param {typeof MAKERS[string]} make */
function compare(events, make) {
  const rng = createRng(SEED)
  const texts = Array.from({ length: 200 }, () => make({ rng, appKey: 'ak_bench', events, nowMs }))
  const bodies = texts.map((text) => Buffer.from(text))
  const { places, scanner } = placed([texts], nowMs)
  const scan = scanner()
  const own = (/** @type {number} */ index) => scan(places[0][index])
  const usual = usualWay(bodies)
  const turns = []
  // The first round of each warms it up.
  for (let round = 0; round <= ROUNDS; round++) {
    const turn = { ownUs: cpuUsPerBody(own, bodies.length), usualUs: cpuUsPerBody(usual, bodies.length) }
    if (round > 0) turns.push(turn)
  }
  const bytes = bodies.reduce((sum, body) => sum + body.length, 0) / bodies.length
  return { bytes, turns }
}

/** @param {Buffer[]} bodies */
function usualWay(bodies) {
  const validate = compileSchema(() => nowMs)
  return (/** @type {number} */ index) => {
    const body = bodies[index]
    if (!isUtf8(body)) throw new Error('not UTF-8')
    const parsed = JSON.parse(body.toString())
    if (!validate(parsed)) throw new Error('the schema refused a body')
    return JSON.stringify(parsed.events)
  }
}

/** @param {(index: number) => unknown} decode @param {number} count */
function cpuUsPerBody(decode, count) {
  const endMs = performance.now() + roundMs
  const before = process.cpuUsage()
  let decoded = 0
  while (performance.now() < endMs) {
    for (let index = 0; index < count; index++) decode(index)
    decoded += count
  }
  const { user, system } = process.cpuUsage(before)
  return (user + system) / decoded
}

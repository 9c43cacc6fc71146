// @ts-check
// Steady: do the objectives hold at RATE requests a second for DURATION? A few seconds of warm-up come first; they are
// shown, held to the contract and to the rate, but not to the latency of a process that has just started.

import { maybeKey, packBodies } from './shared/bodies.js'
import { begin, end, nodeFigures } from './shared/node.js'
import {
  arrivals,
  durationOf,
  fewVus,
  GRACE_MS,
  options as makeOptions,
  objectives,
  SHOWN,
  soundness,
} from './shared/objectives.js'
import { post } from './shared/send.js'
import { summarise } from './shared/summary.js'
import { count, milliseconds } from './shared/tables.js'
import { readTarget } from './shared/target.js'
import { figure } from './shared/verdict.js'

const QUESTION = 'Do the objectives hold at this rate?'
const PHASES = ['warm_up', 'steady']

const settings = readTarget('steady')
const warmUpMs = settings.readDurationMs('WARM_UP')
settings.check()
const bodies = packBodies(settings)

export const options = makeOptions(settings, {
  scenarios: {
    warm_up: arrivals(settings, { durationMs: warmUpMs, tags: { phase: 'warm_up' }, vus: fewVus(settings) }),
    steady: arrivals(settings, { startMs: warmUpMs + GRACE_MS, tags: { phase: 'steady' }, vus: fewVus(settings) }),
  },
  thresholds: {
    ...soundness(),
    ...objectives(settings, { phase: 'steady' }),
    ...nodeFigures(settings),
    'available{phase:warm_up}': [SHOWN.rate],
    [durationOf('phase:warm_up')]: [SHOWN.trend],
    ...Object.fromEntries(PHASES.map((phase) => [`events_accepted{phase:${phase}}`, [SHOWN.counter]])),
  },
})

export const setup = () => begin(settings)
export const teardown = (/** @type {import('./shared/node.js').Begun} */ begun) => end(settings, begun)

export default function steady() {
  post(settings, bodies.next(), { events: bodies.events, key: maybeKey(settings.keyed) })
}

export function handleSummary(/** @type {import('./shared/verdict.js').RunData} */ data) {
  const rows = PHASES.map((phase) => {
    const seconds = (phase === 'steady' ? settings.durationMs : warmUpMs) / 1000
    const latency = (/** @type {string} */ name) => milliseconds(figure(data, durationOf(`phase:${phase}`), name))
    const requests = figure(data, durationOf(`phase:${phase}`), 'count')
    const events = figure(data, `events_accepted{phase:${phase}}`, 'count')
    return [phase, count(requests / seconds), count(events / seconds), latency('med'), latency('p(99)'), latency('max')]
  })
  const columns = ['phase', 'requests/s', 'events/s', 'p50', 'p99', 'max']
  return summarise(settings, data, { question: QUESTION, tables: [{ title: 'by phase', columns, rows }] })
}

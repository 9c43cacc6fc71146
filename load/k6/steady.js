// @ts-check
// Steady: do the objectives hold at RATE requests a second for DURATION? A few seconds of warm-up come first; they are
// shown, held to the contract and to the rate, but not to the latency of a process that has just started.

import { packBodies } from './shared/bodies.js'
import { aroundRun } from './shared/node.js'
import { options as makeOptions, objectives, soundness } from './shared/objectives.js'
import { layOut, phaseFigures, phaseScenarios, readPhase } from './shared/phases.js'
import { postNext } from './shared/send.js'
import { summarise } from './shared/summary.js'
import { count, milliseconds, tableOf } from './shared/tables.js'
import { readTarget } from './shared/target.js'

const settings = readTarget('steady')
const { rate, events, durationMs } = settings
const plans = layOut([
  { name: 'warm_up', durationMs: settings.readDurationMs('WARM_UP'), rate, events },
  { name: 'steady', durationMs, rate, events },
])
settings.check()
const bodies = packBodies(settings)

export const options = makeOptions(settings, {
  scenarios: phaseScenarios(settings, plans, 'steady'),
  thresholds: { ...soundness(settings), ...phaseFigures(plans), ...objectives(settings, 'steady') },
})

export const { setup, teardown } = aroundRun(settings)
export const steady = () => postNext(settings, bodies)

export function handleSummary(/** @type {import('./shared/verdict.js').RunData} */ data) {
  const phases = plans.map((plan) => readPhase(data, plan))
  const table = tableOf('by phase', phases, [
    ['phase', ({ name }) => name],
    ['requests/s', ({ requestsPerSecond }) => count(requestsPerSecond)],
    ['events/s', ({ eventsPerSecond }) => count(eventsPerSecond)],
    ['p50', ({ p50Ms }) => milliseconds(p50Ms)],
    ['p99', ({ p99Ms }) => milliseconds(p99Ms)],
    ['max', ({ maxMs }) => milliseconds(maxMs)],
  ])
  return summarise(settings, data, { tables: [table] })
}

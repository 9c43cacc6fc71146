// @ts-check
// Ramp: at which rate does the service break? Each step asks for GROWTH times the rate of the one before; the report names the
// highest at which every objective held, and says whether it was the service that broke or k6 that ran out.

import { packBodies } from './shared/bodies.js'
import { didHold, findBreakingPoint, voidsOf } from './shared/breaking.js'
import { aroundRun } from './shared/node.js'
import { options as makeOptions, objectives, soundness } from './shared/objectives.js'
import { inSteps } from './shared/phases.js'
import { postNext } from './shared/send.js'
import { summarise } from './shared/summary.js'
import { count, milliseconds, tableOf } from './shared/tables.js'
import { readTarget } from './shared/target.js'

const settings = readTarget('ramp')
const stepCount = settings.whole('STEPS', 1, 40)
const growth = settings.number('GROWTH', 1.01, 10)
const durationMs = settings.readDurationMs('STEP_DURATION')
const { rate, events } = settings
const steps = inSteps(
  settings,
  [
    { name: 'warm_up', rate, events, durationMs: settings.readDurationMs('WARM_UP') },
    ...Array.from({ length: stepCount }, (_, index) => ({
      name: `step_${String(index + 1).padStart(2, '0')}`,
      rate: Math.max(1, Math.round(rate * growth ** index)),
      events,
      durationMs,
    })),
  ],
  'ramp',
)
settings.check()
const bodies = packBodies(settings)

export const options = makeOptions(settings, {
  scenarios: steps.scenarios,
  thresholds: {
    ...soundness(settings, { mayDrop: true }),
    ...steps.thresholds,
    // The first step is to hold: from there the ramp begins.
    ...objectives(settings, steps.names[0]),
    [`dropped_iterations{scenario:${steps.names[0]}}`]: ['count==0'],
  },
})

export const { setup, teardown } = aroundRun(settings)
export const { watchNodes } = steps
export const ramp = () => postNext(settings, bodies)

export function handleSummary(/** @type {import('./shared/verdict.js').RunData} */ data) {
  const found = steps.read(data)
  const breaking = findBreakingPoint(found, settings.latencyObjectiveMs)
  const table = tableOf('by step', found, [
    ['asked/s', (step) => count(step.rate)],
    ['sent/s', ({ requestsPerSecond }) => count(requestsPerSecond)],
    ['events/s', ({ eventsPerSecond }) => count(eventsPerSecond)],
    ['p50', ({ p50Ms }) => milliseconds(p50Ms)],
    ['p99', ({ p99Ms }) => milliseconds(p99Ms)],
    ['failed', ({ failed }) => count(failed)],
    ['dropped', ({ dropped }) => count(dropped)],
    ['node p99', ({ nodeP99Ms }) => milliseconds(nodeP99Ms)],
    ['node loop', ({ nodeLagMs }) => milliseconds(nodeLagMs)],
    ['node CPU', ({ nodeCores }) => (Number.isNaN(nodeCores) ? '–' : `${nodeCores.toFixed(2)} cores`)],
    ['held', (step) => (didHold(step, settings.latencyObjectiveMs) ? 'yes' : 'no')],
  ])
  return summarise(settings, data, {
    mayDrop: true,
    notes: [breaking.sentence],
    voids: voidsOf(found, breaking),
    tables: [table],
    found: { steps: found, breaking },
  })
}

// @ts-check
// Ramp: at which rate does the service break? Each step asks for GROWTH times the rate of the one before; the report names the
// highest at which every objective held, and says whether it was the service that broke or k6 that ran out.

import { maybeKey, packBodies } from './shared/bodies.js'
import { findBreakingPoint, voidsOf } from './shared/breaking.js'
import { begin, end, nodeFigures } from './shared/node.js'
import { arrivals, GRACE_MS, options as makeOptions, objectives, soundness } from './shared/objectives.js'
import { post } from './shared/send.js'
import { layOut, readStep, stepFigures, stepScenarios, watchSteps } from './shared/steps.js'
import { summarise } from './shared/summary.js'
import { count, milliseconds } from './shared/tables.js'
import { readTarget } from './shared/target.js'

const QUESTION = 'At which rate does the service break?'

const settings = readTarget('ramp')
const warmUpMs = settings.readDurationMs('WARM_UP')
const stepCount = settings.whole('STEPS', 1, 40)
const growth = settings.number('GROWTH', 1.01, 10)
const stepMs = settings.readDurationMs('STEP_DURATION')
settings.check()
const bodies = packBodies(settings)

const rates = Array.from({ length: stepCount }, (_, index) => Math.max(1, Math.round(settings.rate * growth ** index)))
const plans = layOut(
  rates.map((rate, index) => ({ name: `step_${String(index + 1).padStart(2, '0')}`, rate, events: settings.events })),
  { startMs: warmUpMs + GRACE_MS, durationMs: stepMs, exec: 'ramp' },
)

export const options = makeOptions(settings, {
  scenarios: {
    warm_up: arrivals(settings, { durationMs: warmUpMs, tags: { step: 'warm_up' }, exec: 'ramp' }),
    ...stepScenarios(settings, plans),
  },
  thresholds: {
    ...soundness({ mayDrop: true }),
    ...stepFigures(settings, plans),
    // The first step is to hold: from there the ramp begins.
    ...objectives(settings, { tag: `step:${plans[0].name}` }),
    [`dropped_iterations{scenario:${plans[0].name}}`]: ['count==0'],
    ...nodeFigures(settings),
  },
})

export const setup = () => begin(settings)
export const teardown = (/** @type {import('./shared/node.js').Begun} */ begun) => end(settings, begun)
export const watchNodes = () => watchSteps(settings, plans)

export function ramp() {
  post(settings, bodies.next(), { events: bodies.events, key: maybeKey(settings.keyed) })
}

export function handleSummary(/** @type {import('./shared/verdict.js').RunData} */ data) {
  const steps = plans.map((plan) => readStep(data, plan))
  const breaking = findBreakingPoint(steps, settings.latencyObjectiveMs)
  const columns = [
    'asked/s',
    'sent/s',
    'events/s',
    'p50',
    'p99',
    'failed',
    'dropped',
    'node p99',
    'node loop',
    'node CPU',
  ]
  const rows = steps.map((step) => [
    count(step.rate),
    count(step.requestsPerSecond),
    count(step.eventsPerSecond),
    milliseconds(step.p50Ms),
    milliseconds(step.p99Ms),
    count(step.failed),
    count(step.dropped),
    milliseconds(step.nodeP99Ms),
    milliseconds(step.nodeLagMs),
    Number.isNaN(step.nodeCores) ? '–' : `${step.nodeCores.toFixed(2)} cores`,
  ])
  return summarise(settings, data, {
    question: QUESTION,
    mayDrop: true,
    notes: [breaking.sentence],
    voids: voidsOf(steps, breaking),
    tables: [{ title: 'by step', columns, rows }],
    found: { steps, breaking },
  })
}

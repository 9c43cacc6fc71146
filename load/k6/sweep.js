// @ts-check
// Sweep: what do batches of each size cost? The same number of events a second in bodies of 1 to 100; the table shows what
// the service takes for each in time, in bytes, and in CPU of the nodes.

import exec from 'k6/execution'
import { maybeKey, packBodies } from './shared/bodies.js'
import { begin, end, nodeFigures } from './shared/node.js'
import { arrivals, GRACE_MS, options as makeOptions, objectives, soundness } from './shared/objectives.js'
import { post } from './shared/send.js'
import { layOut, readStep, stepFigures, stepScenarios, watchSteps } from './shared/steps.js'
import { summarise } from './shared/summary.js'
import { count, mebibytes, milliseconds } from './shared/tables.js'
import { readTarget } from './shared/target.js'

const QUESTION = 'What do batches of each size cost?'

const settings = readTarget('sweep')
const warmUpMs = settings.readDurationMs('WARM_UP')
const stepMs = settings.readDurationMs('STEP_DURATION')
const eventRate = settings.number('EVENT_RATE', 1, 10_000_000)
const sizes = settings.list('SIZES', 1, 100)
settings.check()

const plans = layOut(
  sizes.map((events) => ({
    name: `events_${String(events).padStart(3, '0')}`,
    rate: Math.max(1, Math.round(Math.min(settings.rate, eventRate / events))),
    events,
  })),
  { startMs: warmUpMs + GRACE_MS, durationMs: stepMs, exec: 'sweep' },
)
const packs = new Map(plans.map(({ name, events }) => [name, packBodies(settings, { events })]))
const warmUpPack = packBodies(settings, { events: sizes[0] })

export const options = makeOptions(settings, {
  scenarios: {
    warm_up: arrivals(settings, {
      rate: plans[0].rate,
      durationMs: warmUpMs,
      tags: { step: 'warm_up' },
      exec: 'sweep',
    }),
    ...stepScenarios(settings, plans),
  },
  thresholds: {
    ...soundness(),
    ...stepFigures(settings, plans),
    ...Object.assign({}, ...plans.map(({ name }) => objectives(settings, { tag: `step:${name}` }))),
    ...nodeFigures(settings),
  },
})

export const setup = () => begin(settings)
export const teardown = (/** @type {import('./shared/node.js').Begun} */ begun) => end(settings, begun)
export const watchNodes = () => watchSteps(settings, plans)

export function sweep() {
  const pack = packs.get(exec.scenario.name) ?? warmUpPack
  post(settings, pack.next(), { events: pack.events, key: maybeKey(settings.keyed) })
}

export function handleSummary(/** @type {import('./shared/verdict.js').RunData} */ data) {
  const steps = plans.map((plan) => readStep(data, plan))
  const columns = ['events', 'requests/s', 'events/s', 'p50', 'p99', 'bytes/s', 'CPU a request', 'CPU an event']
  const cpu = (/** @type {number} */ microseconds) =>
    Number.isNaN(microseconds) ? '–' : `${microseconds.toFixed(1)} µs`
  const rows = steps.map((step) => [
    String(step.events),
    count(step.requestsPerSecond),
    count(step.eventsPerSecond),
    milliseconds(step.p50Ms),
    milliseconds(step.p99Ms),
    mebibytes(step.bytesPerSecond),
    cpu(step.cpuMicrosecondsPerRequest),
    cpu(step.cpuMicrosecondsPerEvent),
  ])
  return summarise(settings, data, {
    question: QUESTION,
    notes:
      settings.adminUrls.length === 0
        ? ['CPU is not known: ADMIN_URL was not given']
        : ['CPU is that of the nodes, all threads, over each step'],
    tables: [{ title: 'by size', columns, rows }],
    found: { steps },
  })
}

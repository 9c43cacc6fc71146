// @ts-check
// Sweep: what do batches of each size cost? The same number of events a second in bodies of 1 to 100; the table shows what
// the service takes for each in time, in bytes, and in CPU of the nodes.

import exec from 'k6/execution'
import { packBodies } from './shared/bodies.js'
import { aroundRun } from './shared/node.js'
import { options as makeOptions, objectives, soundness } from './shared/objectives.js'
import { inSteps } from './shared/phases.js'
import { postNext } from './shared/send.js'
import { summarise } from './shared/summary.js'
import { count, mebibytes, milliseconds, tableOf } from './shared/tables.js'
import { readTarget } from './shared/target.js'

const settings = readTarget('sweep')
const durationMs = settings.readDurationMs('STEP_DURATION')
const eventRate = settings.number('EVENT_RATE', 1, 10_000_000)
const sizes = settings.list('SIZES', 1, 100)
const stepOf = (/** @type {number} */ events) => ({
  name: `events_${String(events).padStart(3, '0')}`,
  rate: Math.max(1, Math.round(Math.min(settings.rate, eventRate / events))),
  events,
  durationMs,
})
const warmUp = { ...stepOf(sizes[0]), name: 'warm_up', durationMs: settings.readDurationMs('WARM_UP') }
const phases = [warmUp, ...sizes.map(stepOf)]
const steps = inSteps(settings, phases, 'sweep')
settings.check()
const packs = new Map(phases.map(({ name, events }) => [name, packBodies(settings, { events })]))

export const options = makeOptions(settings, {
  scenarios: steps.scenarios,
  thresholds: {
    ...soundness(settings),
    ...steps.thresholds,
    ...Object.assign({}, ...steps.names.map((name) => objectives(settings, name))),
  },
})

export const { setup, teardown } = aroundRun(settings)
export const { watchNodes } = steps

export function sweep() {
  const pack = packs.get(exec.scenario.name)
  if (pack !== undefined) postNext(settings, pack)
}

export function handleSummary(/** @type {import('./shared/verdict.js').RunData} */ data) {
  const found = steps.read(data)
  const cpu = (/** @type {number} */ microseconds) =>
    Number.isNaN(microseconds) ? '–' : `${microseconds.toFixed(1)} µs`
  const table = tableOf('by size', found, [
    ['events', ({ events }) => String(events)],
    ['requests/s', ({ requestsPerSecond }) => count(requestsPerSecond)],
    ['events/s', ({ eventsPerSecond }) => count(eventsPerSecond)],
    ['p50', ({ p50Ms }) => milliseconds(p50Ms)],
    ['p99', ({ p99Ms }) => milliseconds(p99Ms)],
    ['bytes/s', ({ bytesPerSecond }) => mebibytes(bytesPerSecond)],
    ['CPU a request', (step) => cpu(step.cpuMicrosecondsPerRequest)],
    ['CPU an event', (step) => cpu(step.cpuMicrosecondsPerEvent)],
  ])
  const isKnown = settings.adminUrls.length > 0
  const note = isKnown
    ? 'CPU is that of the nodes, all threads, over each step'
    : 'CPU is not known: ADMIN_URL was not given'
  return summarise(settings, data, { notes: [note], tables: [table], found: { steps: found } })
}

// @ts-check
// Spike: does a load far above capacity get quick 503s while the service goes on accepting at its best rate, and are there no
// more of them from 5 s after its end? The best rate is measured in the same run, with BEST_VUS requests under way at a time.

import { packBodies } from './shared/bodies.js'
import { aroundRun } from './shared/node.js'
import { durationOf, GRACE_MS, options as makeOptions, objectives, SHOWN, soundness } from './shared/objectives.js'
import { layOut, phaseFigures, phaseScenarios, readPhase } from './shared/phases.js'
import { postNext } from './shared/send.js'
import { summarise } from './shared/summary.js'
import { count, milliseconds, tableOf } from './shared/tables.js'
import { readTarget } from './shared/target.js'
import { figure } from './shared/verdict.js'

/** From here on there are to be no more 503s. */
const SETTLE_MS = 5000

const settings = readTarget('spike')
const baseMs = settings.readDurationMs('BASE_DURATION')
const spikeMs = settings.readDurationMs('SPIKE_DURATION')
const spikeRate = settings.number('SPIKE_RATE', 1, 1_000_000)
const bestVus = settings.whole('BEST_VUS', 1, 10_000)
const leastShare = settings.text('ACCEPTED_SHARE') === 'off' ? null : settings.number('ACCEPTED_SHARE', 0, 1)
const { rate, events } = settings
/** One after the other; a new process learns for a while, so it is warmed up before its best rate is measured. */
const plans = layOut([
  { name: 'warm_up', durationMs: settings.readDurationMs('WARM_UP'), rate, events },
  { name: 'best', durationMs: spikeMs, rate, events },
  { name: 'base', durationMs: baseMs, rate, events },
  { name: 'spike', durationMs: spikeMs, rate: spikeRate, events, isFollowed: true },
  { name: 'settling', durationMs: SETTLE_MS, rate, events, isFollowed: true },
  { name: 'after', durationMs: baseMs, rate, events },
])
settings.check()
const bodies = packBodies(settings)

/** A few at a time, each sending again as soon as it is answered: as much as the service takes without having to refuse. */
const unrefused = plans
  .filter(({ name }) => name === 'best' || name === 'warm_up')
  .map(({ name, durationMs, startMs }) => {
    const times = { duration: `${durationMs}ms`, startTime: `${startMs}ms`, gracefulStop: `${GRACE_MS}ms` }
    return [name, { executor: 'constant-vus', vus: bestVus, ...times, exec: 'spike', tags: { phase: name } }]
  })

const REFUSED_QUICKLY = durationOf('phase:spike,status:503')

export const options = makeOptions(settings, {
  scenarios: { ...phaseScenarios(settings, plans, 'spike'), ...Object.fromEntries(unrefused) },
  thresholds: {
    ...soundness(settings),
    ...phaseFigures(plans),
    ...Object.fromEntries(
      plans.flatMap(({ name }) => [
        [`outcomes{code:accepted,phase:${name}}`, [SHOWN.counter]],
        [`outcomes{code:service_overloaded,phase:${name}}`, [SHOWN.counter]],
        [`answered{phase:${name}}`, [`rate>=${settings.availabilityObjective}`]],
      ]),
    ),
    ...objectives(settings, 'base'),
    ...objectives(settings, 'after'),
    'outcomes{code:service_overloaded,phase:after}': ['count==0'],
    [REFUSED_QUICKLY]: [settings.latencyObjectiveMs === null ? SHOWN.trend : `p(99)<${settings.latencyObjectiveMs}`],
  },
})

export const { setup, teardown } = aroundRun(settings)
export const spike = () => postNext(settings, bodies)

/** @param {import('./shared/verdict.js').RunData} data */
function readPhases(data) {
  return plans.map((plan) => {
    const phase = readPhase(data, plan)
    const outcome = (/** @type {string} */ code) =>
      figure(data, `outcomes{code:${code},phase:${plan.name}}`, 'count') || 0
    return Object.assign(phase, {
      acceptedPerSecond: outcome('accepted') / phase.seconds,
      overloaded: outcome('service_overloaded'),
      unanswered: figure(data, `answered{phase:${plan.name}}`, 'fails') || 0,
    })
  })
}

export function handleSummary(/** @type {import('./shared/verdict.js').RunData} */ data) {
  const phases = readPhases(data)
  const rateOf = (/** @type {string} */ name) => phases.find((phase) => phase.name === name)?.acceptedPerSecond ?? 0
  const overloaded = phases.find(({ name }) => name === 'spike')?.overloaded ?? 0
  const share = rateOf('spike') / rateOf('best')
  const shareText = `in the spike ${count(rateOf('spike'))} requests/s were accepted, ${(share * 100).toFixed(0)}% of the best rate of this run (${count(rateOf('best'))})`
  const isTooLittle = leastShare !== null && !(share >= leastShare)
  return summarise(settings, data, {
    notes: [
      shareText,
      `503s in the spike: ${count(overloaded)}, p99 ${milliseconds(figure(data, REFUSED_QUICKLY, 'p(99)'))}`,
    ],
    voids: overloaded === 0 ? ['the spike met no 503: it was not above what the service carries'] : [],
    failures: isTooLittle ? [`less than ${(leastShare ?? 0) * 100}% of the best rate was accepted in the spike`] : [],
    tables: [
      tableOf('by phase', phases, [
        ['phase', ({ name }) => name],
        ['requests', ({ requests }) => count(requests)],
        ['accepted/s', ({ acceptedPerSecond }) => count(acceptedPerSecond)],
        ['events/s', ({ eventsPerSecond }) => count(eventsPerSecond)],
        ['503s', (phase) => count(phase.overloaded)],
        ['unanswered', ({ unanswered }) => count(unanswered)],
        ['p99', ({ p99Ms }) => milliseconds(p99Ms)],
      ]),
    ],
    found: { phases, share, overloaded },
  })
}

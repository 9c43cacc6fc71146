// @ts-check
// Spike: does a load far above capacity get quick 503s while the service goes on accepting at its best rate, and are there no
// more of them from 5 s after its end? The best rate is measured in the same run, with BEST_VUS requests under way at a time.

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

const QUESTION = 'Does a spike above capacity get quick 503s, and is it over when it is over?'
/** From here on there are to be no more 503s. */
const SETTLE_MS = 5000

const settings = readTarget('spike')
const baseMs = settings.readDurationMs('BASE_DURATION')
const spikeMs = settings.readDurationMs('SPIKE_DURATION')
const spikeRate = settings.number('SPIKE_RATE', 1, 1_000_000)
const bestVus = settings.whole('BEST_VUS', 1, 10_000)
const leastShare = settings.text('ACCEPTED_SHARE') === 'off' ? null : settings.number('ACCEPTED_SHARE', 0, 1)
/** One after the other; a new process learns for a while, so it is warmed up before its best rate is measured. */
const PHASES = layOut([
  { name: 'warm_up', durationMs: settings.readDurationMs('WARM_UP') },
  { name: 'best', durationMs: spikeMs },
  { name: 'base', durationMs: baseMs },
  { name: 'spike', durationMs: spikeMs, isFollowed: true },
  { name: 'settling', durationMs: SETTLE_MS, isFollowed: true },
  { name: 'after', durationMs: baseMs },
])
settings.check()
const bodies = packBodies(settings)

/** @param {readonly { name: string, durationMs: number, isFollowed?: boolean }[]} phases `isFollowed`: by the next at once */
function layOut(phases) {
  let startMs = 0
  return phases.map((phase) => {
    const laidOut = { ...phase, startMs, endMs: startMs + phase.durationMs }
    startMs = laidOut.endMs + (phase.isFollowed === true ? 0 : GRACE_MS)
    return laidOut
  })
}

/** @param {{ name: string, durationMs: number, startMs: number }} phase @returns {import('k6/options').Scenario} */
function scenarioOf({ name, durationMs, startMs }) {
  const tags = { phase: name }
  if (name === 'spike') return arrivals(settings, { rate: spikeRate, durationMs, startMs, tags })
  // A few at a time, each sending again as soon as it is answered: as much as the service takes without having to refuse.
  if (name === 'best' || name === 'warm_up') {
    const times = { duration: `${durationMs}ms`, startTime: `${startMs}ms`, gracefulStop: `${GRACE_MS}ms` }
    return { executor: 'constant-vus', vus: bestVus, ...times, tags }
  }
  return arrivals(settings, { durationMs, startMs, tags, vus: fewVus(settings) })
}

const REFUSED_QUICKLY = durationOf('phase:spike,status:503')

export const options = makeOptions(settings, {
  scenarios: Object.fromEntries(PHASES.map((phase) => [phase.name, scenarioOf(phase)])),
  thresholds: {
    ...soundness(),
    ...nodeFigures(settings),
    ...Object.fromEntries(
      PHASES.flatMap(({ name }) => [
        [durationOf(`phase:${name}`), [SHOWN.trend]],
        [`events_accepted{phase:${name}}`, [SHOWN.counter]],
        [`outcomes{code:accepted,phase:${name}}`, [SHOWN.counter]],
        [`outcomes{code:service_overloaded,phase:${name}}`, [SHOWN.counter]],
        [`answered{phase:${name}}`, [`rate>=${settings.availabilityObjective}`]],
      ]),
    ),
    ...objectives(settings, { phase: 'base' }),
    ...objectives(settings, { phase: 'after' }),
    'outcomes{code:service_overloaded,phase:after}': ['count==0'],
    [REFUSED_QUICKLY]: [settings.latencyObjectiveMs === null ? SHOWN.trend : `p(99)<${settings.latencyObjectiveMs}`],
  },
})

export const setup = () => begin(settings)
export const teardown = (/** @type {import('./shared/node.js').Begun} */ begun) => end(settings, begun)

export default function spike() {
  post(settings, bodies.next(), { events: bodies.events, key: maybeKey(settings.keyed) })
}

/** @param {import('./shared/verdict.js').RunData} data */
function readPhases(data) {
  return PHASES.map(({ name, durationMs }) => {
    const outcome = (/** @type {string} */ code) => figure(data, `outcomes{code:${code},phase:${name}}`, 'count') || 0
    return {
      name,
      requests: figure(data, durationOf(`phase:${name}`), 'count') || 0,
      acceptedPerSecond: outcome('accepted') / (durationMs / 1000),
      eventsPerSecond: (figure(data, `events_accepted{phase:${name}}`, 'count') || 0) / (durationMs / 1000),
      overloaded: outcome('service_overloaded'),
      unanswered: figure(data, `answered{phase:${name}}`, 'fails') || 0,
      p99Ms: figure(data, durationOf(`phase:${name}`), 'p(99)'),
    }
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
    question: QUESTION,
    notes: [
      shareText,
      `503s in the spike: ${count(overloaded)}, p99 ${milliseconds(figure(data, REFUSED_QUICKLY, 'p(99)'))}`,
    ],
    voids: overloaded === 0 ? ['the spike met no 503: it was not above what the service carries'] : [],
    failures: isTooLittle ? [`less than ${(leastShare ?? 0) * 100}% of the best rate was accepted in the spike`] : [],
    tables: [
      {
        title: 'by phase',
        columns: ['phase', 'requests', 'accepted/s', 'events/s', '503s', 'unanswered', 'p99'],
        rows: phases.map(
          ({ name, requests, acceptedPerSecond, eventsPerSecond, overloaded: refused, unanswered, p99Ms }) => [
            name,
            count(requests),
            count(acceptedPerSecond),
            count(eventsPerSecond),
            count(refused),
            count(unanswered),
            milliseconds(p99Ms),
          ],
        ),
      },
    ],
    found: { phases, share, overloaded },
  })
}

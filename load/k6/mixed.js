// @ts-check
// Question: with many apps of all plans at once, some of them over their limits, inactive or unknown, does each get what its
// plan says, and do those within their limits get it in time? The rate rises and falls as over days.

import exec from 'k6/execution'
import { Counter, Rate, Trend } from 'k6/metrics'
import { createRng, uuid } from '../payloads.js'
import { packBodies } from './shared/bodies.js'
import {
  ANSWERS_OF_CLASS,
  createFleetPicker,
  FLEET_SIZES,
  MARK_OF_CLASS,
  makeFleet,
  readFleetSettings,
  waveRates,
} from './shared/fleet.js'
import { begin, end, nodeFigures } from './shared/node.js'
import { fewVus, GRACE_MS, options as optionsOf, SHOWN, soundness } from './shared/objectives.js'
import { post } from './shared/send.js'
import { summarise } from './shared/summary.js'
import { count, milliseconds } from './shared/tables.js'
import { figure } from './shared/verdict.js'

const QUESTION = 'In a mixed fleet, does each app get what its plan says, and those within their limits in time?'
const GZIP_SHARE = 0.3
/** Of the accepted requests with a key, so many are sent again. */
const REPLAY_SHARE = 0.1
const LOW_SHARE = 0.3
/** Makes seeds that lie next to each other give other numbers. */
const SPREAD = 0x9e3779b1
const PLANS = ['trial', '10k', '100k', '500k', '1m', '2m', '5m']

const { settings, options: fleetOptions, waves } = readFleetSettings(__ENV)

const fleet = makeFleet(fleetOptions)
const pick = createFleetPicker(fleet)
const bodies = new Map(FLEET_SIZES.map((events) => [events, packBodies(settings, { events })]))
const classes = /** @type {import('./shared/fleet.js').FleetClass[]} */ (Object.keys(ANSWERS_OF_CLASS))

const requests = new Counter('fleet_requests')
const eventsOfFleet = new Counter('fleet_events')
const answeredRight = new Rate('fleet_answered_right')
const marks = new Counter('fleet_marks')
const latency = new Trend('fleet_latency', true)

const rates = waveRates({ low: settings.rate * LOW_SHARE, high: settings.rate, waves })
const vus = fewVus(settings, Math.min(...rates))
const within = settings.latencyObjectiveMs === null ? SHOWN.trend : `p(99)<${settings.latencyObjectiveMs}`

export const options = optionsOf(settings, {
  scenarios: {
    fleet: {
      executor: 'ramping-arrival-rate',
      startRate: rates[rates.length - 1],
      timeUnit: '1s',
      stages: rates.map((target) => ({ target, duration: `${Math.round(settings.durationMs / rates.length)}ms` })),
      preAllocatedVUs: vus,
      maxVUs: vus,
      gracefulStop: `${GRACE_MS}ms`,
      exec: 'sendOne',
    },
  },
  thresholds: {
    ...soundness(),
    ...nodeFigures(settings),
    ...Object.fromEntries(classes.flatMap(classThresholds)),
    'available{class:within}': [`rate>=${settings.availabilityObjective}`],
    'fleet_answered_right{class:within}': [`rate>=${settings.availabilityObjective}`],
    'fleet_latency{class:within}': [within],
    ...Object.fromEntries(PLANS.flatMap((plan) => classes.flatMap((each) => shown(`class:${each},plan:${plan}`)))),
  },
})

/** @param {import('./shared/fleet.js').FleetClass} each @returns {[string, string[]][]} */
function classThresholds(each) {
  return [
    [`fleet_answered_right{class:${each}}`, ['rate==1']],
    [`fleet_marks{class:${each}}`, ['count>0']],
    [`fleet_latency{class:${each}}`, [SHOWN.trend]],
  ]
}

/** @param {string} tags @returns {[string, string[]][]} */
function shown(tags) {
  return [
    [`fleet_requests{${tags}}`, [SHOWN.counter]],
    [`fleet_events{${tags}}`, [SHOWN.counter]],
  ]
}

export function setup() {
  return begin(settings)
}

/** @param {import('./shared/node.js').Begun} begun */
export function teardown(begun) {
  end(settings, begun)
}

/** @param {import('./shared/node.js').Begun} begun */
export function sendOne({ startedMs }) {
  const turn = exec.scenario.iterationInTest
  // The seed decides who sends and how much; keys are of this run alone, for the service remembers those of the last.
  const rng = createRng(settings.seed + turn * SPREAD)
  const keyRng = createRng(startedMs + turn * SPREAD)
  const { app, events } = pick(rng)
  const body = /** @type {ReturnType<typeof packBodies>} */ (bodies.get(events)).next(app.appKey)
  const key = rng() < settings.keyed ? uuid(keyRng) : undefined
  const tags = { class: app.kind, plan: app.plan }
  const expected = ANSWERS_OF_CLASS[app.kind]
  /** @type {import('./shared/send.js').Sending} */
  const sending = { events, key, tags, expected, ...(rng() < GZIP_SHARE ? { compression: 'gzip' } : {}) }
  const sent = post(settings, body, sending)
  requests.add(1, tags)
  answeredRight.add(expected.includes(sent.code), tags)
  if (sent.code === MARK_OF_CLASS[app.kind]) marks.add(1, tags)
  if (sent.status > 0) latency.add(sent.durationMs, tags)
  if (sent.code !== 'accepted') return
  eventsOfFleet.add(events, tags)
  if (key === undefined || rng() >= REPLAY_SHARE) return
  const again = post(settings, body, { ...sending, expected: ['replayed'] })
  requests.add(1, tags)
  answeredRight.add(again.code === 'replayed' && again.batchId === sent.batchId, tags)
}

/** @param {import('./shared/verdict.js').RunData} data */
export function handleSummary(data) {
  const of = (/** @type {string} */ metric, /** @type {string} */ tags, /** @type {string} */ name) =>
    figure(data, `${metric}{${tags}}`, name)
  const rows = classes.map((each) => [
    each,
    count(of('fleet_answered_right', `class:${each}`, 'passes')),
    count(of('fleet_answered_right', `class:${each}`, 'fails')),
    milliseconds(of('fleet_latency', `class:${each}`, 'med')),
    milliseconds(of('fleet_latency', `class:${each}`, 'p(99)')),
  ])
  const byPlan = PLANS.map((plan) => {
    const sum = (/** @type {string} */ metric) =>
      classes.reduce((total, each) => total + (of(metric, `class:${each},plan:${plan}`, 'count') || 0), 0)
    const apps = fleet.filter((app) => app.plan === plan).length
    return [plan, count(apps), count(sum('fleet_requests')), count(sum('fleet_events'))]
  })
  return summarise(settings, data, {
    question: QUESTION,
    tables: [
      { title: 'by class', columns: ['class', 'right', 'wrong', 'median', 'p99'], rows },
      { title: 'by plan', columns: ['plan', 'apps', 'requests', 'events accepted'], rows: byPlan },
    ],
    notes: [
      `${fleet.length} apps, Zipf ${fleetOptions.exponent}, ${rates[rates.length - 1]} to ${Math.max(...rates)} requests a second`,
    ],
    found: { fleet: fleetOptions },
  })
}

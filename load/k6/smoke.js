// @ts-check
// Smoke: does every kind of answer come as specified? One virtual user asks for each once. Of a service elsewhere only
// what one good key can show is asked, and the report says what was not.

import { Counter } from 'k6/metrics'
import { uuid } from '../payloads.js'
import { CODES } from './shared/answers.js'
import { prepareBodies } from './shared/bodies.js'
import { aroundRun } from './shared/node.js'
import { options as makeOptions, objectives, soundness } from './shared/objectives.js'
import { post } from './shared/send.js'
import { summarise } from './shared/summary.js'
import { readTarget } from './shared/target.js'
import { figure } from './shared/verdict.js'

const MAX_BODY_BYTES = 524_288
const LOCAL_EVENTS = 5

const settings = readTarget('smoke')
settings.check()
const bodies = prepareBodies(settings)
const fives = prepareBodies(settings, { name: 'fives', events: LOCAL_EVENTS, bodies: 4 })
const singles = prepareBodies(settings, { name: 'singles', events: 1, bodies: 4 })
/** Answers that came with the code that was asked for, by the tag `code`. */
const asked = new Counter('asked')

/** They want apps that only a local node has. */
const LOCAL = new Set([
  'subscription_inactive',
  'trial_expired',
  'rate_limit_exceeded',
  'daily_limit_exceeded',
  'monthly_limit_exceeded',
])
/** No request brings these by itself: spike asks for 503. */
const NEVER = new Set(['service_overloaded', 'no_answer', 'other'])
const codes = CODES.filter((code) => !NEVER.has(code) && (settings.isLocal || !LOCAL.has(code)))

/** @typedef {import('./shared/answers.js').Code} Code */
/** @typedef {import('./shared/send.js').Sending} Sending */

export const options = makeOptions(settings, {
  scenarios: { smoke: { executor: 'per-vu-iterations', vus: 1, iterations: 1, maxDuration: '60s' } },
  thresholds: {
    ...soundness(settings),
    // A first request warms the service up: its time says nothing.
    ...objectives({ ...settings, latencyObjectiveMs: null }),
    ...Object.fromEntries(codes.map((code) => [`asked{code:${code}}`, ['count>0']])),
  },
})

export const { setup, teardown } = aroundRun(settings)

export default function smoke() {
  const at = bodies.at(0)
  const key = uuid(Math.random)
  const first = ask('accepted', at, { key, events: settings.events })
  const again = ask('replayed', at, { key: key.toUpperCase(), events: settings.events })
  if (first.batchId !== again.batchId) throw new Error('a replay shows the batch id of the first')
  ask('accepted', bodies.at(1), { events: settings.events })
  ask('accepted', JSON.stringify({ app_key: settings.appKey, events: [] }), { events: 0 })
  ask('invalid_json', '{"app_key":')
  ask('validation_failed', bodies.at(2).replace(/"type"/g, '"kind"'))
  ask('validation_failed', at, { key: 'not-a-uuid' })
  ask('invalid_app_key', bodies.at(3, 'ak_no_app_has_this_key'))
  ask('not_found', at, { url: `${settings.baseUrls[0]}/api/v2/events` })
  for (const method of ['GET', 'PUT', 'DELETE']) ask('method_not_allowed', null, { method })
  ask('unsupported_media_type', at, { headers: { 'Content-Type': 'text/plain' } })
  ask('payload_too_large', 'x'.repeat(MAX_BODY_BYTES + 1))
  if (settings.isLocal) askLocalApps()
}

/** What only apps in a certain state can show. */
function askLocalApps() {
  for (const name of ['canceled', 'unpaid', 'paused']) ask('subscription_inactive', bodies.at(4, `ak_load_${name}`))
  ask('trial_expired', bodies.at(5, 'ak_load_expired'))
  for (const [name, code] of /** @type {const} */ ([
    ['day', 'daily_limit_exceeded'],
    ['month', 'monthly_limit_exceeded'],
  ])) {
    ask('accepted', fives.at(0, `ak_load_${name}`), { events: LOCAL_EVENTS })
    ask(code, singles.at(0, `ak_load_${name}`))
  }
  // The minute may turn between the two: then the next one shows it.
  const isRefused = () => {
    post(settings, fives.at(1, 'ak_load_minute'), { expected: ['accepted', 'rate_limit_exceeded'], isStrict: true })
    const { code } = post(settings, singles.at(1, 'ak_load_minute'), {
      expected: ['accepted', 'rate_limit_exceeded'],
      isStrict: true,
    })
    if (code === 'rate_limit_exceeded') asked.add(1, { code })
    return code === 'rate_limit_exceeded'
  }
  if (!isRefused()) isRefused()
}

/** @param {Code} code @param {string | null} body @param {Sending} [sending] */
function ask(code, body, sending = {}) {
  const sent = post(settings, body, { ...sending, expected: [code], isStrict: true })
  if (sent.code === code) asked.add(1, { code })
  return sent
}

export function handleSummary(/** @type {import('./shared/verdict.js').RunData} */ data) {
  const left = CODES.filter((code) => !codes.includes(code) && code !== 'no_answer' && code !== 'other')
  return summarise(settings, data, {
    notes: [`not asked: ${left.join(', ')}${settings.isLocal ? '' : ' (they want apps that a local node has)'}`],
    found: {
      asked: Object.fromEntries(codes.map((code) => [code, figure(data, `asked{code:${code}}`, 'count') || 0])),
      left,
    },
  })
}

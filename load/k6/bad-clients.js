// @ts-check
// Question: do clients that send nonsense get their right answers, and do good ones notice nothing of them? `npm run load` adds
// what k6 cannot do: bodies that trickle, heads that never end, sockets that fall silent, bombs of a hundred times the cap.

import exec from 'k6/execution'
import { Rate } from 'k6/metrics'
import { badRequests } from './shared/bad-requests.js'
import { maybeKey, packBodies } from './shared/bodies.js'
import { begin, end } from './shared/node.js'
import {
  arrivals,
  durationOf,
  fewVus,
  objectives,
  options as optionsOf,
  SHOWN,
  soundness,
} from './shared/objectives.js'
import { post } from './shared/send.js'
import { summarise } from './shared/summary.js'
import { count, milliseconds } from './shared/tables.js'
import { readTarget } from './shared/target.js'
import { figure } from './shared/verdict.js'

const QUESTION = 'Do bad clients get their right answers, and do good ones notice nothing of them?'
/** The first requests of a node are slow, and not held to the latency. */
const WARM_UP_MS = 2000

const settings = readTarget('bad-clients', { RATE: 200, DURATION: '1m', BAD_RATE: 50 })
const badRate = settings.number('BAD_RATE', 1, 100_000)
settings.check()

const bodies = packBodies(settings)
const bad = badRequests({ appKey: settings.appKey, nowMs: Date.now() })
const kinds = [...new Set(bad.map(({ kind }) => kind))]

const accepted = new Rate('good_accepted')
const answeredRight = new Rate('bad_answered_right')

export const options = optionsOf(settings, {
  scenarios: {
    good: arrivals(settings, { durationMs: WARM_UP_MS + settings.durationMs, exec: 'sendGood', vus: fewVus(settings) }),
    bad: arrivals(settings, { startMs: WARM_UP_MS, rate: badRate, exec: 'sendBad', vus: fewVus(settings, badRate) }),
  },
  thresholds: {
    ...soundness(),
    ...objectives(settings, { tag: 'phase:good' }),
    good_accepted: ['rate==1'],
    // A busy node may have no time to explain a bad body, or to undo a bomb, and says so with 503.
    ...Object.fromEntries(kinds.map((kind) => [`bad_answered_right{bad:${kind}}`, ['rate>0.5']])),
    [durationOf('phase:bad')]: [SHOWN.trend],
  },
})

export function setup() {
  return begin(settings)
}

/** @param {import('./shared/node.js').Begun} begun */
export function teardown(begun) {
  end(settings, begun)
}

export function sendGood() {
  const key = maybeKey(settings.keyed)
  const phase = Date.now() - exec.scenario.startTime < WARM_UP_MS ? 'warm_up' : 'good'
  const { code } = post(settings, bodies.next(), { events: bodies.events, key, isStrict: true, tags: { phase } })
  accepted.add(code === 'accepted')
}

/** Each kind in its turn. */
export function sendBad() {
  const { kind, code, body, padToBytes, method, path, key, compression, headers } =
    bad[exec.scenario.iterationInTest % bad.length]
  const padded = typeof body === 'string' && padToBytes !== undefined ? body.padEnd(padToBytes) : body
  const sent = post(settings, padded, {
    expected: [code, 'service_overloaded'],
    isStrict: true,
    key,
    tags: { bad: kind, phase: 'bad' },
    ...(method === undefined ? {} : { method }),
    ...(path === undefined ? {} : { url: `${settings.baseUrls[0]}${path}` }),
    ...(compression === undefined ? {} : { compression }),
    ...(headers === undefined ? {} : { headers }),
  })
  answeredRight.add(sent.code === code, { bad: kind })
}

/** @param {import('./shared/verdict.js').RunData} data */
export function handleSummary(data) {
  const rows = kinds.map((kind) => {
    const metric = `bad_answered_right{bad:${kind}}`
    const [right, wrong] = [figure(data, metric, 'passes') || 0, figure(data, metric, 'fails') || 0]
    return { kind, right, wrong }
  })
  const p99 = (/** @type {string} */ phase) => milliseconds(figure(data, durationOf(`phase:${phase}`), 'p(99)'))
  return summarise(settings, data, {
    question: QUESTION,
    othersSend: true,
    tables: [
      {
        title: 'what bad clients sent through k6, and whether they got the right code',
        columns: ['kind', 'right', 'wrong'],
        rows: rows.map(({ kind, right, wrong }) => [kind, count(right), count(wrong)]),
      },
    ],
    notes: [`p99 of good clients ${p99('good')}, of bad ones ${p99('bad')}`],
    found: { kinds: rows },
  })
}

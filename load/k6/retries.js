// @ts-check
// Question: is a batch that is sent again under its key, after timeouts, broken connections and 503s, accepted exactly once?
// The script writes down what it sent and saw; `npm run load` freezes the node now and then, and afterwards holds those lines
// against the queue.

import { sleep } from 'k6'
import exec from 'k6/execution'
import http from 'k6/http'
import { Counter, Rate } from 'k6/metrics'
import { createRng, uuid } from '../payloads.js'
import { mostWaitSeconds, waitSeconds } from './shared/backoff.js'
import { prepareBodies } from './shared/bodies.js'
import { markBody } from './shared/marks.js'
import { begin, end, nodeFigures } from './shared/node.js'
import { arrivals, GRACE_MS, options as optionsOf, SHOWN, soundness } from './shared/objectives.js'
import { post, requestOf, settle } from './shared/send.js'
import { summarise } from './shared/summary.js'
import { count } from './shared/tables.js'
import { readTarget } from './shared/target.js'
import { figure } from './shared/verdict.js'

const QUESTION = 'Is a batch that is sent again under its key after timeouts and 503s accepted exactly once?'
const MOST_TRIES = 12
/** Of the first tries, so many do not wait for their answer, ... */
const HASTY_SHARE = 0.2
const HASTY_MS = 12
/** ... so many are sent twice at the same moment, ... */
const TWIN_SHARE = 0.2
/** ... and so many are sent once more after they were accepted. */
const NERVOUS_SHARE = 0.2
/** Shorter than a freeze of the node. */
const PATIENCE_MS = 700
/** The service asks for 1 to 5 s. */
const RETRY_AFTER_SECONDS = 5
/** A batch may be begun at the very end, and meet nothing but the longest of all tries and waits. */
const LAST_TRIES_MS =
  (MOST_TRIES + 1) * PATIENCE_MS +
  1000 * mostWaitSeconds({ tries: MOST_TRIES, retryAfterSeconds: RETRY_AFTER_SECONDS }) +
  GRACE_MS
const MAX_SEED = 0x100000000

const settings = readTarget('retries', { RATE: 30, DURATION: '1m', EVENTS: 100, VUS: 250, KEY_ON_RETRY: 'same' })
const isKeyKept = settings.text('KEY_ON_RETRY') !== 'fresh'
if (!settings.isLocal && settings.text('APP_ID') === '') throw new Error('APP_ID: the app_id of the app that sends')
settings.check()

const bodies = prepareBodies(settings, { bodies: Math.min(settings.bodies, 50) })

/** Batches that were sent; those that k6 cut off are in no other figure. */
const begun = new Counter('retries_begun')
/** Of those that were seen through, the ones that were accepted in the end. */
const accepted = new Rate('retries_accepted')
const resent = new Counter('retries_resent')
/** Answers that do not go together: another batch id, or two that say the batch was new. */
const wrong = new Counter('retries_wrong')

/** What a run must have met, or it says nothing of retries. */
const MET = /** @type {const} */ (['no_answer', 'service_overloaded', 'replayed'])

export const options = optionsOf(settings, {
  scenarios: {
    keyed: { ...arrivals(settings, { exec: 'sendUntilAccepted' }), gracefulStop: `${Math.round(LAST_TRIES_MS)}ms` },
  },
  thresholds: {
    ...soundness(),
    ...nodeFigures(settings),
    retries_accepted: ['rate==1'],
    retries_wrong: ['count==0'],
    retries_resent: [SHOWN.counter],
    retries_begun: [SHOWN.counter],
  },
})

export function setup() {
  return begin(settings)
}

/** @param {import('./shared/node.js').Begun} before */
export function teardown(before) {
  end(settings, before)
}

/** @typedef {{ status: number, batch: string, replay: boolean, events: number }} Seen */

/** One batch, from its first try until it is accepted. @param {import('./shared/node.js').Begun} before */
export function sendUntilAccepted({ startedMs }) {
  const turn = exec.scenario.iterationInTest
  // Another run finds other keys: the service remembers those of this one for a while.
  const rng = createRng((startedMs * 31 + settings.seed + turn * 0x9e3779b1) % MAX_SEED)
  const mark = uuid(rng)
  const body = markBody(bodies.at(turn), mark)
  const batch = { mark, key: mark, app: settings.text('APP_ID'), events: bodies.events }
  /** @type {Seen[]} */
  const answers = []
  begun.add(1)
  note(batch)
  for (let attempt = 0; attempt < MOST_TRIES; attempt++) {
    if (attempt > 0) resent.add(1)
    const key = isKeyKept || attempt === 0 ? mark : uuid(rng)
    const results = attempt === 0 ? tryFirst(body, key, rng) : [tryAgain(body, key, PATIENCE_MS)]
    answers.push(...results.map(seen))
    if (results.some(({ status }) => status === 202) || attempt === MOST_TRIES - 1) break
    const retryAfterSeconds = Math.max(...results.map((result) => result.retryAfterSeconds))
    sleep(waitSeconds({ attempt, retryAfterSeconds, rng }))
  }
  const isAccepted = answers.some(({ status }) => status === 202)
  if (isAccepted && rng() < NERVOUS_SHARE) {
    answers.push(seen(tryAgain(body, isKeyKept ? mark : uuid(rng), PATIENCE_MS)))
  }
  if (!belongTogether(answers)) wrong.add(1)
  note({ ...batch, answers })
  accepted.add(isAccepted)
}

/** @param {string} body @param {string} key @param {() => number} rng */
function tryFirst(body, key, rng) {
  const kind = rng()
  if (kind < HASTY_SHARE) return [tryAgain(body, key, 1 + Math.floor(rng() * HASTY_MS))]
  if (kind < HASTY_SHARE + TWIN_SHARE) return tryTwice(body, key)
  return [tryAgain(body, key, PATIENCE_MS)]
}

/** @param {string} key @param {number} timeoutMs @returns {import('./shared/send.js').Sending} */
function sending(key, timeoutMs) {
  return { key, timeoutMs, events: bodies.events, expected: ['accepted', 'replayed'] }
}

/** @param {string} body @param {string} key @param {number} timeoutMs */
function tryAgain(body, key, timeoutMs) {
  return post(settings, body, sending(key, timeoutMs))
}

/** Twins: one batch, one key, the same moment. @param {string} body @param {string} key */
function tryTwice(body, key) {
  const each = sending(key, PATIENCE_MS)
  const responses = http.batch([requestOf(settings, body, each), requestOf(settings, body, each)])
  return responses.map((response) => settle(response, each))
}

/** @param {import('./shared/send.js').Sent} sent @returns {Seen} */
function seen({ status, batchId, code, body }) {
  return { status, batch: batchId, replay: code === 'replayed', events: body?.events ?? -1 }
}

/** @param {readonly Seen[]} answers */
function belongTogether(answers) {
  const taken = answers.filter(({ status }) => status === 202)
  return taken.every(({ batch }) => batch === taken[0].batch) && taken.filter(({ replay }) => !replay).length <= 1
}

/** A line for the check of the queue, where `npm run load` catches it. @param {object} line */
function note(line) {
  if (settings.out !== '') console.log(JSON.stringify(line))
}

/** @param {import('./shared/verdict.js').RunData} data */
export function handleSummary(data) {
  const met = MET.map((code) => ({ code, count: figure(data, `outcomes{code:${code}}`, 'count') || 0 }))
  const seenThrough = figure(data, 'retries_accepted', 'passes') + figure(data, 'retries_accepted', 'fails')
  const cut = (figure(data, 'retries_begun', 'count') || 0) - (seenThrough || 0)
  const missed = met.filter((each) => each.count === 0).map(({ code }) => code)
  return summarise(settings, data, {
    question: QUESTION,
    othersSend: true,
    notes: [
      `${count(figure(data, 'retries_resent', 'count') || 0)} tries were second ones or later`,
      ...(settings.isLocal
        ? ['the node’s own count has those too that stood before its door while it was frozen']
        : []),
    ],
    // On a service elsewhere nobody can say what it will meet.
    voids: settings.isLocal && missed.length > 0 ? [`the run met no ${missed.join(', no ')}`] : [],
    unmet: cut > 0 ? [`${count(cut)} batches were cut off before they were done`] : [],
    found: { met },
  })
}

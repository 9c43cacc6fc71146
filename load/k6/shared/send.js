// @ts-check
// Sends a request, judges the answer by the contract, and counts how it ended under one set of names for all scripts.

import { check } from 'k6'
import http from 'k6/http'
import { Counter, Rate } from 'k6/metrics'
import { codeOf, faultsOf, header, parseBody } from './answers.js'
import { maybeKey } from './bodies.js'
import { eventsUrl } from './target.js'

/** Longer than the 2 s that a batch may wait for its queue. */
const TIMEOUT_MS = 10_000
const MAX_COMPLAINTS = 5

/** How each request ended, by the tag `code`. */
const outcomes = new Counter('outcomes')
const eventsAccepted = new Counter('events_accepted')
const bytesSent = new Counter('bytes_sent')
/** Answered, and not with 5xx: the objective of availability. */
const available = new Rate('available')
/** Answered at all, be it with 503. */
const answered = new Rate('answered')
/** Answers that this request must not get. 503 and no answer count here only where a script expects something else outright. */
const unexpected = new Counter('unexpected_answers')

/** Any status may be the expected one: what fails for k6 is a request without an answer. */
http.setResponseCallback(http.expectedStatuses({ min: 100, max: 599 }))

let complaints = 0

/** @typedef {import('./answers.js').Code} Code */
/**
 * @typedef {object} Sending
 * @property {number} [events] in the body, to hold against the answer's
 * @property {string | undefined} [key] Idempotency-Key
 * @property {readonly Code[]} [expected] (accepted)
 * @property {boolean} [isStrict] 503 and no answer are unexpected too
 * @property {Readonly<Record<string, string>>} [tags]
 * @property {Readonly<Record<string, string>>} [headers]
 * @property {string} [method] (POST)
 * @property {string} [url] (the events path)
 */
/** @typedef {{ code: Code, status: number, retryAfterSeconds: number, batchId: string, remaining: number, resetSeconds: number, serverSeconds: number }} Sent */

/**
 * Sends a request, and judges and counts its answer.
 * @param {import('./settings.js').Settings} settings @param {string | ArrayBuffer | null} body @param {Sending} [sending] @returns {Sent}
 */
export function post(settings, body, sending = {}) {
  const { expected = ['accepted'], isStrict = false, key, method = 'POST', url = eventsUrl(settings) } = sending
  const headers = {
    'Content-Type': 'application/json',
    ...(key === undefined ? {} : { 'Idempotency-Key': key }),
    ...sending.headers,
  }
  const tags = { kind: 'event', expected: expected.join('|'), ...sending.tags }
  if (body instanceof ArrayBuffer) bytesSent.add(body.byteLength, sending.tags)
  const response = http.request(method, url, body, { headers, tags, timeout: TIMEOUT_MS })
  const parsed = parseBody(response.body)
  const code = codeOf(response, parsed)
  outcomes.add(1, { ...sending.tags, code })
  answered.add(response.status !== 0, sending.tags)
  available.add(response.status !== 0 && response.status < 500, sending.tags)
  if (code === 'accepted') eventsAccepted.add(parsed?.events ?? 0, sending.tags)
  const isJudgedElsewhere = !isStrict && (code === 'service_overloaded' || code === 'no_answer')
  if (!expected.includes(code) && !isJudgedElsewhere) {
    unexpected.add(1, { ...sending.tags, code })
    complain(
      `${code} (${response.status}) where ${expected.join(' or ')} was expected: ${parsed?.message ?? response.error}`,
    )
  }
  judge(response, parsed, sending)
  return {
    code,
    status: response.status,
    retryAfterSeconds: Number(header(response, 'Retry-After') || 0),
    batchId: header(response, 'X-Batch-Id'),
    remaining: Number(header(response, 'X-RateLimit-Remaining')),
    resetSeconds: Number(header(response, 'X-RateLimit-Reset')),
    /** The service's own clock, in whole seconds. */
    serverSeconds: (Date.parse(header(response, 'Date')) || Date.now()) / 1000,
  }
}

/** The next of the bodies, under a key of its own for the share that has one. @param {import('./settings.js').Settings} settings @param {ReturnType<typeof import('./bodies.js').packBodies>} bodies */
export function postNext(settings, { next, events }) {
  post(settings, next(), { events, key: maybeKey(settings.keyed) })
}

/** @param {import('k6/http').RefinedResponse<'text'>} response @param {import('./answers.js').Body | null} body @param {Sending} sending */
function judge(response, body, { events, tags }) {
  if (response.status === 0) return
  const faults = faultsOf(response, body, {
    ...(events === undefined ? {} : { events }),
    nowSeconds: Date.now() / 1000,
  })
  check(response, { 'the answer is as the contract says': () => faults.length === 0 }, tags)
  for (const fault of faults) {
    check(response, { [fault]: () => false }, tags)
    complain(`${response.status}: not so: ${fault}: ${JSON.stringify(response.headers)}`)
  }
}

/** The first few of each virtual user: they show what is wrong, and the counts show how often. @param {string} text */
function complain(text) {
  if (complaints++ < MAX_COMPLAINTS) console.error(text)
}

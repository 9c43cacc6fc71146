// Whether an SDK kept its promises, by what was tracked, what arrived, and what it said it dropped. Each rule gives sentences.

import { ANSWER_TIMEOUT_MS, ruleOf, waitOf } from './rules.js'

/**
 * @typedef {'bad_request' | 'lost' | 'twice' | 'wrong_reason' | 'too_early' | 'other_key' | 'other_bytes' | 'sent_again'
 *   | 'after_opt_out' | 'wrong_time' | 'no_report' | 'event_id' | 'too_many' | 'not_compressed' | 'driver' | 'hangs'} Kind
 * @typedef {{ kind: Kind, says: string }} Problem
 * @typedef {import('./service.js').Sent} Sent
 * @typedef {object} Log
 * @property {Map<string, { atMs: number, refused: boolean }>} tracked by name; refused: while the user was opted out
 * @property {readonly import('./driver.js').Dropped[]} dropped
 * @property {readonly Sent[]} requests
 * @property {import('./service.js').Service['stored']} stored
 * @property {readonly { what: string, atMs: number }[]} marks when a command was given, or `opted_out`, when it was done
 */

/** Timers may fire a little early. */
const TIMER_MS = 30
/** Another batch may have been under way when an answer came. */
const UNDER_WAY_MS = 250
/** From the start of one process, in which what the one before it sent may arrive. */
const LAST_WORDS_MS = 1000
/** An SDK begins to count before the request arrives, which a busy machine sees late. */
const GIVES_UP_MS = ANSWER_TIMEOUT_MS - 3000
/** Of a time that was corrected. */
const TIME_SLACK_MS = 30_000
/** From here on a body is to be compressed. */
const COMPRESS_FROM_BYTES = 4096
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/**
 * @param {import('./scenarios.js').Scenario} scenario
 * @param {Log} log
 * @param {readonly string[]} capabilities
 * @returns {Problem[]}
 */
export function judge({ expect = {} }, log, capabilities) {
  return [
    ...shapes(log),
    ...fates(log),
    ...reasons(log, expect),
    ...keys(log),
    ...waits(log),
    ...consent(log),
    ...times(log, expect),
    ...wishes(log, expect, capabilities),
  ]
}

/** @param {Kind} kind @param {string} says @returns {Problem} */
const problem = (kind, says) => ({ kind, says })
const listed = (/** @type {string[]} */ names) =>
  names.slice(0, 3).join(', ') + (names.length > 3 ? `, … (${names.length})` : '')
/** @param {Sent} sent */
const ruleFor = (sent) => ruleOf(sent.answer, sent.events.length)
const isBetween = (/** @type {Log} */ { marks }, whats, fromMs, toMs) =>
  marks.some(({ what, atMs }) => whats.includes(what) && atMs >= fromMs && atMs <= toMs)

/** What arrived is what the service takes; each event has an id, which stays. @param {Log} log */
function shapes({ requests, tracked }) {
  const problems = requests.flatMap(({ faults }) =>
    faults.map((fault) => problem('bad_request', `a request had ${fault}`)),
  )
  const ids = new Map()
  const owners = new Map()
  for (const { name, event_id: id } of requests.flatMap(({ events }) => events)) {
    if (!tracked.has(name)) problems.push(problem('bad_request', `${name} was sent, and nobody tracked it`))
    else if (!UUID.test(String(id))) problems.push(problem('event_id', `${name} has no UUID as its event_id`))
    else if ((ids.get(name) ?? id) !== id) problems.push(problem('event_id', `${name} was sent with two event_ids`))
    else if ((owners.get(id) ?? name) !== name)
      problems.push(problem('event_id', `${name} has the event_id of another`))
    ids.set(name, id)
    owners.set(id, name)
  }
  return problems
}

/** Each event arrived once or was reported, and not both unless an answer was lost. */
function fates(/** @type {Log} */ log) {
  const { tracked, dropped, stored, requests } = log
  const times = new Map()
  for (const { names } of stored.values()) for (const name of names) times.set(name, (times.get(name) ?? 0) + 1)
  const reports = new Map()
  for (const name of dropped.flatMap(({ names }) => names)) reports.set(name, (reports.get(name) ?? 0) + 1)
  const doubted = new Set(requests.filter(({ answer }) => answer.status !== 202).flatMap(({ names }) => names))
  const all = [...tracked.keys()]
  const problems = []
  const add = (kind, names, says) => names.length > 0 && problems.push(problem(kind, `${listed(names)}: ${says}`))
  const isLost = (name) => !times.has(name) && !reports.has(name)
  add('lost', all.filter(isLost), 'neither stored nor reported as dropped')
  add(
    'twice',
    all.filter((name) => times.get(name) > 1),
    'stored twice',
  )
  add(
    'twice',
    all.filter((name) => reports.get(name) > 1),
    'reported as dropped twice',
  )
  add(
    'twice',
    all.filter((name) => times.has(name) && reports.has(name) && !doubted.has(name)),
    'stored, and reported as dropped',
  )
  add(
    'wrong_reason',
    [...reports.keys()].filter((name) => !tracked.has(name)),
    'reported as dropped, and nobody tracked it',
  )
  return problems
}

/** What was dropped, and why, is what the scenario wants. */
function reasons(/** @type {Log} */ { dropped }, { dropped: wanted = {}, mayDrop = {} }) {
  const problems = []
  for (const { names, reason } of dropped) {
    // The reason is the driver's word, and may be that of a member which every object has.
    const right = new Set([wanted, mayDrop].flatMap((events) => (Object.hasOwn(events, reason) ? events[reason] : [])))
    const others = names.filter((name) => !right.has(name))
    if (others.length > 0) problems.push(problem('wrong_reason', `${listed(others)}: dropped as ${reason}`))
  }
  for (const [reason, names] of Object.entries(wanted)) {
    const reported = new Set(dropped.filter((one) => one.reason === reason).flatMap((one) => one.names))
    const missing = names.filter((name) => !reported.has(name))
    if (missing.length > 0) problems.push(problem('wrong_reason', `${listed(missing)}: not reported as ${reason}`))
  }
  return problems
}

/** A retry is the same batch under the same key; what a refusal makes of a batch has a key of its own; and no more than that. */
function keys(/** @type {Log} */ log) {
  const problems = []
  const last = new Map()
  const owners = new Map()
  for (const sent of log.requests) {
    const before = owners.get(sent.key)
    if (
      before !== undefined &&
      before.eventsText !== sent.eventsText &&
      before.names.length > 0 &&
      sent.names.length > 0
    )
      problems.push(problem('other_bytes', `the key of ${listed(before.names)} came again with other bytes`))
    if (sent.names.length > 0) owners.set(sent.key, before ?? sent)
    const earlier = new Set(sent.names.map((name) => last.get(name)).filter((one) => one !== undefined))
    for (const one of earlier) {
      const { action, key } = ruleFor(one)
      // Its process may have ended before it saw the answer; and what a page sends as it ends arrives a little later.
      if (isBetween(log, ['restart'], one.arrivedMs - LAST_WORDS_MS, sent.arrivedMs) && one.key === sent.key) continue
      if (isPlainAgain(one, sent)) continue
      if (action === 'done' || action === 'drop')
        problems.push(problem('sent_again', `${listed(one.names)}: sent again after the answer ${one.answer.status}`))
      else if (key === 'same' && one.key !== sent.key)
        problems.push(problem('other_key', `${listed(one.names)}: tried again under another key`))
      else if (key === 'new' && one.key === sent.key)
        problems.push(
          problem('other_key', `${listed(one.names)}: another batch under the key that ${one.answer.status} answered`),
        )
    }
    for (const name of sent.names) last.set(name, sent)
  }
  return problems
}

/** Once more under its key, uncompressed, since what compressed it may be broken. @param {Sent} one @param {Sent} sent */
function isPlainAgain(one, sent) {
  const { status, body } = one.answer
  const isUnreadable = status === 415 || (status === 400 && !('errors' in Object(body)))
  return isUnreadable && one.compressed && !sent.compressed && one.key === sent.key
}

/** No try comes before its time. */
function waits(/** @type {Log} */ log) {
  const problems = []
  for (const sent of log.requests) {
    for (const one of log.requests) {
      if (one === sent || one.arrivedMs > sent.arrivedMs) break
      const early = earlyBy(one, sent, log)
      if (early !== null) problems.push(problem('too_early', `${listed(sent.names)}: ${early}`))
    }
  }
  return problems
}

/** Null, or why the second came too early after the first. @param {Sent} first @param {Sent} second @param {Log} log */
function earlyBy(first, second, log) {
  const isSame = first.key === second.key
  const endedMs = first.endedMs ?? Infinity
  const isUnanswered = !first.isBroken && (first.answer.status === null || second.arrivedMs < endedMs)
  if (isSame && isUnanswered && !isBetween(log, ['restart'], first.arrivedMs, second.arrivedMs)) {
    const patienceMs = Math.min(endedMs, second.arrivedMs) - first.arrivedMs
    if (patienceMs < GIVES_UP_MS) return `tried again after ${patienceMs} ms without an answer, not after 30 s`
  }
  const { retryAfterMs, backoffMs } = waitOf(ruleFor(first), first.answer, failuresUntil(first, log))
  const waitedMs = second.arrivedMs - endedMs
  if (waitedMs < 0) return null
  // By the service's clock, which a scenario may move.
  const toldMs = second.clockMs - (first.endedClockMs ?? 0)
  if (retryAfterMs > 0 && toldMs < retryAfterMs - TIMER_MS && (isSame || waitedMs > UNDER_WAY_MS))
    return `sent ${toldMs} ms after an answer with Retry-After: ${retryAfterMs / 1000}`
  // A flush may cut a backoff short, and a new process knows of none.
  const isCut =
    isBetween(log, ['flush', 'close', 'opt_in'], endedMs, second.arrivedMs) ||
    isBetween(log, ['restart'], first.arrivedMs, second.arrivedMs)
  if (isSame && !isCut && waitedMs < backoffMs - TIMER_MS && first === lastOf(second, log))
    return `tried again ${waitedMs} ms after a failure, not after ${backoffMs} ms`
  return null
}

/** How often in a row this batch has failed, since a flush or a new process began anew. @param {Sent} sent @param {Log} log */
function failuresUntil(sent, log) {
  const tries = log.requests.filter(({ key, arrivedMs }) => key === sent.key && arrivedMs <= sent.arrivedMs)
  const since = log.marks.findLast(
    ({ what, atMs }) => ['flush', 'restart', 'close'].includes(what) && atMs <= sent.arrivedMs,
  )?.atMs
  return tries.filter((one) => (one.endedMs ?? Infinity) >= (since ?? 0) && ruleFor(one).retry === 'backoff').length
}

const lastOf = (/** @type {Sent} */ sent, /** @type {Log} */ { requests }) =>
  requests.findLast(({ key, arrivedMs }) => key === sent.key && arrivedMs < sent.arrivedMs)

/** Nothing goes out after an opt-out, and nothing that was tracked meanwhile ever does. */
function consent(/** @type {Log} */ { requests, tracked, marks }) {
  const problems = []
  const refused = [...tracked].filter(([, { refused }]) => refused).map(([name]) => name)
  const sent = refused.filter((name) => requests.some(({ names }) => names.includes(name)))
  if (sent.length > 0) problems.push(problem('after_opt_out', `${listed(sent)}: tracked while opted out, and sent`))
  for (const { what, atMs } of marks.filter(({ what }) => what === 'opted_out')) {
    const untilMs = marks.find((one) => one.what === 'opt_in' && one.atMs > atMs)?.atMs ?? Infinity
    const late = requests.filter(({ arrivedMs }) => arrivedMs > atMs && arrivedMs < untilMs)
    if (late.length > 0)
      problems.push(
        problem('after_opt_out', `${late.length} requests came after the SDK had ${what.replace('_', ' ')}`),
      )
  }
  return problems
}

/** The times of these events are the service's, or the device's own. */
function times(/** @type {Log} */ { requests, tracked }, { timesOf, untouched = false }) {
  const problems = []
  for (const sent of requests) {
    for (const { name, timestamp = '', client_timestamp: said } of sent.events) {
      if (timesOf === undefined || !name.startsWith(timesOf)) continue
      const rightMs = untouched ? (tracked.get(name)?.atMs ?? 0) : sent.clockMs
      const offMs = Date.parse(timestamp) - rightMs
      if (!(Math.abs(offMs) < TIME_SLACK_MS))
        problems.push(problem('wrong_time', `${name}: its timestamp is off by ${Math.round(offMs / 1000)} s`))
      if (untouched && said !== undefined)
        problems.push(problem('wrong_time', `${name}: corrected, though the clock was right enough`))
    }
  }
  return problems
}

/** What else a scenario wants. */
function wishes(/** @type {Log} */ { requests, stored }, { mostRequests, reported, compressed = false }, capabilities) {
  const problems = []
  if (mostRequests !== undefined && requests.length > mostRequests)
    problems.push(problem('too_many', `${requests.length} requests where ${mostRequests} are enough`))
  for (const [reason, count] of Object.entries(reported ?? {})) {
    const told = [...stored.values()].reduce((sum, { report }) => sum + (report[reason] ?? 0), 0)
    if (told !== count)
      problems.push(problem('no_report', `client_report told of ${told} dropped as ${reason}, not of ${count}`))
  }
  if (compressed && capabilities.includes('compression'))
    for (const sent of requests.filter((one) => one.bytes > COMPRESS_FROM_BYTES && !one.compressed))
      problems.push(problem('not_compressed', `a body of ${sent.bytes} bytes came uncompressed`))
  return problems
}

// @ts-check
// What must hold at the end: of the stream, the limits, the counters and the answers. Pure: what was seen goes in,
// what is wrong comes out, in sentences.

import { StoredOnce } from '../../test/support/stored-once.js'
import { byWindow, DAY_MS, eventsOf, MINUTE_MS } from '../shared/windows.js'

/** @typedef {import('./load.js').Batch} Batch */
/** @typedef {import('./load.js').LoadedApp} LoadedApp */
/** @typedef {import('./stream.js').StoredRecord} StoredRecord */
/** @typedef {{ perMinute: number, perDay: number | null, perMonth: number }} Limits */
/** @typedef {import('../shared/windows.js').Stored & { batch: Batch | null }} Stored */
/** @typedef {{ startMs: number, endMs: number }} Span */

/** Each kind of violation is shown so many times; the rest are counted. */
const MAX_SHOWN = 5
/** After an outage Redis is told what was spent in it; a window that reaches so far belongs to the outage. */
const OUTAGE_TAIL_MS = 2000
/**
 * Where one of two nodes goes on with its share while the other still finds Redis, half a limit more can be taken. A node that
 * starts meanwhile knows nothing of what was used, and may give out one more (docs/faults.md, "one limit a node").
 */
const MOST_OVER_IN_OUTAGE = 1.5

/** Collects what is wrong by kind, so that one fault that shows a thousand times stays readable. */
export class Violations {
  /** @type {Map<string, string[]>} */
  #byKind = new Map()
  count = 0

  /** @param {string} kind @param {string} text */
  add(kind, text) {
    this.count += 1
    const list = this.#byKind.get(kind) ?? []
    list.push(text)
    this.#byKind.set(kind, list)
  }

  /** @param {string} kind */
  countOf(kind) {
    return this.#byKind.get(kind)?.length ?? 0
  }

  lines() {
    const lines = []
    for (const [kind, texts] of this.#byKind) {
      lines.push(`${kind}: ${texts.length}`)
      for (const text of texts.slice(0, MAX_SHOWN)) lines.push(`    ${text}`)
    }
    return lines
  }
}

/** Holds the records of the stream, one by one, against the batches that were sent. */
export class StreamCheck {
  /** @type {StoredOnce<import('../../test/support/stored-once.js').Sent & { batch: Batch }>} */
  #once
  /** @type {Stored[]} */
  stored = []
  /** Stored under no id that an answer named: only requests without a key may leave such. */
  strays = 0

  /**
   * @param {{ batches: readonly Batch[], apps: readonly LoadedApp[], batchIdOf: (appId: string, key: string) => string,
   *   violations: Violations }} options
   */
  constructor({ batches, apps, batchIdOf, violations }) {
    this.batches = batches
    this.violations = violations
    this.unkeyedApps = new Set(apps.filter(({ keyed }) => !keyed).map(({ appId }) => appId))
    /** @type {(import('../../test/support/stored-once.js').Sent & { batch: Batch })[]} */
    const sent = []
    for (const batch of batches) {
      const id = batch.key === null ? batch.batchId : batchIdOf(batch.app.appId, batch.key)
      if (batch.batchId !== '' && batch.batchId !== id) violations.add('wrong batch id', batch.history)
      if (id === '') continue
      sent.push({
        batch,
        id,
        appId: batch.app.appId,
        accepted: batch.outcome === 'accepted',
        mayBeStored: batch.isDoubtful,
        isWhole: (/** @type {readonly unknown[]} */ events) => JSON.stringify(events) === batch.body.eventsText,
      })
    }
    this.#once = new StoredOnce(sent, (kind, id, found) => violations.add(kind, `${id}: ${found?.batch.history ?? ''}`))
  }

  /** @param {StoredRecord} record */
  take(record) {
    const { batch_id: id, app_id: appId, received_at: receivedAt, events } = record
    const batch = this.#once.take(record)?.batch ?? null
    this.stored.push({ appId, batch, receivedAtMs: Date.parse(receivedAt), events: events.length })
    if (batch !== null) return
    this.strays += 1
    if (!this.unkeyedApps.has(appId)) this.violations.add('in the stream, but never sent', `${id} of ${appId}`)
  }

  /** After the last record. @returns {{ unacknowledged: Batch[] }} stored, though its client never saw a 202 */
  end() {
    for (const { fresh, batchId, history } of this.batches) {
      if (fresh > 1) this.violations.add('accepted twice as new', `${batchId}: ${history}`)
    }
    return { unacknowledged: this.#once.end().map(({ batch }) => batch) }
  }
}

/** @param {Span} one @param {Span} other */
export const overlap = (one, other) => one.startMs < other.endMs && other.startMs < one.endMs

/**
 * No window of an app holds more than its limit as long as Redis answers all nodes. Told apart, since neither is wrong:
 * a window in which Redis was away, where each node goes by what it saw last; and a batch whose first try ended in
 * doubt, which is charged in the window of a later try, though its record names the first.
 * @param {{ app: LoadedApp, limits: Limits, stored: readonly Stored[], outages: readonly Span[], starts: readonly Span[],
 *   violations: Violations }} options `starts`: of nodes while Redis was away
 */
export function checkWindows({ app, limits, stored, outages, starts, violations }) {
  /** @type {string[]} */
  const notes = []
  let fullestMinute = 0
  for (const [name, lengthMs, limit] of /** @type {const} */ ([
    ['minute', MINUTE_MS, limits.perMinute],
    ['day', DAY_MS, limits.perDay],
    ['month', Infinity, limits.perMonth],
  ])) {
    if (limit === null) continue
    for (const [startMs, found] of byWindow(stored, lengthMs)) {
      const all = eventsOf(found)
      const certain = eventsOf(found.filter(({ batch }) => batch !== null && !batch.isDoubtful))
      if (name === 'minute') fullestMinute = Math.max(fullestMinute, all)
      if (all <= limit) continue
      const endMs = startMs + lengthMs + OUTAGE_TAIL_MS
      const isInWindow = (/** @type {Span} */ span) => overlap(span, { startMs, endMs })
      const isInOutage = outages.some(isInWindow)
      const most = limit * (MOST_OVER_IN_OUTAGE + starts.filter(isInWindow).length)
      const where = `${app.appId}, ${name} of ${lengthMs === Infinity ? 'the run' : new Date(startMs).toISOString()}`
      const text = `${where}: ${all} events, ${all - certain} of them of batches in doubt, limit ${limit}`
      if (certain <= limit) notes.push(`over by batches in doubt alone: ${text}`)
      else if (isInOutage && all <= most) notes.push(`over while Redis was away: ${text}`)
      else violations.add(isInOutage ? `far over the ${name} while Redis was away` : `over the ${name}`, text)
    }
  }
  return { notes, fullestMinute }
}

/**
 * What was accepted, and what may have been: stored, but its client never heard of it.
 * @param {readonly Stored[]} stored @returns {{ least: number, most: number }}
 */
export function eventsCharged(stored) {
  return { least: eventsOf(stored.filter(({ batch }) => batch?.outcome === 'accepted')), most: eventsOf(stored) }
}

/** @param {{ appId: string, window: string, used: number, charged: { least: number, most: number } }} options */
export function counterFault({ appId, window, used, charged: { least, most } }) {
  if (used >= least && used <= most) return null
  const wanted = least === most ? `${least}` : `${least} to ${most}`
  return `${appId}: the ${window}'s counter says ${used}, accepted were ${wanted} (${used > most ? '+' : ''}${used > most ? used - most : used - least})`
}

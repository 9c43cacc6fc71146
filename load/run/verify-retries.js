// @ts-check
// Holds what the clients of the script `retries` saw against the queue: a key that was accepted is there exactly once, a key
// that nobody saw accepted at most once, and nothing is there that nobody sent.

import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { v5 } from 'uuid'
import { MARK_MEMBER } from '../k6/shared/marks.js'
import { NOT_READ, readRecords } from './queue-records.js'

/** The service's own, so that an id can be told from app and key alone. */
const BATCH_NAMESPACE = '736c7569-6365-4bc3-a976-656e74732e31'
const MOST_FAULTS = 20
/** In the report's folder: what the script wrote down. */
export const NOTES_FILE = 'notes.ndjson'

/**
 * One answer, as the script writes it down; status 0: none came.
 * @typedef {{ status: number, batch: string, replay: boolean, events: number }} Answer
 */
/**
 * A batch from its first try to its last. `mark` travels in the body, so that a second copy is found under any key.
 * @typedef {{ mark: string, key: string, app: string, events: number, answers?: readonly Answer[] }} Sent
 */
/** @typedef {{ app_id: string, batch_id: string, events: readonly unknown[], extra?: Readonly<Record<string, unknown>> }} MarkedRecord */
/** @typedef {{ batchId: string, events: number }} Stored */
/**
 * @typedef {{ batches: number, accepted: number, replays: number, unanswered: number, refused: number, lostFirst: number,
 *   storedUnseen: number, records: number }} RetryFigures
 */

/** @param {string} appId @param {string} key */
export function batchIdOf(appId, key) {
  return v5(`${appId}:${key.toLowerCase()}`, BATCH_NAMESPACE)
}

/** Takes lines and records in any order; `end` judges. */
export class RetryCheck {
  /** By mark. The last line of a batch has its answers. @type {Map<string, Sent>} */
  #sent = new Map()
  /** By mark. @type {Map<string, Stored[]>} */
  #stored = new Map()
  #records = 0

  /** A line that the script wrote: one when a batch is first sent, one when it is done with. @param {string} line */
  takeLine(line) {
    if (!line.startsWith('{"mark"')) return
    const sent = /** @type {Sent} */ (JSON.parse(line))
    this.#sent.set(sent.mark, sent)
  }

  /** Records without a mark are not of this run. @param {MarkedRecord} record */
  takeRecord({ batch_id: batchId, events, extra }) {
    const mark = extra?.[MARK_MEMBER]
    if (typeof mark !== 'string') return
    this.#records++
    const stored = { batchId, events: events.length }
    const found = this.#stored.get(mark)
    if (found === undefined) this.#stored.set(mark, [stored])
    else found.push(stored)
  }

  /** @returns {{ figures: RetryFigures, faults: string[] }} */
  end() {
    /** @type {RetryFigures} */
    const figures = {
      batches: this.#sent.size,
      accepted: 0,
      replays: 0,
      unanswered: 0,
      refused: 0,
      lostFirst: 0,
      storedUnseen: 0,
      records: this.#records,
    }
    /** @type {string[]} */
    const faults = []
    for (const [mark, sent] of this.#sent) {
      const stored = this.#stored.get(mark) ?? []
      count(figures, sent, stored)
      for (const fault of faultsOf(sent, stored)) faults.push(`batch ${mark}: ${fault}`)
    }
    for (const mark of this.#stored.keys()) {
      if (!this.#sent.has(mark)) faults.push(`batch ${mark}: in the queue, and this run did not send it`)
    }
    const left = faults.length - MOST_FAULTS
    return { figures, faults: left > 0 ? [...faults.slice(0, MOST_FAULTS), `and ${left} more`] : faults }
  }
}

/** @param {RetryFigures} figures @param {Sent} sent @param {readonly Stored[]} stored */
function count(figures, { answers = [] }, stored) {
  const taken = answers.filter(({ status }) => status === 202)
  const replays = taken.filter(({ replay }) => replay).length
  figures.replays += replays
  figures.unanswered += answers.filter(({ status }) => status === 0).length
  figures.refused += answers.filter(({ status }) => status === 503).length
  if (taken.length > 0) figures.accepted++
  else if (stored.length > 0) figures.storedUnseen++
  if (taken.length > 0 && replays === taken.length) figures.lostFirst++
}

/** @param {Sent} sent @param {readonly Stored[]} stored @returns {string[]} */
function faultsOf({ key, app, events, answers = [] }, stored) {
  const batchId = batchIdOf(app, key)
  const faults = []
  const taken = answers.filter(({ status }) => status === 202)
  const first = taken.filter(({ replay }) => !replay)
  // Any try without an answer, and a 503 whose batch got through all the same, may have been the one that was accepted.
  const inDoubt = answers.some(({ status }) => status === 0 || status === 503)
  if (stored.length > 1) faults.push(`${stored.length} records in the queue`)
  if (taken.length > 0 && stored.length === 0) faults.push('accepted, and not in the queue')
  for (const found of stored) {
    if (found.events !== events) faults.push(`${found.events} events in the queue of ${events} sent`)
    if (found.batchId !== batchId) faults.push('in the queue under a batch id that its key does not give')
  }
  if (first.length > 1) faults.push(`${first.length} answers that say it was new`)
  if (first.length === 0 && taken.length > 0 && !inDoubt) faults.push('only replays, though every try was answered')
  if (taken.some(({ batch }) => batch !== batchId)) faults.push(`an answer names another batch than ${batchId}`)
  if (taken.some((answer) => answer.events !== events)) faults.push(`an answer counts other than ${events} events`)
  return faults
}

/** @param {import('./verify.js').Run} run @returns {Promise<import('./verify.js').Found>} */
export async function verify({ queue, out, found }) {
  if (queue === null) return { lines: [], faults: [], voids: [NOT_READ] }
  const check = new RetryCheck()
  for await (const line of createInterface({ input: createReadStream(join(out, NOTES_FILE)) })) check.takeLine(line)
  for await (const record of readRecords(queue)) check.takeRecord(record)
  const { figures, faults } = check.end()
  const { batches, accepted, records, unanswered, refused, replays, lostFirst, storedUnseen } = figures
  const lines = [
    `${batches} batches, ${accepted} seen accepted, ${records} records in the queue`,
    `tries without an answer ${unanswered}, 503s ${refused}, replays ${replays}`,
    `accepted by a try whose answer was lost: ${lostFirst}; stored, and never seen accepted: ${storedUnseen}`,
    ...(typeof found === 'number' ? [`the node was frozen ${found} times`] : []),
  ]
  return { lines, faults, voids: batches > 0 ? [] : ['the script wrote down no batch'] }
}

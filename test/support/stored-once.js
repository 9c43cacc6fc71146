// @ts-check
// The one judge of "what was answered 202 is stored whole and once", for tests and load tools. Pure: what clients heard
// and what the queue holds go in, what is wrong comes out.

/**
 * What a client knows of a batch, beside what the caller keeps of it.
 * @typedef {object} Sent
 * @property {string} id
 * @property {boolean} accepted it heard 202
 * @property {boolean} [mayBeStored] it heard no 202, and it may be there all the same: a 503, or no answer
 * @property {string} [appId] '' or none: any
 * @property {(events: readonly unknown[]) => boolean} [isWhole] whether these are the events that were sent
 */
/** @typedef {{ batch_id: string, app_id: string, events: readonly unknown[] }} StoredBatch */
/**
 * @typedef {'202, but not in the queue' | 'stored twice' | 'stored for another app' | 'stored with other events than were sent'
 *   | 'stored, though every answer refused it' | 'one batch id for two batches'} StoredFault
 */

/** @template {Sent} T */
export class StoredOnce {
  /** @type {Map<string, { sent: T, times: number }>} */
  #sent = new Map()
  /** How often each is stored of which no answer named the id. @type {Map<string, number>} */
  strays = new Map()

  /** @param {readonly T[]} sent @param {(kind: StoredFault, id: string, sent: T | null) => void} onFault */
  constructor(sent, onFault) {
    this.onFault = onFault
    for (const one of sent) {
      if (this.#sent.has(one.id)) onFault('one batch id for two batches', one.id, one)
      this.#sent.set(one.id, { sent: one, times: 0 })
    }
  }

  /** @param {StoredBatch} record @returns {T | null} what was sent under its id */
  take({ batch_id: id, app_id: appId, events }) {
    const found = this.#sent.get(id)
    if (found === undefined) {
      const times = (this.strays.get(id) ?? 0) + 1
      this.strays.set(id, times)
      if (times === 2) this.onFault('stored twice', id, null)
      return null
    }
    const { sent } = found
    found.times += 1
    if (found.times === 2) this.onFault('stored twice', id, sent)
    if ((sent.appId ?? appId) !== appId) this.onFault('stored for another app', id, sent)
    if (sent.isWhole?.(events) === false) this.onFault('stored with other events than were sent', id, sent)
    return sent
  }

  /** After the last record. @returns {T[]} stored, though its client never saw a 202 */
  end() {
    const unacknowledged = []
    for (const [id, { sent, times }] of this.#sent) {
      if (sent.accepted && times === 0) this.onFault('202, but not in the queue', id, sent)
      if (sent.accepted || times === 0) continue
      if (sent.mayBeStored === true) unacknowledged.push(sent)
      else this.onFault('stored, though every answer refused it', id, sent)
    }
    return unacknowledged
  }
}

/** All that is wrong, a line each. @param {readonly StoredBatch[]} records @param {readonly string[]} accepted ids of batches that were answered 202 */
export function storedFaults(records, accepted) {
  /** @type {string[]} */
  const faults = []
  const sent = accepted.map((id) => ({ id, accepted: true }))
  const once = new StoredOnce(sent, (kind, id) => faults.push(`${kind}: ${id}`))
  for (const record of records) once.take(record)
  once.end()
  return faults
}

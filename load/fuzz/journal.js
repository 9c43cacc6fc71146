// @ts-check
// What the journal must hold once all clients have gone: each batch that was answered 202, once and whole.

import { StoredOnce } from '../../test/support/stored-once.js'

/**
 * @param {ReturnType<import('./service.js').FuzzedService['records']>} records
 * @param {ReadonlySet<string>} acceptedIds of the hostile clients
 * @param {import('./honest.js').HonestReport} honest
 * @returns {Promise<readonly string[]>}
 */
export async function journalFaults(records, acceptedIds, { accepted, faults: ofHonest }) {
  /** @type {string[]} */
  const faults = []
  const names = new Set()
  const sent = [...acceptedIds].map((id) => ({ id, accepted: true }))
  const once = new StoredOnce(sent, (kind, id) => faults.push(`batch ${id}: ${kind}`))
  for await (const record of records) {
    once.take(record)
    if (record.app_id !== 'honest') continue
    for (const { name } of record.events) {
      if (names.has(name)) faults.push(`the honest event ${name} is stored twice`)
      names.add(name)
    }
  }
  once.end()
  if (ofHonest.length > 0) return faults
  for (const [lane, batches] of accepted.entries()) {
    for (let batch = 0; batch < batches; batch++) {
      if (!names.has(`${lane}-${batch}`))
        faults.push(`the honest event ${lane}-${batch} was accepted, and is not stored`)
    }
  }
  return faults
}

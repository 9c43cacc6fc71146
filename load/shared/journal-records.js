// @ts-check
// Reads a journal's files as any outsider would, so that what is found there does not pass through sluice.

import { createReadStream, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { linesOf } from './lines.js'

/** @typedef {{ batch_id: string, app_id: string, received_at: string, events: { name: string }[] }} StoredRecord */

/** Every record, oldest first. Throws where a line is not one. @param {string} folder @returns {AsyncGenerator<StoredRecord>} */
export async function* journalRecords(folder) {
  const files = readdirSync(folder).filter((name) => name.endsWith('.ndjson'))
  for (const file of files.toSorted()) {
    for await (const line of linesOf(createReadStream(join(folder, file)))) {
      yield/** @type {StoredRecord} */ (JSON.parse(line))
    }
  }
}

// @ts-check
// Reads a journal's files as any outsider would, so that what is found there does not pass through sluice.

import { once } from 'node:events'
import { createReadStream, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

/** @typedef {{ batch_id: string, app_id: string, received_at: string, events: { name: string }[] }} StoredRecord */

/** Every record, oldest first. Throws where a line is not one. @param {string} folder @returns {AsyncGenerator<StoredRecord>} */
export async function* journalRecords(folder) {
  const files = readdirSync(folder).filter((name) => name.endsWith('.ndjson'))
  for (const file of files.toSorted()) {
    const stream = createReadStream(join(folder, file))
    await once(stream, 'open')
    for await (const line of createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY })) {
      yield/** @type {StoredRecord} */ (JSON.parse(line))
    }
    stream.destroy()
  }
}

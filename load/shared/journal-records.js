// @ts-check
// Reads a journal's files as any outsider would, so that what is found there does not pass through sluice.

import { createReadStream, readdirSync } from 'node:fs'
import { join } from 'node:path'

const LINE_FEED = 0x0a

/** @typedef {{ batch_id: string, app_id: string, received_at: string, events: { name: string }[] }} StoredRecord */

/** Every record, oldest first. Throws where a line is not one. @param {string} folder @returns {AsyncGenerator<StoredRecord>} */
export async function* journalRecords(folder) {
  const files = readdirSync(folder).filter((name) => name.endsWith('.ndjson'))
  for (const file of files.toSorted()) {
    let rest = Buffer.alloc(0)
    for await (const piece of createReadStream(join(folder, file))) {
      rest = Buffer.concat([rest, piece])
      // Not by node:readline, which newer versions of Node let end a line at U+2028 and U+2029 too: JSON has them in strings.
      for (let end = rest.indexOf(LINE_FEED); end !== -1; end = rest.indexOf(LINE_FEED)) {
        yield/** @type {StoredRecord} */ (JSON.parse(rest.toString('utf8', 0, end)))
        rest = rest.subarray(end + 1)
      }
    }
    if (rest.length > 0) yield/** @type {StoredRecord} */ (JSON.parse(rest.toString()))
  }
}

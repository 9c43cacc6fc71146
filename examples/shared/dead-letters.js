// A file for what cannot be stored, one JSON object a line, synced before the position moves past it. A crash in between
// may write one twice; partition and sequence tell.

import { mkdir, open } from 'node:fs/promises'
import { join } from 'node:path'

/**
 * @typedef {Awaited<ReturnType<typeof openDeadLetters>>} DeadLetters
 */

/** @param {string} folder @param {(message: string) => void} log */
export async function openDeadLetters(folder, log) {
  const path = join(folder, 'dead-letters.ndjson')
  await mkdir(folder, { recursive: true })

  return {
    path,
    /**
     * @param {string} reason
     * @param {{ partition: string, sequence: bigint, text: string }} line
     */
    add: async (reason, { partition, sequence, text }) => {
      const letter = { at: new Date().toISOString(), reason, partition, sequence: String(sequence), line: text }
      const file = await open(path, 'a')
      try {
        await file.write(`${JSON.stringify(letter)}\n`)
        await file.sync()
      } finally {
        await file.close()
      }
      log(`partition ${partition}, ${sequence}: ${reason}; kept in ${path}`)
    },
  }
}

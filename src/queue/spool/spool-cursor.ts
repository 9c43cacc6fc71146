// SPOOL_DIR/cursor.json: how far the spool has been sent. It is replaced atomically and synced, after acknowledgements and
// never before. A lost or damaged one costs a look into the stream for each batch, and no batch.

import { join } from 'node:path'
import { errorCode } from '../../lib/errors.ts'
import { NO_REGULAR_FILE } from '../../lib/regular-file.ts'
import type { Disk } from '../journal/disk.ts'
import type { JournalPosition } from '../journal/segments.ts'

const VERSION = 1
const FILE_NAME = 'cursor.json'

/** A message of the stream, by which it is known later whether NATS has lost what it acknowledged. */
export interface Witness {
  readonly sequence: number
  readonly messageId: string
}

/**
 * The batches of a spool, in the order in which they came:
 *
 *     removed │ in the stream, kept │ may have been sent │ read, not sent │ not read yet │
 *         released        <=        sent       <=     reserved    <=     read    <=     end
 *
 * What lies between `sent` and `reserved` is asked for in the stream by the next process, which has read nothing yet.
 */
export interface SpoolCursor {
  /** Of this folder, for its field in Redis. */
  readonly id: string
  /** Where a segment begins: all before it is in the stream, and synced there. */
  readonly released: JournalPosition
  /** All before it was acknowledged. */
  readonly sent: JournalPosition
  /** Nothing from here on was ever sent by the drainer. */
  readonly reserved: JournalPosition
  /** The last message before `sent`; null: none is known. */
  readonly witness: Witness | null
  /** By partition: where the stream has what is kept of it, at the latest. Empty: not known. */
  readonly sequences: readonly number[]
}

/** To be called once at a time. Rejects where the disk fails. */
export async function writeCursor(directory: string, cursor: SpoolCursor, disk: Disk): Promise<void> {
  const path = join(directory, FILE_NAME)
  const temporary = `${path}.new`
  const file = await disk.open(temporary, 'replace')
  try {
    await file.writeFile(`${JSON.stringify({ version: VERSION, ...cursor })}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
  await disk.rename(temporary, path)
  await disk.syncFolder(directory)
}

/** null: there is none. `damaged`: there is one, and it says nothing. */
export async function readCursor(directory: string, disk: Disk): Promise<SpoolCursor | 'damaged' | null> {
  let text: Buffer
  try {
    const file = await disk.open(join(directory, FILE_NAME), 'read')
    try {
      text = Buffer.alloc((await file.stat()).size)
      await file.read(text, 0, text.length, 0)
    } finally {
      await file.close()
    }
  } catch (error) {
    const code = errorCode(error)
    if (code === NO_REGULAR_FILE) return 'damaged'
    if (code === 'ENOENT') return null
    throw error
  }
  try {
    return asCursor(JSON.parse(text.toString()) as Record<string, unknown>) ?? 'damaged'
  } catch {
    return 'damaged'
  }
}

function asCursor(cursor: Record<string, unknown>): SpoolCursor | null {
  const { version, id, released, sent, reserved, witness, sequences } = cursor
  if (version !== VERSION || typeof id !== 'string' || !/^[0-9a-f]{8,32}$/.test(id)) return null
  if (!isPosition(released) || !isPosition(sent) || !isPosition(reserved)) return null
  return {
    id,
    released,
    sent,
    reserved,
    witness: isWitness(witness) ? witness : null,
    sequences: isSequences(sequences) ? sequences : [],
  }
}

function isPosition(value: unknown): value is JournalPosition {
  const { segment, offset } = (value ?? {}) as Record<string, unknown>
  return Number.isSafeInteger(segment) && Number.isSafeInteger(offset) && Number(segment) >= 0 && Number(offset) >= 0
}

function isSequences(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((sequence) => Number.isSafeInteger(sequence))
}

function isWitness(value: unknown): value is Witness {
  const { sequence, messageId } = (value ?? {}) as Record<string, unknown>
  return Number.isSafeInteger(sequence) && typeof messageId === 'string'
}

// DATA_DIR/snapshot.json: the limiter's counters at one position of the journal, so that a start reads only the records
// after it. It is replaced atomically.

import { join } from 'node:path'
import { errorCode, errorMessage } from '../../lib/errors.ts'
import { type Disk, realDisk } from './disk.ts'
import { type JournalPosition, MAX_SEGMENT_NUMBER } from './segments.ts'

const VERSION = 1
const FILE_NAME = 'snapshot.json'

export interface Snapshot {
  readonly writtenAtMs: number
  /** `usage` covers exactly the records before this. */
  readonly position: JournalPosition
  /** The keys of all records before this have expired. */
  readonly keysFrom: JournalPosition
  /** The limiter's dump; any JSON value. */
  readonly usage: unknown
  /** What stands of alerts; any JSON value. Absent in a snapshot of 0.3. */
  readonly alerts?: unknown
}

/** null: there is no snapshot. `problem` is a sentence for the log; recovery then reads the whole journal. */
export type SnapshotReading =
  | { readonly kind: 'read'; readonly snapshot: Snapshot }
  | { readonly kind: 'problem'; readonly problem: string }
  | null

/** To be called once at a time. The temporary file always has the same name, so that a crash leaves at most one. */
export async function writeSnapshot(dataDirectory: string, snapshot: Snapshot, disk: Disk = realDisk): Promise<void> {
  const path = join(dataDirectory, FILE_NAME)
  const temporary = `${path}.new`
  const file = await disk.open(temporary, 'replace')
  try {
    await file.writeFile(`${JSON.stringify({ version: VERSION, ...snapshot })}\n`)
    // Before the rename, since a power failure could otherwise leave an empty file under the name.
    await file.sync()
  } finally {
    await file.close()
  }
  await disk.rename(temporary, path)
  await disk.syncFolder(dataDirectory)
}

export async function readSnapshot(dataDirectory: string, disk: Disk = realDisk): Promise<SnapshotReading> {
  const path = join(dataDirectory, FILE_NAME)
  let text: string
  try {
    text = await readText(path, disk)
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null
    return { kind: 'problem', problem: `${path} cannot be read: ${errorMessage(error)}` }
  }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return { kind: 'problem', problem: `${path} is not JSON` }
  }
  const snapshot = asSnapshot(value)
  if (snapshot === null) return { kind: 'problem', problem: `${path} is not a snapshot of version ${VERSION}` }
  return { kind: 'read', snapshot }
}

async function readText(path: string, disk: Disk): Promise<string> {
  const file = await disk.open(path, 'read')
  try {
    const text = Buffer.alloc((await file.stat()).size)
    const { bytesRead } = await file.read(text, 0, text.length, 0)
    return text.toString('utf8', 0, bytesRead)
  } finally {
    await file.close()
  }
}

function asSnapshot(value: unknown): Snapshot | null {
  if (typeof value !== 'object' || value === null) return null
  const { version, writtenAtMs, position, keysFrom, usage, alerts } = value as Record<string, unknown>
  if (version !== VERSION || typeof writtenAtMs !== 'number' || usage === undefined || usage === null) return null
  if (!isPosition(position) || !isPosition(keysFrom)) return null
  return { writtenAtMs, position, keysFrom, usage, alerts }
}

function isPosition(value: unknown): value is JournalPosition {
  if (typeof value !== 'object' || value === null) return false
  const { segment, offset } = value as Record<string, unknown>
  return isCount(segment) && Number(segment) < MAX_SEGMENT_NUMBER && isCount(offset)
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

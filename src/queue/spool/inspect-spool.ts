// What a spool's folder holds, for who looks from outside. It only reads.

import { statSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Crc32c } from '../../lib/crc32c.ts'
import { StartError } from '../../lib/errors.ts'
import { realDisk } from '../journal/disk.ts'
import { missingFrom } from '../journal/journal-gaps.ts'
import { PIECE_BYTES } from '../journal/segment-cursor.ts'
import { damagedDirectory, type JournalPosition, journalDirectory, listSegments } from '../journal/segments.ts'
import { readCursor } from './spool-cursor.ts'
import type { SpoolContents } from './spool-log.ts'
import { readFolder, readPieces } from './spool-records.ts'

const BEGINNING: JournalPosition = { segment: 0, offset: 0 }
const OF_A_WORKER = /^worker-\d+$/

export interface SpoolInspection {
  readonly unsent: SpoolContents
  /** Sent, and kept until NATS has synced them. */
  readonly keptBatches: number
  /** Of what is not sent, by app. */
  readonly apps: ReadonlyMap<string, { batches: number; events: number }>
  /** Lines in it are no batches, or not those that were written, or are missing; or such segments were set aside. */
  readonly isDamaged: boolean
}

/** The folder itself, and one of each worker process, as far as they hold a spool. */
export async function spoolFolders(directory: string): Promise<string[]> {
  const names = isThere(directory) ? await readdir(directory) : []
  const workers = names.filter((name) => OF_A_WORKER.test(name)).map((name) => join(directory, name))
  return [directory, ...workers].filter((folder) => isThere(journalDirectory(folder)))
}

/** Throws where this user may not look: that is not to pass for an empty spool. */
function isThere(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false }) !== undefined
}

/** Of so many worker processes: each has a folder of its own. */
export function foldersInUse(directory: string, processes: number): string[] {
  if (processes === 1) return [directory]
  return Array.from({ length: processes }, (_, at) => join(directory, `worker-${at + 1}`))
}

/** A sentence for each folder with unsent batches that no process works in, since there were more or fewer. Rejects where one cannot be read. */
export async function strandedSpools(directory: string, processes: number): Promise<string[]> {
  const inUse = foldersInUse(directory, processes)
  const texts: string[] = []
  for (const folder of await spoolFolders(directory)) {
    if (inUse.includes(folder) || (await holdsOtherJournal(folder))) continue
    const { batches } = (await inspectSpool(folder)).unsent
    if (batches > 0)
      texts.push(
        `${folder} holds ${batches} batches that nobody sends: no process of SLUICE_PROCESSES=${processes} works in it: sluice spool drain ${folder}`,
      )
  }
  return texts
}

/** How far the spool was sent and let go of. A lost or damaged cursor does not tell: then any of it may be unsent. */
export async function readProgress(directory: string): Promise<{
  readonly sent: JournalPosition
  readonly released: JournalPosition
  readonly state: 'read' | 'damaged' | 'lost'
}> {
  const cursor = await readCursor(directory, realDisk)
  if (cursor === null || cursor === 'damaged') return { sent: BEGINNING, released: BEGINNING, state: cursor ?? 'lost' }
  return { sent: cursor.sent, released: cursor.released, state: 'read' }
}

/** The journal of one machine has the same files. What sends a spool would pass over its records and remove them. */
export async function holdsOtherJournal(directory: string): Promise<boolean> {
  if ((await readCursor(directory, realDisk)) !== null) return false
  const journal = journalDirectory(directory)
  if ((await listSegments(journal)).every(({ bytes }) => bytes === 0)) return false
  const range = { directory: journal, from: BEGINNING, until: null, disk: realDisk, onDamage: () => {} }
  for await (const { records } of readPieces(range)) if (records.length > 0) return false
  return true
}

/** Rejects where it cannot be read, with a StartError where it holds files and none of a spool. */
export async function inspectSpool(directory: string): Promise<SpoolInspection> {
  const journal = journalDirectory(directory)
  const cursor = await readProgress(directory)
  const names = await readdir(directory)
  if (cursor.state === 'lost' && names.length > 0 && !isThere(journal))
    throw new StartError(`${directory} is no spool: it holds other files`)
  const apps = new Map<string, { batches: number; events: number }>()
  const gaps = await missingFrom(await listSegments(journal), {
    directory: journal,
    covered: null,
    checks: new Crc32c(PIECE_BYTES),
    disk: realDisk,
  })
  let isDamaged = gaps.length > 0 || (await listSegments(damagedDirectory(directory))).length > 0
  const onDamage = (): void => void (isDamaged = true)
  const { unsent, keptBatches } = await readFolder(
    { directory, cursor, disk: realDisk, onDamage },
    ({ head }, isSent) => {
      if (isSent) return
      const app = apps.get(head.appId) ?? { batches: 0, events: 0 }
      apps.set(head.appId, app)
      app.batches += 1
      app.events += head.events
    },
  )
  if (unsent.batches + keptBatches === 0 && (await holdsOtherJournal(directory)))
    throw new StartError(`${directory} is no spool: its journal has no batch of one`)
  return { unsent, keptBatches, apps, isDamaged }
}

/** A crash may leave what ends with .new. */
const OF_A_SPOOL = /^(?:journal|damaged|(?:cursor\.json|apps\.ndjson)(?:\.new)?)$/
/** Of files in a folder that is no spool yet. */
const OF_ANY_FOLDER = /^(?:lost\+found|lock.*|\..*)$/

/** false: it holds files of something else. */
export async function isSpoolOrEmpty(directory: string): Promise<boolean> {
  const names = await readdir(directory)
  return (
    names.some((name) => OF_A_SPOOL.test(name) || OF_A_WORKER.test(name)) ||
    names.every((name) => OF_ANY_FOLDER.test(name))
  )
}

// The editing side of the bucket: every entry is written only where nobody has changed it since it was read, and an
// edit that came too late is made anew.

import { errorMessage } from '../../lib/errors.ts'
import { sleep, type Timers } from '../../lib/timers.ts'
import type { Bucket, StoredEntry } from '../../nats/bucket.ts'
import { watchBucket } from '../../nats/bucket-watch.ts'
import { type AppRecord, checkRecords } from '../app-record.ts'
import { AppEntries } from './app-entries.ts'
import { APPS_BUCKET, describePut } from './bucket-apps.ts'

/** Edits at the same time make one of them begin again. */
const MAX_EDIT_ATTEMPTS = 50
/** Of a whole bucket: 100,000 entries take some seconds. */
const READ_TIMEOUT_MS = 60_000
/** Writes that wait for their answers at once. */
const WRITES_IN_FLIGHT = 256

export interface BucketRecords {
  /** In the order of their ids. */
  readonly records: readonly AppRecord[]
  /** What is wrong with the other entries, and which records share a key. */
  readonly complaints: readonly string[]
  readonly apps: AppEntries
  /** By key; marks of deletions too. */
  readonly entries: ReadonlyMap<string, StoredEntry>
}

/** Rejects with why it cannot be read. */
export async function readRecords(bucket: Bucket, timers: Timers): Promise<BucketRecords> {
  const entries = await readEntries(bucket, timers)
  const apps = new AppEntries()
  const records: AppRecord[] = []
  const complaints: string[] = []
  for (const entry of entries.values()) {
    const result = apps.put(entry)
    const complaint = describePut(entry.key, result)
    if (complaint !== null) complaints.push(complaint)
    if (result.kind === 'put') records.push(result.record)
  }
  records.sort((one, other) => (one.app_id < other.app_id ? -1 : 1))
  return { records, complaints: complaints.toSorted(), apps, entries }
}

/** Every entry; none where there is no bucket. Rejects with why it cannot be read. */
async function readEntries(bucket: Bucket, timers: Timers): Promise<Map<string, StoredEntry>> {
  const entries = new Map<string, StoredEntry>()
  const report = await bucket.describe()
  if (report.kind === 'unreadable') throw new Error(`the bucket ${APPS_BUCKET} cannot be read: ${report.reason}`)
  if (report.kind === 'absent') return entries
  const over = new AbortController()
  let hasAll = false
  void sleep(timers, READ_TIMEOUT_MS, over.signal).then(() => over.abort())
  await watchBucket(bucket, report.facts, {
    timers,
    knownRevision: 0,
    onEntry: (entry) => entries.set(entry.key, entry),
    onAll: () => {
      hasAll = true
      over.abort()
    },
    signal: over.signal,
  })
  over.abort()
  if (hasAll) return entries
  throw new Error(`the bucket ${APPS_BUCKET} could not be read to its end; try again`)
}

export interface BucketEdit {
  readonly timers: Timers
  /** Of the bucket, where it has to be made. */
  readonly replicas: number
  /** Bad entries may be overwritten; otherwise they have to be removed first. */
  readonly replaceBad?: boolean
}

/**
 * Puts what `change` makes of the present records in their place. `change` is called again where another edit came
 * between, and what it throws ends the edit. Rejects where the bucket cannot be read or written.
 */
export function editRecords(
  bucket: Bucket,
  change: (records: readonly AppRecord[]) => readonly AppRecord[],
  edit: BucketEdit,
): Promise<void> {
  return editEntries(bucket, edit, ({ records, entries }) => {
    const present = new Set(records.map((record) => record.app_id))
    const changed = change(records)
    const checked = checkRecords({ apps: changed })
    if (checked.kind === 'mistakes') throw new Error(checked.mistakes.join('\n'))
    const wanted = new Map(changed.map((record) => [record.app_id, JSON.stringify(record)]))
    for (const key of wanted.keys()) {
      const isBad = !present.has(key) && (entries.get(key)?.text ?? null) !== null
      if (isBad && edit.replaceBad !== true) {
        throw new Error(
          `the entry ${key} of ${APPS_BUCKET} is no app record; sluice apps remove ${key} has to come first`,
        )
      }
    }
    const removed = [...present].filter((key) => !wanted.has(key)).map((key) => [key, null] as const)
    return [...removed, ...[...wanted].filter(([key, text]) => entries.get(key)?.text !== text)]
  })
}

/** Takes away what is stored under a key, whether it is an app record or not. */
export function removeEntry(bucket: Bucket, key: string, edit: BucketEdit): Promise<void> {
  return editEntries(bucket, edit, ({ entries }) => {
    if ((entries.get(key)?.text ?? null) === null) throw new Error(`there is no app ${key}`)
    return [[key, null]]
  })
}

/** A key and what to store there; null: nothing. */
type Write = readonly [key: string, text: string | null]

async function editEntries(
  bucket: Bucket,
  { timers, replicas }: BucketEdit,
  writesOf: (present: BucketRecords) => readonly Write[],
): Promise<void> {
  const report = await bucket.ensure(replicas)
  if (report.kind === 'unreadable') throw new Error(`the bucket ${APPS_BUCKET} cannot be used: ${report.reason}`)
  for (let attempt = 0; attempt < MAX_EDIT_ATTEMPTS; attempt++) {
    const present = await readRecords(bucket, timers)
    const writes = writesOf(present)
    let isBeaten = false
    for (let at = 0; at < writes.length && !isBeaten; at += WRITES_IN_FLIGHT) {
      const piece = writes.slice(at, at + WRITES_IN_FLIGHT)
      const written = await Promise.all(
        piece.map(([key, text]) => write(bucket, key, text, present.entries.get(key)?.revision ?? 0)),
      )
      isBeaten = written.includes('beaten')
    }
    if (!isBeaten) return
  }
  throw new Error(`${APPS_BUCKET}: other edits came between each time; try again`)
}

async function write(bucket: Bucket, key: string, text: string | null, revision: number): Promise<'done' | 'beaten'> {
  try {
    return await bucket.write(key, text, revision)
  } catch (error) {
    const reason = errorMessage(error)
    throw new Error(`${APPS_BUCKET}: ${reason}; the change may have been made or not: sluice apps list tells`, {
      cause: error,
    })
  }
}

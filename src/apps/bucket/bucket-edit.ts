// Edits the bucket. Each entry is written by compare-and-set on the revision that was read; an edit that loses against
// another one starts again.

import { errorMessage } from '../../lib/errors.ts'
import { sleep, type Timers } from '../../lib/timers.ts'
import type { Bucket, StoredEntry } from '../../nats/bucket.ts'
import { watchBucket } from '../../nats/bucket-watch.ts'
import { APPS_BUCKET } from '../../nats/store-names.ts'
import { AppIndex } from '../app-index.ts'
import { type AppRecord, checkRecords } from '../app-record.ts'
import { describePut } from './bucket-apps.ts'

/** Of several edits at once, all but one start again. */
const MAX_EDIT_ATTEMPTS = 50
/** For the whole bucket: 100,000 entries take a few seconds. */
const READ_TIMEOUT_MS = 60_000
const WRITES_IN_FLIGHT = 256

export interface BucketRecords {
  /** Sorted by id. */
  readonly records: readonly AppRecord[]
  /** Mistakes in the other entries, and records that share a key. */
  readonly complaints: readonly string[]
  readonly apps: AppIndex
  /** By key, with deletion markers. */
  readonly entries: ReadonlyMap<string, StoredEntry>
}

/** Rejects with why the bucket cannot be read. */
export async function readRecords(bucket: Bucket, timers: Timers): Promise<BucketRecords> {
  const entries = await readEntries(bucket, timers)
  const apps = new AppIndex()
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

/** Every entry; none if there is no bucket. Rejects with why the bucket cannot be read. */
async function readEntries(bucket: Bucket, timers: Timers): Promise<Map<string, StoredEntry>> {
  const entries = new Map<string, StoredEntry>()
  const report = await bucket.describe()
  if (report.kind === 'unreadable') throw new Error(`the bucket ${APPS_BUCKET} cannot be read: ${report.reason}`)
  if (report.kind === 'absent') return entries
  const done = new AbortController()
  let hasAll = false
  void sleep(timers, READ_TIMEOUT_MS, done.signal).then(() => done.abort())
  await watchBucket(bucket, report.facts, {
    timers,
    knownRevision: 0,
    onEntry: (entry) => entries.set(entry.key, entry),
    onAll: () => {
      hasAll = true
      done.abort()
    },
    signal: done.signal,
  })
  done.abort()
  if (hasAll) return entries
  throw new Error(`the bucket ${APPS_BUCKET} could not be read to its end; try again`)
}

export interface BucketEdit {
  readonly timers: Timers
  /** Of the bucket, if it has to be created. */
  readonly replicas: number
  /** Overwrite bad entries; without it they have to be removed first. */
  readonly replaceBad?: boolean
}

/**
 * Replaces the records by the result of `change`, which is called again if another edit came first. An error that it
 * throws ends the edit. Rejects if the bucket cannot be read or written.
 */
export function editRecords(
  bucket: Bucket,
  change: (records: readonly AppRecord[]) => readonly AppRecord[],
  edit: BucketEdit,
): Promise<void> {
  const read = (): Promise<BucketRecords> => readRecords(bucket, edit.timers)
  return editEntries(bucket, edit, read, ({ records, entries }) => {
    const present = new Set(records.map((record) => record.app_id))
    const changed = change(records)
    const checked = checkRecords({ apps: changed })
    if (checked.kind === 'mistakes') throw new Error(checked.mistakes.join('\n'))
    const wanted = new Map(changed.map((record) => [record.app_id, JSON.stringify(record)]))
    for (const key of wanted.keys()) {
      const isBad = !present.has(key) && (entries.get(key)?.text ?? null) !== null
      if (isBad && edit.replaceBad !== true) throw new Error(describeNoRecord(key))
    }
    const removed = [...present].filter((key) => !wanted.has(key)).map((key) => [key, null] as const)
    const written = [...wanted].filter(([key, text]) => entries.get(key)?.text !== text)
    return [...removed, ...written].map(([key, text]) => ({ key, text, revision: entries.get(key)?.revision ?? 0 }))
  })
}

/** Edits one entry without a reading of the others. `change` gets null where there is none, and returns its next text, null to remove it, or undefined to leave it. */
export function editEntry(
  bucket: Bucket,
  key: string,
  change: (entry: StoredEntry | null) => string | null | undefined,
  edit: BucketEdit,
): Promise<void> {
  const read = (): Promise<StoredEntry | null> => bucket.read(key)
  return editEntries(bucket, edit, read, (entry) => {
    const text = change(entry?.text == null ? null : entry)
    return text === undefined ? [] : [{ key, text, revision: entry?.revision ?? 0 }]
  })
}

/** Of an entry that an edit would overwrite. */
export function describeNoRecord(key: string): string {
  return `the entry ${key} of ${APPS_BUCKET} is not an app record; run sluice apps remove ${key} first`
}

/** Removes an entry, whether it is an app record or not. */
export function removeEntry(bucket: Bucket, key: string, edit: BucketEdit): Promise<void> {
  const none = (): never => {
    throw new Error(`there is no app ${key}`)
  }
  return editEntry(bucket, key, (entry) => (entry === null ? none() : null), edit)
}

/** `writesOf`: called again where another edit came between. The revision of a write is that of the entry that was read. */
async function editEntries<T>(
  bucket: Bucket,
  { timers, replicas }: BucketEdit,
  read: () => Promise<T>,
  writesOf: (present: T) => readonly StoredEntry[],
): Promise<void> {
  const report = await bucket.ensure(replicas)
  if (report.kind === 'unreadable') throw new Error(`the bucket ${APPS_BUCKET} cannot be used: ${report.reason}`)
  for (let attempt = 0; attempt < MAX_EDIT_ATTEMPTS; attempt++) {
    const writes = writesOf(await read())
    let hasLost = false
    for (let at = 0; at < writes.length && !hasLost; at += WRITES_IN_FLIGHT) {
      const chunk = writes.slice(at, at + WRITES_IN_FLIGHT)
      const written = await Promise.all(chunk.map((one) => write(bucket, one, timers)))
      hasLost = written.includes('beaten')
    }
    if (!hasLost) return
  }
  throw new Error(`${APPS_BUCKET}: other edits came first each time; try again`)
}

async function write(bucket: Bucket, { key, text, revision }: StoredEntry, timers: Timers): Promise<'done' | 'beaten'> {
  try {
    return await bucket.writeOnceLed(key, text, { revision, timers })
  } catch (error) {
    const reason = errorMessage(error)
    throw new Error(`${APPS_BUCKET}: ${reason}; it is unknown whether the change was made: see sluice apps list`, {
      cause: error,
    })
  }
}

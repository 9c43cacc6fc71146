// Opens a spool: reads what an earlier process has left in its folder, and puts queue and drainer together.

import { IDEMPOTENCY_WINDOW_SECONDS } from '../../contract/bounds.ts'
import type { Charge } from '../../contract/charge.ts'
import { partitionOf } from '../../contract/partition.ts'
import { formatBytes } from '../../lib/format.ts'
import type { OnNotice } from '../../lib/notice.ts'
import type { Timers } from '../../lib/timers.ts'
import type { Fillers } from '../filling.ts'
import { damageText } from '../journal/damage-text.ts'
import type { Disk } from '../journal/disk.ts'
import { type Journal, openJournal } from '../journal/journal.ts'
import { watchFilling } from '../journal/journal-filling.ts'
import type { Damage, DamageKind } from '../journal/segment-cursor.ts'
import { journalDirectory } from '../journal/segments.ts'
import type { StreamPublisher } from '../stream/publisher.ts'
import type { Doubt } from '../stream/publisher-options.ts'
import { DamagedSegments } from './damaged-segments.ts'
import { Drainer } from './drainer.ts'
import { Spool } from './spool.ts'
import { readCursor, type SpoolCursor, writeCursor } from './spool-cursor.ts'
import type { SpoolContents } from './spool-log.ts'
import { type FolderContents, readFolder } from './spool-records.ts'

const KEY_WINDOW_MS = IDEMPOTENCY_WINDOW_SECONDS * 1000
/** Of the disk, for others: this much, or this share of it where that is more. */
const FLOOR_BYTES = 2 * 1024 ** 3
const FLOOR_SHARE = 0.05
export const SPOOL_ADVICE = 'bring NATS back, or raise SLUICE_SPOOL_MAX_MB'
/** A damaged disk may have any number of them. */
const MAX_DAMAGE_TOLD = 10
const BEGINNING = { segment: 0, offset: 0 } as const

export interface SpoolCallbacks {
  /** The name of the folder is known, before `onFound`. */
  readonly onNamed: (id: string) => void
  /** A batch that an earlier process has left, or that NATS may have lost. */
  readonly onFound: (appId: string, charge: Charge) => void
  /** A batch is in the spool, and counts in this node's field. */
  readonly onSpooled: (appId: string, charge: Charge) => void
  /** It is in the stream: in its partition, at `sequence` or before. */
  readonly onSent: (appId: string, charge: Charge, sequence: number) => void
  /** NATS has lost messages: what was sent before counts by `onFound`, until it is sent again. */
  readonly onLost: () => void
  /** Of a batch of the last five minutes that an earlier process has left. */
  readonly onKey: (batchId: string, events: number, takenAtMs: number) => void
  readonly onDoubt: (doubt: Doubt) => void
  readonly onCommit?: (records: number) => void
  readonly fillers?: Fillers
  /** Called for each place of the spool's journal that is found damaged. */
  readonly onDamage?: (kind: DamageKind) => void
  readonly onNotice: OnNotice
}

export interface SpoolOptions extends SpoolCallbacks {
  /** It is there, and this process alone works in it. */
  readonly directory: string
  readonly maxBytes: number
  readonly stream: StreamPublisher
  readonly partitions: number
  readonly disk: Disk
  readonly timers: Timers
  readonly syncMs: () => number
  /** false: batches go to the disk alone, and are sent from there. */
  readonly isSyncShown: () => boolean
  /** Of `onSent`: when the oldest was sent that the audit does not count yet, by the monotonic clock; infinite: it counts all. */
  readonly uncountedSinceMs: () => number
  /** 8 to 32 hex digits, for a folder that has no name yet. */
  readonly newId: string
  /** Free bytes of the disk, and its size. */
  readonly space: (directory: string) => Promise<{ readonly freeBytes: number; readonly totalBytes: number }>
}

export interface OpenedSpool {
  readonly spool: Spool
  /** Of the folder, for its field in Redis. */
  readonly id: string
  readonly sizeBytes: () => number
  readonly maxBytes: () => number
}

/** What the spool leaves free on a disk of this size. */
export function spoolFloorBytes(totalBytes: number): number {
  return Math.max(FLOOR_BYTES, FLOOR_SHARE * totalBytes)
}

/** Rejects where the folder cannot be used. */
export async function openSpool(options: SpoolOptions): Promise<OpenedSpool> {
  const { directory, maxBytes, stream, disk, timers, onNotice, onCommit } = options
  const known = await readCursor(directory, disk)
  if (known === 'damaged')
    onNotice('cursor.json of the spool is damaged: NATS is asked for each batch before it is sent again', 'error')
  const saved = known === 'damaged' || known === null ? null : withSequences(known, options.partitions)
  const journal: Journal = await openJournal({
    directory: journalDirectory(directory),
    maxBytes: Number.MAX_SAFE_INTEGER,
    segmentBytes: Math.min(64 * 1024 * 1024, Math.max(1024, Math.floor(maxBytes / 8))),
    keepHours: null,
    resumeAfter: known === 'damaged' ? null : (known?.sent ?? null),
    clock: () => timers.nowMs(),
    timers,
    disk,
    onCommit: (records) => {
      onCommit?.(records)
      filling.look()
    },
    onNoRoom: () => filling.refused(),
    onDamage: (kind) => options.onDamage?.(kind),
    onNotice,
  })
  const end = journal.position()
  // Without a cursor any of it may have been sent.
  const positions = { released: BEGINNING, sent: BEGINNING, reserved: end }
  const sequences = noneOf(options.partitions)
  const cursor = saved ?? { id: options.newId, ...positions, witness: null, sequences }
  if (saved === null) await writeCursor(directory, cursor, disk)
  options.onNamed(cursor.id)
  const filling = watchFilling(journal, {
    directory,
    maxBytes,
    onNotice,
    timers,
    store: 'the spool',
    ...(options.fillers === undefined ? {} : { fillers: options.fillers }),
    advice: SPOOL_ADVICE,
    freeBytes: async (path) => {
      const { freeBytes, totalBytes } = await options.space(path)
      return Math.max(0, freeBytes - spoolFloorBytes(totalBytes))
    },
  })
  await filling.measure()
  const damaged = new DamagedSegments(directory, disk)
  const onDamage = damageTeller(options, damaged)
  const { unsent: found } = await readFound(options, cursor, onDamage)
  const spool = new Spool({
    stream,
    journal,
    filling,
    found,
    timers,
    isSyncShown: options.isSyncShown,
    onSpooled: options.onSpooled,
    onDoubt: options.onDoubt,
    onNotice,
  })
  const drainer = new Drainer({
    stream,
    journal,
    directory,
    journalDirectory: journalDirectory(directory),
    damaged,
    disk,
    timers,
    partitions: options.partitions,
    cursor,
    syncMs: options.syncMs,
    uncountedSinceMs: options.uncountedSinceMs,
    isTaking: () => spool.isTaking,
    onSent: (record, sequence) => {
      spool.sent(record)
      options.onSent(record.head.appId, record.charge, sequence)
    },
    onTaken: () => spool.taken(),
    onNotTaken: (ack) => spool.notTaken(ack),
    onKept: ({ head, charge }) => options.onFound(head.appId, charge),
    onTakenBack: (lost) => {
      spool.takenBack(lost)
      options.onLost()
    },
    onDamage,
    onNotice,
  })
  spool.use(drainer)
  return { spool, id: cursor.id, sizeBytes: () => journal.sizeBytes, maxBytes: filling.maxBytes }
}

/** One that does not say where the stream has what is kept, or of other partitions: all that is kept is looked up again. */
function withSequences(cursor: SpoolCursor, partitions: number): SpoolCursor {
  if (cursor.sequences.length === partitions) return cursor
  return { ...cursor, sent: cursor.released, witness: null, sequences: noneOf(partitions) }
}

function noneOf(partitions: number): number[] {
  return Array.from({ length: partitions }, () => 0)
}

/** Counts what is kept and what is not sent yet, for the limits too, and passes the keys that are remembered. */
function readFound(
  { directory, disk, timers, partitions, onFound, onSent, onKey }: SpoolOptions,
  cursor: SpoolCursor,
  onDamage: (damage: Damage) => void,
): Promise<FolderContents> {
  const nowMs = timers.nowMs()
  return readFolder({ directory, cursor, disk, onDamage }, ({ head, charge }, isSent) => {
    onFound(head.appId, charge)
    // The audit may not have read it yet.
    if (isSent) return onSent(head.appId, charge, cursor.sequences[partitionOf(head.appId, partitions)])
    const takenAtMs = Math.min(head.receivedAtMs, nowMs)
    if (head.keyed && nowMs - takenAtMs < KEY_WINDOW_MS) onKey(head.batchId, head.events, takenAtMs)
  })
}

function damageTeller({ onNotice, onDamage }: SpoolOptions, damaged: DamagedSegments): (damage: Damage) => void {
  const told = new Set<string>()
  return (damage) => {
    damaged.add(damage)
    const text = damageText(damage)
    if (told.has(text)) return
    onDamage?.(damage.kind)
    if (told.size >= MAX_DAMAGE_TOLD) return
    told.add(text)
    onNotice(
      `the spool is damaged (sluice spool verify): ${text}; what is whole is sent, and the segment is kept in damaged/`,
      'error',
    )
  }
}

/** For a table and a line. */
export function contentsText({ batches, bytes, oldestAtMs }: SpoolContents): string {
  if (batches === 0) return 'empty'
  const oldest = oldestAtMs === null ? '' : `, the oldest from ${new Date(oldestAtMs).toISOString()}`
  return `${batches} batches (${formatBytes(bytes)})${oldest}`
}

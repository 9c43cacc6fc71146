// What was sent and is kept until NATS must have synced it and the audit counts it: groups in the order of the journal, each with the last of its messages,
// which is gone where NATS has lost the end of its stream.

import type { NatsConnection } from '@nats-io/transport-node'
import { partitionOf } from '../../contract/partition.ts'
import type { Timers } from '../../lib/timers.ts'
import { API_TIMEOUT_MS } from '../../nats/api.ts'
import { comparePositions, type JournalPosition } from '../journal/segments.ts'
import { getFromLeader } from '../stream/read/stream-message.ts'
import { describeStream, ID_HEADER } from '../stream/stream.ts'
import type { SpoolCursor, Witness } from './spool-cursor.ts'
import type { SpooledRecord } from './spool-records.ts'

/** More are joined, so that a long drain takes no memory. */
const MAX_GROUPS = 1000

export interface Kept {
  readonly end: JournalPosition
  readonly witness: Witness | null
  readonly atMs: number
  readonly batches: number
  readonly bytes: number
}

interface Pending extends Witness {
  readonly end: JournalPosition
  readonly bytes: number
}

export class KeptBatches {
  readonly #timers: Pick<Timers, 'monotonicMs'>
  #groups: Kept[] = []
  /** In no group yet. What one reading passes, and what is under way. */
  #pending: Pending[] = []
  /** By partition: of the newest message of what is kept; 0: there is none. */
  readonly #sequences: number[]

  /** `left`: what an earlier process has sent and kept. */
  constructor(
    timers: Pick<Timers, 'monotonicMs'>,
    { released, sent, witness, sequences }: SpoolCursor,
    { batches, bytes }: Pick<Kept, 'batches' | 'bytes'>,
  ) {
    this.#timers = timers
    this.#sequences = [...sequences]
    if (comparePositions(released, sent) < 0)
      this.#groups.push({ end: sent, witness, atMs: timers.monotonicMs(), batches, bytes })
  }

  /** The newest in the stream, which need not be the last one of the journal: what is in doubt may be found much later. */
  get witness(): Witness | null {
    return newestOf([...this.#groups.map(({ witness }) => witness), ...this.#pending])
  }

  get sequences(): readonly number[] {
    return [...this.#sequences]
  }

  /** A message with this batch is in the stream, whose id begins so. */
  add({ sequence, messageId }: Witness, { head, line, end }: SpooledRecord): void {
    const partition = partitionOf(head.appId, this.#sequences.length)
    this.#sequences[partition] = Math.max(this.#sequences[partition], sequence)
    this.#pending.push({ sequence, messageId, end, bytes: line.length })
  }

  /** All up to `end` was sent, and the cursor says so. */
  close(end: JournalPosition): void {
    const last = this.#groups.at(-1)
    // Others were acknowledged before an earlier one was, or while the cursor was written.
    const closed = this.#pending.filter((one) => comparePositions(one.end, end) <= 0)
    if (closed.length === 0) return
    this.#pending = this.#pending.filter((one) => comparePositions(one.end, end) > 0)
    const { batches, bytes } = sumOf(closed)
    const group = { end, witness: newestOf(closed), atMs: this.#timers.monotonicMs(), batches, bytes }
    if (last === undefined || this.#groups.length < MAX_GROUPS) this.#groups.push(group)
    else {
      const witness = newestOf([last.witness, group.witness])
      const joined = { ...group, witness, batches: last.batches + batches, bytes: last.bytes + bytes }
      this.#groups[this.#groups.length - 1] = joined
    }
  }

  /** The oldest group, if it was closed by then, by the monotonic clock; null: none was. */
  due(untilMs: number): Kept | null {
    const [first] = this.#groups
    return first !== undefined && first.atMs <= untilMs ? first : null
  }

  /** Rejects where NATS does not answer. */
  async isThere({ witness }: Pick<Kept, 'witness'>, connection: NatsConnection): Promise<boolean> {
    if (witness === null) return false
    const { sequence, messageId } = witness
    const message = await getFromLeader(connection, sequence, API_TIMEOUT_MS)
    if (message !== null) return message.header.get(ID_HEADER).startsWith(messageId)
    const report = await describeStream(connection)
    if (report.kind === 'unreadable') throw new Error(report.reason)
    // Removed by its age, or by an operator: from the front.
    return report.kind === 'present' && report.facts.firstSequence > sequence
  }

  /** The groups that end there, or before. */
  releaseUpTo(end: JournalPosition): void {
    this.#groups = this.#groups.filter((group) => comparePositions(group.end, end) > 0)
    if (this.isEmpty) this.#sequences.fill(0)
  }

  get isEmpty(): boolean {
    return this.#groups.length === 0 && this.#pending.length === 0
  }

  /** Of all that is kept: it may be lost. */
  takeAll(): { batches: number; bytes: number } {
    const { batches, bytes } = sumOf(this.#pending)
    const lost = {
      batches: this.#groups.reduce((sum, group) => sum + group.batches, batches),
      bytes: this.#groups.reduce((sum, group) => sum + group.bytes, bytes),
    }
    this.#groups = []
    this.#pending = []
    this.#sequences.fill(0)
    return lost
  }
}

function sumOf(pending: readonly Pending[]): Pick<Kept, 'batches' | 'bytes'> {
  return { batches: pending.length, bytes: pending.reduce((sum, { bytes }) => sum + bytes, 0) }
}

/** null: the sequence of none is known. */
function newestOf(all: readonly (Witness | null)[]): Witness | null {
  let newest: Witness | null = null
  for (const one of all) if (one !== null && one.sequence > (newest?.sequence ?? 0)) newest = one
  return newest === null ? null : { sequence: newest.sequence, messageId: newest.messageId }
}

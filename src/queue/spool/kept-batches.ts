// What was sent and is kept until NATS must have synced it and the audit counts it: the newest message of each second of sending, which is
// gone where NATS has lost the end of its stream. A segment is let go of as a whole.

import type { NatsConnection } from '@nats-io/transport-node'
import { partitionOf } from '../../contract/partition.ts'
import type { Timers } from '../../lib/timers.ts'
import { API_TIMEOUT_MS } from '../../nats/api.ts'
import { comparePositions } from '../journal/segments.ts'
import { getFromLeader } from '../stream/read/stream-message.ts'
import { describeStream, ID_HEADER } from '../stream/stream.ts'
import type { SpoolCursor, Witness } from './spool-cursor.ts'
import type { SpooledRecord } from './spool-records.ts'

/** More are joined, so that a long drain takes no memory. */
const MAX_GROUPS = 1000

interface Group {
  /** The first of which it has a batch. */
  readonly segment: number
  /** null: an earlier process has not said which. */
  readonly witness: Witness | null
  readonly atMs: number
}

export class KeptBatches {
  readonly #timers: Pick<Timers, 'monotonicMs'>
  #groups: Group[] = []
  /** Of what was acknowledged since the last one. */
  #open: Group | null = null
  /** By partition: of the newest message of what is kept; 0: there is none. */
  readonly #sequences: number[]

  constructor(timers: Pick<Timers, 'monotonicMs'>, { released, sent, witness, sequences }: SpoolCursor) {
    this.#timers = timers
    this.#sequences = [...sequences]
    // What an earlier process has sent and kept.
    if (comparePositions(released, sent) < 0)
      this.#groups.push({ segment: released.segment, witness, atMs: timers.monotonicMs() })
  }

  get #all(): readonly Group[] {
    return this.#open === null ? this.#groups : [...this.#groups, this.#open]
  }

  get isEmpty(): boolean {
    return this.#all.length === 0
  }

  /** The newest in the stream, which need not be the last one of the journal: what is in doubt may be found much later. */
  get witness(): Witness | null {
    return this.#all.map(({ witness }) => witness).reduce(newer, null)
  }

  get sequences(): readonly number[] {
    return [...this.#sequences]
  }

  /** The first of which any is kept; infinite: none is. */
  get firstSegment(): number {
    return Math.min(...this.#all.map(({ segment }) => segment))
  }

  /** A message with this batch is in the stream, whose id begins so. */
  add(witness: Witness, { head, start }: SpooledRecord): void {
    const partition = partitionOf(head.appId, this.#sequences.length)
    this.#sequences[partition] = Math.max(this.#sequences[partition], witness.sequence)
    this.#open = joined(this.#open, { segment: start.segment, witness, atMs: this.#timers.monotonicMs() })
  }

  /** What was acknowledged since the last call is a group. */
  close(): void {
    if (this.#open === null) return
    const last = this.#groups.length < MAX_GROUPS ? null : (this.#groups.pop() ?? null)
    this.#groups.push(joined(last, this.#open))
    this.#open = null
  }

  /** Those with batches of this segment or of earlier ones; null: of some it is too early, by the monotonic clock. */
  due(segment: number, untilMs: number): readonly Group[] | null {
    this.close()
    const groups = this.#groups.filter((group) => group.segment <= segment)
    return groups.every(({ atMs }) => atMs <= untilMs) ? groups : null
  }

  /** Rejects where NATS does not answer. */
  async isThere({ witness }: Pick<Group, 'witness'>, connection: NatsConnection): Promise<boolean> {
    if (witness === null) return false
    const { sequence, messageId } = witness
    const message = await getFromLeader(connection, sequence, API_TIMEOUT_MS)
    if (message !== null) return message.header.get(ID_HEADER).startsWith(messageId)
    const report = await describeStream(connection)
    if (report.kind === 'unreadable') throw new Error(report.reason)
    // Removed by its age, or by an operator: from the front.
    return report.kind === 'present' && report.facts.firstSequence > sequence
  }

  /** This segment, and earlier ones. */
  release(segment: number): void {
    this.#groups = this.#groups.filter((group) => group.segment > segment)
    if (this.isEmpty) this.#sequences.fill(0)
  }

  /** All of it may be lost. */
  clear(): void {
    this.#groups = []
    this.#open = null
    this.#sequences.fill(0)
  }
}

function joined(one: Group | null, other: Group): Group {
  if (one === null) return other
  return { ...other, segment: Math.min(one.segment, other.segment), witness: newer(one.witness, other.witness) }
}

function newer(one: Witness | null, other: Witness | null): Witness | null {
  return one === null || (other !== null && other.sequence > one.sequence) ? other : one
}

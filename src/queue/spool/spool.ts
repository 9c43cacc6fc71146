// The queue that goes on without NATS: what the stream does not take is appended to a journal on this node's own disk, answered
// when it is synced there, and sent on when the stream takes again.

import type { Charge } from '../../contract/charge.ts'
import type { Status } from '../../contract/health.ts'
import { spoolLine } from '../../contract/record/spool-line.ts'
import type { OnNotice } from '../../lib/notice.ts'
import type { Timers } from '../../lib/timers.ts'
import type { Journal } from '../journal/journal.ts'
import type { JournalFilling } from '../journal/journal-filling.ts'
import type { EventQueue, OnAck, QueueAck, QueueRecord, QueueRefusal } from '../queue.ts'
import { RefusedRecords } from '../refused-records.ts'
import type { StreamPublisher } from '../stream/publisher.ts'
import type { Doubt } from '../stream/publisher-options.ts'
import type { Drainer } from './drainer.ts'
import { type SpoolContents, SpoolLog, type SpoolReason } from './spool-log.ts'
import type { SpooledRecord } from './spool-records.ts'

/** While NATS does not take, one live request in so long tries whether it does again. */
const TRY_MS = 250
/** On SIGTERM, beyond the time in which requests end: what can be sent in it is. */
const STOP_MS = 1000
/** What the member of a spooled line takes at the most. */
const MEMBER_BYTES = 128

export interface SpoolParts {
  readonly stream: Pick<StreamPublisher, 'publish' | 'refusalNow' | 'status' | 'stop'>
  readonly journal: Pick<Journal, 'publish' | 'sizeBytes' | 'status' | 'stop'>
  readonly filling: Pick<JournalFilling, 'maxBytes' | 'refused' | 'stop'>
  readonly found: SpoolContents
  readonly timers: Timers
  /** false: all goes to this disk first, where it is kept until NATS has synced it. */
  readonly isSyncShown: () => boolean
  /** A batch of this app is in the spool now. */
  readonly onSpooled: (appId: string, charge: Charge) => void
  /** A batch may be in the stream, and is not in the spool. */
  readonly onDoubt: (doubt: Doubt) => void
  readonly onNotice: OnNotice
}

export class Spool implements EventQueue {
  readonly #parts: SpoolParts
  readonly #refused = new RefusedRecords()
  readonly #log: SpoolLog
  /** Of records that the stream is about to give back in doubt. */
  readonly #doubts = new WeakMap<QueueRecord, Doubt>()
  #drainer: Drainer | null = null
  #isTaking = true
  #triedAtMs = Number.NEGATIVE_INFINITY
  #batches: number
  #bytes: number
  #oldestAtMs: number | null
  /** Under way to the disk. */
  #unstored = 0
  #unstoredBytes = 0
  #onStored: (() => void) | null = null
  #isStopping = false

  constructor(parts: SpoolParts) {
    this.#parts = parts
    this.#batches = parts.found.batches
    this.#bytes = parts.found.bytes
    this.#oldestAtMs = parts.found.oldestAtMs
    this.#log = new SpoolLog(
      parts,
      () => this.contents,
      parts.filling,
      () => this.isEmpty,
    )
  }

  /** What sends it on. To be called once, before anything is published. */
  use(drainer: Drainer): void {
    this.#drainer = drainer
  }

  /** What is not sent yet. */
  get contents(): SpoolContents {
    const oldestAtMs = this.#batches === 0 ? null : (this.#drainer?.oldestAtMs ?? this.#oldestAtMs)
    return { batches: this.#batches, bytes: this.#bytes, oldestAtMs }
  }

  /** Nothing is left to send, or to keep until NATS has synced it. */
  get isEmpty(): boolean {
    return this.#batches === 0 && this.#drainer?.isEmpty !== false
  }

  /** Live records go to the stream. */
  get #isLive(): boolean {
    return this.isTaking && this.#parts.isSyncShown()
  }

  /** As far as is known, the stream takes records. */
  get isTaking(): boolean {
    return this.#isTaking && this.#parts.stream.refusalNow() === null
  }

  get status(): Status<'spool'> {
    const { stream, journal } = this.#parts
    const held = this.#batches === 0 ? null : `${this.#batches} batches on this disk`
    const words = (reason: string | null): string | null =>
      [reason, held].filter((one) => one !== null).join('; ') || null
    const { state, reason } = journal.status
    if (!this.#isLive && this.#refusalOf(0) === 'spool_full') return { state: 'full', reason: held }
    if (!this.#isLive && state !== 'ok' && state !== 'full') return { state: 'disk_error', reason: words(reason) }
    if (!this.isTaking) return { state: 'spooling', reason: words(stream.status.reason) }
    if (!this.#isLive) return { state: 'unsynced', reason: held }
    if (this.#batches > 0) return { state: 'draining', reason: held }
    return stream.status.state === 'slow' ? { state: 'slow', reason: null } : { state: 'ok', reason: null }
  }

  publish(record: QueueRecord, onAck: OnAck): void {
    if (this.#isStopping) return this.#refused.add(onAck, 'stopping')
    if (!this.#parts.isSyncShown()) return this.#append(record, onAck, null, 'unsynced')
    if (!this.#mayTry()) return this.#append(record, onAck, null, 'nats_away')
    this.#drainer?.livePublished()
    this.#parts.stream.publish(record, (ack, storedEvents) => this.#answered(record, onAck, ack, storedEvents))
  }

  refusalNow(lineBytes: number): QueueRefusal | null {
    if (this.#isStopping) return 'stopping'
    return this.#isLive ? null : this.#refusalOf(lineBytes)
  }

  /** For `onDoubt` of the stream, which calls it before it answers. */
  doubt(doubt: Doubt, record: QueueRecord): void {
    this.#doubts.set(record, doubt)
  }

  /** The stream took a record: live ones go there again. */
  taken(): void {
    this.#isTaking = true
  }

  notTaken(ack: QueueAck): void {
    this.#triedAtMs = this.#parts.timers.monotonicMs()
    // A slow one takes most.
    if (ack !== 'nats_slow' && ack !== 'too_large_for_nats') this.#isTaking = false
  }

  sent({ line }: SpooledRecord): void {
    this.#batches -= 1
    this.#bytes -= line.length
    this.#log.sent()
  }

  takenBack({ batches, bytes }: { readonly batches: number; readonly bytes: number }): void {
    this.#batches += batches
    this.#bytes += bytes
  }

  async stop(): Promise<void> {
    const { stream, journal, filling } = this.#parts
    this.#isStopping = true
    if (this.#drainer !== null) await this.#drainer.stop(STOP_MS)
    // What it does not acknowledge goes to the disk.
    await stream.stop()
    if (this.#unstored > 0) await new Promise<void>((resolve) => (this.#onStored = resolve))
    filling.stop()
    this.#log.stop()
    await journal.stop()
  }

  #mayTry(): boolean {
    const { stream, timers } = this.#parts
    if (stream.refusalNow() === 'nats_away') return false
    if (this.#isTaking) return true
    const nowMs = timers.monotonicMs()
    if (nowMs - this.#triedAtMs < TRY_MS) return false
    this.#triedAtMs = nowMs
    return true
  }

  #answered(record: QueueRecord, onAck: OnAck, ack: QueueAck, storedEvents?: number): void {
    if (ack === 'durable' || ack === 'duplicate') {
      this.#isTaking = true
      if (storedEvents === undefined) onAck(ack)
      else onAck(ack, storedEvents)
      return
    }
    const doubt = ack === 'in_doubt' ? this.#doubts.get(record) : null
    // A charge that was given up, whose batch must not be stored any more.
    if (doubt === undefined || ack === 'stopping' || ack === 'too_large_for_nats') return onAck(ack)
    this.notTaken(ack)
    this.#append(record, onAck, doubt, ack)
  }

  #append(record: QueueRecord, onAck: OnAck, doubt: Doubt | null, why: SpoolReason): void {
    const { journal, filling } = this.#parts
    const refusal = this.#refusalOf(record.line.length)
    if (refusal !== null) {
      if (refusal === 'spool_full') filling.refused()
      if (doubt === null) return this.#refused.add(onAck, refusal)
      this.#parts.onDoubt(doubt)
      queueMicrotask(() => onAck('in_doubt'))
      return
    }
    const state = doubt === null ? 'plain' : 'doubt'
    const line = spoolLine(record.line, record.charge, { state, messageId: doubt?.messageId ?? null })
    this.#unstored += 1
    this.#unstoredBytes += line.length
    journal.publish({ ...record, line }, (ack) => {
      this.#unstored -= 1
      this.#unstoredBytes -= line.length
      if (ack === 'durable') this.#stored(record, why)
      else if (doubt !== null) this.#parts.onDoubt(doubt)
      onAck(ack === 'durable' ? ack : doubt !== null ? 'in_doubt' : ack === 'journal_full' ? 'spool_full' : ack)
      if (this.#unstored === 0) this.#onStored?.()
    })
  }

  #stored({ appId, charge, line }: QueueRecord, why: SpoolReason): void {
    if (this.#batches === 0) this.#oldestAtMs = charge.takenAtMs
    this.#batches += 1
    this.#bytes += line.length
    this.#log.stored(why)
    this.#parts.onSpooled(appId, charge)
    this.#drainer?.wake()
  }

  /** Why a record cannot go to the disk; null: it can. */
  #refusalOf(lineBytes: number): QueueRefusal | null {
    const { journal, filling } = this.#parts
    const wantedBytes = journal.sizeBytes + this.#unstoredBytes + lineBytes + MEMBER_BYTES
    return wantedBytes > filling.maxBytes() ? 'spool_full' : null
  }
}

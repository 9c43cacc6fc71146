// The state of the shared queue, and a notice for the log when it changes.

import { describePart, describeSpooled, type Status } from '../../contract/health.ts'
import type { OnNotice } from '../../lib/notice.ts'
import type { QueueRefusal } from '../queue.ts'
import type { Ack } from './ack.ts'
import type { StreamReport } from './stream.ts'

/** Notices in one outage. Further ones are dropped until the queue was up again. */
const MAX_NOTICES = 16

export class StreamState {
  /** Connected, but messages are not acknowledged. */
  isSilent = false
  /** It has been connected to an existing stream at least once. */
  hasBeenUp = false
  /** Since when it takes nothing, by the monotonic clock; infinite: it does. After a silence only an acknowledgement ends this. */
  awaySinceMs: number
  readonly #monotonicMs: () => number
  readonly #onNotice: OnNotice
  readonly #isSpooled: boolean
  #isConnected = false
  /** Why the connection ended, or could not be made. */
  #downReason: string | null = null
  /** null: the stream is there. */
  #streamProblem: string | null = null
  #isStreamKnown = false
  #refusal: string | null = null
  /** Why no record may be given to the stream, by its settings. */
  #unsafe: string | null = null
  #isFull = false
  /** Notices given since it was last up. */
  readonly #given = new Set<string>()
  #wasUp = false
  /** false from a silence until the next acknowledgement: a look that finds the stream does not end the silence. */
  #isAcknowledging = true
  #hasReportedTooLarge = false

  /** `isSpooled`: a spool keeps what is not taken. */
  constructor(onNotice: OnNotice, monotonicMs: () => number, isSpooled = false) {
    this.#monotonicMs = monotonicMs
    this.awaySinceMs = monotonicMs()
    this.#onNotice = onNotice
    this.#isSpooled = isSpooled
  }

  get status(): Status<'jetstream'> {
    if (!this.#isConnected && this.#downReason !== null) return { state: 'away', reason: this.#downReason }
    if (this.isSilent) return { state: 'silent', reason: null }
    if (this.#streamProblem !== null) return { state: 'no_stream', reason: this.#streamProblem }
    if (this.#unsafe !== null) return { state: 'refusing', reason: this.#unsafe }
    if (this.#refusal !== null) return { state: this.#isFull ? 'full' : 'refusing', reason: this.#refusal }
    return { state: this.#isStreamKnown ? 'ok' : 'starting', reason: null }
  }

  /** false: an acknowledgement is owed, since the last silence. */
  get isAcknowledging(): boolean {
    return this.#isAcknowledging
  }

  /** A full stream refuses messages, but it is up. */
  get isUp(): boolean {
    return this.#isConnected && !this.isSilent && this.#streamProblem === null && this.#isStreamKnown
  }

  /** Why a record would be refused now; null: it would not, as far as is known. */
  get refusalNow(): QueueRefusal | null {
    if (!this.isUp) return 'nats_away'
    if (this.#unsafe !== null) return 'stream_refused'
    return this.#refusal === null ? null : this.#isFull ? 'stream_full' : 'stream_refused'
  }

  /** No record may be given to the stream: it might be lost after its 202, or not be counted. */
  get isUnsafe(): boolean {
    return this.#unsafe !== null
  }

  /** Why a record was not sent in time. */
  get reasonOfUnsent(): QueueRefusal {
    return this.isUp ? 'nats_slow' : 'nats_away'
  }

  connected(): void {
    this.#isConnected = true
    this.isSilent = false
    this.#isAcknowledging = true
    this.#streamProblem = null
    this.#isStreamKnown = false
    this.#refusal = null
    this.#hasReportedTooLarge = false
  }

  disconnected(reason: string): void {
    this.#isConnected = false
    this.#downReason = reason
    this.#notify()
  }

  reported(report: StreamReport): void {
    this.isSilent = report.kind === 'unreadable' && this.isSilent
    this.#isStreamKnown ||= report.kind === 'present'
    this.#streamProblem = problemOf(report)
    if (report.kind === 'present') this.#unsafe = report.facts.unsafe
    this.hasBeenUp ||= report.kind === 'present' && this.#unsafe === null
    this.#notify()
  }

  /**
   * null: the stream stored a message. 'misrouted': messages do not reach the stream, which the keeper has to check.
   */
  answered(ack: Ack | null): 'reached' | 'misrouted' {
    switch (ack?.kind) {
      case undefined:
      case 'stored':
        this.#reached(null, false)
        return 'reached'
      case 'duplicate':
        // A full stream recognizes duplicates too, so the last refusal still holds.
        this.#reached(this.#refusal, this.#isFull)
        return 'reached'
      case 'refused':
        this.#reached(ack.reason, ack.isFull)
        return 'reached'
      case 'foreign stream':
      case 'no responders':
        this.#streamProblem ??=
          ack.kind === 'foreign stream' ? 'another stream takes the messages' : 'nobody takes the messages'
        this.#notify()
        return 'misrouted'
      // Of the stream it says nothing.
      case 'not as a batch':
      case 'unreadable':
        return 'reached'
    }
  }

  #reached(refusal: string | null, isFull: boolean): void {
    // The common case, which must be cheap.
    if (refusal === this.#refusal && this.#wasUp && !this.isSilent) return
    this.isSilent = false
    this.#isAcknowledging = true
    this.#streamProblem = null
    this.#isStreamKnown = true
    this.hasBeenUp ||= this.#unsafe === null
    this.#refusal = refusal
    this.#isFull = isFull
    this.#notify()
  }

  /** `sinceMs`: nothing that was sent since then was acknowledged. */
  silent(sinceMs: number): void {
    this.isSilent = true
    this.#isAcknowledging = false
    this.awaySinceMs = Math.min(this.awaySinceMs, sinceMs)
    this.#notify()
  }

  complained(message: string): void {
    this.#notifyOnce(`NATS reports an error: ${message}`)
  }

  tooLarge(bytes: number, maxBytes: number): void {
    if (this.#hasReportedTooLarge) return
    this.#hasReportedTooLarge = true
    this.#onNotice(`a message of ${bytes} bytes was refused: max_payload of the NATS server is ${maxBytes}`)
  }

  #notify(): void {
    const { status } = this
    if (this.isUp && this.#isAcknowledging) this.awaySinceMs = Number.POSITIVE_INFINITY
    else this.awaySinceMs = Math.min(this.awaySinceMs, this.#monotonicMs())
    if (status.state === 'ok') {
      if (!this.#isAcknowledging) return
      if (!this.#wasUp) this.#onNotice('NATS: connected', 'info')
      this.#wasUp = true
      this.#given.clear()
    } else {
      this.#wasUp = false
      this.#notifyOnce(this.#isSpooled ? describeSpooled(status) : describePart({ kind: 'jetstream', ...status }))
    }
  }

  #notifyOnce(message: string): void {
    if (this.#given.has(message) || this.#given.size >= MAX_NOTICES) return
    this.#given.add(message)
    this.#onNotice(message)
  }
}

function problemOf(report: StreamReport): string | null {
  switch (report.kind) {
    case 'present':
      return null
    case 'absent':
      return report.held ?? 'it is gone'
    case 'unreadable':
      return report.reason
  }
}

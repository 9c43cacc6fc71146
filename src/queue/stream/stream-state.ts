// The state of the shared queue: a text for /readyz?verbose, and a notice for the log when it changes.

import type { OnNotice } from '../../lib/notice.ts'
import type { Ack } from './ack.ts'
import type { StreamReport } from './stream.ts'

/** Notices in one outage. Further ones are dropped until the queue was up again. */
const MAX_NOTICES = 16
const CONNECTED = 'connected'

export class StreamState {
  /** Connected, but messages are not acknowledged. */
  isSilent = false
  /** It has been connected to an existing stream at least once. */
  hasBeenUp = false
  readonly #onNotice: OnNotice
  #downReason: string | null = 'not connected yet'
  /** null: the stream is there. */
  #streamProblem: string | null = null
  #isStreamKnown = false
  #refusal: string | null = null
  /** Notices given since it was last up. */
  readonly #given = new Set<string>()
  #wasUp = false
  #hasReportedTooLarge = false
  /** false from a silence until the next acknowledgement: a look that finds the stream does not end the silence. */
  #isAcknowledging = true

  constructor(onNotice: OnNotice) {
    this.#onNotice = onNotice
  }

  get text(): string {
    if (this.#downReason !== null) return `disconnected: ${this.#downReason}`
    if (this.isSilent) return 'not acknowledging'
    if (this.#streamProblem !== null) return `no stream: ${this.#streamProblem}`
    if (this.#refusal !== null) return `refusing: ${this.#refusal}`
    return this.#isStreamKnown ? CONNECTED : 'looking for the stream'
  }

  /** A full stream refuses messages, but it is up. */
  get isUp(): boolean {
    return this.#downReason === null && !this.isSilent && this.#streamProblem === null && this.#isStreamKnown
  }

  connected(): void {
    this.#downReason = null
    this.isSilent = false
    this.#isAcknowledging = true
    this.#streamProblem = null
    this.#isStreamKnown = false
    this.#refusal = null
    this.#hasReportedTooLarge = false
  }

  disconnected(reason: string): void {
    this.#downReason = reason
    this.#notify()
  }

  reported(report: StreamReport): void {
    this.isSilent = report.kind === 'unreadable' && this.isSilent
    this.#isStreamKnown ||= report.kind === 'present'
    this.#streamProblem = report.kind === 'present' ? null : report.kind === 'absent' ? 'it is gone' : report.reason
    this.hasBeenUp ||= report.kind === 'present'
    this.#notify()
  }

  /**
   * null: the stream stored a message. 'misrouted': messages do not reach the stream, which the keeper has to check.
   */
  answered(ack: Ack | null): 'reached' | 'misrouted' {
    switch (ack?.kind) {
      case undefined:
      case 'stored':
        this.#reached(null)
        return 'reached'
      case 'duplicate':
        // A full stream recognizes duplicates too, so the last refusal still holds.
        this.#reached(this.#refusal)
        return 'reached'
      case 'refused':
        this.#reached(ack.reason)
        return 'reached'
      case 'foreign stream':
      case 'no responders':
        this.#streamProblem ??=
          ack.kind === 'foreign stream' ? 'another stream takes the messages' : 'nobody takes the messages'
        this.#notify()
        return 'misrouted'
      case 'unreadable':
        return 'reached'
    }
  }

  #reached(refusal: string | null): void {
    // The common case, which must be cheap.
    if (refusal === this.#refusal && this.#wasUp && !this.isSilent) return
    this.isSilent = false
    this.#isAcknowledging = true
    this.#streamProblem = null
    this.#isStreamKnown = true
    this.hasBeenUp = true
    this.#refusal = refusal
    this.#notify()
  }

  silent(): void {
    this.isSilent = true
    this.#isAcknowledging = false
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
    const { text } = this
    if (text === CONNECTED) {
      if (!this.#isAcknowledging) return
      if (!this.#wasUp) this.#onNotice('NATS: connected', 'info')
      this.#wasUp = true
      this.#given.clear()
    } else {
      this.#wasUp = false
      this.#notifyOnce(`NATS: ${text}`)
    }
  }

  #notifyOnce(message: string): void {
    if (this.#given.has(message) || this.#given.size >= MAX_NOTICES) return
    this.#given.add(message)
    this.#onNotice(message)
  }
}

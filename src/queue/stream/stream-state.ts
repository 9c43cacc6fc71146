// How the shared queue is doing: one text for /readyz?verbose, and a sentence for the log where that changes.

import type { OnNotice } from '../../lib/notice.ts'
import type { Ack } from './ack.ts'
import type { StreamReport } from './stream.ts'

/** In one outage; what comes after them is not told before the queue was up again. */
const MAX_NOTICES = 16
const CONNECTED = 'connected'

export class StreamState {
  /** Connected, but what was sent is not answered. */
  isSilent = false
  /** It has been connected, with a stream there, at least once. */
  hasBeenUp = false
  readonly #onNotice: OnNotice
  #downReason: string | null = 'not connected yet'
  /** null: the stream is there. */
  #streamTrouble: string | null = null
  #isStreamKnown = false
  #refusal: string | null = null
  /** What was told since it was last up. */
  readonly #told = new Set<string>()
  #wasUp = false
  #isTooLargeTold = false
  /** false from a silence to the next acknowledgement: that the stream is there to be looked at ends none yet. */
  #hasSpoken = true

  constructor(onNotice: OnNotice) {
    this.#onNotice = onNotice
  }

  get text(): string {
    if (this.#downReason !== null) return `disconnected: ${this.#downReason}`
    if (this.isSilent) return 'not acknowledging'
    if (this.#streamTrouble !== null) return `no stream: ${this.#streamTrouble}`
    if (this.#refusal !== null) return `refusing: ${this.#refusal}`
    return this.#isStreamKnown ? CONNECTED : 'looking for the stream'
  }

  /** A stream that refuses, since it is full, is up. */
  get isUp(): boolean {
    return this.#downReason === null && !this.isSilent && this.#streamTrouble === null && this.#isStreamKnown
  }

  connected(): void {
    this.#downReason = null
    this.isSilent = false
    this.#hasSpoken = true
    this.#streamTrouble = null
    this.#isStreamKnown = false
    this.#refusal = null
    this.#isTooLargeTold = false
  }

  disconnected(reason: string): void {
    this.#downReason = reason
    this.#tell()
  }

  reported(report: StreamReport): void {
    this.isSilent = report.kind === 'unreadable' && this.isSilent
    this.#isStreamKnown ||= report.kind === 'present'
    this.#streamTrouble = report.kind === 'present' ? null : report.kind === 'absent' ? 'it is gone' : report.reason
    this.hasBeenUp ||= report.kind === 'present'
    this.#tell()
  }

  /** null: the stream took a message. 'astray': messages do not get to the stream, which wants looking after. */
  answered(ack: Ack | null): 'heard' | 'astray' {
    switch (ack?.kind) {
      case undefined:
      case 'stored':
        this.#heard(null)
        return 'heard'
      case 'duplicate':
        // A full stream knows repeats all the same.
        this.#heard(this.#refusal)
        return 'heard'
      case 'refused':
        this.#heard(ack.reason)
        return 'heard'
      case 'strange':
      case 'no responders':
        this.#streamTrouble ??=
          ack.kind === 'strange' ? 'another stream takes the messages' : 'nobody takes the messages'
        this.#tell()
        return 'astray'
      case 'unreadable':
        return 'heard'
    }
  }

  #heard(refusal: string | null): void {
    // The common case costs a few comparisons.
    if (refusal === this.#refusal && this.#wasUp && !this.isSilent) return
    this.isSilent = false
    this.#hasSpoken = true
    this.#streamTrouble = null
    this.#isStreamKnown = true
    this.hasBeenUp = true
    this.#refusal = refusal
    this.#tell()
  }

  silent(): void {
    this.isSilent = true
    this.#hasSpoken = false
    this.#tell()
  }

  complained(message: string): void {
    this.#tellOnce(`NATS complains: ${message}`)
  }

  tooLarge(bytes: number, maxBytes: number): void {
    if (this.#isTooLargeTold) return
    this.#isTooLargeTold = true
    this.#onNotice(`a message of ${bytes} bytes was refused: max_payload of the NATS server is ${maxBytes}`)
  }

  #tell(): void {
    const { text } = this
    if (text === CONNECTED) {
      if (!this.#hasSpoken) return
      if (!this.#wasUp) this.#onNotice('NATS: connected', 'info')
      this.#wasUp = true
      this.#told.clear()
    } else {
      this.#wasUp = false
      this.#tellOnce(`NATS: ${text}`)
    }
  }

  #tellOnce(message: string): void {
    if (this.#told.has(message) || this.#told.size >= MAX_NOTICES) return
    this.#told.add(message)
    this.#onNotice(message)
  }
}

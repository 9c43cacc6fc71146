// Back-pressure from the acknowledgements: how many messages may be in flight, and, while NATS is slower than the
// publishers, how many records may be unacknowledged so that each is acknowledged in time.

const MIN_MESSAGES = 64
const MAX_MESSAGES = 1024
const MIN_BYTES = 1024 * 1024
const MAX_BYTES = 8 * MIN_BYTES
/** Twice the product of rate and round trip may be in flight, so that a higher rate can show. */
const HEADROOM = 2
/**
 * Unsettled records may exceed the measured rate by this factor, since a server that answers in bursts needs a backlog.
 */
const SPARE = 1.25
/** A record may wait for the message before it, and then for its own. */
const ROUND_TRIPS = 2

/**
 * Unsettled records should be acknowledged within this time plus their round trips. The rate is measured over it too.
 */
const TARGET_MS = 250
/** A bound shrinks by at most half in this time, since answers may come in bursts. */
const HALF_LIFE_MS = 250
/** After this long without any answer NATS counts as away, not slow. */
const SILENCE_MS = 500
/** A record that waited this much longer than its round trips was delayed. */
const DELAYED_MS = 100
/** NATS is slow once all records were delayed for this long. A short stall of NATS or of this process ends sooner. */
const SLOW_AFTER_MS = 150
/** At least this many records may always be unacknowledged. */
const MIN_RECORDS = 16

interface Answered {
  readonly sentAtMs: number
  readonly bytes: number
  readonly records: number
}

/** Totals of what was answered up to a time. */
interface Mark {
  readonly atMs: number
  readonly messages: number
  readonly bytes: number
  readonly records: number
}

export class AckPace {
  /** Bounds on the messages in flight. */
  maxMessages = MIN_MESSAGES
  maxBytes = MIN_BYTES
  /** Bound on the unacknowledged records; infinite while NATS keeps up. */
  maxRecords = Number.POSITIVE_INFINITY
  /** Of the last message. */
  roundTripMs = 0
  /** The shortest round trip of this connection, since under load a message also waits for others. */
  #quickestMs = Number.POSITIVE_INFINITY
  #messages = 0
  #bytes = 0
  #records = 0
  /** Within the last `TARGET_MS`, oldest first. */
  #marks: Mark[] = []
  #answeredAtMs = Number.NEGATIVE_INFINITY
  #measuredAtMs = Number.NEGATIVE_INFINITY
  #delayedSinceMs = Number.POSITIVE_INFINITY
  #refusedAtMs = Number.NEGATIVE_INFINITY

  /** `waitedMs`: how long ago the oldest record of the message was published. */
  answered(message: Answered, waitedMs: number, atMs: number): void {
    this.#messages += 1
    this.#bytes += message.bytes
    this.#records += message.records
    this.#answeredAtMs = atMs
    this.roundTripMs = atMs - message.sentAtMs
    this.#quickestMs = Math.min(this.#quickestMs, this.roundTripMs)
    if (waitedMs <= ROUND_TRIPS * this.#quickestMs + DELAYED_MS) this.#delayedSinceMs = Number.POSITIVE_INFINITY
    else if (this.#delayedSinceMs > atMs) this.#delayedSinceMs = atMs
  }

  /** A record was refused because of `maxRecords`. */
  refused(atMs: number): void {
    this.#refusedAtMs = atMs
  }

  /** Sets the bounds. To be called every few ms while records are unacknowledged. */
  measure(atMs: number): void {
    if (atMs - this.#answeredAtMs > SILENCE_MS) this.restart()
    const mark = { atMs, messages: this.#messages, bytes: this.#bytes, records: this.#records }
    const [first = mark] = this.#marks
    // The measurement begins with the first answer.
    if (this.#marks.length < 2 && first.messages === mark.messages) {
      this.#marks = [mark]
      return
    }
    this.#marks.push(mark)
    const elapsedMs = atMs - first.atMs
    if (elapsedMs < TARGET_MS) return
    while (this.#marks[1].atMs <= atMs - TARGET_MS) this.#marks.shift()

    const shrinkage = 0.5 ** ((atMs - this.#measuredAtMs) / HALF_LIFE_MS)
    this.#measuredAtMs = atMs
    const isSlow = atMs - this.#delayedSinceMs >= SLOW_AFTER_MS || atMs - this.#refusedAtMs <= TARGET_MS
    // To a slow server everything is sent at once, since few records are admitted.
    const share = Math.max(HEADROOM * this.#quickestMs, isSlow ? SPARE * TARGET_MS : 0) / elapsedMs
    const [messages, bytes] = [mark.messages - first.messages, mark.bytes - first.bytes]
    this.#allow(
      Math.max(share * messages, shrinkage * this.maxMessages),
      Math.max(share * bytes, shrinkage * this.maxBytes),
    )
    if (!isSlow) {
      this.maxRecords = Number.POSITIVE_INFINITY
      return
    }
    const targetMs = SPARE * (TARGET_MS + ROUND_TRIPS * this.#quickestMs)
    const soon = (targetMs * (mark.records - first.records)) / elapsedMs
    const before = this.maxRecords === Number.POSITIVE_INFINITY ? 0 : shrinkage * this.maxRecords
    this.maxRecords = Math.max(MIN_RECORDS, Math.round(soon), Math.round(before))
  }

  /** Forgets the rate: no record is unacknowledged, or NATS answers nothing. */
  restart(): void {
    this.#marks = []
    this.#delayedSinceMs = Number.POSITIVE_INFINITY
    this.maxRecords = Number.POSITIVE_INFINITY
  }

  /** Forgets everything: the connection is a new one. */
  renew(): void {
    this.restart()
    this.#allow(0, 0)
    this.#quickestMs = Number.POSITIVE_INFINITY
    this.roundTripMs = 0
  }

  #allow(messages: number, bytes: number): void {
    this.maxMessages = Math.min(MAX_MESSAGES, Math.max(MIN_MESSAGES, Math.round(messages)))
    this.maxBytes = Math.min(MAX_BYTES, Math.max(MIN_BYTES, bytes))
  }
}

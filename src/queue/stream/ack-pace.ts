// What the acknowledgements say about NATS: how many messages may be in flight, and, where NATS takes less than is
// offered, how many records may be in hand so that each of them is acknowledged soon.

const MIN_MESSAGES = 64
const MAX_MESSAGES = 1024
const MIN_BYTES = 1024 * 1024
const MAX_BYTES = 8 * MIN_BYTES
/** Twice what rate and round trip need may be in flight: the rate may prove to be higher. */
const HEADROOM = 2
/** In hand may be so much more than is answered in its time: a server that answers in bursts takes what it finds. */
const SPARE = 1.25
/** A record may wait for the message before its own. */
const ROUND_TRIPS = 2

/** What is in hand may need so long beside its round trips. The rate is that of the last so many ms. */
const TARGET_MS = 250
/** A bound shrinks by half in so long at the most: answers may come in bursts. */
const HALF_LIFE_MS = 250
/** So long without any answer, and NATS is away, not slow. */
const SILENCE_MS = 500
/** A record that waited so much longer than its round trips was held up. */
const HELD_UP_MS = 100
/** NATS is slow when all records were held up for so long: a hiccup of NATS, or of this process, is over sooner. */
const SLOW_AFTER_MS = 150
/** As few may always be in hand. */
const MIN_RECORDS = 16

interface Answered {
  readonly sentAtMs: number
  readonly bytes: number
  readonly records: number
}

/** What was answered until then. */
interface Mark {
  readonly atMs: number
  readonly messages: number
  readonly bytes: number
  readonly records: number
}

export class AckPace {
  /** May be in flight. */
  maxMessages = MIN_MESSAGES
  maxBytes = MIN_BYTES
  /** May be in hand; no bound while NATS keeps up. */
  maxRecords = Number.POSITIVE_INFINITY
  /** What the last message needed. */
  roundTripMs = 0
  /** Of this connection: under load a message waits for the others. */
  #quickestMs = Number.POSITIVE_INFINITY
  #messages = 0
  #bytes = 0
  #records = 0
  /** Of the last `TARGET_MS`, oldest first. */
  #marks: Mark[] = []
  #answeredAtMs = Number.NEGATIVE_INFINITY
  #measuredAtMs = Number.NEGATIVE_INFINITY
  #heldUpSinceMs = Number.POSITIVE_INFINITY
  #refusedAtMs = Number.NEGATIVE_INFINITY

  /** `waitedMs`: its oldest record, since it was published. */
  answered(message: Answered, waitedMs: number, nowMs: number): void {
    this.#messages += 1
    this.#bytes += message.bytes
    this.#records += message.records
    this.#answeredAtMs = nowMs
    this.roundTripMs = nowMs - message.sentAtMs
    this.#quickestMs = Math.min(this.#quickestMs, this.roundTripMs)
    if (waitedMs <= ROUND_TRIPS * this.#quickestMs + HELD_UP_MS) this.#heldUpSinceMs = Number.POSITIVE_INFINITY
    else if (this.#heldUpSinceMs > nowMs) this.#heldUpSinceMs = nowMs
  }

  /** A record was refused for `maxRecords`. */
  refused(nowMs: number): void {
    this.#refusedAtMs = nowMs
  }

  /** Sets the bounds. To be called every some ms while something is in hand. */
  measure(nowMs: number): void {
    if (nowMs - this.#answeredAtMs > SILENCE_MS) this.restart()
    const mark = { atMs: nowMs, messages: this.#messages, bytes: this.#bytes, records: this.#records }
    const [first = mark] = this.#marks
    // The time begins with the first answer.
    if (this.#marks.length < 2 && first.messages === mark.messages) this.#marks.length = 0
    this.#marks.push(mark)
    const elapsedMs = nowMs - first.atMs
    if (elapsedMs < TARGET_MS) return
    while (this.#marks[1].atMs <= nowMs - TARGET_MS) this.#marks.shift()

    const left = 0.5 ** ((nowMs - this.#measuredAtMs) / HALF_LIFE_MS)
    this.#measuredAtMs = nowMs
    const isSlow = nowMs - this.#heldUpSinceMs >= SLOW_AFTER_MS || nowMs - this.#refusedAtMs <= TARGET_MS
    // Of a slow server nothing is held back: what is in hand is little.
    const share = Math.max(HEADROOM * this.#quickestMs, isSlow ? SPARE * TARGET_MS : 0) / elapsedMs
    const [messages, bytes] = [mark.messages - first.messages, mark.bytes - first.bytes]
    this.#allow(Math.max(share * messages, left * this.maxMessages), Math.max(share * bytes, left * this.maxBytes))
    if (!isSlow) {
      this.maxRecords = Number.POSITIVE_INFINITY
      return
    }
    const targetMs = SPARE * (TARGET_MS + ROUND_TRIPS * this.#quickestMs)
    const soon = (targetMs * (mark.records - first.records)) / elapsedMs
    const before = this.maxRecords === Number.POSITIVE_INFINITY ? 0 : left * this.maxRecords
    this.maxRecords = Math.max(MIN_RECORDS, Math.round(soon), Math.round(before))
  }

  /** Nothing is known of the rate: nothing is in hand, or nothing is answered. */
  restart(): void {
    this.#marks = []
    this.#heldUpSinceMs = Number.POSITIVE_INFINITY
    this.maxRecords = Number.POSITIVE_INFINITY
  }

  /** Of another connection nothing is known at all. */
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

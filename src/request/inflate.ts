// Decompresses bodies: small ones at once, others in libuv's threads, where waiting is bounded in bytes and in time.
// The decoder stops at a cap, so that a decompression bomb is never expanded.

import type { ContentEncoding } from './head.ts'
import {
  type Decoded,
  decodeInThread,
  decodeNow,
  type Format,
  formatOf,
  type Tried,
  threadStopwatch,
  tryInThread,
} from './zlib.ts'

/**
 * Up to these sizes a body is first tried in the event loop: that is cheaper than a thread, and ordinary batches do not
 * wait behind others. A bomb takes a sixteenth of a millisecond until it reaches the limit, and what unfolds to next to
 * nothing is given up after 512 bytes.
 */
const TRY_INPUT_BYTES = 16 * 1024
const TRY_OUTPUT_BYTES = 64 * 1024

/**
 * Decoders that run in threads at a time: half of libuv's default threads, so that the journal's writes find one free.
 */
const MAX_CONCURRENT = 2
/** A waiting body counts as at least this much, since a bomb of 600 bytes takes as long as a large body. */
const MIN_WAITING_BYTES = 64 * 1024
/** Real events never compress better than this. Bodies that do wait behind all others. */
const MAX_HONEST_RATIO = 100

/** busy: too many bodies wait, or this one has waited too long. */
export type Inflated = Decoded | 'busy'

/** Served in this order: not tried yet, known to be large, and unlike events: they unfold to too much, to too little, or too slowly. */
const UNTRIED = 0
const LARGE = 1
const ODD = 2
type Lane = typeof UNTRIED | typeof LARGE | typeof ODD

interface Job {
  readonly format: Format
  readonly body: Buffer
  readonly weightBytes: number
  readonly lane: Lane
  readonly done: (inflated: Inflated) => void
  /** The decoder failed for a reason other than the body. */
  readonly failed: (error: unknown) => void
  waitTimer: NodeJS.Timeout | null
}

const DEFAULTS = {
  /** A body waits at most this long for a decoder. */
  maxWaitMs: 100,
  /** Bound on the time that all tries of one turn of the event loop take. */
  tryMsPerTurn: 5,
  monotonicMs: () => performance.now(),
  /** The time that decoders in threads take. */
  stopwatch: threadStopwatch,
}

export interface InflaterOptions extends Partial<typeof DEFAULTS> {
  readonly capBytes: number
  readonly maxWaitingBytes: number
}

export class Inflater {
  readonly #options: Required<InflaterOptions>
  readonly #tryOutputBytes: number
  /** What a try makes. One byte more than is allowed. */
  readonly #scratch: Buffer
  readonly #lanes: readonly [Job[], Job[], Job[]] = [[], [], []]
  #waitingBytes = 0
  #running = 0
  /** One of the decoders runs a body of the ODD lane. */
  #oddRuns = false
  /** Time that the tries of this turn of the event loop have taken. */
  #triedMs = 0
  #isTurnEndScheduled = false

  constructor(options: InflaterOptions) {
    this.#options = { ...DEFAULTS, ...options }
    this.#tryOutputBytes = Math.min(TRY_OUTPUT_BYTES, options.capBytes)
    this.#scratch = Buffer.allocUnsafeSlow(this.#tryOutputBytes + 1)
  }

  /**
   * Answers at once where it can: after a try, or where too many bodies wait. What is answered at once is valid until the
   * next call.
   */
  inflate(encoding: Exclude<ContentEncoding, 'identity'>, body: Buffer): Inflated | Promise<Inflated> {
    const format = formatOf(encoding, body)
    let lane: Lane = LARGE
    if (body.length <= TRY_INPUT_BYTES) {
      const tried = this.#tryNow(format, body)
      const next = this.#laneAfter(tried, body, this.#tryOutputBytes)
      if (next === null) return tried as Decoded
      lane = next
    }
    const weightBytes = Math.max(body.length, MIN_WAITING_BYTES)
    if (!this.#isFreeFor(lane) && !this.#makeRoom(weightBytes, lane)) return 'busy'
    return new Promise((done, failed) => this.#take({ format, body, weightBytes, lane, done, failed, waitTimer: null }))
  }

  /** busy: other tries have used up the time of this turn. */
  #tryNow(format: Format, body: Buffer): Tried | 'busy' {
    if (this.#triedMs >= this.#options.tryMsPerTurn) return 'busy'
    if (!this.#isTurnEndScheduled) {
      this.#isTurnEndScheduled = true
      setImmediate(() => {
        this.#isTurnEndScheduled = false
        this.#triedMs = 0
        this.#tryWaiting()
      })
    }
    const { monotonicMs } = this.#options
    const startedMs = monotonicMs()
    try {
      return decodeNow(format, body, this.#scratch, () => monotonicMs() - startedMs)
    } finally {
      this.#triedMs += monotonicMs() - startedMs
    }
  }

  /** Tries the bodies that earlier turns had no time for. */
  #tryWaiting(): void {
    const waiting = this.#lanes[UNTRIED]
    while (waiting.length > 0 && this.#triedMs < this.#options.tryMsPerTurn) {
      const job = waiting[0]
      this.#leave(job)
      try {
        const tried = this.#tryNow(job.format, job.body)
        // The next try writes into the same bytes.
        this.#tried(job, this.#tryOutputBytes, typeof tried === 'string' ? tried : Buffer.from(tried))
      } catch (error) {
        job.failed(error)
      }
    }
  }

  /** Where a body goes on after a try; null: it is decided. */
  #laneAfter(tried: Tried | 'busy', body: Buffer, maxBytes: number): Lane | null {
    if (tried === 'busy') return UNTRIED
    if (tried === 'odd') return ODD
    if (tried !== 'too large' || maxBytes === this.#options.capBytes) return null
    return this.#tryOutputBytes > MAX_HONEST_RATIO * body.length ? ODD : LARGE
  }

  /** Whether a body of this weight may wait. Dismisses the newest bodies of later lanes to make room for it. */
  #makeRoom(weightBytes: number, lane: Lane): boolean {
    for (let worst = ODD as number; worst > lane; worst--) {
      while (this.#waitingBytes + weightBytes > this.#options.maxWaitingBytes) {
        const last = this.#lanes[worst].at(-1)
        if (last === undefined) break
        this.#dismiss(last)
      }
    }
    return this.#waitingBytes + weightBytes <= this.#options.maxWaitingBytes
  }

  /** Starts the job, or adds it to its lane. */
  #take(job: Job): void {
    if (this.#isFreeFor(job.lane)) {
      this.#running++
      if (job.lane === ODD) this.#oddRuns = true
      this.#run(job)
      return
    }
    this.#lanes[job.lane].push(job)
    this.#waitingBytes += job.weightBytes
    job.waitTimer ??= setTimeout(() => this.#dismiss(job), this.#options.maxWaitMs)
  }

  /** Removes the job from its lane. */
  #leave(job: Job): void {
    const lane = this.#lanes[job.lane]
    lane.splice(lane.indexOf(job), 1)
    this.#waitingBytes -= job.weightBytes
    if (job.waitTimer !== null) clearTimeout(job.waitTimer)
    job.waitTimer = null
  }

  #dismiss(job: Job): void {
    this.#leave(job)
    job.done('busy')
  }

  #run(job: Job): void {
    const maxBytes = job.lane === UNTRIED ? this.#tryOutputBytes : this.#options.capBytes
    const { format, body, lane } = job
    const decoding =
      lane === ODD
        ? decodeInThread(format, body, maxBytes)
        : tryInThread(format, body, maxBytes, this.#options.stopwatch)
    decoding.then(
      (decoded) => this.#ran(job, maxBytes, decoded),
      (error: unknown) => {
        this.#next(job.lane)
        job.failed(error)
      },
    )
  }

  #ran(job: Job, maxBytes: number, tried: Tried): void {
    this.#next(job.lane)
    this.#tried(job, maxBytes, tried)
  }

  /** A body that is not decided yet moves on to the lane for its kind. */
  #tried(job: Job, maxBytes: number, tried: Tried | 'busy'): void {
    const lane = this.#laneAfter(tried, job.body, maxBytes)
    if (lane === null) {
      job.done(tried as Decoded)
      return
    }
    const again = { ...job, lane }
    if (this.#isFreeFor(again.lane) || this.#makeRoom(again.weightBytes, again.lane)) this.#take(again)
    else job.done('busy')
  }

  /** A decoder has finished a job of `lane`: starts the next job. */
  #next(lane: Lane): void {
    this.#running--
    if (lane === ODD) this.#oddRuns = false
    const next = this.#lanes.find((waiting, each) => waiting.length > 0 && this.#isFreeFor(each))?.[0]
    if (next === undefined) return
    this.#leave(next)
    this.#take(next)
  }

  /** The ODD lane gets at most one decoder, so that the other lanes always find one, and a core. */
  #isFreeFor(lane: number): boolean {
    return this.#running < MAX_CONCURRENT && (lane !== ODD || !this.#oddRuns)
  }
}

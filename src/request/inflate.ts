// Undoes a Content-Encoding. What unfolds to little is done at once; the rest goes to libuv's threads, where what waits
// is bounded in bytes and in time. The decoder stops at the cap: a bomb never unfolds.

import type { ContentEncoding } from './head.ts'
import { type Decoded, decodeInThread, decodeNow, type Format, formatOf } from './zlib.ts'

/**
 * A body is first tried at once, as far as these: that is cheaper than the way to a thread and back, and whoever sends
 * ordinary batches waits behind nobody. A bomb costs a sixteenth of a millisecond here, and is not done.
 */
const TRY_INPUT_BYTES = 16 * 1024
const TRY_OUTPUT_BYTES = 64 * 1024
/** What the tries of one turn of the event loop may take together. */
const TRY_MS_PER_TURN = 5

/** Decoders that run at the same time: half of libuv's default threads, so that the journal's writes find one free. */
const MAX_CONCURRENT = 2
/** What a waiting body counts for at the least: a bomb of 600 bytes takes as long to undo as a large body. */
const MIN_WAITING_BYTES = 64 * 1024
/** So long a body waits for a decoder. */
const MAX_WAIT_MS = 100
/** Events are never packed tighter; what is waits behind all others. */
const MAX_HONEST_RATIO = 100

/** What became of a body. Busy: no decoder had time for it. */
export type Inflated = Decoded | 'busy'

/** Served in this order: not tried yet, known to be large, and packed too tightly to be events. */
const UNTRIED = 0
const LARGE = 1
const TIGHT = 2
type Lane = typeof UNTRIED | typeof LARGE | typeof TIGHT

interface Job {
  readonly format: Format
  readonly body: Buffer
  readonly weightBytes: number
  readonly lane: Lane
  readonly done: (inflated: Inflated) => void
  /** What is wrong is not the body. */
  readonly failed: (error: unknown) => void
  patience: NodeJS.Timeout | null
}

export interface InflaterOptions {
  readonly capBytes: number
  readonly maxWaitingBytes: number
  readonly maxWaitMs?: number
  readonly tryMsPerTurn?: number
  /** A time in ms that never goes back. */
  readonly nowMs?: () => number
}

export class Inflater {
  readonly #capBytes: number
  readonly #tryOutputBytes: number
  readonly #maxWaitingBytes: number
  readonly #maxWaitMs: number
  readonly #tryMsPerTurn: number
  readonly #nowMs: () => number
  readonly #lanes: readonly [Job[], Job[], Job[]] = [[], [], []]
  #waitingBytes = 0
  #running = 0
  /** One of the decoders has a body that is packed too tightly. */
  #tightRuns = false
  /** What the tries of this turn of the event loop have taken. */
  #triedMs = 0
  #turnIsKnown = false

  constructor(options: InflaterOptions) {
    this.#capBytes = options.capBytes
    this.#tryOutputBytes = Math.min(TRY_OUTPUT_BYTES, options.capBytes)
    this.#maxWaitingBytes = options.maxWaitingBytes
    this.#maxWaitMs = options.maxWaitMs ?? MAX_WAIT_MS
    this.#tryMsPerTurn = options.tryMsPerTurn ?? TRY_MS_PER_TURN
    this.#nowMs = options.nowMs ?? (() => performance.now())
  }

  /**
   * The decoded body, or why there is none. Busy: too much waits for its turn already, which is known at once, or this
   * one has waited for too long.
   */
  inflate(encoding: Exclude<ContentEncoding, 'identity'>, body: Buffer): Inflated | Promise<Inflated> {
    const format = formatOf(encoding, body)
    let lane: Lane = LARGE
    if (body.length <= TRY_INPUT_BYTES) {
      const tried = this.#tryNow(format, body)
      if (tried !== 'too large' && tried !== 'busy') return tried
      if (tried === 'too large' && this.#tryOutputBytes === this.#capBytes) return tried
      lane = tried === 'busy' ? UNTRIED : this.#laneOfLarge(body)
    }
    const weightBytes = Math.max(body.length, MIN_WAITING_BYTES)
    if (!this.#isFreeFor(lane) && !this.#makeRoom(weightBytes, lane)) return 'busy'
    return new Promise((done, failed) => this.#take({ format, body, weightBytes, lane, done, failed, patience: null }))
  }

  /** Busy: this turn of the event loop has spent its time on others. */
  #tryNow(format: Format, body: Buffer): Inflated {
    if (this.#triedMs >= this.#tryMsPerTurn) return 'busy'
    if (!this.#turnIsKnown) {
      this.#turnIsKnown = true
      setImmediate(() => {
        this.#turnIsKnown = false
        this.#triedMs = 0
        this.#tryWaiting()
      })
    }
    const startedMs = this.#nowMs()
    try {
      return decodeNow(format, body, this.#tryOutputBytes)
    } finally {
      this.#triedMs += this.#nowMs() - startedMs
    }
  }

  /** Those that an earlier turn had no time for, unless a decoder has taken them meanwhile. */
  #tryWaiting(): void {
    const waiting = this.#lanes[UNTRIED]
    while (waiting.length > 0 && this.#triedMs < this.#tryMsPerTurn) {
      const job = waiting[0]
      this.#leave(job)
      try {
        this.#tried(job, this.#tryOutputBytes, this.#tryNow(job.format, job.body))
      } catch (error) {
        job.failed(error)
      }
    }
  }

  #laneOfLarge(body: Buffer): Lane {
    return this.#tryOutputBytes > MAX_HONEST_RATIO * body.length ? TIGHT : LARGE
  }

  /** Whether so much more may wait, for which the last of those that come after it have to go. */
  #makeRoom(weightBytes: number, lane: Lane): boolean {
    for (let worst = TIGHT as number; worst > lane; worst--) {
      while (this.#waitingBytes + weightBytes > this.#maxWaitingBytes) {
        const last = this.#lanes[worst].at(-1)
        if (last === undefined) break
        this.#dismiss(last)
      }
    }
    return this.#waitingBytes + weightBytes <= this.#maxWaitingBytes
  }

  /** To a decoder, or to the end of its lane. */
  #take(job: Job): void {
    if (this.#isFreeFor(job.lane)) {
      this.#running++
      if (job.lane === TIGHT) this.#tightRuns = true
      this.#run(job)
      return
    }
    this.#lanes[job.lane].push(job)
    this.#waitingBytes += job.weightBytes
    job.patience ??= setTimeout(() => this.#dismiss(job), this.#maxWaitMs)
  }

  /** It does not wait any more. */
  #leave(job: Job): void {
    const lane = this.#lanes[job.lane]
    lane.splice(lane.indexOf(job), 1)
    this.#waitingBytes -= job.weightBytes
    if (job.patience !== null) clearTimeout(job.patience)
    job.patience = null
  }

  #dismiss(job: Job): void {
    this.#leave(job)
    job.done('busy')
  }

  #run(job: Job): void {
    const mostBytes = job.lane === UNTRIED ? this.#tryOutputBytes : this.#capBytes
    decodeInThread(job.format, job.body, mostBytes).then(
      (decoded) => this.#ran(job, mostBytes, decoded),
      (error: unknown) => {
        this.#next(job.lane)
        job.failed(error)
      },
    )
  }

  #ran(job: Job, mostBytes: number, decoded: Inflated): void {
    this.#next(job.lane)
    this.#tried(job, mostBytes, decoded)
  }

  /** What did not fit into a try goes on as what it is now known to be. */
  #tried(job: Job, mostBytes: number, inflated: Inflated): void {
    if (inflated !== 'too large' || mostBytes === this.#capBytes) {
      job.done(inflated)
      return
    }
    const again = { ...job, lane: this.#laneOfLarge(job.body) }
    if (this.#isFreeFor(again.lane) || this.#makeRoom(again.weightBytes, again.lane)) this.#take(again)
    else job.done('busy')
  }

  /** The decoder of a job is free: for whoever is next. */
  #next(lane: Lane): void {
    this.#running--
    if (lane === TIGHT) this.#tightRuns = false
    const next = this.#lanes.find((waiting, each) => waiting.length > 0 && this.#isFreeFor(each))?.[0]
    if (next === undefined) return
    this.#leave(next)
    this.#take(next)
  }

  /** What is packed too tightly gets one decoder at the most, so that others find one, and a core. */
  #isFreeFor(lane: number): boolean {
    return this.#running < MAX_CONCURRENT && (lane !== TIGHT || !this.#tightRuns)
  }
}

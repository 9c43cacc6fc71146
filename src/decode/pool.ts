// Feeds the pool's threads with runs of slots. What has gathered while they were busy goes out as one run: the
// busier the service, the longer the runs, and the cheaper each body's way to a thread and back.

import { Piscina } from 'piscina'
import type { SharedMemory } from '../ring/layout.ts'
import type { Validation } from './decoded.ts'
import type { DecoderName } from './decoder.ts'
import type { Note, Run, WorkerData } from './worker.ts'

/** Longest run: beyond it the cost of the hand-over is lost in the cost of the bodies. */
const MAX_RUN_SLOTS = 64
/** Runs in hand for each thread: the next is there when one ends. */
const RUNS_PER_THREAD = 2

export interface DecodePoolOptions {
  readonly memory: SharedMemory
  readonly slots: number
  readonly threads: number
  readonly decoder: DecoderName
  /** A slot came back, in no certain order between runs. `validation`: null where the slot's words say it all. */
  readonly onDecoded: (slot: number, validation: Validation | null) => void
  /** The thread that had this slot failed before it answered. */
  readonly onFailure: (slot: number, error: unknown) => void
}

export class DecodePool {
  readonly #options: DecodePoolOptions
  readonly #piscina: Piscina<Run, Note[] | null>
  readonly #maxRuns: number
  #runs = 0
  /** Slots that no thread has been given, round and round: `#waiting` of them, from `#firstWaiting` on. */
  readonly #waitingSlots: Int32Array
  #firstWaiting = 0
  #waiting = 0
  #dispatchPlanned = false

  constructor(options: DecodePoolOptions) {
    this.#options = options
    this.#maxRuns = options.threads * RUNS_PER_THREAD
    this.#waitingSlots = new Int32Array(options.slots)
    this.#piscina = new Piscina({
      filename: new URL('./worker.js', import.meta.url).href,
      minThreads: options.threads,
      maxThreads: options.threads,
      concurrentTasksPerWorker: RUNS_PER_THREAD,
      maxQueue: this.#maxRuns,
      recordTiming: false,
      workerData: { memory: options.memory, decoder: options.decoder } satisfies WorkerData,
    })
  }

  /** Resolves when every thread has loaded its code. */
  async start(): Promise<void> {
    await Promise.all(Array.from({ length: this.#options.threads }, () => this.#piscina.run({ first: 0, count: 0 })))
  }

  /** Slots that wait for a thread. */
  get waiting(): number {
    return this.#waiting
  }

  /** Takes a committed slot. */
  submit(slot: number): void {
    this.#waitingSlots[(this.#firstWaiting + this.#waiting) % this.#options.slots] = slot
    this.#waiting++
    if (this.#dispatchPlanned || this.#runs === this.#maxRuns) return
    this.#dispatchPlanned = true
    // After all sockets that were ready in this turn of the loop have been read.
    setImmediate(() => {
      this.#dispatchPlanned = false
      this.#dispatch()
    })
  }

  async stop(): Promise<void> {
    await this.#piscina.destroy()
  }

  #dispatch(): void {
    while (this.#waiting > 0 && this.#runs < this.#maxRuns) {
      const share = Math.ceil(this.#waiting / (this.#maxRuns - this.#runs))
      this.#runs++
      void this.#decode(this.#takeRun(Math.min(share, MAX_RUN_SLOTS)))
    }
  }

  /** Slots that follow each other, at most so many. The ring hands them out so, but for those that are still taken. */
  #takeRun(most: number): Run {
    const { slots } = this.#options
    const first = this.#waitingSlots[this.#firstWaiting]
    let count = 0
    do {
      count++
      this.#firstWaiting = (this.#firstWaiting + 1) % slots
      this.#waiting--
    } while (count < most && this.#waiting > 0 && this.#waitingSlots[this.#firstWaiting] === (first + count) % slots)
    return { first, count }
  }

  async #decode(run: Run): Promise<void> {
    let notes: Note[] | null = null
    let failure: unknown = null
    try {
      notes = await this.#piscina.run(run)
    } catch (error) {
      failure = error
    }
    this.#runs--
    // The thread gets its next run before we turn to what came back.
    this.#dispatch()
    if (failure === null) this.#handBack(run, notes)
    else this.#giveUp(run, failure)
  }

  #handBack(run: Run, notes: Note[] | null): void {
    let nextNote = 0
    for (let index = 0; index < run.count; index++) {
      let validation: Validation | null = null
      if (notes !== null && notes[nextNote]?.index === index) {
        validation = notes[nextNote].validation
        nextNote++
      }
      const slot = (run.first + index) % this.#options.slots
      try {
        this.#options.onDecoded(slot, validation)
      } catch (error) {
        // One body's taker broke: the others of its run still come back.
        this.#options.onFailure(slot, error)
      }
    }
  }

  #giveUp(run: Run, error: unknown): void {
    for (let index = 0; index < run.count; index++) {
      this.#options.onFailure((run.first + index) % this.#options.slots, error)
    }
  }
}

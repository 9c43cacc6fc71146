// Scans bodies in runs of slots. What arrives while all threads are busy forms one run, so that the hand-over per body
// gets cheaper under load. What is scanned fast, the acceptor scans itself: to hand it over would cost more.
// Bodies that the scanner is not sure of go on to the explainer.

import { availableParallelism } from 'node:os'
import { Piscina } from 'piscina'
import { type SharedMemory, SLOT_WORDS, WORD } from '../ring/layout.ts'
import { createDecoder, type DecoderName } from './decoder.ts'
import { Explainer } from './explainer.ts'
import { type Note, type Run, RunScanner } from './run-scanner.ts'
import { ScanPace } from './scan-pace.ts'
import type { Validation } from './verdict.ts'
import type { WorkerData } from './worker.ts'

/** In a longer run the cost of the hand-over per body would hardly shrink. */
const MAX_RUN_SLOTS = 64
/** So that a thread always has its next run when it ends one. */
const RUNS_PER_THREAD = 2
/**
 * What takes the acceptor no longer is scanned by it: to hand a run over, wake a thread and take the run back costs as much,
 * and several times that where the threads have no core of their own.
 */
const DEFAULT_OWN_MS = availableParallelism() === 1 ? 0.5 : 0.1

export interface DecodePoolOptions {
  readonly memory: SharedMemory
  readonly slots: number
  readonly threads: number
  readonly decoder: DecoderName
  /** What waits at the end of a turn, and will be scanned in this time, is scanned here. */
  readonly ownMs?: number
  /** A slot was decoded. Runs may end in any order. `validation` null: accepted, with no more data than its words. */
  readonly onDecoded: (slot: number, validation: Validation | null) => void
  /** The thread that had this slot failed before it answered. */
  readonly onFailure: (slot: number, error: unknown) => void
  /** The scanner was not sure of this slot, and too many bodies wait for the explainer. */
  readonly onBusy: (slot: number) => void
}

export class DecodePool {
  readonly #options: DecodePoolOptions
  readonly #piscina: Piscina<Run, Note[] | null>
  readonly #explainer: Explainer
  readonly #maxRuns: number
  readonly #ownMs: number
  readonly #pace = new ScanPace()
  /** null: the decoder is too slow for the acceptor's thread. */
  readonly #ownScanner: RunScanner | null
  readonly #words: Int32Array
  #runs = 0
  /** A circular buffer of the slots that wait to be scanned: `#waiting` of them, from `#firstWaiting` on. */
  readonly #waitingSlots: Int32Array
  #firstWaiting = 0
  #waiting = 0
  #waitingBytes = 0
  #isDispatchDue = false

  constructor(options: DecodePoolOptions) {
    this.#options = options
    this.#maxRuns = options.threads * RUNS_PER_THREAD
    this.#waitingSlots = new Int32Array(options.slots)
    this.#words = new Int32Array(options.memory.table)
    const { memory, decoder } = options
    this.#ownMs = options.ownMs ?? DEFAULT_OWN_MS
    this.#ownScanner = decoder === 'scanner' ? new RunScanner(memory, createDecoder(decoder, memory.bytes)) : null
    const workerData: WorkerData = { memory, decoder }
    this.#explainer = new Explainer({
      workerData,
      onExplained: (slot, validation) => options.onDecoded(slot, validation),
      onFailure: (slot, error) => options.onFailure(slot, error),
      onBusy: (slot) => options.onBusy(slot),
    })
    this.#piscina = new Piscina({
      filename: new URL('./worker.js', import.meta.url).href,
      minThreads: options.threads,
      maxThreads: options.threads,
      concurrentTasksPerWorker: RUNS_PER_THREAD,
      maxQueue: this.#maxRuns,
      recordTiming: false,
      workerData,
    })
  }

  /** Resolves when every thread has loaded its code. */
  async start(): Promise<void> {
    const threads = Array.from({ length: this.#options.threads }, () => this.#piscina.run({ first: 0, count: 0 }))
    await Promise.all([...threads, this.#explainer.start()])
  }

  /** Slots that wait to be scanned or explained. */
  get waiting(): number {
    return this.#waiting + this.#explainer.waiting
  }

  /** Takes a committed slot. */
  submit(slot: number): void {
    this.#waitingSlots[(this.#firstWaiting + this.#waiting) % this.#options.slots] = slot
    this.#waiting++
    this.#waitingBytes += this.#lengthOf(slot)
    if (this.#isDispatchDue) return
    this.#isDispatchDue = true
    // After all sockets of this turn of the event loop were read, so that their slots share a run.
    setImmediate(() => {
      this.#isDispatchDue = false
      if (this.#ownScanner !== null && this.#pace.msFor(this.#waitingBytes) <= this.#ownMs)
        this.#scanHere(this.#ownScanner)
      else this.#dispatch()
    })
  }

  async stop(): Promise<void> {
    await Promise.all([this.#piscina.destroy(), this.#explainer.stop()])
  }

  #dispatch(): void {
    while (this.#waiting > 0 && this.#runs < this.#maxRuns) {
      const share = Math.ceil(this.#waiting / (this.#maxRuns - this.#runs))
      this.#runs++
      this.#pace.skip()
      void this.#decode(this.#takeRun(Math.min(share, MAX_RUN_SLOTS)))
    }
  }

  #scanHere(scanner: RunScanner): void {
    while (this.#waiting > 0) {
      const waitingBytes = this.#waitingBytes
      const run = this.#takeRun(MAX_RUN_SLOTS)
      const fromMs = performance.now()
      let notes: Note[] | null
      try {
        notes = scanner.scan(run)
      } catch (error) {
        this.#fail(run, error)
        continue
      }
      this.#pace.note(waitingBytes - this.#waitingBytes, performance.now() - fromMs)
      this.#handBack(run, notes)
    }
  }

  /** Takes up to `maxSlots` consecutive slots. The ring allocates slots in order, except for those still in use. */
  #takeRun(maxSlots: number): Run {
    const { slots } = this.#options
    const first = this.#waitingSlots[this.#firstWaiting]
    let count = 0
    do {
      count++
      this.#waitingBytes -= this.#lengthOf(this.#waitingSlots[this.#firstWaiting])
      this.#firstWaiting = (this.#firstWaiting + 1) % slots
      this.#waiting--
    } while (
      count < maxSlots &&
      this.#waiting > 0 &&
      this.#waitingSlots[this.#firstWaiting] === (first + count) % slots
    )
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
    // Before the results are handled, so that the thread does not idle.
    this.#dispatch()
    if (failure === null) this.#handBack(run, notes)
    else this.#fail(run, failure)
  }

  #handBack(run: Run, notes: Note[] | null): void {
    let nextNote = 0
    for (let index = 0; index < run.count; index++) {
      const note = notes?.[nextNote]?.index === index ? notes[nextNote++] : null
      const slot = (run.first + index) % this.#options.slots
      try {
        if (note !== null && note.validation === null) this.#explain(slot)
        else this.#options.onDecoded(slot, note?.validation ?? null)
      } catch (error) {
        // The handler failed for one body; the others of the run are still handed back.
        this.#options.onFailure(slot, error)
      }
    }
  }

  #explain(slot: number): void {
    if (!this.#explainer.submit(slot, this.#lengthOf(slot))) this.#options.onBusy(slot)
  }

  /** Of the body in the slot, in bytes. */
  #lengthOf(slot: number): number {
    return this.#words[slot * SLOT_WORDS + WORD.LENGTH]
  }

  #fail(run: Run, error: unknown): void {
    for (let index = 0; index < run.count; index++) {
      this.#options.onFailure((run.first + index) % this.#options.slots, error)
    }
  }
}

// A separate thread for the bodies that the scanner is not sure of. Explaining an invalid body may cost many times as
// much as accepting a valid one, and valid ones must not wait for it.

import { Piscina } from 'piscina'
import type { Validation } from './verdict.ts'
import { WaitingLine } from './waiting-line.ts'
import type { Unsure, WorkerData } from './worker.ts'

/** Bodies up to this size are served before larger ones. */
const SMALL_BYTES = 16 * 1024

export interface ExplainerOptions {
  readonly workerData: WorkerData
  readonly onExplained: (slot: number, validation: Validation) => void
  readonly onFailure: (slot: number, error: unknown) => void
  /** The slot has waited for too long. */
  readonly onBusy: (slot: number) => void
}

/** Enough for the tree of a body of half a megabyte of small values. Piscina replaces a thread that exceeds it. */
const THREAD_MEMORY = { maxOldGenerationSizeMb: 96, maxYoungGenerationSizeMb: 16 } as const

export class Explainer {
  readonly #options: ExplainerOptions
  readonly #piscina: Piscina<Unsure, Validation[]>
  readonly #small = new WaitingLine()
  readonly #large = new WaitingLine()
  #isRunning = false

  constructor(options: ExplainerOptions) {
    this.#options = options
    this.#piscina = new Piscina({
      filename: new URL('./worker.js', import.meta.url).href,
      minThreads: 1,
      maxThreads: 1,
      maxQueue: 1,
      recordTiming: false,
      resourceLimits: THREAD_MEMORY,
      workerData: options.workerData,
    })
  }

  /** Resolves when the thread has loaded its code. */
  async start(): Promise<void> {
    await this.#piscina.run({ slots: [] })
  }

  /** Slots that wait for the thread. */
  get waiting(): number {
    return this.#small.length + this.#large.length
  }

  /** false: too many bodies wait already. */
  submit(slot: number, bytes: number): boolean {
    const line = bytes <= SMALL_BYTES ? this.#small : this.#large
    if (!line.join(slot, bytes, performance.now())) return false
    if (!this.#isRunning) void this.#run()
    return true
  }

  async stop(): Promise<void> {
    await this.#piscina.destroy()
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    while (this.waiting > 0) {
      const monotonicMs = performance.now()
      for (const line of [this.#small, this.#large]) line.takeLate(monotonicMs).forEach(this.#options.onBusy)
      const slots = (this.#small.length > 0 ? this.#small : this.#large).take()
      try {
        const validations = await this.#piscina.run({ slots })
        for (const [index, slot] of slots.entries()) this.#explained(slot, validations[index])
      } catch (error) {
        for (const slot of slots) this.#options.onFailure(slot, error)
      }
    }
    this.#isRunning = false
  }

  #explained(slot: number, validation: Validation): void {
    try {
      this.#options.onExplained(slot, validation)
    } catch (error) {
      // The handler failed for one body; the others of the run are still handed back.
      this.#options.onFailure(slot, error)
    }
  }
}

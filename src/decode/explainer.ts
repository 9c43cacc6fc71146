// A thread of its own for the bodies that the scanner is not sure of. To explain what is wrong with a body may cost many
// times what it costs to accept one, and those that are accepted must not wait for it.

import { Piscina } from 'piscina'
import type { Validation } from './decoded.ts'
import type { Unsure, WorkerData } from './worker.ts'

/** What goes to the thread at a time: so much, or one body. It is ready for the next within some milliseconds. */
const MAX_RUN_BYTES = 64 * 1024
const MAX_RUN_SLOTS = 64
/** Bodies up to this size go before larger ones. */
const SMALL_BYTES = 16 * 1024
/** Bytes of small bodies that wait, and of large ones: for each a tenth of a second's work, where they are hostile. */
const MAX_WAITING_BYTES = 2 * 1024 * 1024

export interface ExplainerOptions {
  readonly workerData: WorkerData
  readonly onExplained: (slot: number, validation: Validation) => void
  readonly onFailure: (slot: number, error: unknown) => void
}

interface Waiting {
  readonly slot: number
  readonly bytes: number
}

/** First come, first served, up to so many bytes; one body may always wait. */
class Line {
  readonly #waiting: Waiting[] = []
  #bytes = 0

  get length(): number {
    return this.#waiting.length
  }

  join(slot: number, bytes: number): boolean {
    if (this.#bytes + bytes > MAX_WAITING_BYTES && this.#waiting.length > 0) return false
    this.#waiting.push({ slot, bytes })
    this.#bytes += bytes
    return true
  }

  /** The slots of one run. */
  take(): number[] {
    let count = 0
    let bytes = 0
    while (count < this.#waiting.length && count < MAX_RUN_SLOTS) {
      if (count > 0 && bytes + this.#waiting[count].bytes > MAX_RUN_BYTES) break
      bytes += this.#waiting[count].bytes
      count++
    }
    this.#bytes -= bytes
    return this.#waiting.splice(0, count).map(({ slot }) => slot)
  }
}

export class Explainer {
  readonly #options: ExplainerOptions
  readonly #piscina: Piscina<Unsure, Validation[]>
  readonly #small = new Line()
  readonly #large = new Line()
  #isRunning = false

  constructor(options: ExplainerOptions) {
    this.#options = options
    this.#piscina = new Piscina({
      filename: new URL('./worker.js', import.meta.url).href,
      minThreads: 1,
      maxThreads: 1,
      maxQueue: 1,
      recordTiming: false,
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

  /** Takes a slot whose body the scanner was not sure of. false: too much waits already. */
  submit(slot: number, bytes: number): boolean {
    const line = bytes <= SMALL_BYTES ? this.#small : this.#large
    if (!line.join(slot, bytes)) return false
    if (!this.#isRunning) void this.#run()
    return true
  }

  async stop(): Promise<void> {
    await this.#piscina.destroy()
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    while (this.waiting > 0) {
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
      // One body's taker broke: the others of its run still come back.
      this.#options.onFailure(slot, error)
    }
  }
}

// A thread of its own for the bodies that the scanner is not sure of. To explain what is wrong with a body costs up to a
// hundred times what it costs to accept one, and those that are accepted must not wait for it.

import { Piscina } from 'piscina'
import type { Validation } from './decoded.ts'
import type { Unsure, WorkerData } from './worker.ts'

/** What goes to the thread at a time: so much, or one body. It is ready for the next within some milliseconds. */
const MAX_RUN_BYTES = 64 * 1024
const MAX_RUN_SLOTS = 64
/** Bytes of bodies that wait: less than half a second's work. */
const MAX_WAITING_BYTES = 8 * 1024 * 1024

export interface ExplainerOptions {
  readonly workerData: WorkerData
  /** Most bytes of bodies that may wait; never more than MAX_WAITING_BYTES. */
  readonly maxWaitingBytes: number
  readonly onExplained: (slot: number, validation: Validation) => void
  readonly onFailure: (slot: number, error: unknown) => void
}

interface Waiting {
  readonly slot: number
  readonly bytes: number
}

export class Explainer {
  readonly #options: ExplainerOptions
  readonly #maxWaitingBytes: number
  readonly #piscina: Piscina<Unsure, Validation[]>
  #waiting: Waiting[] = []
  #waitingBytes = 0
  #isRunning = false

  constructor(options: ExplainerOptions) {
    this.#options = options
    this.#maxWaitingBytes = Math.min(options.maxWaitingBytes, MAX_WAITING_BYTES)
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
    return this.#waiting.length
  }

  /** Takes a slot whose body the scanner was not sure of. false: too much waits already. */
  submit(slot: number, bytes: number): boolean {
    if (this.#waitingBytes + bytes > this.#maxWaitingBytes && this.#waiting.length > 0) return false
    this.#waiting.push({ slot, bytes })
    this.#waitingBytes += bytes
    if (!this.#isRunning) void this.#run()
    return true
  }

  async stop(): Promise<void> {
    await this.#piscina.destroy()
  }

  async #run(): Promise<void> {
    this.#isRunning = true
    while (this.#waiting.length > 0) {
      const slots = this.#takeRun()
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

  #takeRun(): number[] {
    let count = 0
    let bytes = 0
    while (count < this.#waiting.length && count < MAX_RUN_SLOTS) {
      if (count > 0 && bytes + this.#waiting[count].bytes > MAX_RUN_BYTES) break
      bytes += this.#waiting[count].bytes
      count++
    }
    this.#waitingBytes -= bytes
    return this.#waiting.splice(0, count).map(({ slot }) => slot)
  }
}

// Takes back what dead nodes held, one after the other, beside all else that this node does.

import { errorMessage } from '../lib/errors.ts'
import type { SilentNode } from './nodes.ts'
import { reclaimFrom, type ReclaimParts } from './reclaim.ts'

/** After an attempt that came to nothing, the next one. */
const PAUSE_MS = 5000

export interface ReclaimerParts extends ReclaimParts {
  readonly monotonicMs: () => number
  readonly onNotice: (message: string) => void
  /** Redis refused; null: it did not, or not any more. */
  readonly onFailure: (message: string | null) => void
}

export class Reclaimer {
  readonly #parts: ReclaimerParts
  #isRunning = false
  #run: Promise<void> = Promise.resolve()
  #notBeforeMs = Number.NEGATIVE_INFINITY

  constructor(parts: ReclaimerParts) {
    this.#parts = parts
  }

  /** Returns at once: a dead node's records may take a while to read. */
  look(dead: readonly SilentNode[]): void {
    if (dead.length === 0 || this.#isRunning || this.#parts.monotonicMs() < this.#notBeforeMs) return
    this.#run = this.#reclaim(dead)
  }

  /** Resolves when nothing is being taken back. */
  quiet(): Promise<void> {
    return this.#run
  }

  async #reclaim(dead: readonly SilentNode[]): Promise<void> {
    this.#isRunning = true
    try {
      for (const node of dead) {
        const reclaimed = await reclaimFrom(node, this.#parts)
        if (reclaimed === null) continue
        if (typeof reclaimed === 'string') {
          this.#pause()
          continue
        }
        const { apps, events } = reclaimed
        this.#parts.onNotice(`node ${node.nodeId} has died: ${events} unused events of ${apps} apps were taken back`)
      }
      this.#parts.onFailure(null)
    } catch (error) {
      this.#pause()
      this.#parts.onFailure(errorMessage(error))
    } finally {
      this.#isRunning = false
    }
  }

  #pause(): void {
    this.#notBeforeMs = this.#parts.monotonicMs() + PAUSE_MS
  }
}

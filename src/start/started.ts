// What a start has built so far, and how to undo it. A start that fails half-way and the normal stop use the same list.

export class Started {
  readonly #stops: (() => unknown)[] = []

  /** To be called as soon as a part is running, with what undoes it. */
  add(stop: () => unknown): void {
    this.#stops.push(stop)
  }

  /**
   * Stops all parts, the last one first. A part that fails to stop does not keep the others running: the first error is
   * thrown at the end. A second call does nothing.
   */
  async stop(): Promise<void> {
    const failures: unknown[] = []
    for (const stop of this.#stops.splice(0).reverse()) {
      try {
        await stop()
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length > 0) throw failures[0]
  }
}

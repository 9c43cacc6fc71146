// A line that the same cause repeats is written at most once in 10 s, with its count.

import type { Timers } from '../lib/timers.ts'

const INTERVAL_MS = 10_000
/** Beyond either, a new cause is written each time. A cause is about as long as its line, which is held too. */
const MAX_CAUSES = 1000
const MAX_CHARACTERS = 1_048_576

/** `more`: how often it happened since the line before; 0: it is the first. */
type WriteLine = (more: number) => void

interface Repeated {
  more: number
  /** Writes the last one. */
  write: WriteLine
}

export class Repeats {
  readonly #timers: Pick<Timers, 'setTimeout'>
  readonly #causes = new Map<string, Repeated>()
  #characters = 0

  constructor(timers: Pick<Timers, 'setTimeout'>) {
    this.#timers = timers
  }

  /** Writes the first line of a cause at once. */
  line(cause: string, write: WriteLine): void {
    const known = this.#causes.get(cause)
    if (known !== undefined) {
      known.more++
      known.write = write
      return
    }
    const isRoom = this.#causes.size < MAX_CAUSES && this.#characters + cause.length <= MAX_CHARACTERS
    if (isRoom) this.#begin(cause, write)
    write(0)
  }

  /** Writes what waits for its time. */
  end(): void {
    for (const { more, write } of this.#causes.values()) if (more > 0) write(more)
    this.#causes.clear()
    this.#characters = 0
  }

  #begin(cause: string, write: WriteLine): void {
    const repeated: Repeated = { more: 0, write }
    this.#causes.set(cause, repeated)
    this.#characters += cause.length
    const over = (): void => {
      if (this.#causes.get(cause) !== repeated) return
      this.#causes.delete(cause)
      this.#characters -= cause.length
      if (repeated.more === 0) return
      this.#begin(cause, repeated.write)
      repeated.write(repeated.more)
    }
    this.#timers.setTimeout(over, INTERVAL_MS).unref()
  }
}

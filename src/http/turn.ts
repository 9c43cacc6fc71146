// Bounds how much one turn of the event loop answers inside the engine's callbacks. One read of a connection may hold
// thousands of requests that are refused by their heads, and the engine delivers all of them in one turn.

/** Answers that are sent at once in one turn, over all connections. */
const MAX_IMMEDIATE_ANSWERS = 16
/** Small pieces of bodies in one turn, over all connections. One read may hold 85,000 chunks of one byte. */
const MAX_PIECES = 4096

export class Turn {
  readonly #onFault: (error: unknown) => void
  #isInsideEngine = false
  #immediateAnswers = 0
  #pieces = 0
  #isEndScheduled = false
  #waiting: (() => void)[] = []

  /** `onFault`: work at the end of a turn threw. */
  constructor(onFault: (error: unknown) => void) {
    this.#onFault = onFault
  }

  /** A callback of the engine begins. */
  enter(): void {
    this.#isInsideEngine = true
  }

  /** The callback ends. */
  leave(): void {
    this.#isInsideEngine = false
  }

  /**
   * Whether an answer may be written now; otherwise it waits for the end of the turn. Until then its request is open,
   * and the engine closes the connection if it delivers another request. That is intended both for answers that close
   * their connection and for those beyond the bound.
   */
  mayAnswerNow(endsConnection: boolean): boolean {
    if (!this.#isInsideEngine) return true
    this.#scheduleEnd()
    return !endsConnection && ++this.#immediateAnswers <= MAX_IMMEDIATE_ANSWERS
  }

  /** Whether this turn may take one more small piece of a body. */
  mayTakePiece(): boolean {
    this.#scheduleEnd()
    return ++this.#pieces <= MAX_PIECES
  }

  /** Runs `work` when this turn is over. */
  atEnd(work: () => void): void {
    this.#scheduleEnd()
    this.#waiting.push(work)
  }

  #scheduleEnd(): void {
    if (this.#isEndScheduled) return
    this.#isEndScheduled = true
    setImmediate(() => this.#end())
  }

  #end(): void {
    this.#isEndScheduled = false
    this.#immediateAnswers = 0
    this.#pieces = 0
    const waiting = this.#waiting
    this.#waiting = []
    for (const work of waiting) {
      try {
        work()
      } catch (error) {
        // The error belongs to one request; the others still get their turn.
        this.#onFault(error)
      }
    }
  }
}

// Bounds what one turn of the event loop answers from inside the engine's callbacks. One read of one connection may hold
// thousands of requests that are refused by their heads; the engine hands them over one after the other, in one turn.

/** Answers that one turn gives at once, over all connections. */
const MAX_IMMEDIATE_ANSWERS = 16
/** Pieces of bodies that one turn takes, over all connections. One read may hold 85,000 chunks of a byte. */
const MAX_PIECES = 4096

export class Turn {
  readonly #onFault: (error: unknown) => void
  #isInsideEngine = false
  #immediateAnswers = 0
  #pieces = 0
  #isEndScheduled = false
  #waiting: (() => void)[] = []

  /** `onFault`: what waited for the end of a turn threw. */
  constructor(onFault: (error: unknown) => void) {
    this.#onFault = onFault
  }

  /** A callback of the engine begins. */
  enter(): void {
    this.#isInsideEngine = true
  }

  /** It ends. */
  leave(): void {
    this.#isInsideEngine = false
  }

  /**
   * Whether an answer may be written now. One that waits leaves its request open, and the engine closes a connection
   * that sends another request before that: so nothing behind such a request is served. That is wanted for answers
   * that end their connection, and for those beyond the bound.
   */
  mayAnswerNow(endsConnection: boolean): boolean {
    if (!this.#isInsideEngine) return true
    this.#scheduleEnd()
    return !endsConnection && ++this.#immediateAnswers <= MAX_IMMEDIATE_ANSWERS
  }

  /** Whether one more piece of a body may be taken, where a piece holds next to nothing. */
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
        // It is one request's: the others have their turn.
        this.#onFault(error)
      }
    }
  }
}

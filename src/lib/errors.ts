// Errors meant for people: their message says what to mend, and no stack is shown with it.

/** Something an operator must mend before the service or a command can run. */
export class StartError extends Error {
  override readonly name: string = 'StartError'
}

/** The settings are wrong. Holds every mistake, so that one start shows them all. */
export class ConfigError extends StartError {
  override readonly name = 'ConfigError'
  readonly mistakes: readonly string[]

  constructor(mistakes: readonly string[]) {
    const [first, ...others] = mistakes
    const list = mistakes.map((mistake) => `\n  - ${mistake}`).join('')
    super(`the settings are wrong:${others.length === 0 ? ` ${first}` : list}`)
    this.mistakes = mistakes
  }
}

/** What is needed is away, cannot be read now, or takes longer than an answer may: nothing is to be mended here. */
export class UnavailableError extends Error {}

/** `ENOSPC` and its like, where an unknown thrown value carries one. */
export function errorCode(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** What failed is for an operator to mend. `what` is said before the reason. */
export function throwStartError(error: unknown, what = ''): never {
  throw error instanceof StartError ? error : new StartError(what + errorMessage(error))
}

export function orStartError<T>(work: () => T, what = ''): T {
  try {
    return work()
  } catch (error) {
    return throwStartError(error, what)
  }
}

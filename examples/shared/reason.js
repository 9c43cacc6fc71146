// What went wrong, as one line for the log.

/** @param {unknown} error */
export function reasonOf(error) {
  if (!(error instanceof Error)) return String(error)
  // fetch says what happened in the cause.
  return error.cause instanceof Error ? `${error.message} (${error.cause.message})` : error.message
}

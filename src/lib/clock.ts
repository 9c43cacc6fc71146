// The clock that is passed to whatever needs the time of day.

/** Unix time in ms, as an integer. */
export type Clock = () => number

export const systemClock: Clock = () => Date.now()

/** ISO 8601 text of a time in Unix ms. The last one is kept, since many requests share a millisecond. */
export function createIsoTime(): (timeMs: number) => string {
  let lastMs = Number.NaN
  let lastText = ''
  return (timeMs) => {
    if (timeMs !== lastMs) {
      lastText = new Date(timeMs).toISOString()
      lastMs = timeMs
    }
    return lastText
  }
}

// How far this clock is off the server's, and the correction of events for it.

import type { SluiceEvent, Store } from './types.ts'

/** Less may be the network's delay, and harms nobody. */
const TOLERANCE_MS = 300_000

/** The correction is stored, so that a next page's first batch is right. */
export type Clock = ReturnType<typeof createClock>

export function createClock(store: Store) {
  const correctionMs = (): number => Number(store.get('clock') ?? 0)
  return {
    /** To add to this clock; 0 while it is near enough. */
    correctionMs,
    /** `dateMs` was the server's time at some moment between the two others. */
    learn(dateMs: number, sentMs: number, answeredMs: number): void {
      const offMs = Math.round(dateMs - (sentMs + answeredMs) / 2)
      if (Math.abs(offMs) > TOLERANCE_MS) store.set('clock', String(offMs))
      else if (correctionMs() !== 0) store.remove('clock')
    },
    /** The events as they are to be sealed; what the device said stays in them. */
    correct(events: readonly SluiceEvent[]): SluiceEvent[] {
      const addMs = correctionMs()
      return events.map((event) => {
        const saidAt = event.client_timestamp ?? event.timestamp
        const saidMs = Date.parse(saidAt)
        if (addMs === 0 || Number.isNaN(saidMs)) return event
        const timestamp = new Date(saidMs + addMs).toISOString()
        return { ...event, timestamp, client_timestamp: saidAt, clock_correction_ms: addMs }
      })
    },
  }
}

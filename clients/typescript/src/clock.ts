// How far this clock is off the server's, and the correction of events for it.

import { isoTime, parseTime } from './platform.ts'
import type { SluiceEvent, SyncStore } from './types.ts'

/** Less may be the network's delay, and harms nobody. */
const TOLERANCE_MS = 300_000

/** The correction is stored, so that a next page's first batch is right. */
export type Clock = ReturnType<typeof createClock>

export function createClock(store: SyncStore) {
  /** To add to this clock; 0 while it is near enough. */
  const correctionMs = (): number => Number(store.get('clock') ?? 0) || 0

  /** An event as it is to be sealed; what the device said stays in it. */
  function correct(event: SluiceEvent): SluiceEvent {
    const addMs = correctionMs()
    const saidAt = event.client_timestamp ?? event.timestamp
    const corrected = isoTime(parseTime(saidAt) + addMs)
    if (addMs === 0 || corrected === '') return event
    return { ...event, timestamp: corrected, client_timestamp: saidAt, clock_correction_ms: addMs }
  }

  return {
    correct,
    /** Not twice, so that no server can make a client try for ever. */
    mayCure: (event: SluiceEvent): boolean => event.clock_correction_ms === undefined && correct(event) !== event,
    /** `dateMs` was the server's time at some moment between the two others; NaN teaches nothing. */
    learn(dateMs: number, sentMs: number, answeredMs: number): void {
      const tookMs = answeredMs - sentMs
      const offMs = Math.round(dateMs - (sentMs + answeredMs) / 2)
      // By so much may it be wrong: nobody says when in that time the server answered.
      const awayMs = Math.abs(offMs) - TOLERANCE_MS
      if (tookMs < 0) return
      if (awayMs > tookMs / 2) store.set('clock', String(offMs))
      else if (awayMs < -tookMs / 2) store.remove('clock')
    },
  }
}

// @ts-check
// What a queue holds, by the windows of UTC into which it falls, to be held against limits.

export const MINUTE_MS = 60_000
export const DAY_MS = 86_400_000

/** A record of the queue. @typedef {{ appId: string, receivedAtMs: number, events: number }} Stored */

/** By the Unix ms of their start; a length of Infinity is one window. @template {Stored} S @param {readonly S[]} stored @param {number} lengthMs */
export function byWindow(stored, lengthMs) {
  /** @type {Map<number, S[]>} */
  const windows = new Map()
  for (const record of stored) {
    const startMs = lengthMs === Infinity ? 0 : Math.floor(record.receivedAtMs / lengthMs) * lengthMs
    const found = windows.get(startMs)
    if (found === undefined) windows.set(startMs, [record])
    else found.push(record)
  }
  return windows
}

/** @param {readonly Stored[]} stored */
export const eventsOf = (stored) => stored.reduce((sum, { events }) => sum + events, 0)

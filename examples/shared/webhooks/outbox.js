// What an endpoint was sent, and what is still to be sent to it, in a file of its own. What was read of the alerts and the
// position up to which it was read are written in one step: whatever is killed when, nothing between them is lost.

import { open, readFile, rename } from 'node:fs/promises'
import { dirname } from 'node:path'

/** While so many wait, no more are read: the service keeps alerts for 35 days. */
const MAX_PENDING = 100
/** An alert may be stored behind one that was decided later. */
const OVERLAP_MS = 300_000
/** So far the clock of the service may be ahead of this one. */
const AHEAD_MS = 60_000
/**
 * Of more, the oldest are forgotten, and may be sent once more, under the same id. So many, since all that is kept is read again
 * where a clock is set back.
 */
const MAX_KNOWN = 20_000
const FIRST_RETRY_MS = 30_000
const LAST_RETRY_MS = 86_400_000
/** So long alerts are kept. */
const GIVEN_UP_AFTER_MS = 35 * 86_400_000

/**
 * @typedef {{ id: string, at: string, app_id: string, kind: string, state: string, [member: string]: unknown }} Alert
 * @typedef {{ alert: Alert, attempts: number, next_ms: number, waited_ms?: number, set_ms?: number }} Pending
 * @typedef {{ v: 1, url: string, from: string, position: string, known: [string, string][], pending: Pending[], ended: string | null }} State
 * @typedef {Awaited<ReturnType<typeof openOutbox>>} Outbox
 */

/** @param {{ file: string, url: string, fromMs: number, random?: () => number }} place */
export async function openOutbox({ file, url, fromMs, random = Math.random }) {
  const from = new Date(fromMs).toISOString()
  const state = (await read(file)) ?? { v: 1, url, from, position: from, known: [], pending: [], ended: null }
  const known = new Map(state.known)
  // Even before the first alert: who is killed now must not begin later.
  await save()

  async function save() {
    await write(file, JSON.stringify({ ...state, known: [...known] }))
  }

  return {
    endedAt: () => state.ended,
    hasRoom: () => state.pending.length < MAX_PENDING,
    /** What is to be read begins here. @param {number} nowMs */
    since(nowMs) {
      const [startMs, positionMs] = [Date.parse(state.from), Date.parse(state.position)]
      if (positionMs <= nowMs + AHEAD_MS) return isoOf(Math.max(startMs, positionMs - OVERLAP_MS))
      // The clock was ahead, and was set back: what happened meanwhile is looked for in all that is kept.
      if (startMs > nowMs + AHEAD_MS) state.from = isoOf(nowMs - OVERLAP_MS)
      state.position = later(state.from, isoOf(nowMs - GIVEN_UP_AFTER_MS))
      return state.position
    },

    /**
     * Takes what is new of `alerts`, oldest first. false: there was no room for all.
     *
     * @param {readonly Alert[]} alerts @param {number} nowMs
     */
    async take(alerts, nowMs) {
      let isWhole = true
      let count = 0
      for (const alert of alerts) {
        if (!known.has(alert.id)) {
          if (state.pending.length >= MAX_PENDING) {
            isWhole = false
            break
          }
          known.set(alert.id, alert.at)
          state.pending.push({ alert, attempts: 0, next_ms: nowMs, set_ms: nowMs })
          count += 1
        }
        const atMs = Date.parse(alert.at)
        // One from the future, or without a time, must not keep others from being read.
        if (atMs <= nowMs + AHEAD_MS) state.position = later(state.position, isoOf(atMs))
      }
      for (const [id] of known) if (known.size > MAX_KNOWN) known.delete(id)
      if (count > 0) await save()
      return isWhole
    },

    /** The one that is due first; null: none waits. @param {number} nowMs */
    next(nowMs) {
      for (const pending of state.pending) {
        // The clock was set back since.
        if ((pending.set_ms ?? nowMs) > nowMs + AHEAD_MS) pending.next_ms = pending.set_ms = nowMs
      }
      return state.pending.reduce((one, other) => (one !== null && one.next_ms <= other.next_ms ? one : other), first())
    },

    /** @param {Pending} pending */
    async finish(pending) {
      state.pending.splice(state.pending.indexOf(pending), 1)
      await save()
    },

    /**
     * Puts it off, each time for twice as long. false: it is given up.
     *
     * @param {Pending} pending @param {number} nowMs @param {number} atLeastMs
     */
    async putOff(pending, nowMs, atLeastMs) {
      // By what was waited, since the clock and the alert's time may be wrong.
      const { waited_ms: waitedMs = 0 } = pending
      const isGivenUp = waitedMs > GIVEN_UP_AFTER_MS
      if (isGivenUp) state.pending.splice(state.pending.indexOf(pending), 1)
      // A tenth more by chance, so that what failed together is not tried together.
      const delayMs = Math.min(FIRST_RETRY_MS * 2 ** pending.attempts * (1 + random() / 10), LAST_RETRY_MS)
      pending.attempts += 1
      const waitMs = Math.max(delayMs, atLeastMs)
      pending.waited_ms = waitedMs + waitMs
      pending.next_ms = nowMs + waitMs
      pending.set_ms = nowMs
      await save()
      return !isGivenUp
    },

    /** It wants no more, for good. @param {number} nowMs */
    async end(nowMs) {
      state.ended = new Date(nowMs).toISOString()
      state.pending = []
      await save()
    },
  }

  /** @returns {Pending | null} */
  function first() {
    return state.pending[0] ?? null
  }
}

/** @param {number} timeMs */
const isoOf = (timeMs) => new Date(timeMs).toISOString()

/** @param {string} one @param {string} other */
const later = (one, other) => (one > other ? one : other)

/** @param {string} file @returns {Promise<State | null>} */
async function read(file) {
  let text
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    if (Object(error).code === 'ENOENT') return null
    throw error
  }
  try {
    const state = JSON.parse(text)
    const { v, from, position, known, pending } = Object(state)
    const areTimes = [from, position].every((time) => !Number.isNaN(Date.parse(time)))
    if (v === 1 && areTimes && Array.isArray(known) && Array.isArray(pending)) return state
  } catch {
    // Said below.
  }
  throw new Error(`${file} is damaged: move it away, and say with --from since when alerts are to be sent`)
}

/** Whole, or not at all, and synced. @param {string} file @param {string} text */
async function write(file, text) {
  const draft = await open(`${file}.draft`, 'w', 0o600)
  try {
    await draft.writeFile(text)
    await draft.sync()
  } finally {
    await draft.close()
  }
  await rename(`${file}.draft`, file)
  const folder = await open(dirname(file), 'r')
  await folder.sync().finally(() => folder.close())
}

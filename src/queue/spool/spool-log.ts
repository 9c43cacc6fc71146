// What the log says of the spool: that it began, how it grows, that it is sent, and whether anything is left.

import { formatBytes, formatSpan } from '../../lib/format.ts'
import type { OnNotice } from '../../lib/notice.ts'
import { DAY_MS } from '../../lib/spans.ts'
import type { Timer, Timers } from '../../lib/timers.ts'
import type { JournalFilling } from '../journal/journal-filling.ts'
import type { QueueAck } from '../queue.ts'

const LOOK_MS = 1000
/** An outage is over after so long with an empty spool: NATS may come and go. */
const QUIET_MS = 5000
const GROWTH_MS = 900_000
const FIRST_GROWTH_MS = 60_000
const MAX_FORECAST_MS = 365 * DAY_MS

/** What keeps a batch from NATS; unsynced: it has not shown that it syncs what it acknowledges. */
export type SpoolReason = QueueAck | 'unsynced'

/** What is not sent yet. */
export interface SpoolContents {
  readonly batches: number
  readonly bytes: number
  /** When the oldest was taken; null: there is none. */
  readonly oldestAtMs: number | null
}

export interface SpoolLogOptions {
  readonly timers: Timers
  readonly onNotice: OnNotice
}

export class SpoolLog {
  readonly #options: SpoolLogOptions
  readonly #contents: () => SpoolContents
  readonly #filling: Pick<JournalFilling, 'maxBytes'>
  /** Nothing is kept either. */
  readonly #isEmpty: () => boolean
  readonly #timer: Timer
  /** null: nothing is spooled. */
  #outage: { readonly sinceMs: number; sent: number; isDraining: boolean; toldAtMs: number; toldBytes: number } | null =
    null
  #emptySinceMs: number | null = null

  constructor(
    options: SpoolLogOptions,
    contents: () => SpoolContents,
    filling: Pick<JournalFilling, 'maxBytes'>,
    isEmpty: () => boolean,
  ) {
    this.#isEmpty = isEmpty
    this.#options = options
    this.#contents = contents
    this.#filling = filling
    const { batches, bytes } = contents()
    if (batches > 0) {
      this.#begin(bytes)
      options.onNotice(
        `the spool holds ${batches} batches (${formatBytes(bytes)}) that an earlier process accepted: they are sent when NATS takes them`,
      )
    }
    this.#timer = options.timers.setInterval(() => this.#look(), LOOK_MS)
    this.#timer.unref()
  }

  stop(): void {
    this.#options.timers.clear(this.#timer)
  }

  stored(why: SpoolReason): void {
    this.#emptySinceMs = null
    if (this.#outage !== null) return
    this.#begin(0)
    const cause =
      why === 'unsynced'
        ? 'NATS has not shown that it syncs what it acknowledges (SLUICE_REQUIRE_SYNC): batches'
        : `NATS does not take batches (${why}): they`
    this.#options.onNotice(
      `${cause} are spooled on this node's disk, and requests get 202 as before; until they are sent on, each is on this one disk: bring NATS back, and keep this disk`,
    )
  }

  sent(): void {
    const outage = this.#outage
    if (outage === null) return
    outage.sent += 1
    const { batches, bytes } = this.#contents()
    if (outage.isDraining) return
    outage.isDraining = true
    this.#options.onNotice(
      `NATS takes batches again: the first of the spool is sent, and ${batches} more follow (${formatBytes(bytes)}), oldest first`,
      'info',
    )
  }

  #begin(bytes: number): void {
    const nowMs = this.#options.timers.monotonicMs()
    const toldAtMs = nowMs + FIRST_GROWTH_MS - GROWTH_MS
    this.#outage = { sinceMs: nowMs, sent: 0, isDraining: false, toldAtMs, toldBytes: bytes }
  }

  #look(): void {
    const outage = this.#outage
    if (outage === null) return
    const nowMs = this.#options.timers.monotonicMs()
    const { batches, bytes } = this.#contents()
    if (batches === 0) {
      this.#emptySinceMs ??= nowMs
      if (nowMs - this.#emptySinceMs < QUIET_MS) return
      const span = formatSpan(nowMs - outage.sinceMs)
      const sent = `${outage.sent} batches were sent to NATS, ${span} after it began`
      this.#options.onNotice(
        this.#isEmpty()
          ? `the spool is empty again: ${sent}`
          : `all of the spool is sent: ${sent}; this disk keeps them until NATS has synced them and the audit counts them`,
        'info',
      )
      this.#outage = null
      return
    }
    if (nowMs - outage.toldAtMs < GROWTH_MS) return
    const grownMs = Math.min(nowMs - outage.toldAtMs, nowMs - outage.sinceMs)
    const perMs = (bytes - outage.toldBytes) / grownMs
    outage.toldAtMs = nowMs
    outage.toldBytes = bytes
    if (perMs > 0) this.#options.onNotice(this.#growth(batches, bytes, perMs))
  }

  #growth(batches: number, bytes: number, perMs: number): string {
    const fullMs = Math.max(0, this.#filling.maxBytes() - bytes) / perMs
    const date = new Date(this.#options.timers.nowMs() + Math.min(fullMs, MAX_FORECAST_MS)).toISOString().slice(0, 16)
    const when = fullMs > MAX_FORECAST_MS ? '' : ` and will be full on ${date}Z at this rate`
    return `the spool grows: it holds ${batches} batches (${formatBytes(bytes)})${when}; bring NATS back, or raise SLUICE_SPOOL_MAX_MB`
  }
}

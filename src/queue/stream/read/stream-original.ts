// Whether the stored original of a duplicate is this batch, and how many events it has. Its acknowledgement has the
// original's sequence.

import type { NatsConnection } from '@nats-io/transport-node'
import { IDEMPOTENCY_WINDOW_SECONDS } from '../../../contract/bounds.ts'
import { BEFORE_EVENTS, parseRecordHead, type RecordHead } from '../../../contract/record/record-head.ts'
import { recordsOf, unfilled } from '../../../contract/record/record-lines.ts'
import type { Timers } from '../../../lib/timers.ts'
import { getFromLeader } from './stream-message.ts'

/** Lookups at a time: each of them brings a whole message. Further ones wait for their turn. */
const MAX_LOOKUPS = 64
const KEY_WINDOW_MS = IDEMPOTENCY_WINDOW_SECONDS * 1000

export interface Repeat {
  readonly batchId: string
  readonly line: Uint8Array
  /** null: it is not known. */
  readonly receivedAtMs: number | null
}

/**
 * The events of the original. burnt: it is an empty message, by which the audit made sure that no batch is stored under
 * this id. earlier: it has this id and other events, and its key was forgotten when this batch came. undefined: it is another
 * batch, is gone, or could not be read by the deadline. Never rejects.
 */
export type OriginalLookup = (
  connection: NatsConnection | null,
  sequence: number,
  batch: Repeat,
  deadlineMs: number,
) => Promise<number | 'burnt' | 'earlier' | undefined>

export function createOriginalLookup(timers: Timers): OriginalLookup {
  let lookups = 0
  const waiting: (() => void)[] = []
  return async (connection, sequence, batch, deadlineMs) => {
    if (connection === null) return undefined
    if (lookups < MAX_LOOKUPS) lookups += 1
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      const leftMs = deadlineMs - timers.monotonicMs()
      if (leftMs <= 0) return undefined
      // From the leader, which sent the acknowledgement: a replica may lag.
      const message = await getFromLeader(connection, sequence, Math.ceil(leftMs))
      if (message === null) return undefined
      if (message.data.length === 0) return 'burnt'
      const original = recordIn(message.data, batch.batchId)
      return original !== undefined && isEarlier(original, batch) ? 'earlier' : original?.head.events
    } catch {
      return undefined
    } finally {
      const next = waiting.shift()
      if (next === undefined) lookups -= 1
      else next()
    }
  }
}

export interface Original {
  readonly head: RecordHead
  readonly line: Buffer
}

/** The record that has this id, in a message of records. */
export function recordIn(data: Uint8Array, batchId: string): Original | undefined {
  for (const line of recordsOf(data)) {
    const head = parseRecordHead(line, 0, line.length)
    if (head?.batchId === batchId) return { head, line }
  }
  return undefined
}

/** Whether a key, and so an id, was forgotten between these times, and may be that of another batch. */
export function isForgotten(oneMs: number, otherMs: number): boolean {
  return Math.abs(oneMs - otherMs) > KEY_WINDOW_MS
}

/** The same events are a late repeat, whose first answer may have been lost: nothing is lost with them. */
function isEarlier({ head, line }: Original, { receivedAtMs, line: own }: Repeat): boolean {
  if (receivedAtMs === null || !isForgotten(head.receivedAtMs, receivedAtMs)) return false
  const [ownLine] = recordsOf(own)
  return !eventsIn(line).equals(eventsIn(ownLine))
}

function eventsIn(line: Buffer): Buffer {
  const whole = unfilled(line)
  return whole.subarray(whole.indexOf(BEFORE_EVENTS))
}

// What a process had stored before it died, message by message: for whoever settles the limits in its place.

import type { NatsConnection } from '@nats-io/transport-node'
import { parseRecordHead, viewOf } from './record-head.ts'
import { describeStream } from './stream.ts'
import type { StoredMessage } from './stream-message.ts'
import { readRange } from './stream-range.ts'

/** A process that died had taken events for seconds since it last said how far it was; reading them takes no longer. */
const MAX_READ_MS = 20_000
/** More messages than can be read in that time. */
const MAX_COSTS = 1_000_000
const MINUTE_MS = 60_000
const NEWLINE = 10

export interface LedgerQuery {
  /** The `Sluice-Node` of the process that died. */
  readonly nodeId: string
  /** What it had stored up to here is settled. */
  readonly afterSequence: number
  /** Where to end; undefined: the stream's end as it is now. */
  readonly untilSequence?: number
}

export interface StoredCost {
  readonly appId: string
  /** Of all records of this app and minute in one message; one record costs its events, and at least 1. */
  readonly cost: number
  /** When the first of them was received: its UTC minute is that of all. */
  readonly receivedAtMs: number
  /** The message's place in the stream. */
  readonly sequence: number
}

/** 'away': NATS did not answer, or not in time. */
export async function storedBy(
  connection: NatsConnection | null,
  query: LedgerQuery,
): Promise<readonly StoredCost[] | 'away'> {
  if (connection === null) return 'away'
  const deadlineMs = performance.now() + MAX_READ_MS
  const costs: StoredCost[] = []
  try {
    const until = query.untilSequence ?? (await lastSequence(connection))
    for await (const message of readRange(connection, { from: query.afterSequence + 1, until })) {
      if (performance.now() > deadlineMs || costs.length > MAX_COSTS) return 'away'
      if (message.node !== query.nodeId) continue
      costs.push(...costsIn(message))
    }
  } catch {
    return 'away'
  }
  return costs
}

function costsIn({ data, sequence }: StoredMessage): StoredCost[] {
  const costs: { appId: string; cost: number; receivedAtMs: number; sequence: number }[] = []
  const view = viewOf(data)
  for (let start = 0; start < data.length; ) {
    const newlineAt = data.indexOf(NEWLINE, start)
    const end = newlineAt < 0 ? data.length : newlineAt
    const head = parseRecordHead(data, start, end, view)
    start = end + 1
    if (head === null) continue
    const { appId, receivedAtMs } = head
    const cost = Math.max(1, head.events)
    const minute = minuteOf(receivedAtMs)
    const same = costs.find((known) => known.appId === appId && minuteOf(known.receivedAtMs) === minute)
    if (same === undefined) costs.push({ appId, cost, receivedAtMs, sequence })
    else same.cost += cost
  }
  return costs
}

function minuteOf(timeMs: number): number {
  return Math.floor(timeMs / MINUTE_MS)
}

async function lastSequence(connection: NatsConnection): Promise<number> {
  const report = await describeStream(connection)
  switch (report.kind) {
    case 'present':
      return report.facts.lastSequence
    case 'absent':
      return 0
    case 'unreadable':
      throw new Error(report.reason)
  }
}

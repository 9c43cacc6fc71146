// What a process had stored before it died, message by message: for whoever settles the limits in its place.

import type { NatsConnection } from '@nats-io/transport-node'
import { systemTimers, type Timers } from '../lib/timers.ts'
import { parseRecordHead, viewOf } from './record-head.ts'
import { describeStream } from './stream.ts'
import type { StoredMessage } from './stream-message.ts'
import { readRange } from './stream-range.ts'

/** A process that died had taken events for seconds since it last said how far it was; reading them takes no longer. */
const MAX_READ_MS = 20_000
/** More messages than can be read in that time. */
const MAX_COSTS = 1_000_000
/** Nodes whose reading is under way; beyond, the oldest is begun anew at its next attempt. */
const MAX_READINGS = 4
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

interface Reading {
  readonly afterSequence: number
  /** The stream's end when the node was first looked for: a dead one stores nothing after. */
  readonly untilSequence: number
  nextSequence: number
  readonly costs: StoredCost[]
}

/** Reads what dead nodes had stored. What one attempt does not finish, the next goes on with. */
export class StreamLedger {
  readonly #maxReadMs: number
  readonly #timers: Timers
  /** By node, the oldest first. */
  readonly #readings = new Map<string, Reading>()

  constructor(maxReadMs = MAX_READ_MS, timers = systemTimers) {
    this.#maxReadMs = maxReadMs
    this.#timers = timers
  }

  /** 'away': NATS did not answer, or not in time. */
  async storedBy(connection: NatsConnection | null, query: LedgerQuery): Promise<readonly StoredCost[] | 'away'> {
    if (connection === null) return 'away'
    const deadlineMs = this.#timers.monotonicMs() + this.#maxReadMs
    try {
      const reading = await this.#readingOf(connection, query)
      const { untilSequence: until, costs } = reading
      for await (const message of readRange(connection, { from: reading.nextSequence, until })) {
        if (message.node === query.nodeId) costs.push(...costsIn(message))
        reading.nextSequence = message.sequence + 1
        if (costs.length > MAX_COSTS) return 'away'
        if (this.#timers.monotonicMs() > deadlineMs && reading.nextSequence <= until) return 'away'
      }
      this.#readings.delete(query.nodeId)
      return costs
    } catch {
      return 'away'
    }
  }

  async #readingOf(connection: NatsConnection, query: LedgerQuery): Promise<Reading> {
    const { nodeId, afterSequence } = query
    const known = this.#readings.get(nodeId)
    if (known?.afterSequence === afterSequence) return known
    const untilSequence = query.untilSequence ?? (await lastSequence(connection))
    const reading = { afterSequence, untilSequence, nextSequence: afterSequence + 1, costs: [] }
    this.#readings.delete(nodeId)
    for (const oldest of this.#readings.keys()) {
      if (this.#readings.size < MAX_READINGS) break
      this.#readings.delete(oldest)
    }
    this.#readings.set(nodeId, reading)
    return reading
  }
}

/** In one attempt. 'away': NATS did not answer, or not in time. */
export function storedBy(
  connection: NatsConnection | null,
  query: LedgerQuery,
): Promise<readonly StoredCost[] | 'away'> {
  return new StreamLedger().storedBy(connection, query)
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

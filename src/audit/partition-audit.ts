// The audit of one partition: reads what the stream has of it, closes minutes, and puts the sums in the place of what
// Redis has counted. It may stop at any point: whoever goes on reads again what was not kept.

import { readFileSync } from 'node:fs'
import type { NatsConnection } from '@nats-io/transport-node'
import { MINUTE_MS, MINUTES_A_DAY } from '../apps/plans.ts'
import type { Timers } from '../lib/timers.ts'
import { countsKey, fenceKey } from '../limits/shared/take.ts'
import { API_TIMEOUT_MS } from '../nats/api.ts'
import { parseCosts } from '../queue/record/cost-header.ts'
import { getFromLeader } from '../queue/stream/read/stream-message.ts'
import { type StreamFacts } from '../queue/stream/stream.ts'
import type { RedisLink } from '../redis/link.ts'
import { redisScript, runScript } from '../redis/script.ts'
import { type CostMessage, CostReader, type From } from './cost-reader.ts'
import type { CountsBucket } from './counts-bucket.ts'
import { PartitionTotals, redisTexts, type SavedTotals } from './totals.ts'

const REPLACE = redisScript(readFileSync(new URL('./replace.lua', import.meta.url), 'utf8'))
/** Apps in one call of replace.lua, so that it holds Redis up for some 2 ms. */
const APPS_PER_CALL = 100
/** Messages read in one round, so that other partitions get their turn. */
const MAX_BATCHES = 200

export interface PartitionAuditParts {
  readonly partition: number
  readonly connection: NatsConnection
  readonly bucket: CountsBucket
  readonly redis: RedisLink
  readonly timers: Timers
  /** A message without the header, or with a wrong one. */
  readonly onBadMessage: (sequence: number) => void
}

export class PartitionAudit {
  readonly #parts: PartitionAuditParts
  readonly #totals: PartitionTotals
  readonly #reader: CostReader
  #revision: number
  /** The fence that this auditor has set, or found in the bucket. */
  #fence: { readonly timeUs: number; readonly minute: number }
  #isSaved = true

  /** Takes the partition over, from what the bucket has of it. Rejects where NATS does not answer. */
  static async open(parts: PartitionAuditParts, stream: StreamFacts): Promise<PartitionAudit> {
    const { saved, revision } = await parts.bucket.read(parts.partition)
    const from = await startOf(parts.connection, stream, saved)
    const reader = await CostReader.open(parts.connection, parts.partition, from, parts.timers)
    return new PartitionAudit(parts, new PartitionTotals(stream.createdAt, saved), reader, revision)
  }

  private constructor(parts: PartitionAuditParts, totals: PartitionTotals, reader: CostReader, revision: number) {
    this.#parts = parts
    this.#totals = totals
    this.#reader = reader
    this.#revision = revision
    this.#fence = { timeUs: totals.last.timeUs, minute: totals.minute }
  }

  /** The end of the last minute that is closed; where none is yet, when the last message that was read was stored. */
  auditedUntilMs(nowMs: number): number {
    const { minute, last } = this.#totals
    if (minute > 0) return (minute + 1) * MINUTE_MS
    return last.timeUs > 0 ? last.timeUs / 1000 : nowMs
  }

  close(): void {
    this.#reader.close()
  }

  /** Reads to the stream's end, closes minutes up to `closable`, and tells Redis and the bucket. */
  async round(closable: number): Promise<void> {
    const totals = this.#totals
    if (!(await this.#readAll(closable))) return
    const isTurn = closable > totals.minute
    totals.close(closable)
    const changed = totals.takeChanged()
    if (changed.size > 0) this.#isSaved = false
    // Without Redis the sums go on, and into the bucket.
    if ((await this.#push(changed)) === 'away') totals.markChanged(changed)
    // Between two turns only what came late has changed, and is read again.
    if (!isTurn || this.#isSaved) return
    this.#revision = await this.#parts.bucket.write(this.#parts.partition, totals.save(), this.#revision)
    this.#isSaved = true
  }

  /** false: there is more. */
  async #readAll(closable: number): Promise<boolean> {
    for (let batches = 0; batches < MAX_BATCHES; batches++) {
      const { messages, isEnd } = await this.#reader.read()
      for (const message of messages) this.#readMessage(message, closable)
      if (isEnd) return true
    }
    return false
  }

  #readMessage({ sequence, timeUs, text }: CostMessage, closable: number): void {
    // Two minutes more than are closable have begun.
    const costs = text === null ? null : parseCosts(text, closable + 2)
    if (costs === null) this.#parts.onBadMessage(sequence)
    this.#totals.read({ sequence, timeUs }, costs ?? [], closable)
  }

  async #push(changed: ReadonlySet<string>): Promise<'away' | 'done'> {
    const { redis, partition } = this.#parts
    const { apps, minute, last } = this.#totals
    // What is no fence is none, and is replaced.
    const known = await redis.call((client) => client.get(fenceKey(partition))).catch(() => null)
    if (known === 'away') return 'away'
    const isLost = isBefore(known, this.#fence)
    const isNew = last.timeUs !== this.#fence.timeUs || minute !== this.#fence.minute
    // A Redis that was emptied, rolled back or replaced has lost the bases of all apps, or may have.
    const appIds = isLost ? [...apps.keys()] : [...changed]
    if (appIds.length === 0 && !isNew && !isLost) return 'done'
    const head = [String(last.timeUs), String(minute)]
    for (let at = 0; at < appIds.length; at += APPS_PER_CALL) {
      const some = appIds.slice(at, at + APPS_PER_CALL)
      const texts = some.flatMap((appId) => {
        const { base, days } = redisTexts(apps.get(appId)!)
        return [base, days]
      })
      const keys = [fenceKey(partition), ...some.map((appId) => countsKey(partition, appId))]
      if ((await runScript(redis, REPLACE, keys, [...head, '0', ...texts])) === 'away') return 'away'
    }
    // Behind the bases: a fence without them would hide minutes that no base holds.
    if ((await runScript(redis, REPLACE, [fenceKey(partition)], [...head, '1'])) === 'away') return 'away'
    this.#fence = { timeUs: last.timeUs, minute }
    return 'done'
  }
}

/** Where reading has to begin. A stream that lost its tail has given sequences that were counted to other messages. */
async function startOf(connection: NatsConnection, stream: StreamFacts, saved: SavedTotals | null): Promise<From> {
  if (saved === null || saved.created !== stream.createdAt) return { sequence: 1 }
  const { sequence, timeUs, from, minute } = saved
  if (sequence < stream.firstSequence) return { sequence: from }
  if (sequence <= stream.lastSequence) {
    const last = sequence === 0 ? null : await getFromLeader(connection, sequence, API_TIMEOUT_MS)
    if (sequence === 0 || (last !== null && last.time.getTime() === Math.floor(timeUs / 1000)))
      return { sequence: from }
  }
  // What was counted before is known by its time.
  return { timeMs: minute * MINUTE_MS }
}

/** A fence of a minute more than a day ahead was written by no audit. */
function isBefore(fence: string | null, { timeUs, minute }: { timeUs: number; minute: number }): boolean {
  const [knownUs, knownMinute] = (fence ?? '').split(' ').map(Number)
  if (fence === null || !(knownUs >= 0) || !(knownMinute >= 0) || knownMinute > minute + MINUTES_A_DAY) return true
  return knownUs < timeUs || (knownUs === timeUs && knownMinute < minute)
}

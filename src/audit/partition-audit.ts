// The audit of one partition: reads its costs from the stream, closes minutes, and replaces Redis's counters by the
// totals. It may stop at any point: the next auditor reads again whatever was not saved.

import { readFileSync } from 'node:fs'
import type { NatsConnection } from '@nats-io/transport-node'
import type { Alert } from '../contract/alert.ts'
import { parseCosts } from '../contract/record/cost-header.ts'
import { MINUTE_MS } from '../lib/spans.ts'
import type { Timers } from '../lib/timers.ts'
import { type AlertLimits, decideAlerts, hasJustTurned, isWorthKeeping } from '../limits/alerts.ts'
import { cycleMinutesAt } from '../limits/cycle-minutes.ts'
import { countsKey, type Fence, fenceIn, fenceKey, readKey } from '../limits/shared/take.ts'
import { API_TIMEOUT_MS } from '../nats/api.ts'
import { type CostMessage, CostReader, type From, type StreamEnd } from '../queue/stream/read/cost-reader.ts'
import { getFromLeader } from '../queue/stream/read/stream-message.ts'
import { type StreamFacts } from '../queue/stream/stream.ts'
import type { RedisLink } from '../redis/link.ts'
import { integer, textOrNull } from '../redis/reply.ts'
import { redisScript, runScript } from '../redis/script.ts'
import { encodeTotals } from './app-totals.ts'
import type { Bounds } from './clocks.ts'
import type { CountsBucket } from './counts-bucket.ts'
import { readRedisSums } from './redis-sums.ts'
import { PartitionTotals, type SavedTotals } from './totals.ts'

const REPLACE = redisScript(readFileSync(new URL('./replace.lua', import.meta.url), 'utf8'))
/** Per call of replace.lua, so that it blocks Redis for about 2 ms. */
const APPS_PER_CALL = 100
/** replace.lua's reply where it refuses. */
const NOT_PASSED = -1
/** Rounds in which a server may lag before its consumer is given up. */
const MAX_ROUNDS_BEHIND = 5
/** Read in one round, so that the other partitions get their turn. */
const MAX_BATCHES_PER_ROUND = 200

/** Between two decisions about alerts. */
const ALERTS_MS = 15_000
/** Asked about at once. */
const APPS_PER_QUESTION = 500

export type AppAlertLimits = AlertLimits | null
/** In their order; null: there is no such app. */
export type AskLimits = (appIds: readonly string[]) => Promise<readonly AppAlertLimits[]>

export interface PartitionAuditParts {
  readonly partition: number
  readonly connection: NatsConnection
  readonly bucket: CountsBucket
  readonly redis: RedisLink
  readonly timers: Timers
  /** A message has no cost header, or an invalid one. */
  readonly onBadMessage: (sequence: number) => void
  /** Events that name a minute that cannot have begun were charged to the running one. */
  readonly onFutureEvents: (events: number) => void
  /** So many minutes were closed that have not begun, and are open again. */
  readonly onTakenBack: (minutes: number) => void
  /** A message was stored after its minute was closed: nobody knew of its doubt, and others may have had its room. */
  readonly onLateMessage: () => void
  readonly askLimits: AskLimits
  /** It is stored. */
  readonly onAlert: (alert: Alert) => void
  /** The totals were lost; so many apps were found in Redis or the stream. */
  readonly onRecovered: (apps: number) => void
}

export class PartitionAudit {
  readonly #parts: PartitionAuditParts
  readonly #totals: PartitionTotals
  readonly #reader: CostReader
  #revision: number
  /** The fence that this auditor set last; before that, the one saved in the bucket. */
  #fence: Fence
  /** A fence in Redis that is later than all that this auditor has read, and the minute that was closed when it was seen first. */
  #ahead: Fence | null = null
  #roundsBehind = 0
  #alertsAtMs = Number.NEGATIVE_INFINITY
  /** Of the stream alone, until the first closing: the totals were lost, and those of Redis may be older or newer. */
  #recount: PartitionTotals | null = null

  /** Takes the partition over, from its totals in the bucket. Rejects if NATS does not answer. */
  static async open(parts: PartitionAuditParts, stream: StreamFacts): Promise<PartitionAudit> {
    const { saved, revision } = await parts.bucket.read(parts.partition)
    // A stream with its first message has all there is to count.
    if (saved === null && stream.firstSequence > 1) return PartitionAudit.#recover(parts, stream, revision)
    const from = await readStart(parts.connection, stream, saved)
    const reader = await CostReader.open(parts.connection, parts.partition, from, parts.timers)
    return new PartitionAudit(parts, new PartitionTotals(stream.createdAt, saved), reader, revision)
  }

  /** From Redis's sums, and all that is in the stream. */
  static async #recover(parts: PartitionAuditParts, stream: StreamFacts, revision: number): Promise<PartitionAudit> {
    const sums = await readRedisSums(parts.redis, parts.partition)
    if (sums === 'away') throw new Error('its sums in SLUICE_COUNTS are lost, and Redis, which may have them, is away')
    const { createdAt: created, lastSequence: sequence } = stream
    const saved: SavedTotals | null = sums && { v: 1, created, sequence, from: 1, ...sums }
    const reader = await CostReader.open(parts.connection, parts.partition, { sequence: 1 }, parts.timers)
    const audit = new PartitionAudit(parts, new PartitionTotals(created, saved), reader, revision)
    audit.#recount = new PartitionTotals(created, null)
    return audit
  }

  private constructor(parts: PartitionAuditParts, totals: PartitionTotals, reader: CostReader, revision: number) {
    this.#parts = parts
    this.#totals = totals
    this.#reader = reader
    this.#revision = revision
    this.#fence = { timeUs: totals.last.timeUs, minute: totals.minute }
  }

  /** The end of the last closed minute; before the first one, the time of the last message read. */
  auditedUntilMs(nowMs: number): number {
    const { minute, last } = this.#totals
    if (minute > 0) return (minute + 1) * MINUTE_MS
    return last.timeUs > 0 ? last.timeUs / 1000 : nowMs
  }

  close(): void {
    this.#reader.close()
  }

  /** Reads to the stream's end, closes minutes, and writes the totals to the bucket and to Redis. */
  async round(bounds: Bounds): Promise<void> {
    const totals = this.#totals
    const wantsMove = bounds.closable > totals.minute || totals.newestMinute > bounds.latest || this.#recount !== null
    const end = wantsMove ? await this.#reader.askEnd() : null
    if (!(await this.#readAll(bounds))) return
    if (wantsMove) {
      if (!this.#isProven(end)) return
      this.#move(totals, bounds)
      if (this.#recount !== null) this.#endRecount(this.#recount, bounds)
      // Before Redis: that a quorum has stored them proves that this is no server that is cut off from the others.
      this.#revision = await this.#parts.bucket.write(this.#parts.partition, totals.save(), this.#revision)
    }
    // Between two closings only late records change totals. They are read again if this auditor ends before it saves.
    const changed = totals.takeChanged()
    // Without Redis the totals are still kept and saved.
    if ((await this.#writeToRedis(changed, bounds)) === 'away') totals.markChanged(changed)
    await this.#decideAlerts(bounds)
  }

  /** What is decided is stored with the sums that it was decided by, by one auditor alone; then it is published. */
  async #decideAlerts({ nowMs, running }: Bounds): Promise<void> {
    const { timers, bucket, partition, onAlert } = this.#parts
    const totals = this.#totals
    if (this.#recount !== null || timers.monotonicMs() - this.#alertsAtMs < ALERTS_MS) return
    this.#alertsAtMs = timers.monotonicMs()
    const decided: Alert[] = []
    const appIds = [...totals.appIds()]
    for (let at = 0; at < appIds.length; at += APPS_PER_QUESTION) {
      const asked = appIds.slice(at, at + APPS_PER_QUESTION)
      const limits = await this.#parts.askLimits(asked)
      for (const [index, appId] of asked.entries()) {
        const alerts = this.#decideFor(appId, limits[index], { nowMs, running })
        if (alerts.length > 0) await bucket.addAlerts(appId, alerts, nowMs)
        totals.decided(appId)
        decided.push(...alerts)
      }
    }
    if (decided.length > 0) {
      this.#revision = await bucket.write(partition, totals.save(), this.#revision)
      for (const alert of decided) onAlert(alert)
    }
    // Last, and tried again with the next decision: old alerts that stay do no harm, and what is above must not wait for them.
    if (partition === 0) await bucket.forgetAlerts(nowMs).catch(() => {})
  }

  /** What stands of an app that was removed stays, in case it comes back. */
  #decideFor(
    appId: string,
    limits: AppAlertLimits,
    { nowMs, running }: Pick<Bounds, 'nowMs' | 'running'>,
  ): readonly Alert[] {
    if (limits === null) return []
    const { standing: known } = this.#totals
    const cycle = cycleMinutesAt(limits, running)
    const sums = this.#totals.alertSums(appId, cycle, cycleMinutesAt(limits, cycle.first - 1), nowMs)
    const { standing, alerts } = decideAlerts(appId, limits, known.get(appId) ?? null, sums)
    const wasTold = known.has(appId) || alerts.length > 0
    if (isWorthKeeping(standing) || (wasTold && hasJustTurned(standing, nowMs))) known.set(appId, standing)
    else known.delete(appId)
    return alerts
  }

  /** Nothing closes before this reader has had what the stream's leader has. */
  #isProven(end: StreamEnd): boolean {
    const isProven = this.#reader.hasPassed(end)
    this.#roundsBehind = isProven ? 0 : this.#roundsBehind + 1
    // Another consumer may get another server.
    if (this.#roundsBehind >= MAX_ROUNDS_BEHIND) {
      throw new Error("a NATS server is behind the stream's leader, or cut off from it")
    }
    return isProven
  }

  #endRecount(recount: PartitionTotals, bounds: Bounds): void {
    this.#move(recount, bounds)
    this.#totals.keepLarger(recount)
    this.#recount = null
    // A partition that never had an event had nothing to lose.
    if (this.#totals.apps.size > 0) this.#parts.onRecovered(this.#totals.apps.size)
  }

  /** Closes minutes, or opens again what a wrong clock has closed. */
  #move(totals: PartitionTotals, bounds: Bounds): void {
    if (totals.minute > bounds.latest) {
      this.#parts.onTakenBack(totals.minute - bounds.passed)
      totals.takeBack(bounds.passed, bounds)
      return
    }
    const future = totals.chargeFuture(bounds)
    if (future > 0) this.#parts.onFutureEvents(future)
    totals.close(bounds.closable)
  }

  /** false: the stream has more. */
  async #readAll(bounds: Bounds): Promise<boolean> {
    for (let batches = 0; batches < MAX_BATCHES_PER_ROUND; batches++) {
      const { messages, isEnd } = await this.#reader.read()
      for (const message of messages) this.#readMessage(message, bounds)
      if (isEnd) return true
    }
    return false
  }

  #readMessage({ sequence, timeUs, text, isSpooled }: CostMessage, { closable, running }: Bounds): void {
    const costs = text === null ? null : parseCosts(text)
    if (costs === null) this.#parts.onBadMessage(sequence)
    const isLate = this.#totals.read({ sequence, timeUs }, costs ?? [], closable, running)
    // What was in a spool counted in Redis all the time.
    if (isLate && !isSpooled) this.#parts.onLateMessage()
    this.#recount?.read({ sequence, timeUs }, costs ?? [], closable)
  }

  async #writeToRedis(changed: ReadonlySet<string>, { latest }: Bounds): Promise<'away' | 'done'> {
    const { redis, partition } = this.#parts
    const { apps, minute, last } = this.#totals
    // A value of the wrong type counts as no fence, and is replaced.
    const text = await redis.call((client) => client.get(fenceKey(partition)), textOrNull).catch(() => null)
    if (text === 'away') return 'away'
    const known = fenceIn(text)
    const hasLostFence = isBefore(known, this.#fence, latest)
    const timeUs = this.#timeOfFence(known)
    const isNew = timeUs !== this.#fence.timeUs || minute !== this.#fence.minute
    // Redis was emptied, rolled back or replaced, or its fence is a wrong clock's: so may be the bases of all apps.
    const appIds = hasLostFence ? [...apps.keys()] : [...changed]
    if (appIds.length === 0 && !isNew && !hasLostFence) return 'done'
    const fence = [fenceKey(partition), readKey(partition)]
    const head = [timeUs, minute, last.sequence].map(String)
    for (let at = 0; at < appIds.length; at += APPS_PER_CALL) {
      const some = appIds.slice(at, at + APPS_PER_CALL)
      const texts = some.flatMap((appId) => {
        const { base, days } = encodeTotals(apps.get(appId)!)
        return [base, days]
      })
      const keys = [...fence, ...some.map((appId) => countsKey(partition, appId))]
      if ((await this.#replace(keys, [...head, '0', ...texts])) === 'away') return 'away'
    }
    // After the bases: a fence closes minutes, and without a base their events would be counted nowhere.
    if ((await this.#replace(fence, [...head, '1'])) === 'away') return 'away'
    this.#fence = { timeUs, minute }
    return 'done'
  }

  /**
   * The time of the last message read. Where a fence stays later for longer than a minute, which closed with all that the stream
   * has, NATS has lost the messages that its auditor had read: it would stand until others come.
   */
  #timeOfFence(known: Fence | null): number {
    const { last, minute } = this.#totals
    const knownUs = known?.timeUs ?? 0
    if (!(knownUs > last.timeUs)) this.#ahead = null
    else if (this.#ahead?.timeUs !== knownUs) this.#ahead = { timeUs: knownUs, minute }
    return this.#ahead !== null && minute > this.#ahead.minute ? this.#ahead.timeUs : last.timeUs
  }

  async #replace(keys: readonly string[], args: readonly string[]): Promise<'away' | 'done'> {
    const reply = await runScript(this.#parts.redis, REPLACE, keys, args, integer)
    if (reply === 'away') return 'away'
    // Another Redis answers than the one that said its time, or its clock was set back since.
    if (reply === NOT_PASSED) throw new Error("Redis's clock went back")
    return 'done'
  }
}

/**
 * Where reading has to begin. A stream that lost its tail gives the lost sequences to new messages, so the last message
 * read is recognized by its time.
 */
async function readStart(connection: NatsConnection, stream: StreamFacts, saved: SavedTotals | null): Promise<From> {
  if (saved === null || saved.created !== stream.createdAt) return { sequence: 1 }
  const { sequence, timeUs, from, minute } = saved
  if (sequence < stream.firstSequence) return { sequence: from }
  if (sequence <= stream.lastSequence) {
    const last = sequence === 0 ? null : await getFromLeader(connection, sequence, API_TIMEOUT_MS)
    if (sequence === 0 || (last !== null && last.time.getTime() === Math.floor(timeUs / 1000)))
      return { sequence: from }
  }
  // The sequences are worthless. `PartitionTotals.read` skips counted messages by their time.
  return { timeMs: minute * MINUTE_MS }
}

/** Also true where there is no valid fence, or that of a minute that cannot have been closed. */
function isBefore(known: Fence | null, { timeUs, minute }: Fence, latest: number): boolean {
  if (known === null || known.minute > latest) return true
  return known.timeUs < timeUs || (known.timeUs === timeUs && known.minute < minute)
}

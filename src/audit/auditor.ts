// The audit replaces Redis's counters by what the stream has stored. One node audits each partition. Two auditors at
// once, an auditor that dies, and a Redis or a stream that lost data are all harmless.

import { createHash } from 'node:crypto'
import type { NatsConnection } from '@nats-io/transport-node'
import { MINUTE_MS } from '../apps/plans.ts'
import { errorMessage } from '../lib/errors.ts'
import type { OnNotice } from '../lib/notice.ts'
import type { Timer, Timers } from '../lib/timers.ts'
import { NODES_KEY } from '../limits/shared/nodes.ts'
import { describeStream } from '../queue/stream/stream.ts'
import type { RedisLink } from '../redis/link.ts'
import { CountsBucket } from './counts-bucket.ts'
import { PartitionAudit } from './partition-audit.ts'

const ROUND_MS = 2000
/** A minute closes this long after its end. A request waits at most 2 s for its acknowledgement. */
const CLOSE_DELAY_MS = 5000
const MICROSECONDS_PER_MS = 1000

export interface AuditorOptions {
  readonly nodeId: string
  readonly partitions: number
  /** Of the bucket SLUICE_COUNTS, if it has to be created. */
  readonly replicas: number
  readonly redis: RedisLink
  /** null: NATS is away. */
  readonly connection: () => NatsConnection | null
  readonly timers: Timers
  readonly onNotice: OnNotice
  /** Called once a round. */
  readonly onRound?: (state: AuditState) => void
}

export interface AuditState {
  /** Every partition of this node is audited up to this time; null: this node audits none. */
  readonly auditedUntilMs: number | null
  /** Messages so far without a valid `Sluice-Cost` header. */
  readonly badMessages: number
}

export class Auditor {
  readonly #options: AuditorOptions
  readonly #audits = new Map<number, PartitionAudit>()
  #connection: NatsConnection | null = null
  #bucket: CountsBucket | null = null
  /** By partition that this node audits. Kept while NATS is away or a round fails. */
  readonly #auditedUntilMs = new Map<number, number>()
  #timer: Timer | null = null
  #running: Promise<void> = Promise.resolve()
  #isStopped = false
  #badMessages = 0
  /** Alive by Redis's last reply. */
  #nodes: readonly string[] = []
  /** The nodes for which `#auditors` was worked out. */
  #assignedTo = ''
  /** The auditor of each partition. */
  #auditors: (string | undefined)[] = []
  /** Of the last round. */
  #problem: string | null = null
  #roundProblem: string | null = null
  readonly #startedAtMs: number

  constructor(options: AuditorOptions) {
    this.#options = options
    this.#startedAtMs = options.timers.nowMs()
    this.#scheduleRound()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    if (this.#timer !== null) this.#options.timers.clear(this.#timer)
    await this.#running
    this.#drop()
  }

  #scheduleRound(): void {
    if (this.#isStopped) return
    this.#timer = this.#options.timers.setTimeout(() => {
      this.#running = this.#round().finally(() => this.#scheduleRound())
    }, ROUND_MS)
    this.#timer.unref()
  }

  async #round(): Promise<void> {
    this.#roundProblem = null
    const nowMs = await this.#readNodesAndTime()
    try {
      const connection = this.#options.connection()
      if (connection === null) this.#drop()
      else await this.#auditAll(connection, nowMs)
    } catch (error) {
      // The next round opens every partition again and reads what was not saved.
      this.#drop()
      this.#roundProblem = errorMessage(error)
    }
    this.#logProblem()
    const untilMs = [...this.#auditedUntilMs.values()]
    // A node whose first round failed has lagged since its start.
    if (untilMs.length === 0 && this.#roundProblem !== null) untilMs.push(this.#startedAtMs)
    this.#options.onRound?.({
      auditedUntilMs: untilMs.length === 0 ? null : Math.min(...untilMs),
      badMessages: this.#badMessages,
    })
  }

  /** Returns Redis's time, or this node's while Redis is away. The nodes then stay those of the last reply. */
  async #readNodesAndTime(): Promise<number> {
    const { redis, timers } = this.#options
    const ownMs = timers.nowMs()
    const reply = await redis
      .call((client) => Promise.all([client.time(), client.zrange(NODES_KEY, '0', '-1')]))
      .catch(() => 'away' as const)
    if (reply === 'away') return ownMs
    this.#nodes = reply[1]
    // The client's types are wrong: these are strings.
    const [seconds, microseconds]: readonly unknown[] = reply[0]
    const redisMs = Number(seconds) * 1000 + Math.floor(Number(microseconds) / MICROSECONDS_PER_MS)
    // A closed minute cannot be opened again, so a clock of Redis that is far ahead must not close future minutes.
    return Math.min(redisMs, ownMs + MINUTE_MS)
  }

  async #auditAll(connection: NatsConnection, nowMs: number): Promise<void> {
    const { partitions, nodeId, replicas } = this.#options
    if (this.#connection !== connection) this.#drop()
    this.#connection = connection
    // A partition may have failed because the bucket was deleted.
    if (this.#bucket === null || this.#problem !== null) this.#bucket = await CountsBucket.open(connection, replicas)
    const bucket = this.#bucket
    const closableMinute = Math.floor((nowMs - CLOSE_DELAY_MS) / MINUTE_MS) - 1
    for (let partition = 0; partition < partitions && !this.#isStopped; partition++) {
      if (this.#auditorOf(partition) !== nodeId) {
        this.#close(partition)
        this.#auditedUntilMs.delete(partition)
        continue
      }
      if (!this.#auditedUntilMs.has(partition)) this.#auditedUntilMs.set(partition, this.#startedAtMs)
      try {
        const audit = await this.#open(partition, connection, bucket)
        await audit?.round(closableMinute)
        this.#auditedUntilMs.set(partition, audit?.auditedUntilMs(nowMs) ?? nowMs)
      } catch (error) {
        this.#close(partition)
        this.#roundProblem ??= `partition ${partition}: ${errorMessage(error)}`
      }
    }
  }

  /** null: there is no stream yet. */
  async #open(partition: number, connection: NatsConnection, bucket: CountsBucket): Promise<PartitionAudit | null> {
    const known = this.#audits.get(partition)
    if (known !== undefined) return known
    const stream = await describeStream(connection)
    if (stream.kind === 'absent') return null
    if (stream.kind === 'unreadable') throw new Error(stream.reason)
    const { redis, timers } = this.#options
    const onBadMessage = (sequence: number): void => this.#countBadMessage(sequence)
    const audit = await PartitionAudit.open(
      { partition, connection, bucket, redis, timers, onBadMessage },
      stream.facts,
    )
    this.#audits.set(partition, audit)
    return audit
  }

  #close(partition: number): void {
    this.#audits.get(partition)?.close()
    this.#audits.delete(partition)
  }

  #drop(): void {
    for (const audit of this.#audits.values()) audit.close()
    this.#audits.clear()
    this.#bucket = null
  }

  #countBadMessage(sequence: number): void {
    this.#badMessages++
    if (this.#badMessages > 1) return
    this.#options.onNotice(
      `message ${sequence} of the stream has no valid Sluice-Cost header: it is charged to no app; further ones are only counted in the metrics`,
    )
  }

  #logProblem(): void {
    const problem = this.#roundProblem
    if (problem === this.#problem) return
    this.#problem = problem
    if (problem === null) this.#options.onNotice('the audit of the limits works again', 'info')
    else
      this.#options.onNotice(
        `the audit of the limits failed and is retried: ${problem}; until it works, counters in Redis may be too high`,
      )
  }

  /** Rendezvous hashing: few partitions move when a node joins or leaves. */
  #auditorOf(partition: number): string | undefined {
    const nodes = this.#nodes
    if (nodes.join(' ') !== this.#assignedTo) {
      this.#assignedTo = nodes.join(' ')
      const hash = (at: number, node: string): string => createHash('sha1').update(`${at} ${node}`).digest('hex')
      this.#auditors = Array.from({ length: this.#options.partitions }, (_, at) => {
        return nodes.toSorted((one, other) => (hash(at, one) < hash(at, other) ? 1 : -1))[0]
      })
    }
    return this.#auditors[partition]
  }
}

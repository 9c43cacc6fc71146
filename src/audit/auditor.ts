// The audit: the queue is the truth, and Redis a fast count of it. Each partition is audited by one of the nodes; two
// at once, one that dies, and a Redis or a stream that lost something are all harmless.

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
/** After its end a minute stays open for so long: a request waits at the most 2 s for its acknowledgement. */
const CLOSES_AFTER_MS = 5000
const MICROSECONDS = 1000

export interface AuditorOptions {
  readonly nodeId: string
  readonly partitions: number
  /** Of the bucket, where it has to be made. */
  readonly replicas: number
  readonly redis: RedisLink
  /** null: NATS is away. */
  readonly connection: () => NatsConnection | null
  readonly timers: Timers
  readonly onNotice: OnNotice
  /** Once a round. */
  readonly onRound?: (state: AuditState) => void
}

export interface AuditState {
  /** The end of the oldest minute that is closed, of the partitions that this node audits; null: it has none. */
  readonly auditedUntilMs: number | null
  /** Messages without a right `Sluice-Cost`, so far. */
  readonly badMessages: number
}

export class Auditor {
  readonly #options: AuditorOptions
  readonly #audits = new Map<number, PartitionAudit>()
  #connection: NatsConnection | null = null
  #bucket: CountsBucket | null = null
  /** Of each partition that this node audits: until when it is audited, also while NATS is away or a round fails. */
  readonly #auditedUntilMs = new Map<number, number>()
  #timer: Timer | null = null
  #running: Promise<void> = Promise.resolve()
  #isStopped = false
  #badMessages = 0
  /** Those that live, as Redis said last, and which of them audits each partition. */
  #nodes: readonly string[] = []
  #assignedTo = ''
  #auditors: (string | undefined)[] = []
  #problem: string | null = null
  #roundProblem: string | null = null
  readonly #startedAtMs: number

  constructor(options: AuditorOptions) {
    this.#options = options
    this.#startedAtMs = options.timers.nowMs()
    this.#later()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    if (this.#timer !== null) this.#options.timers.clear(this.#timer)
    await this.#running
    this.#drop()
  }

  #later(): void {
    if (this.#isStopped) return
    this.#timer = this.#options.timers.setTimeout(() => {
      this.#running = this.#round().finally(() => this.#later())
    }, ROUND_MS)
    this.#timer.unref()
  }

  async #round(): Promise<void> {
    this.#roundProblem = null
    const nowMs = await this.#lookAround()
    try {
      const connection = this.#options.connection()
      if (connection === null) this.#drop()
      else await this.#auditAll(connection, nowMs)
    } catch (error) {
      // What was read is read again: nothing is lost but time.
      this.#drop()
      this.#roundProblem = errorMessage(error)
    }
    this.#tell()
    const untilMs = [...this.#auditedUntilMs.values()]
    // A node that could not begin yet is behind since its start.
    if (untilMs.length === 0 && this.#roundProblem !== null) untilMs.push(this.#startedAtMs)
    this.#options.onRound?.({
      auditedUntilMs: untilMs.length === 0 ? null : Math.min(...untilMs),
      badMessages: this.#badMessages,
    })
  }

  /** Which nodes live, and what time it is for Redis. While it is away the nodes are those it knew last. */
  async #lookAround(): Promise<number> {
    const { redis, timers } = this.#options
    const ownMs = timers.nowMs()
    const reply = await redis
      .call((client) => Promise.all([client.time(), client.zrange(NODES_KEY, '0', '-1')]))
      .catch(() => 'away' as const)
    if (reply === 'away') return ownMs
    this.#nodes = reply[1]
    // Strings, whatever the client's types say.
    const [seconds, microseconds]: readonly unknown[] = reply[0]
    const redisMs = Number(seconds) * 1000 + Math.floor(Number(microseconds) / MICROSECONDS)
    // A minute is never opened again: a clock of Redis that is far ahead must not close those to come.
    return Math.min(redisMs, ownMs + MINUTE_MS)
  }

  async #auditAll(connection: NatsConnection, nowMs: number): Promise<void> {
    const { partitions, nodeId, replicas } = this.#options
    if (this.#connection !== connection) this.#drop()
    this.#connection = connection
    // It may have been deleted where a partition failed.
    if (this.#bucket === null || this.#problem !== null) this.#bucket = await CountsBucket.open(connection, replicas)
    const bucket = this.#bucket
    const closable = Math.floor((nowMs - CLOSES_AFTER_MS) / MINUTE_MS) - 1
    for (let partition = 0; partition < partitions && !this.#isStopped; partition++) {
      if (this.#auditorOf(partition) !== nodeId) {
        this.#close(partition)
        this.#auditedUntilMs.delete(partition)
        continue
      }
      if (!this.#auditedUntilMs.has(partition)) this.#auditedUntilMs.set(partition, this.#startedAtMs)
      try {
        const audit = await this.#open(partition, connection, bucket)
        await audit?.round(closable)
        this.#auditedUntilMs.set(partition, audit?.auditedUntilMs(nowMs) ?? nowMs)
      } catch (error) {
        // The others go on.
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
    const onBadMessage = (sequence: number): void => this.#sawBadMessage(sequence)
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

  #sawBadMessage(sequence: number): void {
    this.#badMessages++
    if (this.#badMessages > 1) return
    this.#options.onNotice(
      `message ${sequence} of the stream has no right Sluice-Cost header: it is charged to no app (more are counted only)`,
    )
  }

  #tell(): void {
    const problem = this.#roundProblem
    if (problem === this.#problem) return
    this.#problem = problem
    if (problem === null) this.#options.onNotice('the audit of the limits goes on', 'info')
    else this.#options.onNotice(`the audit of the limits waits: ${problem}`)
  }

  /** By the highest hash, so that few partitions move when a node comes or goes. */
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

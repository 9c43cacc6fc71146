// The audit: the queue is the truth, and Redis a fast count of it. Each partition is audited by one of the nodes; two
// at once, one that dies, and a Redis or a stream that lost something are all harmless.

import { createHash } from 'node:crypto'
import type { NatsConnection } from '@nats-io/transport-node'
import { MINUTE_MS } from '../admit/plans.ts'
import type { RedisLink } from '../admit/redis.ts'
import { errorMessage } from '../lib/errors.ts'
import type { OnNotice } from '../lib/notice.ts'
import type { Timer, Timers } from '../lib/timers.ts'
import { NODES_KEY } from '../limits/shared/nodes.ts'
import { describeStream } from '../queue/stream.ts'
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
  #bucket: { readonly connection: NatsConnection; readonly bucket: CountsBucket } | null = null
  #timer: Timer | null = null
  #running: Promise<void> = Promise.resolve()
  #isStopped = false
  #badMessages = 0
  /** Those that live, and which of them audits each partition. */
  #nodes = ''
  #auditors: (string | undefined)[] = []
  #problem: string | null = null

  constructor(options: AuditorOptions) {
    this.#options = options
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
    try {
      const { redis, onRound } = this.#options
      const connection = this.#options.connection()
      const now = await redis.call((client) => Promise.all([client.time(), client.zrange(NODES_KEY, '0', '-1')]))
      if (connection === null || now === 'away') return this.#drop()
      // Strings, whatever the client's types say.
      const [seconds, microseconds]: readonly unknown[] = now[0]
      const nodes = now[1]
      const nowMs = Number(seconds) * 1000 + Math.floor(Number(microseconds) / MICROSECONDS)
      await this.#auditAll(connection, nodes, nowMs)
      onRound?.({ auditedUntilMs: this.#auditedUntilMs(nowMs), badMessages: this.#badMessages })
      if (this.#problem !== null) this.#options.onNotice('the audit of the limits goes on', 'info')
      this.#problem = null
    } catch (error) {
      // What was read is read again: nothing is lost but time.
      this.#drop()
      this.#tell(errorMessage(error))
    }
  }

  async #auditAll(connection: NatsConnection, nodes: readonly string[], nowMs: number): Promise<void> {
    const { partitions, nodeId, replicas, redis, timers } = this.#options
    if (this.#bucket?.connection !== connection) {
      this.#drop()
      this.#bucket = { connection, bucket: await CountsBucket.open(connection, replicas) }
    }
    const { bucket } = this.#bucket
    const closable = Math.floor((nowMs - CLOSES_AFTER_MS) / MINUTE_MS) - 1
    for (let partition = 0; partition < partitions && !this.#isStopped; partition++) {
      let audit = this.#audits.get(partition)
      if (this.#auditorOf(partition, nodes) !== nodeId) {
        audit?.close()
        this.#audits.delete(partition)
        continue
      }
      if (audit === undefined) {
        const stream = await describeStream(connection)
        if (stream.kind === 'absent') return
        if (stream.kind === 'unreadable') throw new Error(stream.reason)
        const onBadMessage = (sequence: number): void => this.#sawBadMessage(sequence)
        audit = await PartitionAudit.open({ partition, connection, bucket, redis, timers, onBadMessage }, stream.facts)
        this.#audits.set(partition, audit)
      }
      if ((await audit.round(closable)) === 'away') return this.#drop()
    }
  }

  #drop(): void {
    for (const audit of this.#audits.values()) audit.close()
    this.#audits.clear()
    this.#bucket = null
  }

  #auditedUntilMs(nowMs: number): number | null {
    if (this.#audits.size === 0) return null
    return Math.min(...Array.from(this.#audits.values(), (audit) => audit.auditedUntilMs(nowMs)))
  }

  #sawBadMessage(sequence: number): void {
    this.#badMessages++
    if (this.#badMessages > 1) return
    this.#options.onNotice(
      `message ${sequence} of the stream has no right Sluice-Cost header: it is charged to no app (more are counted only)`,
    )
  }

  #tell(problem: string): void {
    if (problem === this.#problem) return
    this.#problem = problem
    this.#options.onNotice(`the audit of the limits waits: ${problem}`)
  }

  /** By the highest hash, so that few partitions move when a node comes or goes. */
  #auditorOf(partition: number, nodes: readonly string[]): string | undefined {
    const key = nodes.join(' ')
    if (key !== this.#nodes) {
      this.#nodes = key
      const hash = (at: number, node: string): string => createHash('sha1').update(`${at} ${node}`).digest('hex')
      this.#auditors = Array.from({ length: this.#options.partitions }, (_, at) => {
        return nodes.toSorted((one, other) => (hash(at, one) < hash(at, other) ? 1 : -1))[0]
      })
    }
    return this.#auditors[partition]
  }
}

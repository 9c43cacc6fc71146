// The audit replaces Redis's counters by what the stream has stored. One node audits each partition. Two auditors at
// once, an auditor that dies, and a Redis or a stream that lost data are all harmless.

import { JetStreamApiCodes } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import type { Alert } from '../contract/alert.ts'
import { errorMessage } from '../lib/errors.ts'
import type { OnNotice } from '../lib/notice.ts'
import type { Timer, Timers } from '../lib/timers.ts'
import { codeOf } from '../nats/api.ts'
import { describeStream } from '../queue/stream/stream.ts'
import type { RedisLink } from '../redis/link.ts'
import { AuditorList } from './auditor-list.ts'
import { ClockWatch } from './clock-watch.ts'
import { type Bounds, Clocks, type Skews, type StoppedKind } from './clocks.ts'
import { CountsBucket } from './counts-bucket.ts'
import { DoubtSettler } from './doubt-settler.ts'
import { readNatsTime } from './nats-time.ts'
import { type AskLimits, PartitionAudit } from './partition-audit.ts'

const ROUND_MS = 2000
/** Where asking NATS for its time costs more than a question. */
const NATS_PROBE_MS = 60_000

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
  readonly askLimits: AskLimits
  /** It was decided and is stored. */
  readonly onAlert: (alert: Alert) => void
  /** Called once a round. */
  readonly onRound?: (state: AuditState) => void
}

export interface AuditState {
  /** Every partition of this node is audited up to this time; null: this node audits none. */
  readonly auditedUntilMs: number | null
  /** Messages so far without a valid `Sluice-Cost` header. */
  readonly badMessages: number
  /** Events so far that named a minute that could not have begun. */
  readonly futureEvents: number
  /** Those of this node. */
  readonly partitions: readonly number[]
  /** Why it audits none; null: nothing keeps it from it. */
  readonly stopped: StoppedKind | null
  /** Batches in doubt so far that could not be settled, and messages that came after their minute was closed. */
  readonly unsettledDoubts: number
  readonly skews: Skews
}

export class Auditor {
  readonly #options: AuditorOptions
  readonly #doubts: DoubtSettler
  readonly #audits = new Map<number, PartitionAudit>()
  #connection: NatsConnection | null = null
  #bucket: CountsBucket | null = null
  /** By partition that this node audits. Kept while NATS is away or a round fails. */
  readonly #auditedUntilMs = new Map<number, number>()
  #timer: Timer | null = null
  #running: Promise<void> = Promise.resolve()
  #isStopped = false
  #badMessages = 0
  #futureEvents = 0
  #lateMessages = 0
  readonly #clocks: Clocks
  readonly #list: AuditorList
  #natsProbedAtMs = Number.NEGATIVE_INFINITY
  readonly #clockWatch: ClockWatch
  /** In this round, by partition: minutes; apps. */
  readonly #takenBack = new Map<number, number>()
  readonly #recovered = new Map<number, number>()
  /** Of the last round. */
  #problem: string | null = null
  #roundProblem: string | null = null
  readonly #startedAtMs: number

  constructor(options: AuditorOptions) {
    this.#options = options
    this.#doubts = new DoubtSettler(options.redis)
    this.#startedAtMs = options.timers.nowMs()
    this.#clocks = new Clocks(options.timers)
    this.#clockWatch = new ClockWatch(options.onNotice)
    this.#list = new AuditorList({ ...options, clocks: this.#clocks })
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
    await this.#list.read()
    try {
      const connection = this.#options.connection()
      if (connection === null) this.#drop()
      else await this.#auditAll(connection)
    } catch (error) {
      // The next round opens every partition again and reads what was not saved.
      this.#drop()
      this.#roundProblem = errorMessage(error)
    }
    this.#logTakenBack()
    this.#logRecovered()
    this.#logProblem()
    const untilMs = [...this.#auditedUntilMs.values()]
    // A node whose first round failed has lagged since its start.
    if (untilMs.length === 0 && this.#roundProblem !== null) untilMs.push(this.#startedAtMs)
    this.#options.onRound?.({
      auditedUntilMs: untilMs.length === 0 ? null : Math.min(...untilMs),
      badMessages: this.#badMessages,
      futureEvents: this.#futureEvents,
      partitions: [...this.#auditedUntilMs.keys()].toSorted((one, other) => one - other),
      unsettledDoubts: this.#doubts.unsettled + this.#lateMessages,
      stopped: this.#clockWatch.stopped,
      skews: this.#clocks.skews(),
    })
  }

  async #auditAll(connection: NatsConnection): Promise<void> {
    const { partitions, nodeId, replicas } = this.#options
    if (this.#connection !== connection) this.#drop()
    this.#connection = connection
    const bounds = await this.#compareClocks(connection)
    if (bounds === null) return this.#drop()
    // A partition may have failed because the bucket was deleted.
    if (this.#bucket === null || this.#problem !== null) this.#bucket = await CountsBucket.open(connection, replicas)
    const bucket = this.#bucket
    for (let partition = 0; partition < partitions && !this.#isStopped; partition++) {
      if (this.#list.auditorOf(partition) !== nodeId) {
        this.#close(partition)
        this.#auditedUntilMs.delete(partition)
        continue
      }
      if (!this.#auditedUntilMs.has(partition)) this.#auditedUntilMs.set(partition, this.#startedAtMs)
      try {
        const audit = await this.#open(partition, connection, bucket)
        const closable = await this.#doubts.settle(partition, bounds.closable, connection)
        await audit?.round({ ...bounds, closable })
        const nowMs = this.#options.timers.nowMs()
        this.#auditedUntilMs.set(partition, audit?.auditedUntilMs(nowMs) ?? nowMs)
      } catch (error) {
        this.#close(partition)
        // Another auditor was first: the next round goes on from what that one has saved.
        if (codeOf(error) === JetStreamApiCodes.StreamWrongLastSequence) continue
        this.#roundProblem ??= `partition ${partition}: ${errorMessage(error)}`
      }
    }
  }

  /** null: this node may not audit. */
  async #compareClocks(connection: NatsConnection): Promise<Bounds | null> {
    const atMs = this.#options.timers.monotonicMs()
    const mayProbe = atMs - this.#natsProbedAtMs >= NATS_PROBE_MS
    if (mayProbe) this.#natsProbedAtMs = atMs
    const natsMs = await readNatsTime(connection, mayProbe)
    if (natsMs !== null) this.#clocks.heard('nats', natsMs)
    const clocks = this.#clocks.state()
    this.#clockWatch.look(clocks, this.#clocks.skews())
    await this.#list.announce(clocks.kind === 'skewed')
    // Others audit its partitions.
    if (clocks.kind === 'skewed') this.#auditedUntilMs.clear()
    return clocks.kind === 'agree' ? clocks.bounds : null
  }

  /** null: there is no stream yet. */
  async #open(partition: number, connection: NatsConnection, bucket: CountsBucket): Promise<PartitionAudit | null> {
    const known = this.#audits.get(partition)
    if (known !== undefined) return known
    const stream = await describeStream(connection)
    if (stream.kind === 'absent') return null
    if (stream.kind === 'unreadable') throw new Error(stream.reason)
    const { redis, timers, askLimits, onAlert } = this.#options
    const audit = await PartitionAudit.open(
      {
        partition,
        connection,
        bucket,
        redis,
        timers,
        askLimits,
        onAlert,
        onBadMessage: (sequence) => this.#countBadMessage(sequence),
        onFutureEvents: (events) => this.#countFutureEvents(events),
        onLateMessage: () => void this.#lateMessages++,
        onRecovered: (apps) => void this.#recovered.set(partition, apps),
        onTakenBack: (minutes) => void this.#takenBack.set(partition, minutes),
      },
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

  #countFutureEvents(events: number): void {
    this.#futureEvents += events
    if (this.#futureEvents > events) return
    this.#options.onNotice(
      `${events} events name a minute that has not begun: a clock was wrong when they were taken; they are charged to the running minute, and further ones are only counted in the metrics`,
    )
  }

  #logTakenBack(): void {
    if (this.#takenBack.size === 0) return
    const minutes = Math.max(...this.#takenBack.values())
    this.#options.onNotice(
      `up to ${minutes} minutes were closed that Redis's clock has not passed, in partitions ${[...this.#takenBack.keys()].join(', ')}: a clock was wrong; they are open again, and all events stay charged; compare the clocks (sluice check)`,
      'error',
    )
    this.#takenBack.clear()
  }

  #logRecovered(): void {
    if (this.#recovered.size === 0) return
    const apps = [...this.#recovered.values()].reduce((sum, count) => sum + count, 0)
    this.#options.onNotice(
      `the sums of partitions ${[...this.#recovered.keys()].join(', ')} in SLUICE_COUNTS were lost or could not be read, and the stream no longer has its first messages: those of ${apps} apps were taken from Redis or the stream, whichever were larger; what neither holds is charged no more, so compare them with your own records (sluice usage)`,
      'error',
    )
    this.#recovered.clear()
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
}

// The shared queue: publishes records to a JetStream stream, pipelined within a window, and settles each one by its
// acknowledgement. An answered record is never sent again, none waits longer than its timeout, and records that a slow
// server could not acknowledge in time are refused at once.

import { createInbox, type Msg, type NatsConnection } from '@nats-io/transport-node'
import type { Status } from '../../contract/health.ts'
import { systemTimers, type Timers } from '../../lib/timers.ts'
import { NatsLink } from '../../nats/connection.ts'
import type { EventQueue, OnAck, QueueAck, QueueRecord, QueueRefusal } from '../queue.ts'
import { RefusedRecords } from '../refused-records.ts'
import { type Ack, parseAck, storedSequence } from './ack.ts'
import { AckSweeper } from './ack-sweeper.ts'
import { AckWindow, type InFlight } from './ack-window.ts'
import type { ConsumerLags } from './consumer-lag.ts'
import { MAX_BATCH_MESSAGES } from './keyed-group.ts'
import { type Entry, Lanes } from './lanes.ts'
import { LongOutage } from './long-outage.ts'
import type { Doubt, PublisherOptions } from './publisher-options.ts'
import { createOriginalLookup, type OriginalLookup } from './read/stream-original.ts'
import { Sender } from './sender.ts'
import type { StreamFacts, StreamReport } from './stream.ts'
import { StreamKeeper } from './stream-keeper.ts'
import { StreamState } from './stream-state.ts'
import { UnackedRecords } from './unacked-records.ts'

const DEFAULT_ACK_TIMEOUT_MS = 2000
/** More than a ring of the default size can hold. */
const MAX_UNACKED_RECORDS = 262_144

/** Returns at once and connects in the background. Throws a StartError where the URL is not valid. */
export function openPublisher(options: PublisherOptions): StreamPublisher {
  return new StreamPublisher(options)
}

export class StreamPublisher implements EventQueue {
  readonly #ackTimeoutMs: number
  readonly #timers: Timers
  readonly #onCommit: (records: number) => void
  readonly #onDoubt: (doubt: Doubt, record: QueueRecord) => void
  readonly #state: StreamState
  readonly #link: NatsLink
  readonly #keeper: StreamKeeper
  readonly #lookUpOriginal: OriginalLookup
  readonly #inbox = createInbox()

  readonly #lanes: Lanes
  readonly #window = new AckWindow()
  readonly #unacked = new UnackedRecords()
  readonly #refused = new RefusedRecords()
  readonly #sender: Sender
  #published = 0
  /** Answered messages whose records are not settled yet. */
  #answers: { readonly first: Entry; readonly ack: QueueAck; readonly sequence: number }[] = []
  #isTurnDue = false
  #lastAckAtMs = Number.NEGATIVE_INFINITY
  readonly #sweeper: AckSweeper
  readonly #longOutage: LongOutage
  #isStopping = false

  constructor(options: PublisherOptions) {
    const { timers = systemTimers, onNotice = () => {}, keyedAlone = () => Number.POSITIVE_INFINITY } = options
    this.#ackTimeoutMs = options.ackTimeoutMs ?? DEFAULT_ACK_TIMEOUT_MS
    this.#timers = timers
    this.#lookUpOriginal = createOriginalLookup(timers)
    this.#sweeper = new AckSweeper(timers, () => this.#sweep())
    this.#onCommit = options.onCommit ?? (() => {})
    this.#onDoubt = options.onDoubt ?? (() => {})
    this.#lanes = new Lanes(options.partitions)
    this.#state = new StreamState(onNotice, () => timers.monotonicMs(), options.isSpooled)
    this.#longOutage = new LongOutage(this.#state, this.#ackTimeoutMs)
    this.#sender = new Sender({
      nodeId: options.nodeId,
      inbox: this.#inbox,
      ackTimeoutMs: this.#ackTimeoutMs,
      timers,
      lanes: this.#lanes,
      window: this.#window,
      unacked: this.#unacked,
      state: this.#state,
      keyedAlone: () => (this.stream?.isAtomic === true ? keyedAlone() : Number.POSITIVE_INFINITY),
    })
    this.#keeper = new StreamKeeper({ ...options, timers, onNotice, onReport: (report) => void this.#reported(report) })
    this.#link = new NatsLink({
      nats: options.nats,
      timers,
      ...(options.random === undefined ? {} : { random: options.random }),
      ...(options.dial === undefined ? {} : { dial: options.dial }),
      onUp: (connection) => this.#connected(connection),
      onDown: (reason) => this.#disconnected(reason),
      onComplaint: (message) => this.#state.complained(message),
    })
  }

  /** Connected to a stream that acknowledges. */
  get isUp(): boolean {
    return this.#state.isUp
  }

  get hasBeenUp(): boolean {
    return this.#state.hasBeenUp
  }

  get status(): Status<'jetstream'> {
    const { status } = this.#state
    const isPaced = this.#window.pace.maxRecords < Number.POSITIVE_INFINITY
    return status.state === 'ok' && isPaced ? { state: 'slow', reason: null } : status
  }

  /** Measured some seconds ago; null: not connected, or not measured yet. */
  get stream(): StreamFacts | null {
    return this.#keeper.measured
  }

  /** The durable consumers of the stream, measured with it. */
  get consumerLags(): ConsumerLags {
    return this.#keeper.lags
  }

  /** The connection in use, for reading; null while there is none. */
  get connection(): NatsConnection | null {
    return this.#link.connection
  }

  publish(record: QueueRecord, onAck: OnAck): void {
    const atMs = this.#timers.monotonicMs()
    const refusal = this.#refusalAt(atMs)
    if (refusal !== null) {
      this.#refused.add(onAck, refusal)
      return
    }
    this.#longOutage.published(atMs)
    this.#push(record, onAck, atMs + this.#ackTimeoutMs, 0)
  }

  /**
   * Publishes a record of the spool, which waits longer than a request, and is not refused because NATS is slow. `burntIds`: how
   * many ids of its key cannot be used.
   */
  resend(record: QueueRecord, burntIds: number, onAck: OnAck): void {
    if (this.#isStopping) this.#refused.add(onAck, 'stopping')
    else if (this.#state.isUnsafe) this.#refused.add(onAck, 'stream_refused')
    else this.#push(record, onAck, this.#timers.monotonicMs() + DEFAULT_ACK_TIMEOUT_MS, burntIds)
  }

  /** Published, and not acknowledged yet. */
  get unackedRecords(): number {
    return this.#unacked.count
  }

  #push(record: QueueRecord, onAck: OnAck, deadlineMs: number, burntIds: number): void {
    this.#published += 1
    this.#unacked.count += 1
    this.#lanes.push({ record, onAck, deadlineMs, number: this.#published, burntIds, next: null })
    this.#sweeper.start()
    this.#sender.sendSoon()
  }

  /** Where NATS is slow it depends on the moment. */
  refusalNow(): QueueRefusal | null {
    return this.#isStopping ? 'stopping' : this.#state.refusalNow
  }

  readonly refusalOfNew = (): QueueRefusal | null => this.#longOutage.refusalAt(this.#timers.monotonicMs())

  /** null: the record is taken. */
  #refusalAt(atMs: number): QueueRefusal | null {
    if (this.#isStopping) return 'stopping'
    if (this.#state.isUnsafe) return 'stream_refused'
    const { pace } = this.#window
    if (this.#unacked.count >= pace.maxRecords) {
      pace.refused(atMs)
      return 'nats_slow'
    }
    return this.#unacked.count < MAX_UNACKED_RECORDS ? null : this.#state.reasonOfUnsent
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    await this.#unacked.none()
    this.#sweeper.stop()
    this.#keeper.use(null)
    await this.#link.stop()
  }

  readonly #onAnswer = (error: Error | null, answer: Msg): void => {
    // The server also reports a refused subscription as a complaint.
    if (error !== null) return
    try {
      this.#answered(answer.subject.slice(this.#inbox.length + 1), answer)
    } catch (fault) {
      // Thrown here it would be swallowed by the client's reader, which would then stop delivering answers.
      queueMicrotask(() => {
        throw fault
      })
    }
  }

  /** `numbers`: of the message, or of an atomic batch's first and last, such as `4-20`. */
  #answered(numbers: string, answer: Msg): void {
    const atMs = this.#timers.monotonicMs()
    const dashAt = numbers.indexOf('-')
    const first = Number.parseInt(numbers, 10)
    const last = dashAt < 0 ? first : Number(numbers.slice(dashAt + 1))
    const messages = last - first + 1
    if (!(messages <= MAX_BATCH_MESSAGES)) return
    const sequence = messages === 1 ? storedSequence(answer.data) : 0
    const ack = sequence > 0 ? null : parseAck(answer.data, answer.headers?.code ?? 0, messages)
    this.#lastAckAtMs = atMs
    if (this.#state.answered(ack) === 'misrouted') this.#keeper.look()
    // A repeat goes alone from now on, and so do those beside it. Anything else may hold for every batch.
    if (ack?.kind === 'not as a batch' && !ack.reason.includes('duplicate')) this.#sender.sendKeyedAlone()
    const stored = ack?.kind === 'stored' ? ack.sequence : sequence
    // All messages of a batch are stored in their order, and nothing between them.
    for (let number = first; number <= last; number += 1) this.#settle(number, ack, stored - (last - number), atMs)
  }

  /** `ack` null: it is stored. `sequence`: where it is stored. */
  #settle(number: number, ack: Ack | null, sequence: number, atMs: number): void {
    const message = this.#window.take(number)
    if (message === null) return this.#turnSoon()
    const { first } = message
    if (first !== null && ack?.kind !== 'no responders' && this.#window.isCurrent(message)) {
      this.#window.pace.answered(message, atMs + this.#ackTimeoutMs - first.deadlineMs, atMs)
    }
    if (ack === null) return this.#stored(message, sequence)
    switch (ack.kind) {
      case 'stored':
        return this.#stored(message, sequence)
      case 'duplicate':
        return this.#duplicate(message, ack.sequence)
      case 'refused':
        this.#keeper.noteRefusal(ack.reason)
        return this.#ended(message, ack.isFull ? 'stream_full' : 'stream_refused')
      case 'foreign stream':
        return this.#ended(message, 'stream_refused')
      case 'no responders':
        this.#sender.pause()
        return this.#sendAgain(message)
      case 'not as a batch':
        if (first !== null) first.isAlone = true
        this.#sendAgain(message)
        return this.#turnSoon()
      case 'unreadable':
        return this.#ended(message, 'in_doubt')
    }
  }

  #stored(message: InFlight, sequence: number): void {
    this.#ended(message, 'durable', message.isGathered ? 0 : sequence)
    this.#onCommit(message.records)
  }

  #duplicate(message: InFlight, sequence: number): void {
    const { first, isGathered } = message
    // The id of a gathered message is unique, so a duplicate can only be a collision: this message was not stored.
    if (isGathered || first === null) return this.#ended(message, 'stream_refused')
    message.first = null
    this.#ended(message, 'duplicate')
    void this.#ackDuplicate(message, first, sequence)
  }

  /** A duplicate window may answer wrongly after a change of leader, so its word is not taken without the original. */
  async #ackDuplicate(message: InFlight, entry: Entry, sequence: number): Promise<void> {
    const { batchId, line, charge } = entry.record
    // Without Redis the clock may be wrong: the duplicate window decides.
    const batch = { batchId, line, receivedAtMs: charge.isShare === true ? null : charge.takenAtMs }
    const events = await this.#lookUpOriginal(this.#link.connection, sequence, batch, entry.deadlineMs)
    if (typeof events === 'number') return this.#unacked.ack(entry, 'duplicate', events, sequence)
    if (events === 'earlier' || (events === 'burnt' && charge.isOfDoubt !== true)) return this.#sendAnew(message, entry)
    // With the charge of a batch that the audit has found not to be stored, it must not be stored either: the client's
    // next try has a charge of its own.
    if (events === undefined) this.#doubt(message, entry)
    this.#unacked.ack(entry, 'in_doubt')
  }

  /** Nothing of this batch was stored under its id, and never will be. */
  #sendAnew({ lane }: InFlight, entry: Entry): void {
    entry.burntIds += 1
    lane.putBack(entry)
    this.#lanes.offer(lane)
    this.#sender.sendSoon()
  }

  /** The message was certainly not stored: its records go back to their lane, and are sent again until they expire. */
  #sendAgain(message: InFlight): void {
    const { first, lane } = message
    if (first !== null) lane.putBack(first)
    message.first = null
    this.#lanes.offer(lane)
  }

  #ended(message: InFlight, ack: QueueAck, sequence = 0): void {
    const { first, lane } = message
    message.first = null
    this.#lanes.offer(lane)
    if (ack === 'in_doubt') for (let entry = first; entry !== null; entry = entry.next) this.#doubt(message, entry)
    if (first !== null) this.#answers.push({ first, ack, sequence })
    this.#turnSoon()
  }

  #doubt({ id, lane }: InFlight, { record }: Entry): void {
    const { batchId, keyed, charge } = record
    const { minute, events } = charge
    const name = keyed ? batchId : `${id}:${minute}`
    this.#onDoubt({ name, messageId: id, partition: lane.partition, minute, events }, record)
  }

  /** After all acknowledgements that came in one read, so that the messages they make room for go out in one write. */
  #turnSoon(): void {
    if (this.#isTurnDue) return
    this.#isTurnDue = true
    queueMicrotask(this.#turn)
  }

  readonly #turn = (): void => {
    this.#isTurnDue = false
    this.#sender.send()
    // After that write, which the client makes in a microtask too: the server works while clients are answered.
    if (this.#answers.length > 0) queueMicrotask(this.#ackAnswers)
  }

  readonly #ackAnswers = (): void => {
    const answers = this.#answers
    this.#answers = []
    for (const { first, ack, sequence } of answers) this.#unacked.ackAll(first, ack, sequence)
  }

  #connected(connection: NatsConnection): void {
    // Every connection subscribes to the same inbox: in a cluster an answer may arrive after its connection broke.
    connection.subscribe(`${this.#inbox}.*`, { callback: this.#onAnswer })
    this.#state.connected()
    this.#keeper.use(connection)
    this.#sender.use(connection)
    this.#sender.send()
  }

  #disconnected(reason: string): void {
    this.#sender.use(null)
    this.#keeper.use(null)
    this.#state.disconnected(reason)
    this.#renewWindow()
  }

  async #reported(report: StreamReport): Promise<void> {
    this.#state.reported(report)
    if (report.kind === 'present') this.#sender.resume()
    if (report.kind !== 'present' || !(await this.#longOutage.isOver(this.#link))) this.#keeper.look()
  }

  /** Messages in flight may never be answered, and must not block those that follow. */
  #renewWindow(): void {
    this.#window.renew()
    this.#lanes.offerAll()
  }

  #sweep(): void {
    const { pace } = this.#window
    if (this.#unacked.count === 0) {
      this.#sweeper.stop()
      pace.restart()
      return
    }
    const atMs = this.#timers.monotonicMs()
    // First, since it shows whether NATS is away or slow for those that were not sent.
    this.#endExpired(atMs)
    this.#sender.refuseExpired(atMs)
    pace.measure(atMs)
    // Twice the bound is kept, since the bound varies with the answers.
    const excess = this.#unacked.count - 2 * pace.maxRecords
    if (excess > 0) this.#shed(excess, atMs)
    // Messages without responders are tried again, and the expired ones have made room.
    this.#sender.send()
  }

  /** Ends what was sent and not acknowledged in time. */
  #endExpired(atMs: number): void {
    let isSilent = false
    for (let expired = this.#window.takeExpired(atMs); expired !== null; expired = this.#window.takeExpired(atMs)) {
      isSilent ||= this.#window.isCurrent(expired.message) && this.#lastAckAtMs < expired.message.sentAtMs
      this.#lanes.offer(expired.message.lane)
      this.#doubt(expired.message, expired.entry)
      this.#unacked.ack(expired.entry, 'in_doubt')
    }
    if (isSilent && this.#link.connection !== null) {
      // Nothing more is sent until NATS answers again, so that records refused in the meantime are certainly not
      // stored.
      this.#state.silent(atMs - this.#ackTimeoutMs)
      this.#renewWindow()
      this.#keeper.look()
    }
  }

  /** Refuses the newest records that were not sent yet, up to `records` of them. */
  #shed(records: number, atMs: number): void {
    this.#window.pace.refused(atMs)
    const lastKept = this.#published - records
    for (let first = this.#lanes.takeAfter(lastKept); first !== null; first = this.#lanes.takeAfter(lastKept)) {
      this.#unacked.ackAll(first, 'nats_slow')
    }
  }
}

// The shared queue: publishes records to a JetStream stream, pipelined within a window, and settles each one by the
// stream's acknowledgement. Nothing is sent again once it was answered, nothing waits longer than its time, and what a
// slow server could not acknowledge soon is refused at once.

import { createInbox, type Msg, type NatsConnection } from '@nats-io/transport-node'
import { systemTimers, type Timers } from '../../lib/timers.ts'
import { isConnected, NatsLink, sendRaw } from '../../nats/connection.ts'
import type { EventQueue, QueueRecord, Settled, Settlement } from '../queue.ts'
import { parseAck, storedSequence } from './ack.ts'
import { AckSweeper } from './ack-sweeper.ts'
import { AckWindow, type InFlight } from './ack-window.ts'
import type { ConsumerLags } from './consumer-lag.ts'
import { type Entry, type Lane, Lanes, type Parcel } from './lanes.ts'
import { encodeMessages, headersOf, messageHead, type NewMessage } from './nats-message.ts'
import type { JetStreamOptions } from './publisher-options.ts'
import { createOriginalLookup, type OriginalLookup } from './read/stream-original.ts'
import { RecordsInHand } from './records-in-hand.ts'
import type { StreamFacts, StreamReport } from './stream.ts'
import { StreamKeeper } from './stream-keeper.ts'
import { StreamState } from './stream-state.ts'

const DEFAULT_ACK_TIMEOUT_MS = 2000
/** Between two tries while nobody takes the messages: the stream is missing, or its leader is being chosen. */
const RETRY_MS = 75
/** More than a ring of the default size can hold. */
const MAX_RECORDS_IN_HAND = 262_144

/** Returns at once and connects meanwhile. Throws a StartError where the URL is none. */
export function openJetStreamQueue(options: JetStreamOptions): JetStreamQueue {
  return new JetStreamQueue(options)
}

export class JetStreamQueue implements EventQueue {
  readonly #nodeId: string
  readonly #ackTimeoutMs: number
  readonly #timers: Timers
  readonly #onCommit: (records: number) => void
  readonly #state: StreamState
  readonly #link: NatsLink
  readonly #keeper: StreamKeeper
  readonly #lookUpOriginal: OriginalLookup
  readonly #inbox = createInbox()

  readonly #lanes: Lanes
  readonly #window = new AckWindow()
  /** What the server that is connected takes. */
  #maxPayloadBytes = 0
  #published = 0
  #gathered = 0
  readonly #inHand = new RecordsInHand()
  #isPumpDue = false
  /** Messages that were answered, with what is still to be settled of each. */
  #ends: { readonly first: Entry; readonly settlement: Settlement }[] = []
  #isTurnDue = false
  /** Nobody took the last message: the next try is not before this. */
  #resumeAtMs = 0
  #lastAckAtMs = Number.NEGATIVE_INFINITY
  readonly #sweeper: AckSweeper
  #isStopping = false

  constructor(options: JetStreamOptions) {
    this.#nodeId = options.nodeId
    this.#ackTimeoutMs = options.ackTimeoutMs ?? DEFAULT_ACK_TIMEOUT_MS
    const timers = options.timers ?? systemTimers
    this.#timers = timers
    this.#sweeper = new AckSweeper(timers, () => this.#sweep())
    this.#onCommit = options.onCommit ?? (() => {})
    const onNotice = options.onNotice ?? (() => {})
    this.#lanes = new Lanes(options.partitions)
    this.#state = new StreamState(onNotice)
    this.#keeper = new StreamKeeper({ ...options, timers, onNotice, onReport: (report) => this.#reported(report) })
    this.#lookUpOriginal = createOriginalLookup()
    this.#link = new NatsLink({
      url: options.url,
      timers,
      ...(options.random === undefined ? {} : { random: options.random }),
      ...(options.dial === undefined ? {} : { dial: options.dial }),
      onUp: (connection) => this.#connected(connection),
      onDown: (reason) => this.#disconnected(reason),
      onComplaint: (message) => this.#state.complained(message),
    })
  }

  /** Connected, the stream is there, and it acknowledges. */
  get isUp(): boolean {
    return this.#state.isUp
  }

  /** It has been up at least once. */
  get hasBeenUp(): boolean {
    return this.#state.hasBeenUp
  }

  /** 'connected', or what is amiss. */
  get state(): string {
    return this.#state.text
  }

  /** The stream as it was some seconds ago; null: not connected, or not seen yet. */
  get stream(): StreamFacts | null {
    return this.#keeper.measured
  }

  /** Of its durable consumers, measured with it. */
  get consumerLags(): ConsumerLags {
    return this.#keeper.lags
  }

  /** Records that are waiting or in flight. */
  get recordsInHand(): number {
    return this.#inHand.count
  }

  /** The connection in use, for reading; null: there is none now. */
  get connection(): NatsConnection | null {
    return this.#link.connection
  }

  publish(record: QueueRecord, settled: Settled): void {
    const nowMs = this.#timers.monotonicMs()
    const { pace } = this.#window
    const isSlow = this.#inHand.count >= pace.maxRecords
    if (isSlow) pace.refused(nowMs)
    if (isSlow || this.#isStopping || this.#inHand.count >= MAX_RECORDS_IN_HAND) {
      this.#inHand.refuse(settled)
      return
    }
    this.#published += 1
    this.#inHand.count += 1
    const deadlineMs = nowMs + this.#ackTimeoutMs
    this.#lanes.push({ record, settled, deadlineMs, number: this.#published, next: null })
    this.#sweeper.start()
    if (this.#isPumpDue) return
    this.#isPumpDue = true
    // Behind all that this turn of the event loop brings, so that it goes out in one write.
    this.#timers.setImmediate(this.#pump)
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    await this.#inHand.none()
    this.#sweeper.stop()
    this.#keeper.use(null)
    await this.#link.stop()
  }

  /** Sends what may go, in one write. */
  readonly #pump = (): void => {
    this.#isPumpDue = false
    const connection = this.#link.connection
    if (connection === null || this.#state.isSilent || !this.#lanes.isReady) return
    const nowMs = this.#timers.monotonicMs()
    if (nowMs < this.#resumeAtMs || !isConnected(connection)) return
    // A message is stored even if its acknowledgement comes too late. With half of its time left it is always tried.
    this.#settleExpired(nowMs + Math.min(this.#window.pace.roundTripMs, this.#ackTimeoutMs / 2))
    const messages: NewMessage[] = []
    while (this.#window.isOpen) {
      const lane = this.#lanes.take()
      if (lane === undefined) break
      const { first } = lane
      // Those behind a gathered message gather; its end, or one more of them, offers the lane again.
      if (first !== null && !first.record.keyed && this.#window.holds(lane)) continue
      const parcel = lane.take()
      // What was there when the lane was offered may have expired.
      if (parcel === null) continue
      const message = this.#address(lane, parcel, nowMs)
      if (message !== null) messages.push(message)
      this.#lanes.offer(lane)
    }
    if (messages.length > 0) sendRaw(connection, encodeMessages(messages))
  }

  /** Counts the parcel among those in flight. null: the server would not take it, and it was settled. */
  #address(lane: Lane, parcel: Parcel, nowMs: number): NewMessage | null {
    const { keyed, batchId } = parcel.first.record
    const id = keyed ? batchId : `${this.#nodeId}-${(this.#gathered += 1)}`
    const headers = headersOf(id, parcel)
    const bytes = headers.length + parcel.bytes
    if (bytes > this.#maxPayloadBytes) {
      this.#state.tooLarge(bytes, this.#maxPayloadBytes)
      this.#inHand.settleAll(parcel.first, 'unavailable')
      return null
    }
    const reply = `${this.#inbox}.${this.#window.nextNumber}`
    this.#window.add(lane, parcel, nowMs)
    return { head: messageHead(lane.subject, reply, headers, parcel.bytes), parcel }
  }

  readonly #onAnswer = (error: Error | null, answer: Msg): void => {
    // A refused subscription is told by the server's complaint as well.
    if (error !== null) return
    try {
      this.#answered(Number(answer.subject.slice(this.#inbox.length + 1)), answer)
    } catch (fault) {
      // The client's reader would swallow it, and with it every answer from now on.
      queueMicrotask(() => {
        throw fault
      })
    }
  }

  #answered(number: number, answer: Msg): void {
    const nowMs = this.#timers.monotonicMs()
    const message = this.#window.take(number)
    const sequence = storedSequence(answer.data)
    const ack = sequence > 0 ? null : parseAck(answer.data, answer.headers?.code ?? 0)
    this.#lastAckAtMs = nowMs
    if (this.#state.answered(ack) === 'astray') this.#keeper.look()
    if (message === null) {
      this.#turnSoon()
      return
    }
    const { first } = message
    if (first !== null && ack?.kind !== 'no responders' && this.#window.isCurrent(message)) {
      this.#window.pace.answered(message, nowMs + this.#ackTimeoutMs - first.deadlineMs, nowMs)
    }
    if (ack === null) return this.#stored(message)
    switch (ack.kind) {
      case 'stored':
        return this.#stored(message)
      case 'duplicate':
        return this.#duplicate(message, ack.sequence)
      case 'refused':
      case 'strange':
        return this.#ended(message, 'unavailable')
      case 'no responders':
        return this.#unheard(message)
      case 'unreadable':
        return this.#ended(message, 'unknown')
    }
  }

  #stored(message: InFlight): void {
    this.#ended(message, 'durable')
    this.#onCommit(message.records)
  }

  #duplicate(message: InFlight, sequence: number): void {
    const { first, isGathered } = message
    const connection = this.#link.connection
    // Of an id that none else has, a second message can only be an id's collision: this one is not stored.
    if (isGathered || first === null) return this.#ended(message, 'unavailable')
    message.first = null
    this.#ended(message, 'duplicate')
    const leftMs = Math.max(1, first.deadlineMs - this.#timers.monotonicMs())
    void this.#lookUpOriginal(connection, sequence, first.record.batchId, leftMs).then((events) =>
      this.#inHand.settle(first, 'duplicate', events),
    )
  }

  /** The message was surely not stored, and its records have their time left: they are sent again, as new messages. */
  #unheard(message: InFlight): void {
    const { first, lane } = message
    this.#resumeAtMs = this.#timers.monotonicMs() + RETRY_MS
    if (first !== null) lane.putBack(first)
    message.first = null
    this.#lanes.offer(lane)
  }

  #ended(message: InFlight, settlement: Settlement): void {
    const { first, lane } = message
    message.first = null
    this.#lanes.offer(lane)
    if (first !== null) this.#ends.push({ first, settlement })
    this.#turnSoon()
  }

  /** Behind all answers that came in one piece, so that what may go now goes out in one write. */
  #turnSoon(): void {
    if (this.#isTurnDue) return
    this.#isTurnDue = true
    queueMicrotask(this.#turn)
  }

  readonly #turn = (): void => {
    this.#isTurnDue = false
    this.#pump()
    // Behind that write, which the client makes in a microtask too: the server works while clients are answered.
    if (this.#ends.length > 0) queueMicrotask(this.#settleEnds)
  }

  readonly #settleEnds = (): void => {
    const ends = this.#ends
    this.#ends = []
    for (const { first, settlement } of ends) this.#inHand.settleAll(first, settlement)
  }

  #connected(connection: NatsConnection): void {
    // The same inbox on each connection: in a cluster, an answer may come after the connection it was asked on.
    connection.subscribe(`${this.#inbox}.*`, { callback: this.#onAnswer })
    this.#maxPayloadBytes = connection.info?.max_payload ?? 0
    this.#resumeAtMs = 0
    this.#state.connected()
    this.#keeper.use(connection)
    this.#pump()
  }

  #disconnected(reason: string): void {
    this.#keeper.use(null)
    this.#state.disconnected(reason)
    this.#renewWindow()
  }

  #reported(report: StreamReport): void {
    this.#state.reported(report)
    if (report.kind === 'present') {
      this.#resumeAtMs = 0
      this.#pump()
    } else {
      this.#keeper.look()
    }
  }

  /** What is in flight may never be answered, and must not hold up what comes. */
  #renewWindow(): void {
    this.#window.renew()
    this.#lanes.offerAll()
  }

  #sweep(): void {
    const { pace } = this.#window
    if (this.#inHand.count === 0) {
      this.#sweeper.stop()
      pace.restart()
      return
    }
    const nowMs = this.#timers.monotonicMs()
    this.#settleExpired(nowMs)
    pace.measure(nowMs)
    // Some more than may come in are kept: the bound swings with the answers.
    const excess = this.#inHand.count - 2 * pace.maxRecords
    if (excess > 0) this.#shed(excess, nowMs)
    let isSilent = false
    for (let expired = this.#window.takeExpired(nowMs); expired !== null; expired = this.#window.takeExpired(nowMs)) {
      isSilent ||= this.#window.isCurrent(expired.message) && this.#lastAckAtMs < expired.message.sentAtMs
      this.#lanes.offer(expired.message.lane)
      this.#inHand.settle(expired.entry, 'unknown')
    }
    if (isSilent && this.#link.connection !== null) {
      // Nothing more is sent until it speaks again, so that what comes meanwhile is surely not stored.
      this.#state.silent()
      this.#renewWindow()
      this.#keeper.look()
    }
    // What was not heard is tried again, and what expired has made room.
    this.#pump()
  }

  /** Refuses what waits and has no time left by then. */
  #settleExpired(atMs: number): void {
    for (let entry = this.#lanes.takeExpired(atMs); entry !== null; entry = this.#lanes.takeExpired(atMs)) {
      this.#inHand.settle(entry, 'unavailable')
    }
  }

  /** Refuses so many of those that were published last, unless they were sent. */
  #shed(records: number, nowMs: number): void {
    this.#window.pace.refused(nowMs)
    const lastKept = this.#published - records
    for (let first = this.#lanes.takeAfter(lastKept); first !== null; first = this.#lanes.takeAfter(lastKept)) {
      this.#inHand.settleAll(first, 'unavailable')
    }
  }
}

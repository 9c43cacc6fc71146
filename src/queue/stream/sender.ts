// The sending half of the shared queue: packs the records of the lanes into messages and sends as many as the window
// allows, in one write for each turn of the event loop.

import type { NatsConnection } from '@nats-io/transport-node'
import type { Timers } from '../../lib/timers.ts'
import { hasSentAll, isConnected, sendRaw } from '../../nats/connection.ts'
import type { AckWindow } from './ack-window.ts'
import { KeyedGroup } from './keyed-group.ts'
import type { Lane, Lanes, Parcel } from './lanes.ts'
import { MessageWriter } from './message-writer.ts'
import { type BatchPlace, headersOf, messageHead, type NewMessage } from './nats-message.ts'
import type { StreamState } from './stream-state.ts'
import type { UnackedRecords } from './unacked-records.ts'

/** Between two tries while nobody takes the messages: the stream is missing, or its leader is being chosen. */
const RETRY_MS = 75
/** Keyed records go alone for so long once a server has refused an atomic batch, and perhaps takes none. */
const ALONE_MS = 10_000

export interface SenderParts {
  readonly nodeId: string
  /** The subject prefix of the acknowledgements. */
  readonly inbox: string
  readonly ackTimeoutMs: number
  readonly timers: Timers
  readonly lanes: Lanes
  readonly window: AckWindow
  readonly unacked: UnackedRecords
  readonly state: StreamState
  /** So many keyed records go alone; more of them go as atomic batches. */
  readonly keyedAlone: () => number
}

export class Sender {
  readonly #nodeId: string
  readonly #inbox: string
  readonly #ackTimeoutMs: number
  readonly #timers: Timers
  readonly #lanes: Lanes
  readonly #window: AckWindow
  readonly #unacked: UnackedRecords
  readonly #state: StreamState
  readonly #keyedAlone: () => number
  readonly #writer = new MessageWriter()

  #connection: NatsConnection | null = null
  /** The largest message that the server accepts. */
  #maxPayloadBytes = 0
  /** Messages of gathered records so far, which numbers their ids. */
  #gathered = 0
  /** Atomic batches so far, which numbers their ids. */
  #batches = 0
  #isSendDue = false
  /** Nobody took the last message: the next try is not before this. */
  #resumeAtMs = 0
  /** Keyed records go alone until then. */
  #aloneUntilMs = 0

  constructor(parts: SenderParts) {
    this.#nodeId = parts.nodeId
    this.#inbox = parts.inbox
    this.#ackTimeoutMs = parts.ackTimeoutMs
    this.#timers = parts.timers
    this.#lanes = parts.lanes
    this.#window = parts.window
    this.#unacked = parts.unacked
    this.#state = parts.state
    this.#keyedAlone = parts.keyedAlone
  }

  /** A connection came up, or went (null). */
  use(connection: NatsConnection | null): void {
    this.#connection = connection
    // The old connection may still read what it was given.
    this.#writer.forget()
    this.#maxPayloadBytes = connection?.info?.max_payload ?? 0
    this.#resumeAtMs = 0
  }

  /** After all sockets of this turn of the event loop were read, so that their records go out in one write. */
  sendSoon(): void {
    if (this.#isSendDue) return
    this.#isSendDue = true
    this.#timers.setImmediate(this.send)
  }

  /** Nobody takes the messages: waits before the next try. */
  pause(): void {
    this.#resumeAtMs = this.#timers.monotonicMs() + RETRY_MS
  }

  /** An atomic batch was refused: its records, and those that follow for a while, go alone. */
  sendKeyedAlone(): void {
    this.#aloneUntilMs = this.#timers.monotonicMs() + ALONE_MS
  }

  /** Somebody takes the messages again. */
  resume(): void {
    this.#resumeAtMs = 0
    this.send()
  }

  /** Sends the messages for which the window has room. */
  readonly send = (): void => {
    this.#isSendDue = false
    const connection = this.#connection
    if (connection === null || this.#state.isSilent || !this.#lanes.isReady) return
    const atMs = this.#timers.monotonicMs()
    if (atMs < this.#resumeAtMs || !isConnected(connection)) return
    // A message is stored even if its acknowledgement comes too late, so a record is refused now where its time is
    // shorter than a round trip. With half of its time left it is always sent.
    this.refuseExpired(atMs + Math.min(this.#window.pace.roundTripMs, this.#ackTimeoutMs / 2))
    const alone = atMs < this.#aloneUntilMs ? Number.POSITIVE_INFINITY : this.#keyedAlone()
    const messages = this.#take(atMs, alone)
    if (messages.length === 0) return
    if (hasSentAll(connection)) this.#writer.reuse()
    for (const piece of this.#writer.write(messages)) sendRaw(connection, piece)
  }

  /** `alone`: keyed records gather while so many of them are in flight, and then go as an atomic batch. */
  #take(atMs: number, alone: number): NewMessage[] {
    const messages: NewMessage[] = []
    const group = alone === Number.POSITIVE_INFINITY ? null : new KeyedGroup(this.#maxPayloadBytes)
    const waiting: Lane[] = []
    while (this.#window.isOpen(group?.messages, group?.bytes)) {
      const lane = this.#lanes.take()
      if (lane === undefined) break
      if (group?.messages === 0 && lane.first?.record.keyed === true && this.#window.keyedMessages >= alone) {
        waiting.push(lane)
        continue
      }
      const parcel = this.#parcelOf(lane)
      if (parcel === null) continue
      const isMember = group?.add(lane, parcel) ?? false
      // An app's records are sent in their order.
      if (group !== null && (isMember ? group.isFull : group.has(lane)))
        this.#addressGroup(messages, group, atMs, alone)
      if (!isMember) this.#address(messages, lane, parcel, atMs)
      this.#lanes.offer(lane)
    }
    if (group !== null) this.#addressGroup(messages, group, atMs, alone)
    for (const lane of waiting) this.#lanes.offer(lane)
    return messages
  }

  /** The records of the lane's next message. null: none may be sent now. */
  #parcelOf(lane: Lane): Parcel | null {
    const { first } = lane
    // Its records gather until the gathered message before them is answered, or until they fill a message.
    if (first !== null && !first.record.keyed && this.#window.holds(lane)) return null
    // The lane's records may have expired since it was offered.
    return lane.take()
  }

  /** Refuses the waiting records whose time is over by `atMs`. */
  refuseExpired(atMs: number): void {
    for (let entry = this.#lanes.takeExpired(atMs); entry !== null; entry = this.#lanes.takeExpired(atMs)) {
      this.#unacked.ack(entry, this.#state.reasonOfUnsent)
    }
  }

  /** Adds the group to the window: as one atomic batch, whose last message alone is acknowledged, or each alone. */
  #addressGroup(messages: NewMessage[], group: KeyedGroup, atMs: number, alone: number): void {
    const members = group.takeAll()
    const first = this.#window.nextNumber
    if (members.length <= alone) {
      for (const { lane, parcel } of members) this.#address(messages, lane, parcel, atMs)
      return
    }
    const id = `${this.#nodeId}-b${(this.#batches += 1)}`
    for (const [at, { lane, parcel }] of members.entries()) {
      const isLast = at === members.length - 1
      const reply = isLast ? ` ${this.#inbox}.${first}-${this.#window.nextNumber}` : ''
      this.#address(messages, lane, parcel, atMs, { place: { id, place: at + 1, isLast }, reply })
    }
  }

  /** Adds the parcel to the window and its message to the others, unless it is too large for the server, and refused. */
  #address(
    messages: NewMessage[],
    lane: Lane,
    parcel: Parcel,
    atMs: number,
    inBatch?: { readonly place: BatchPlace; readonly reply: string },
  ): void {
    const { record, burntIds } = parcel.first
    const keyedId = burntIds === 0 ? record.batchId : `${record.batchId}.${burntIds + 1}`
    const id = record.keyed ? keyedId : `${this.#nodeId}-${(this.#gathered += 1)}`
    const headers = headersOf(id, parcel, inBatch?.place)
    const bytes = headers.length + parcel.bytes
    if (bytes > this.#maxPayloadBytes) {
      this.#state.tooLarge(bytes, this.#maxPayloadBytes)
      this.#unacked.ackAll(parcel.first, 'too_large_for_nats')
      return
    }
    const reply = inBatch?.reply ?? ` ${this.#inbox}.${this.#window.nextNumber}`
    this.#window.add(lane, parcel, id, atMs)
    messages.push({ head: messageHead(lane.subject, reply, headers, parcel.bytes), parcel })
  }
}

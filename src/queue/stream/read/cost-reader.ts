// Reads the headers of one partition's messages from the stream, costs and ids, through an ephemeral consumer.

import { AckPolicy, DeliverPolicy, ReplayPolicy } from '@nats-io/jetstream'
import { createInbox, type Msg, type NatsConnection } from '@nats-io/transport-node'
import { COST_HEADER } from '../../../contract/record/cost-header.ts'
import type { Timers } from '../../../lib/timers.ts'
import { API_TIMEOUT_MS, managerOf } from '../../../nats/api.ts'
import { EVENTS_STREAM } from '../../../nats/store-names.ts'
import { ID_HEADER, SPOOL_HEADER, subjectOf } from '../stream.ts'
import { getLastFromLeader } from './stream-message.ts'

const BATCH_MESSAGES = 500
const BATCH_TIMEOUT_MS = 5000
/** The server deletes the consumer after this time without a request. */
const CONSUMER_INACTIVE_NANOSECONDS = 60 * 1_000_000_000
const STATUS_NO_MESSAGES = 404
/** The server still holds the request before, whose messages have all come. */
const STATUS_REQUESTS_PENDING = 408

/** A message's position in the stream. */
export interface Place {
  readonly sequence: number
  /** When the stream stored it, in microseconds since 1970. */
  readonly timeUs: number
}

export interface CostMessage extends Place {
  /** Its Nats-Msg-Id; empty: it has none. */
  readonly id: string
  /** The header's text; null: the message has none. */
  readonly text: string | null
  /** A node had it in its spool. */
  readonly isSpooled: boolean
}

export interface CostBatch {
  readonly messages: readonly CostMessage[]
  /** The server that holds the consumer has no later messages now. It may be behind the leader, or cut off from it. */
  readonly isEnd: boolean
}

/** Where the partition ended when its leader was asked; null: it holds no message. */
export type StreamEnd = { readonly sequence: number; readonly timeMs: number } | null

interface ReaderParts {
  readonly connection: NatsConnection
  readonly subject: string
  readonly from: From
  readonly consumer: string
  readonly timers: Timers
}

export type From = { readonly sequence: number } | { readonly timeMs: number }

export class CostReader {
  readonly #connection: NatsConnection
  readonly #subject: string
  readonly #from: From
  readonly #consumer: string
  readonly #timers: Timers
  readonly #inbox: string
  readonly #next: string
  readonly #subscription: { unsubscribe(): void }
  /** Received, for the next batch. Messages stored while a batch is under way may arrive after its end. */
  #messages: CostMessage[] = []
  /** The consumer's sequence of the last message received: a gap means that one was lost. */
  #delivered = 0
  /** The sequence up to which everything has been returned. */
  #passed: number
  #batches = 0
  #pending: { readonly reply: string; end(result: CostBatch | Error): void } | null = null
  #fault: Error | null = null

  /** Rejects if JetStream does not answer. */
  static async open(connection: NatsConnection, partition: number, from: From, timers: Timers): Promise<CostReader> {
    const subject = subjectOf(partition)
    const manager = await managerOf(connection)
    const { name } = await manager.consumers.add(EVENTS_STREAM, {
      ack_policy: AckPolicy.None,
      replay_policy: ReplayPolicy.Instant,
      filter_subject: subject,
      headers_only: true,
      inactive_threshold: CONSUMER_INACTIVE_NANOSECONDS,
      mem_storage: true,
      num_replicas: 1,
      ...('sequence' in from
        ? { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: Math.max(1, from.sequence) }
        : { deliver_policy: DeliverPolicy.StartTime, opt_start_time: new Date(from.timeMs).toISOString() }),
    })
    return new CostReader({ connection, subject, from, consumer: name, timers })
  }

  private constructor({ connection, subject, from, consumer, timers }: ReaderParts) {
    this.#connection = connection
    this.#subject = subject
    this.#from = from
    this.#passed = 'sequence' in from ? Math.max(1, from.sequence) - 1 : 0
    this.#consumer = consumer
    this.#timers = timers
    this.#inbox = createInbox()
    this.#next = `$JS.API.CONSUMER.MSG.NEXT.${EVENTS_STREAM}.${consumer}`
    this.#subscription = connection.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => {
        if (error === null) this.#receive(message)
      },
    })
  }

  close(): void {
    this.#subscription.unsubscribe()
    if (!this.#connection.isClosed())
      this.#connection.publish(`$JS.API.CONSUMER.DELETE.${EVENTS_STREAM}.${this.#consumer}`)
  }

  /** Rejects if no leader answers. */
  async askEnd(): Promise<StreamEnd> {
    const last = await getLastFromLeader(this.#connection, this.#subject, API_TIMEOUT_MS)
    return last === null ? null : { sequence: last.seq, timeMs: last.time.getTime() }
  }

  /** Whether `read` has returned every message up to this end. */
  hasPassed(end: StreamEnd): boolean {
    if (end === null || end.sequence <= this.#passed) return true
    return 'timeMs' in this.#from && end.timeMs < this.#from.timeMs
  }

  /** Rejects if the server does not answer in time or a message was lost. The reader cannot be used after that. */
  read(): Promise<CostBatch> {
    const reply = `${this.#inbox}.${++this.#batches}`
    return new Promise((resolve, reject) => {
      const end = (result: CostBatch | Error): void => {
        this.#timers.clear(timeout)
        this.#pending = null
        if (result instanceof Error) reject(result)
        else resolve(result)
      }
      const timeout = this.#timers.setTimeout(
        () => end(new Error('no messages from the stream in time')),
        BATCH_TIMEOUT_MS,
      )
      this.#pending = { reply, end }
      if (this.#fault !== null) end(this.#fault)
      else this.#connection.publish(this.#next, JSON.stringify({ batch: BATCH_MESSAGES, no_wait: true }), { reply })
    })
  }

  #receive(message: Msg): void {
    const status = message.headers?.code ?? 0
    if (status !== 0) {
      // The status of an earlier request has another subject.
      if (message.subject !== this.#pending?.reply) return
      if (status === STATUS_NO_MESSAGES || status === STATUS_REQUESTS_PENDING) {
        this.#endBatch(status === STATUS_NO_MESSAGES)
      } else this.#fail(`the stream's consumer answered ${status} ${message.headers?.description}`)
      return
    }
    const found = placeOf(message)
    if (found === null) return this.#fail('a message has no position in its reply subject')
    if (found.delivered !== ++this.#delivered) return this.#fail('a message of the stream was lost on the way')
    const { headers } = message
    this.#messages.push({
      ...found.place,
      id: headers?.get(ID_HEADER) ?? '',
      text: headers?.get(COST_HEADER) || null,
      isSpooled: headers?.has(SPOOL_HEADER) === true,
    })
    if (found.pending === 0) this.#endBatch(true)
    else if (this.#messages.length >= BATCH_MESSAGES) this.#endBatch(false)
  }

  #endBatch(isEnd: boolean): void {
    if (this.#pending === null) return
    const messages = this.#messages
    this.#messages = []
    this.#passed = messages.at(-1)?.sequence ?? this.#passed
    this.#pending.end({ messages, isEnd })
  }

  #fail(message: string): void {
    this.#fault = new Error(message)
    this.#pending?.end(this.#fault)
  }
}

/**
 * `$JS.ACK.<stream>.<consumer>.<deliveries>.<stream sequence>.<consumer sequence>.<time in ns>.<pending>`; some servers
 * put domain and account before the stream.
 */
function placeOf({ reply }: Msg): { place: Place; delivered: number; pending: number } | null {
  const tokens = reply?.split('.') ?? []
  const at = tokens.length >= 11 ? 7 : 5
  const [sequence, delivered, timeNs, pending] = tokens.slice(at).map(Number)
  if (tokens[1] !== 'ACK' || !Number.isSafeInteger(sequence) || !(timeNs > 0) || !(pending >= 0)) return null
  return { place: { sequence, timeUs: Math.floor(timeNs / 1000) }, delivered, pending }
}

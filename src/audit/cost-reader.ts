// Reads the costs of one partition's messages from the stream: their headers only, by a consumer that the server forgets.

import { AckPolicy, DeliverPolicy, jetstreamManager, ReplayPolicy } from '@nats-io/jetstream'
import { createInbox, type Msg, type NatsConnection } from '@nats-io/transport-node'
import type { Timers } from '../lib/timers.ts'
import { COST_HEADER } from '../queue/cost-header.ts'
import { API_TIMEOUT_MS, STREAM_NAME, subjectOf } from '../queue/stream.ts'
import type { Place } from './totals.ts'

const BATCH = 500
const BATCH_TIMEOUT_MS = 5000
/** The server forgets a consumer of which it has heard nothing for so long. */
const CONSUMER_KEPT_NANOSECONDS = 60 * 1_000_000_000
const NO_MESSAGES = 404

export interface CostMessage extends Place {
  /** null: the message has no such header. */
  readonly text: string | null
}

export interface CostBatch {
  readonly messages: readonly CostMessage[]
  /** There is nothing after these now. */
  readonly isEnd: boolean
}

export type From = { readonly sequence: number } | { readonly timeMs: number }

export class CostReader {
  readonly #connection: NatsConnection
  readonly #timers: Timers
  readonly #inbox: string
  readonly #next: string
  readonly #subscription: { unsubscribe(): void }
  #onMessage: (message: Msg) => void = () => {}
  #batches = 0

  /** Rejects where JetStream does not answer. */
  static async open(connection: NatsConnection, partition: number, from: From, timers: Timers): Promise<CostReader> {
    const manager = await jetstreamManager(connection, { checkAPI: false, timeout: API_TIMEOUT_MS })
    const { name } = await manager.consumers.add(STREAM_NAME, {
      ack_policy: AckPolicy.None,
      replay_policy: ReplayPolicy.Instant,
      filter_subject: subjectOf(partition),
      headers_only: true,
      inactive_threshold: CONSUMER_KEPT_NANOSECONDS,
      mem_storage: true,
      num_replicas: 1,
      ...('sequence' in from
        ? { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: Math.max(1, from.sequence) }
        : { deliver_policy: DeliverPolicy.StartTime, opt_start_time: new Date(from.timeMs).toISOString() }),
    })
    return new CostReader(connection, name, timers)
  }

  private constructor(connection: NatsConnection, consumer: string, timers: Timers) {
    this.#connection = connection
    this.#timers = timers
    this.#inbox = createInbox()
    this.#next = `$JS.API.CONSUMER.MSG.NEXT.${STREAM_NAME}.${consumer}`
    this.#subscription = connection.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => {
        if (error === null) this.#onMessage(message)
      },
    })
  }

  close(): void {
    this.#subscription.unsubscribe()
  }

  /** Rejects where the server does not answer in time: what came of the batch is then to be read anew. */
  read(): Promise<CostBatch> {
    const reply = `${this.#inbox}.${++this.#batches}`
    return new Promise((resolve, reject) => {
      const messages: CostMessage[] = []
      const timeout = this.#timers.setTimeout(() => {
        this.#onMessage = () => {}
        reject(new Error('the stream gave no messages in time'))
      }, BATCH_TIMEOUT_MS)
      const end = (isEnd: boolean): void => {
        this.#timers.clear(timeout)
        this.#onMessage = () => {}
        resolve({ messages, isEnd })
      }
      const fail = (message: string): void => {
        this.#timers.clear(timeout)
        this.#onMessage = () => {}
        reject(new Error(message))
      }
      this.#onMessage = (message) => {
        const status = message.headers?.code ?? 0
        // An answer to an earlier question bears that one's subject.
        if (status !== 0 && message.subject !== reply) return
        if (status === NO_MESSAGES) return end(true)
        if (status !== 0) return fail(`the stream's consumer answered ${status} ${message.headers?.description}`)
        const found = placeOf(message)
        if (found === null) return fail('a message came without its place in the stream')
        messages.push({ ...found.place, text: message.headers?.get(COST_HEADER) || null })
        if (found.pending === 0) end(true)
        else if (messages.length === BATCH) end(false)
      }
      this.#connection.publish(this.#next, JSON.stringify({ batch: BATCH, no_wait: true }), { reply })
    })
  }
}

/** `$JS.ACK.<stream>.<consumer>.<delivered>.<sequence>.<delivery>.<time in ns>.<pending>`, or with domain and account. */
function placeOf({ reply }: Msg): { place: Place; pending: number } | null {
  const tokens = reply?.split('.') ?? []
  const at = tokens.length >= 11 ? 7 : 5
  const [sequence, , timeNs, pending] = tokens.slice(at).map(Number)
  if (tokens[1] !== 'ACK' || !Number.isSafeInteger(sequence) || !(timeNs > 0) || !(pending >= 0)) return null
  return { place: { sequence, timeUs: Math.floor(timeNs / 1000) }, pending }
}

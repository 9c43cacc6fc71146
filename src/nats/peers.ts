// Messages between processes over a NATS connection of their own, without a stream: what is not received is lost. For
// what people look at, never for what must arrive.

import { createInbox, type Msg, type NatsConnection, type Subscription } from '@nats-io/transport-node'
import { systemTimers, type Timers } from '../lib/timers.ts'
import type { NatsAccess } from './address.ts'
import { type Dial, isConnected, NatsLink } from './connection.ts'

/** All that peers say is below `sluice.console`, replies too: a node's rights in NATS name no other subject for it. */
const REPLY_PREFIX = 'sluice.console.reply'

export interface PeerMessage {
  readonly data: Uint8Array
  /** Where the answer goes; empty: none is wanted. */
  readonly reply: string
}

export type OnPeerMessage = (message: PeerMessage) => void

export interface PeersOptions {
  readonly nats: NatsAccess | string
  readonly timers?: Timers
  readonly dial?: Dial
  /** Called at each connection, when all subjects are subscribed again. */
  readonly onUp?: () => void
  /** A handler threw, which is a bug. */
  readonly onFault: (error: unknown) => void
}

export interface GatherOptions {
  readonly timeoutMs: number
  readonly maxReplies: number
  /** true ends the wait early. */
  readonly onReply: (reply: Uint8Array) => boolean
}

interface Kept {
  readonly subject: string
  readonly queue: string | null
  readonly onMessage: OnPeerMessage
  subscription: Subscription | null
}

export class Peers {
  readonly #timers: Timers
  readonly #onFault: (error: unknown) => void
  readonly #link: NatsLink
  readonly #kept = new Set<Kept>()

  /** Returns at once and connects in the background. Throws a StartError where the address is not valid. */
  constructor({ nats, timers = systemTimers, dial, onUp, onFault }: PeersOptions) {
    this.#timers = timers
    this.#onFault = onFault
    this.#link = new NatsLink({
      nats,
      timers,
      ...(dial === undefined ? {} : { dial }),
      onUp: (connection) => {
        for (const kept of this.#kept) this.#subscribe(connection, kept)
        onUp?.()
      },
      // The queue has its own connection, and logs what is wrong with NATS.
      onDown: () => {},
    })
  }

  get isUp(): boolean {
    return this.#connection !== null
  }

  get #connection(): NatsConnection | null {
    const { connection } = this.#link
    return connection !== null && isConnected(connection) ? connection : null
  }

  /** Over all connections to come. `queue`: only one of those that name the same queue gets a message. Returns what ends it. */
  on(subject: string, onMessage: OnPeerMessage, queue: string | null = null): () => void {
    const kept: Kept = { subject, queue, onMessage, subscription: null }
    this.#kept.add(kept)
    const connection = this.#connection
    if (connection !== null) this.#subscribe(connection, kept)
    return () => {
      this.#kept.delete(kept)
      if (this.#connection !== null) kept.subscription?.unsubscribe()
    }
  }

  #subscribe(connection: NatsConnection, kept: Kept): void {
    const { subject, queue, onMessage } = kept
    const callback = (error: Error | null, message: Msg): void => {
      if (error !== null) return
      try {
        onMessage({ data: message.data, reply: message.reply ?? '' })
      } catch (fault) {
        this.#onFault(fault)
      }
    }
    kept.subscription = connection.subscribe(subject, { callback, ...(queue === null ? {} : { queue }) })
  }

  /** Dropped where there is no connection, or where it is larger than the server takes. */
  publish(subject: string, data: Uint8Array, reply = ''): void {
    const connection = this.#connection
    if (connection === null || data.length > (connection.info?.max_payload ?? Number.POSITIVE_INFINITY)) return
    connection.publish(subject, data, reply === '' ? {} : { reply })
  }

  /** Waits for the replies that come in time. false: there is no connection. */
  gather(subject: string, data: Uint8Array, options: GatherOptions): Promise<boolean> {
    if (this.#connection === null) return Promise.resolve(false)
    return new Promise((resolve) => {
      let replies = 0
      const inbox = createInbox(REPLY_PREFIX)
      const finish = (): void => {
        end()
        this.#timers.clear(timer)
        resolve(true)
      }
      const end = this.on(inbox, (message) => {
        // Nobody listens: the server says so with an empty message.
        if (message.data.length === 0 && replies === 0) return finish()
        replies += 1
        if (options.onReply(message.data) || replies >= options.maxReplies) finish()
      })
      const timer = this.#timers.setTimeout(finish, options.timeoutMs)
      this.publish(subject, data, inbox)
    })
  }

  async stop(): Promise<void> {
    await this.#link.stop()
  }
}

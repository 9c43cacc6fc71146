// What is known of a request between its body's arrival in the ring and its end.

import type { App } from './admit/app.ts'
import type { Exchange } from './http/exchange.ts'

/** A request whose body is in the ring, and what has been done for it so far. */
export interface Ticket {
  readonly exchange: Exchange
  readonly slot: number
  app: App | null
  batchId: string
  /** The key is held for this request, until it is confirmed or released. */
  claimed: boolean
  /** An earlier request under this key, or this one, may have been stored without our knowing. */
  inDoubt: boolean
  events: number
  /** What was taken from the limits; 0: nothing. */
  cost: number
  takenAtMs: number
  publishedAtMs: number
  over: boolean
}

export function newTicket(exchange: Exchange, slot: number): Ticket {
  return {
    exchange,
    slot,
    app: null,
    batchId: '',
    claimed: false,
    inDoubt: false,
    events: 0,
    cost: 0,
    takenAtMs: 0,
    publishedAtMs: 0,
    over: false,
  }
}

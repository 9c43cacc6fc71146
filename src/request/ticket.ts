// What is known of a request between its body's arrival in the ring and its end.

import type { App } from '../apps/app.ts'
import type { Charge } from '../queue/charge.ts'
import type { Exchange } from './exchange.ts'

/** A request whose body is in the ring, and what has been done for it so far. */
export interface Ticket {
  readonly exchange: Exchange
  readonly slot: number
  app: App | null
  batchId: string
  /** What was admitted and has not ended: the charge, and the id under which its key is claimed. */
  held: { readonly charge: Charge; readonly key: string | null } | null
  events: number
  publishedAtMs: number
  over: boolean
}

export function newTicket(exchange: Exchange, slot: number): Ticket {
  return {
    exchange,
    slot,
    app: null,
    batchId: '',
    held: null,
    events: 0,
    publishedAtMs: 0,
    over: false,
  }
}

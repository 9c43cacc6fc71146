// The state of a request from its body's arrival in the ring to its end.

import type { App } from '../apps/app.ts'
import type { Charge } from '../queue/charge.ts'
import type { Exchange } from './exchange.ts'

export interface Ticket {
  readonly exchange: Exchange
  readonly slot: number
  /** Of a keyed body; 0: not known. */
  readonly bodyHash: number
  app: App | null
  batchId: string
  /** Of a body that is refused, where it was read and is short. */
  sdkVersion: string | null
  /** The charge and the claimed key, from the admission until they are settled. */
  held: { readonly charge: Charge; readonly key: string | null } | null
  events: number
  decodedAtMs: number
  publishedAtMs: number
  /** The queue record, which lies in the ring; null: there is none yet, or the batch is empty. */
  line: Uint8Array | null
  over: boolean
}

export function newTicket(exchange: Exchange, slot: number, bodyHash: number): Ticket {
  return {
    exchange,
    slot,
    bodyHash,
    app: null,
    batchId: '',
    sdkVersion: null,
    held: null,
    events: 0,
    decodedAtMs: 0,
    publishedAtMs: 0,
    line: null,
    over: false,
  }
}

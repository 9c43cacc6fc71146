// The state of a request from its body's arrival in the ring to its end.

import type { App } from '../apps/app.ts'
import type { Charge } from '../contract/charge.ts'
import type { Exchange } from './exchange.ts'

export type Ticket = ReturnType<typeof newTicket>

/** `eventsHash`: of a keyed body; 0: it has no events. */
export function newTicket(exchange: Exchange, slot: number, eventsHash: number) {
  return {
    exchange,
    slot,
    eventsHash,
    app: null as App | null,
    batchId: '',
    /** Of a body that is refused, where it was read and is short. */
    sdkVersion: null as string | null,
    /** The charge and the claimed key, from the admission until both are committed. */
    held: null as { readonly charge: Charge; readonly key: string | null } | null,
    events: 0,
    trace: null as string | null,
    /** Taken from the bytes of its app's minute, from then until they are stored or not; 0: none are. */
    bytesTaken: 0,
    bytesTakenAtMs: 0,
    decodedAtMs: 0,
    publishedAtMs: 0,
    /** The queue record, which lies in the ring; null: there is none yet, or the batch is empty. */
    line: null as Uint8Array | null,
    over: false,
  }
}

// The path of a request, every branch of it, from top to bottom. What is called from here is straight-line and
// returns values; the first check that fails ends the request, and nothing refused costs anything.

import type { App } from '../apps/app.ts'
import { subscriptionRefusal } from '../apps/app-record.ts'
import type { DecodePool } from '../decode/pool.ts'
import type { Validation } from '../decode/verdict.ts'
import { batchIdOf, isUuid } from '../lib/ids.ts'
import { type Outcome, overloaded, refused } from '../outcome.ts'
import type { Charge } from '../queue/charge.ts'
import { recordLine } from '../queue/record/record.ts'
import { appKeyIn, eventsIn, recordPlaceIn, sdkVersionIn } from '../ring/decoded-body.ts'
import type { Exchange } from './exchange.ts'
import { contentEncodingOf, type RequestHead } from './head.ts'
import type { Inflated } from './inflate.ts'
import type { IngestParts } from './parts.ts'
import { screen } from './screen.ts'
import { Settler, violation } from './settlement.ts'
import { newTicket, type Ticket } from './ticket.ts'

export class Ingest {
  readonly #parts: IngestParts
  readonly #submit: DecodePool['submit']
  /** Whose body lies in each slot. */
  readonly #inSlot: (Exchange | null)[]
  readonly #settler: Settler

  constructor(parts: IngestParts, submit: DecodePool['submit']) {
    this.#parts = parts
    this.#submit = submit
    this.#settler = new Settler(parts)
    this.#inSlot = Array.from({ length: parts.ring.slots }, () => null)
  }

  /** Requests without an outcome yet. */
  get inFlight(): number {
    return this.received - this.#settler.ended
  }

  /** Requests that have come so far. */
  get received(): number {
    return this.#parts.metrics.requestsReceived
  }

  /** A head has arrived. What it alone decides is answered here; true: the body is wanted. */
  begin(exchange: Exchange): boolean {
    this.#parts.metrics.requestsReceived++
    return !this.#endsWith(exchange, () => this.#screen(exchange.head))
  }

  #screen(head: RequestHead): Outcome | null {
    const outcome = screen(head, this.#parts.ring)
    return outcome === 'no room' ? this.#noRoom() : outcome
  }

  /** The body is whole: `pieces` in their order, valid only during this call. */
  body(exchange: Exchange, pieces: readonly Uint8Array[], lengthBytes: number): void {
    this.#endsWith(exchange, () => {
      exchange.bodyAtMs = this.#parts.monotonicMs()
      this.#parts.metrics.stageSeconds.receive.observe((exchange.bodyAtMs - exchange.startedAtMs) / 1000)
      const encoding = contentEncodingOf(exchange.head.contentEncoding) ?? 'identity'
      if (encoding === 'identity') return this.#enter(exchange, pieces, lengthBytes)
      const inflating = this.#parts.inflater.inflate(encoding, Buffer.concat(pieces))
      if (!(inflating instanceof Promise)) return this.#inflated(exchange, encoding, inflating)
      this.#inflateLater(exchange, encoding, inflating)
      return null
    })
  }

  /** Ends the request where `step` has an outcome for it, or throws; a step that answers null has handed it on. */
  #endsWith(exchange: Exchange, step: () => Outcome | null): boolean {
    let outcome: Outcome | null
    try {
      outcome = step()
    } catch (error) {
      outcome = this.#faulted(error)
    }
    if (outcome === null) return false
    this.#settler.end(exchange, outcome, null)
    return true
  }

  #faulted(error: unknown): Outcome {
    this.#parts.onFault(error)
    return overloaded()
  }

  #inflateLater(exchange: Exchange, encoding: string, inflating: Promise<Inflated>): void {
    inflating.then(
      (inflated) => this.#endsWith(exchange, () => this.#inflated(exchange, encoding, inflated)),
      (error: unknown) => this.#endsWith(exchange, () => this.#faulted(error)),
    )
  }

  #inflated(exchange: Exchange, encoding: string, inflated: Inflated): Outcome | null {
    if (inflated === 'too large') return refused('payload_too_large')
    if (inflated === 'busy') return this.#noRoom()
    if (inflated !== 'corrupt') return this.#enter(exchange, [inflated], inflated.length)
    return this.#badKey(exchange.head) ?? refused('invalid_json', `body: cannot be decoded as ${encoding}`)
  }

  /** More arrived, or unfolded, than a body may have. */
  bodyTooLarge(exchange: Exchange): void {
    this.#settler.end(exchange, refused('payload_too_large'), null)
  }

  /** A body on its way had to make room for others. */
  bodyEvicted(exchange: Exchange): void {
    this.#settler.end(exchange, this.#noRoom(), null)
  }

  /** The client left before its request was whole. */
  clientLeft(exchange: Exchange): void {
    this.#settler.abandon(exchange)
  }

  /** The service stops: every answer from now on ends its connection. */
  close(): void {
    this.#settler.closing = true
  }

  /** Into the ring, and on to the pool. */
  #enter(exchange: Exchange, pieces: readonly Uint8Array[], lengthBytes: number): Outcome | null {
    const badKey = this.#badKey(exchange.head)
    if (badKey !== null) return badKey
    const { ring, metrics } = this.#parts
    const slot = ring.claim(lengthBytes)
    if (slot < 0) return this.#noRoom()
    try {
      ring.fill(slot, pieces)
      ring.commit(slot)
      metrics.bodyBytes.observe(lengthBytes)
      this.#inSlot[slot] = exchange
      this.#submit(slot)
    } catch (error) {
      this.#inSlot[slot] = null
      ring.release(slot)
      throw error
    }
    return null
  }

  /** The key comes after the body's size and before its grammar. */
  #badKey({ idempotencyKey }: RequestHead): Outcome | null {
    if (idempotencyKey === null || isUuid(idempotencyKey)) return null
    return refused('validation_failed', 'Idempotency-Key: must be a UUID')
  }

  /** The pool is done with a slot. `validation` null: accepted, and the slot's words say it all. */
  decoded(slot: number, validation: Validation | null): void {
    if (!this.#parts.ring.isDecoded(slot)) throw new Error(`slot ${slot} came back too early`)
    const ticket = this.#ticketFor(slot)
    this.#admit(ticket, validation).catch((error: unknown) => this.#settler.fault(ticket, error))
  }

  /** The pool failed over a slot. */
  decodeFailed(slot: number, error: unknown): void {
    this.#settler.fault(this.#ticketFor(slot), error)
  }

  /** Too much waits for the pool's slow thread. */
  decodeBusy(slot: number): void {
    const ticket = this.#ticketFor(slot)
    this.#parts.metrics.explainRefusals++
    try {
      this.#settler.refuse(ticket, overloaded())
    } catch (error) {
      this.#settler.fault(ticket, error)
    }
  }

  #ticketFor(slot: number): Ticket {
    const exchange = this.#inSlot[slot]
    if (exchange === null) throw new Error(`nobody's body came back in slot ${slot}`)
    this.#inSlot[slot] = null
    return newTicket(exchange, slot)
  }

  /** From what was read to what is queued. Waits only where a store has to be asked. */
  async #admit(ticket: Ticket, validation: Validation | null): Promise<void> {
    const { apps, admission, metrics } = this.#parts
    const { exchange } = ticket
    const decodedAtMs = this.#parts.monotonicMs()
    metrics.stageSeconds.parse.observe((decodedAtMs - exchange.bodyAtMs) / 1000)

    const appKey = validation === null ? appKeyIn(this.#parts.ring, ticket.slot) : validation.appKey
    if (appKey === null) return this.#settler.refuse(ticket, violation(validation))

    const app = appKey.startsWith('ak_') ? apps.find(appKey) : 'unknown'
    if (app === 'unavailable') return this.#settler.refuse(ticket, overloaded())
    if (app === 'unknown') return this.#settler.refuse(ticket, refused('invalid_app_key'))
    ticket.app = app

    const inactive = subscriptionRefusal(app, this.#parts.nowMs())
    if (inactive !== null) return this.#settler.refuse(ticket, refused(inactive))

    const key = exchange.head.idempotencyKey
    const keyedId = key === null ? null : batchIdOf(app.appId, key.toLowerCase())
    if (keyedId !== null) ticket.batchId = keyedId
    if (validation?.kind === 'refused') {
      const replayed = keyedId === null ? null : await admission.replayOf(app, keyedId)
      return replayed === null
        ? this.#settler.refuse(ticket, violation(validation))
        : this.#settler.replay(ticket, replayed)
    }

    const { track, screen, revenue } = eventsIn(this.#parts.ring, ticket.slot)
    ticket.events = track + screen + revenue
    const asked = admission.admit(app, ticket.events, keyedId)
    const admitted = asked instanceof Promise ? await asked : asked
    switch (admitted.kind) {
      case 'replay':
        return this.#settler.replay(ticket, admitted.events)
      case 'over limit':
        return this.#settler.refuse(ticket, refused(admitted.refusal, null, admitted.retryAfterSeconds))
      case 'overloaded':
        return this.#settler.refuse(ticket, overloaded())
      case 'taken':
        ticket.held = { charge: admitted.charge, key: keyedId }
    }

    metrics.stageSeconds.admit.observe((this.#parts.monotonicMs() - decodedAtMs) / 1000)
    const { charge } = admitted
    if (keyedId === null) ticket.batchId = this.#parts.freshId(charge.takenAtMs)
    // An empty batch has nothing to queue.
    if (ticket.events === 0) this.#settler.settle(ticket, 'durable')
    else this.#publish(ticket, app, charge, validation?.extras ?? null)
  }

  #publish(ticket: Ticket, app: App, charge: Charge, extras: string | null): void {
    const { ring, queue } = this.#parts
    const { slot, batchId } = ticket
    const line = recordLine(ring.bytes, recordPlaceIn(ring, slot), {
      batchId,
      appId: app.appId,
      receivedAt: this.#parts.isoTime(charge.takenAtMs),
      sdkVersion: sdkVersionIn(ring, slot),
      extras,
    })
    ticket.publishedAtMs = this.#parts.monotonicMs()
    const keyed = ticket.held?.key !== null
    queue.publish({ line, batchId, appId: app.appId, keyed, charge }, (settlement, storedEvents) => {
      try {
        this.#settler.settle(ticket, settlement, storedEvents)
      } catch (error) {
        this.#settler.fault(ticket, error)
      }
    })
  }

  #noRoom(): Outcome {
    this.#parts.metrics.ringRefusals++
    return overloaded()
  }
}

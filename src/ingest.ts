// The path of a request, every branch of it, from top to bottom. What is called from here is straight-line and
// returns values; the first check that fails ends the request, and nothing refused costs anything.

import type { App } from './admit/app.ts'
import { subscriptionRefusal } from './admit/app-record.ts'
import { trialView } from './admit/plans.ts'
import type { Validation } from './decode/decoded.ts'
import type { DecodePool } from './decode/pool.ts'
import type { Exchange } from './http/exchange.ts'
import { contentEncodingOf, type RequestHead } from './http/head.ts'
import type { Inflated } from './http/inflate.ts'
import type { IngestParts } from './ingest-parts.ts'
import { batchIdOf, isUuid } from './lib/ids.ts'
import type { Charge, End } from './limits/admission.ts'
import { answerTo, type Outcome, overloaded, type RateLimitView, refused, violation } from './outcome.ts'
import type { Settlement } from './queue/queue.ts'
import { recordLine } from './queue/record.ts'
import { appKeyIn, eventsIn, recordPlaceIn, sdkVersionIn } from './ring/decoded-body.ts'
import { screen } from './screen.ts'
import { newTicket, type Ticket } from './ticket.ts'

export class Ingest {
  readonly #parts: IngestParts
  readonly #submit: DecodePool['submit']
  /** Whose body lies in each slot. */
  readonly #inSlot: (Exchange | null)[]
  #inFlight = 0
  /** Set when the service stops: every answer then ends its connection. */
  closing = false

  constructor(parts: IngestParts, submit: DecodePool['submit']) {
    this.#parts = parts
    this.#submit = submit
    this.#inSlot = Array.from({ length: parts.ring.slots }, () => null)
  }

  /** Requests without an outcome yet. */
  get inFlight(): number {
    return this.#inFlight
  }

  /** Requests that have come so far. */
  get received(): number {
    return this.#parts.metrics.requestsReceived
  }

  /** A head has arrived. What it alone decides is answered here; true: the body is wanted. */
  begin(exchange: Exchange): boolean {
    this.#inFlight++
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
    this.#end(exchange, outcome, null)
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
    this.#end(exchange, refused('payload_too_large'), null)
  }

  /** A body on its way had to make room for others. */
  bodyEvicted(exchange: Exchange): void {
    this.#end(exchange, this.#noRoom(), null)
  }

  /** The client left before its request was whole. */
  clientLeft(exchange: Exchange): void {
    this.#inFlight--
    this.#parts.metrics.outcome('aborted')
    exchange.abandon()
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
    this.#admit(ticket, validation).catch((error: unknown) => this.#fault(ticket, error))
  }

  /** The pool failed over a slot. */
  decodeFailed(slot: number, error: unknown): void {
    this.#fault(this.#ticketFor(slot), error)
  }

  /** Too much waits for the pool's slow thread. */
  decodeBusy(slot: number): void {
    const ticket = this.#ticketFor(slot)
    this.#parts.metrics.explainRefusals++
    try {
      this.#refuse(ticket, overloaded())
    } catch (error) {
      this.#fault(ticket, error)
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
    if (appKey === null) return this.#refuse(ticket, violation(validation))

    const app = appKey.startsWith('ak_') ? apps.find(appKey) : 'unknown'
    if (app === 'unavailable') return this.#refuse(ticket, overloaded())
    if (app === 'unknown') return this.#refuse(ticket, refused('invalid_app_key'))
    ticket.app = app

    const inactive = subscriptionRefusal(app, this.#parts.nowMs())
    if (inactive !== null) return this.#refuse(ticket, refused(inactive))

    const key = exchange.head.idempotencyKey
    const keyedId = key === null ? null : batchIdOf(app.appId, key.toLowerCase())
    if (keyedId !== null) ticket.batchId = keyedId
    if (validation?.kind === 'refused') {
      const replayed = keyedId === null ? null : await admission.replayOf(app, keyedId)
      return replayed === null ? this.#refuse(ticket, violation(validation)) : this.#replay(ticket, replayed)
    }

    const { track, screen, revenue } = eventsIn(this.#parts.ring, ticket.slot)
    ticket.events = track + screen + revenue
    const asked = admission.admit(app, ticket.events, keyedId)
    const admitted = asked instanceof Promise ? await asked : asked
    switch (admitted.kind) {
      case 'replay':
        return this.#replay(ticket, admitted.events)
      case 'over limit':
        return this.#refuse(ticket, refused(admitted.refusal, null, admitted.retryAfterSeconds))
      case 'overloaded':
        return this.#refuse(ticket, overloaded())
      case 'taken':
        ticket.held = { charge: admitted.charge, key: keyedId }
    }

    metrics.stageSeconds.admit.observe((this.#parts.monotonicMs() - decodedAtMs) / 1000)
    const { charge } = admitted
    if (keyedId === null) ticket.batchId = this.#parts.freshId(charge.takenAtMs)
    // An empty batch has nothing to queue.
    if (ticket.events === 0) this.#settled(ticket, 'durable')
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
        this.#settled(ticket, settlement, storedEvents)
      } catch (error) {
        this.#fault(ticket, error)
      }
    })
  }

  /** The queue has spoken. */
  #settled(ticket: Ticket, settlement: Settlement, storedEvents = ticket.events): void {
    const { metrics } = this.#parts
    if (ticket.publishedAtMs > 0) {
      metrics.stageSeconds.publish.observe((this.#parts.monotonicMs() - ticket.publishedAtMs) / 1000)
    }
    switch (settlement) {
      case 'durable':
        this.#endHeld(ticket, 'stored', ticket.events)
        this.#countAccepted(ticket)
        this.#finish(ticket, { kind: 'accepted', events: ticket.events, batchId: ticket.batchId })
        return
      case 'duplicate':
        // The one that was stored has paid.
        this.#endHeld(ticket, 'duplicate', storedEvents)
        this.#replay(ticket, storedEvents)
        return
      case 'unknown':
        metrics.publishErrors++
        this.#endHeld(ticket, 'unknown', 0)
        this.#refuse(ticket, overloaded())
        return
      case 'unavailable':
        metrics.publishErrors++
        this.#refuse(ticket, overloaded())
        return
    }
  }

  /** Once: whatever throws, and is tried again, neither charges nor gives back twice. */
  #endHeld(ticket: Ticket, end: End, events: number): void {
    const { app, held } = ticket
    ticket.held = null
    if (app !== null && held !== null) this.#parts.admission.end(app, held.charge, held.key, end, events)
  }

  #countAccepted(ticket: Ticket): void {
    const { metrics, ring } = this.#parts
    const { track, screen, revenue } = eventsIn(ring, ticket.slot)
    metrics.events.track += track
    metrics.events.screen += screen
    metrics.events.revenue += revenue
    metrics.batchEvents.observe(ticket.events)
  }

  #replay(ticket: Ticket, events: number): void {
    this.#parts.metrics.replays++
    this.#finish(ticket, { kind: 'replayed', events, batchId: ticket.batchId })
  }

  #noRoom(): Outcome {
    this.#parts.metrics.ringRefusals++
    return overloaded()
  }

  /** Ends a request that costs nothing: what it holds goes back. */
  #refuse(ticket: Ticket, outcome: Outcome): void {
    this.#endHeld(ticket, 'refused', 0)
    this.#finish(ticket, outcome)
  }

  /** A stage threw. The request still ends, once; whatever else it did is for the log. */
  #fault(ticket: Ticket, error: unknown): void {
    this.#parts.onFault(error)
    // Those who take things back may throw as well; each is asked once.
    while (!ticket.over) {
      try {
        this.#refuse(ticket, overloaded())
      } catch (again) {
        this.#parts.onFault(again)
      }
    }
  }

  #finish(ticket: Ticket, outcome: Outcome): void {
    ticket.over = true
    this.#parts.ring.release(ticket.slot)
    this.#end(ticket.exchange, outcome, ticket.app)
  }

  /** Every request ends here, or in `clientLeft`. */
  #end(exchange: Exchange, outcome: Outcome, app: App | null): void {
    const { metrics } = this.#parts
    const nowMs = this.#parts.nowMs()
    this.#inFlight--
    metrics.outcome(outcome.kind === 'refused' ? outcome.code : outcome.kind)
    metrics.requestSeconds.observe((this.#parts.monotonicMs() - exchange.startedAtMs) / 1000)
    const { framingFault, wantsClose } = exchange.head
    // It has ended, and is counted: what throws from here on ends neither it again nor the process.
    try {
      const requestId = outcome.kind === 'refused' ? this.#parts.freshId(nowMs) : ''
      const answer = answerTo(outcome, this.#viewFor(app, nowMs), requestId)
      exchange.send(answer, this.closing || wantsClose || framingFault !== null)
    } catch (error) {
      this.#parts.onFault(error)
    }
  }

  #viewFor(app: App | null, nowMs: number): RateLimitView {
    try {
      if (app !== null) return this.#parts.admission.view(app)
    } catch (error) {
      this.#parts.onFault(error)
    }
    return trialView(nowMs)
  }
}

// The path of a request, every branch of it, from top to bottom. What is called from here is straight-line and
// returns values; the first check that fails ends the request, and nothing refused costs anything.

import type { App, AppLookup } from './admit/app.ts'
import { subscriptionRefusal } from './admit/app-record.ts'
import { type LimitRefusal, secondsUntilRoom } from './admit/limiter.ts'
import { trialView } from './admit/plans.ts'
import type { Validation } from './decode/decoded.ts'
import type { DecodePool } from './decode/pool.ts'
import type { Exchange } from './http/exchange.ts'
import { contentEncodingOf, type RequestHead } from './http/head.ts'
import type { Inflated } from './http/inflate.ts'
import type { IngestParts } from './ingest-parts.ts'
import { batchIdOf, isUuid } from './lib/ids.ts'
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
    const { apps, deduplicator, limiter, metrics } = this.#parts
    const { exchange } = ticket
    const decodedAtMs = this.#parts.monotonicMs()
    metrics.stageSeconds.parse.observe((decodedAtMs - exchange.bodyAtMs) / 1000)

    const appKey = validation === null ? appKeyIn(this.#parts.ring, ticket.slot) : validation.appKey
    if (appKey === null) return this.#refuse(ticket, violation(validation))

    const lookup = appKey.startsWith('ak_') ? apps.find(appKey) : 'unknown'
    const app: AppLookup = lookup instanceof Promise ? await lookup : lookup
    if (app === 'unavailable') return this.#refuse(ticket, overloaded())
    if (app === 'unknown') return this.#refuse(ticket, refused('invalid_app_key'))
    ticket.app = app

    let nowMs = this.#parts.nowMs()
    const inactive = subscriptionRefusal(app, nowMs)
    if (inactive !== null) return this.#refuse(ticket, refused(inactive))

    const key = exchange.head.idempotencyKey
    if (key !== null) {
      ticket.batchId = batchIdOf(app.appId, key.toLowerCase())
      const asked = deduplicator.claim(ticket.batchId, nowMs)
      const claim = asked instanceof Promise ? await asked : asked
      if (claim.kind === 'replay') return this.#replay(ticket, claim.events)
      if (claim.kind === 'full') return this.#refuse(ticket, overloaded())
      ticket.claimed = true
      ticket.inDoubt = claim.inDoubt
      // A twin may have been waited for.
      nowMs = this.#parts.nowMs()
    }

    if (validation?.kind === 'refused') return this.#refuse(ticket, violation(validation))

    const { track, screen, revenue } = eventsIn(this.#parts.ring, ticket.slot)
    ticket.events = track + screen + revenue
    const cost = Math.max(1, ticket.events)
    const asked = limiter.take(app, cost, nowMs)
    const taken = asked instanceof Promise ? await asked : asked
    if (typeof taken !== 'number') return this.#overLimit(ticket, app, taken)
    ticket.cost = cost
    ticket.takenAtMs = taken

    metrics.stageSeconds.admit.observe((this.#parts.monotonicMs() - decodedAtMs) / 1000)
    if (key === null) ticket.batchId = this.#parts.freshId(taken)
    // An empty batch has nothing to queue.
    if (ticket.events === 0) this.#settled(ticket, app, 'durable')
    else this.#publish(ticket, app, key !== null, validation?.extras ?? null)
  }

  #publish(ticket: Ticket, app: App, keyed: boolean, extras: string | null): void {
    const { ring, queue } = this.#parts
    const { slot, batchId } = ticket
    const line = recordLine(ring.bytes, recordPlaceIn(ring, slot), {
      batchId,
      appId: app.appId,
      receivedAt: this.#parts.isoTime(ticket.takenAtMs),
      sdkVersion: sdkVersionIn(ring, slot),
      extras,
    })
    ticket.publishedAtMs = this.#parts.monotonicMs()
    queue.publish({ line, batchId, appId: app.appId, keyed }, (settlement, storedEvents) => {
      try {
        this.#settled(ticket, app, settlement, storedEvents)
      } catch (error) {
        this.#fault(ticket, error)
      }
    })
  }

  /** The queue has spoken. */
  #settled(ticket: Ticket, app: App, settlement: Settlement, storedEvents?: number): void {
    const { limiter, metrics } = this.#parts
    const nowMs = this.#parts.nowMs()
    if (ticket.publishedAtMs > 0) {
      metrics.stageSeconds.publish.observe((this.#parts.monotonicMs() - ticket.publishedAtMs) / 1000)
    }
    switch (settlement) {
      case 'durable':
        this.#charge(ticket, app, ticket.events, nowMs)
        this.#finish(ticket, { kind: 'accepted', events: ticket.events, batchId: ticket.batchId })
        return
      case 'duplicate':
        // The one that was stored has paid, unless it was refused in doubt: then what it cost went back.
        if (ticket.inDoubt) {
          this.#payFor(ticket, app, storedEvents ?? ticket.events)
          this.#charge(ticket, app, storedEvents ?? ticket.events, nowMs)
        } else {
          limiter.giveBack(app, ticket.cost, ticket.takenAtMs, nowMs)
          ticket.cost = 0
          this.#confirm(ticket, storedEvents ?? ticket.events, nowMs)
        }
        this.#replay(ticket, storedEvents ?? ticket.events)
        return
      case 'unknown':
        ticket.inDoubt = true
        metrics.publishErrors++
        this.#refuse(ticket, overloaded())
        return
      case 'unavailable':
        metrics.publishErrors++
        this.#refuse(ticket, overloaded())
        return
    }
  }

  /** A client may have put another body under its key: what is owed is what was stored, whatever the limits say now. */
  #payFor(ticket: Ticket, app: App, storedEvents: number): void {
    const { limiter, nowMs } = this.#parts
    const owed = Math.max(1, storedEvents)
    if (owed === ticket.cost) return
    limiter.giveBack(app, ticket.cost - owed, ticket.takenAtMs, nowMs())
    ticket.cost = owed
  }

  /** What is stored keeps its key and its cost, whatever throws from here on. `events`: those of the stored one. */
  #charge(ticket: Ticket, app: App, events: number, nowMs: number): void {
    const { limiter, metrics, ring } = this.#parts
    const { cost } = ticket
    ticket.cost = 0
    this.#confirm(ticket, events, nowMs)
    limiter.settle(app, cost, ticket.takenAtMs)
    const { track, screen, revenue } = eventsIn(ring, ticket.slot)
    metrics.events.track += track
    metrics.events.screen += screen
    metrics.events.revenue += revenue
    metrics.batchEvents.observe(ticket.events)
  }

  #confirm(ticket: Ticket, events: number, nowMs: number): void {
    if (!ticket.claimed) return
    ticket.claimed = false
    this.#parts.deduplicator.confirm(ticket.batchId, events, nowMs)
  }

  #replay(ticket: Ticket, events: number): void {
    this.#parts.metrics.replays++
    this.#finish(ticket, { kind: 'replayed', events, batchId: ticket.batchId })
  }

  async #overLimit(ticket: Ticket, app: App, refusal: LimitRefusal): Promise<void> {
    const asked = this.#parts.limiter.standing(app, this.#parts.nowMs())
    const standing = asked instanceof Promise ? await asked : asked
    this.#refuse(ticket, refused(refusal, null, secondsUntilRoom(standing, refusal)))
  }

  #noRoom(): Outcome {
    this.#parts.metrics.ringRefusals++
    return overloaded()
  }

  /** Ends a request that costs nothing: what it holds goes back. */
  #refuse(ticket: Ticket, outcome: Outcome): void {
    const { deduplicator, limiter } = this.#parts
    const { app, cost } = ticket
    ticket.cost = 0
    if (cost > 0 && app !== null) limiter.giveBack(app, cost, ticket.takenAtMs, this.#parts.nowMs())
    const { claimed } = ticket
    ticket.claimed = false
    if (claimed) deduplicator.release(ticket.batchId, ticket.inDoubt, this.#parts.nowMs())
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
      if (app !== null) return this.#parts.limiter.view(app, nowMs)
    } catch (error) {
      this.#parts.onFault(error)
    }
    return trialView(nowMs)
  }
}

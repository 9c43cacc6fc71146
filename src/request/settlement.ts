// The end of a request: its charge and key are kept or refunded, its outcome is counted, its answer is sent. Each of
// these happens once, whatever throws.

import type { App } from '../apps/app.ts'
import { trialView } from '../apps/plans.ts'
import type { Validation } from '../decode/verdict.ts'
import type { End, Replay } from '../limits/admission.ts'
import { answerTo, messageOf, type Outcome, overloaded, type RateLimitView } from '../outcome.ts'
import type { Settlement } from '../queue/queue.ts'
import { eventsIn } from '../ring/decoded-body.ts'
import type { Exchange } from './exchange.ts'
import type { IngestParts } from './parts.ts'
import type { Ticket } from './ticket.ts'

const OTHER_BODY = 'this Idempotency-Key was accepted with another body: these events are not stored'

export class Settler {
  readonly #parts: IngestParts
  #ended = 0
  /** Set when the service stops: every answer then closes its connection. */
  closing = false

  constructor(parts: IngestParts) {
    this.#parts = parts
  }

  /** Requests that have ended so far. */
  get ended(): number {
    return this.#ended
  }

  /** The queue has answered. `storedEvents`: events of the batch that it has stored, which may be an earlier one. */
  settle(ticket: Ticket, settlement: Settlement, storedEvents = ticket.events): void {
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
        // The stored batch was charged already.
        this.#endHeld(ticket, 'duplicate', storedEvents)
        // What the queue had is not known, but that the batch id is the same.
        this.replay(ticket, { kind: 'replay', events: storedEvents })
        return
      case 'unknown':
        metrics.publishErrors++
        this.#endHeld(ticket, 'unknown', 0)
        this.refuse(ticket, overloaded())
        return
      case 'unavailable':
        metrics.publishErrors++
        this.refuse(ticket, overloaded())
        return
    }
  }

  /** Repeats the answer to the key's first batch. */
  replay(ticket: Ticket, { events, bodyHash }: Replay): void {
    const { metrics } = this.#parts
    metrics.replays++
    const isOtherBody = isOther(ticket, bodyHash)
    if (isOtherBody) metrics.replaysOfOtherBody++
    this.#finish(ticket, { kind: 'replayed', events, batchId: ticket.batchId, isOtherBody })
  }

  /** Ends a request without cost: its charge is refunded and its key is freed. */
  refuse(ticket: Ticket, outcome: Outcome): void {
    this.#endHeld(ticket, 'refused', 0)
    this.#finish(ticket, outcome)
  }

  /** A stage threw: logs the error and ends the request, once. */
  fault(ticket: Ticket, error: unknown): void {
    this.#parts.onFault(error)
    // The refund may throw too. It is not repeated, so this loop ends.
    while (!ticket.over) {
      try {
        this.refuse(ticket, overloaded())
      } catch (again) {
        this.#parts.onFault(again)
      }
    }
  }

  /** The client left before its request was complete. */
  abandon(exchange: Exchange): void {
    this.#ended++
    this.#parts.metrics.outcome('aborted')
    exchange.abandon()
  }

  /** Every request ends here, or in `abandon`. */
  end(exchange: Exchange, outcome: Outcome, app: App | null, sdkVersion: string | null = null): void {
    const { metrics } = this.#parts
    const nowMs = this.#parts.nowMs()
    this.#ended++
    metrics.outcome(outcome.kind === 'refused' ? outcome.code : outcome.kind)
    const answeredAtMs = this.#parts.monotonicMs()
    metrics.requestSeconds.observe((answeredAtMs - exchange.startedAtMs) / 1000)
    if (exchange.bodyAtMs > 0) metrics.answerSeconds.observe((answeredAtMs - exchange.bodyAtMs) / 1000)
    const { framingFault, wantsClose } = exchange.head
    // The request is counted now, so an error here must not end it a second time.
    try {
      const requestId = outcome.kind === 'refused' ? this.#parts.freshId(nowMs) : ''
      const answer = answerTo(outcome, this.#viewFor(app, nowMs), requestId)
      exchange.send(answer, this.closing || wantsClose || framingFault !== null)
      this.#list(outcome, nowMs, requestId, app?.appId ?? null, sdkVersion)
    } catch (error) {
      this.#parts.onFault(error)
    }
  }

  #list(outcome: Outcome, nowMs: number, requestId: string, appId: string | null, sdkVersion: string | null): void {
    const { refusals } = this.#parts
    if (outcome.kind === 'refused') {
      const { code, errors } = outcome
      const message = messageOf(code, outcome.message)
      const path = errors === null ? null : message.slice(0, message.indexOf(': '))
      refusals.add(nowMs, requestId, appId, code, path, message, sdkVersion)
    } else if (outcome.kind === 'replayed' && outcome.isOtherBody) {
      refusals.add(nowMs, outcome.batchId, appId, 'replayed_other_body', null, OTHER_BODY, sdkVersion)
    }
  }

  /** Clears `held` first, so that a retry after an error neither charges nor refunds twice. */
  #endHeld(ticket: Ticket, end: End, events: number): void {
    const { app, held } = ticket
    ticket.held = null
    if (app === null || held === null) return
    // A duplicate confirms the key with the batch that the queue had, whose body is not known.
    const bodyHash = end === 'stored' ? ticket.bodyHash : 0
    this.#parts.admission.end(app, held.charge, held.key, end, events, bodyHash)
  }

  #countAccepted(ticket: Ticket): void {
    const { metrics, ring } = this.#parts
    const { track, screen, revenue } = eventsIn(ring, ticket.slot)
    metrics.events.track += track
    metrics.events.screen += screen
    metrics.events.revenue += revenue
    metrics.batchEvents.observe(ticket.events)
  }

  #finish(ticket: Ticket, outcome: Outcome): void {
    ticket.over = true
    try {
      this.end(ticket.exchange, outcome, ticket.app, ticket.sdkVersion)
      // Behind the answer, so that no client waits for the console; before the release, since the record is in the slot.
      if (outcome.kind === 'accepted') this.#show(ticket)
    } finally {
      this.#parts.ring.release(ticket.slot)
    }
  }

  #show({ app, events, line, slot }: Ticket): void {
    const { ring, tap, accepted } = this.#parts
    if (app === null || line === null) return
    accepted.add(app.appId, events, this.#parts.nowMs())
    if (tap.onStored === null) return
    const { track, screen, revenue } = eventsIn(ring, slot)
    tap.onStored(line, app.appId, track, screen, revenue)
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

/** Whether the body differs from the accepted one; false where either is not known. */
export function isOther({ bodyHash }: Ticket, accepted: number | undefined): boolean {
  return accepted !== undefined && bodyHash !== 0 && bodyHash !== accepted
}

/** The refusal of an invalid body. */
export function violation(validation: Validation | null): Outcome {
  if (validation?.kind !== 'refused') throw new Error('an accepted body has an app_key')
  const { code, message, errors } = validation
  return { kind: 'refused', code, message, retryAfterSeconds: null, errors }
}

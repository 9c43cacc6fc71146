// The end of a request: its charge and key are kept or refunded, its outcome is counted, its answer is sent. Each of
// these happens once, whatever throws.

import type { App } from '../apps/app.ts'
import { trialView } from '../apps/plans.ts'
import {
  answerTo,
  isOverLimit,
  type Outcome,
  overloaded,
  type RateLimitView,
  type ReplayedBody,
  type WindowView,
} from '../contract/outcome.ts'
import type { Validation } from '../decode/verdict.ts'
import type { Writable } from '../lib/writable.ts'
import type { End, Replay } from '../limits/admission.ts'
import type { QueueAck } from '../queue/queue.ts'
import { eventsIn } from '../ring/decoded-body.ts'
import type { Exchange } from './exchange.ts'
import type { EndedRequest, StoredBatch } from './observer.ts'
import type { IngestParts } from './parts.ts'
import type { Ticket } from './ticket.ts'

export class Finisher {
  readonly #parts: IngestParts
  /** Written over for each request. */
  readonly #endedRequest = {} as Writable<EndedRequest>
  readonly #storedBatch = {} as Writable<StoredBatch>
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
  acknowledged(ticket: Ticket, ack: QueueAck, storedEvents = ticket.events): void {
    if (ticket.publishedAtMs > 0) {
      const { metrics } = this.#parts
      metrics.stageSeconds.publish.observe((this.#parts.turn.monotonicMs() - ticket.publishedAtMs) / 1000)
    }
    if (ack === 'durable' || ack === 'in_doubt') this.#storeBytes(ticket)
    if (ack === 'durable') {
      this.#endHeld(ticket, 'stored', ticket.events)
      this.#countAccepted(ticket)
      this.#finish(ticket, { kind: 'accepted', events: ticket.events, batchId: ticket.batchId })
      return
    }
    if (ack === 'duplicate') {
      // The stored batch was charged already.
      this.#endHeld(ticket, 'duplicate', storedEvents)
      // What the queue had is not known, but that the batch id is the same.
      this.replay(ticket, { kind: 'replay', events: storedEvents })
      return
    }
    // What may be stored stays charged. Everything else is certainly not stored.
    if (ack === 'in_doubt') this.#endHeld(ticket, 'unknown', 0)
    this.refuse(ticket, overloaded(ack))
  }

  /** Repeats the answer to the key's first batch. */
  replay(ticket: Ticket, { events, eventsHash }: Replay): void {
    const { metrics } = this.#parts
    const body = replayedBody(ticket, eventsHash)
    metrics.replays[body]++
    this.#finish(ticket, { kind: 'replayed', events, batchId: ticket.batchId, body })
  }

  /** Ends a request without cost: its charge is refunded and its key is freed. */
  refuse(ticket: Ticket, outcome: Outcome, requestId: string | null = null): void {
    this.#endHeld(ticket, 'refused', 0)
    this.#finish(ticket, outcome, requestId)
  }

  /** A stage threw: logs the error and ends the request, once. */
  fault(ticket: Ticket, error: unknown): void {
    if (ticket.over) {
      this.#parts.onFault(error, 'answer', null)
      return
    }
    const stage = ticket.publishedAtMs > 0 ? 'publish' : ticket.decodedAtMs > 0 ? 'admit' : 'parse'
    const requestId = this.#freshId()
    this.#parts.onFault(error, stage, requestId)
    // The refund may throw too. It is not repeated, so this loop ends.
    while (!ticket.over) {
      try {
        this.refuse(ticket, overloaded('fault'), requestId)
      } catch (again) {
        this.#parts.onFault(again, stage, requestId)
      }
    }
  }

  /** As `fault`, where the body is not in the ring yet. */
  faultEarly(exchange: Exchange, error: unknown): void {
    const requestId = this.#freshId()
    this.#parts.onFault(error, 'receive', requestId)
    this.end(exchange, overloaded('fault'), null, null, requestId)
  }

  #freshId(): string {
    return this.#parts.freshId(this.#parts.turn.nowMs())
  }

  /** The client left before its request was complete. */
  abandon(exchange: Exchange): void {
    this.#ended++
    this.#parts.metrics.outcome('aborted')
    exchange.abandon()
  }

  /** Every request ends here, or in `abandon`. `knownId`: under which its fault was logged. */
  end(
    exchange: Exchange,
    outcome: Outcome,
    app: App | null,
    sdkVersion: string | null = null,
    knownId: string | null = null,
  ): void {
    const { metrics } = this.#parts
    const nowMs = this.#parts.turn.nowMs()
    this.#ended++
    if (outcome.kind !== 'refused') metrics.outcome(outcome.kind)
    else if (outcome.code === 'service_overloaded') metrics.overloaded(outcome.reason)
    else metrics.outcome(outcome.code)
    // Not the turn's: before this answer it may have sent a thousand others.
    const answeredAtMs = this.#parts.monotonicMs()
    metrics.requestSeconds.observe((answeredAtMs - exchange.startedAtMs) / 1000)
    if (exchange.bodyAtMs > 0) metrics.answerSeconds.observe((answeredAtMs - exchange.bodyAtMs) / 1000)
    const { framingFault, wantsClose } = exchange.head
    // The request is counted now, so an error here must not end it a second time.
    let requestId = ''
    try {
      if (outcome.kind === 'refused') requestId = knownId ?? this.#parts.freshId(nowMs)
      // A page that may not send learns nothing of the app.
      const shown = outcome.kind === 'refused' && outcome.code === 'invalid_app_key' ? null : app
      const windows = shown === null ? null : this.#windowsFor(shown, outcome, exchange.head.origin !== null)
      const answer = answerTo(outcome, this.#viewFor(shown, nowMs), requestId, windows)
      exchange.send(answer, this.closing || wantsClose || framingFault !== null)
      // Behind the answer, so that no client waits for observers.
      this.#observeEnd(outcome, nowMs, requestId, app, sdkVersion)
    } catch (error) {
      this.#parts.onFault(error, 'answer', requestId === '' ? null : requestId)
    }
  }

  #observeEnd(outcome: Outcome, timeMs: number, requestId: string, app: App | null, sdkVersion: string | null): void {
    const { observer } = this.#parts
    if (observer === null || outcome.kind === 'accepted' || outcome.kind === 'preflight') return
    if (outcome.kind === 'replayed' && outcome.body !== 'other') return
    const ended = this.#endedRequest
    ended.timeMs = timeMs
    ended.outcome = outcome
    ended.requestId = outcome.kind === 'replayed' ? outcome.batchId : requestId
    ended.app = app
    ended.sdkVersion = sdkVersion
    observer.ended(ended)
  }

  /** Clears `held` first, so that a retry after an error neither charges nor refunds twice. */
  #endHeld(ticket: Ticket, end: End, events: number): void {
    const { app, held } = ticket
    ticket.held = null
    if (app === null || held === null) return
    // A duplicate confirms the key with the batch that the queue had, whose body is not known.
    const eventsHash = end === 'stored' ? ticket.eventsHash : 0
    this.#parts.admission.end(app, held.charge, held.key, end, events, eventsHash)
  }

  /** Of what was stored, or may be. */
  #storeBytes(ticket: Ticket): void {
    const { app, bytesTaken } = ticket
    ticket.bytesTaken = 0
    if (app === null || bytesTaken === 0) return
    this.#parts.bytes.store(app, bytesTaken)
    this.#parts.metrics.storedBytes += bytesTaken
  }

  #countAccepted(ticket: Ticket): void {
    const { metrics, ring } = this.#parts
    const { track, screen, revenue } = eventsIn(ring, ticket.slot)
    metrics.events.track += track
    metrics.events.screen += screen
    metrics.events.revenue += revenue
    metrics.batchEvents.observe(ticket.events)
    // For `#observeStored`, which follows.
    const stored = this.#storedBatch
    stored.track = track
    stored.screen = screen
    stored.revenue = revenue
  }

  #finish(ticket: Ticket, outcome: Outcome, requestId: string | null = null): void {
    ticket.over = true
    const { app, bytesTaken } = ticket
    if (app !== null && bytesTaken > 0) this.#parts.bytes.giveBack(app, bytesTaken, ticket.bytesTakenAtMs)
    try {
      this.end(ticket.exchange, outcome, ticket.app, ticket.sdkVersion, requestId)
      // Behind the answer, and before the release, since the record is in the slot.
      if (outcome.kind === 'accepted') this.#observeStored(ticket)
    } finally {
      this.#parts.ring.release(ticket.slot)
    }
  }

  #observeStored({ app, line }: Ticket): void {
    const { observer } = this.#parts
    if (observer === null || app === null || line === null) return
    const stored = this.#storedBatch
    stored.timeMs = this.#parts.turn.nowMs()
    stored.app = app
    stored.line = line
    observer.stored(stored)
  }

  #viewFor(app: App | null, nowMs: number): RateLimitView {
    try {
      if (app !== null) return this.#parts.admission.view(app)
    } catch (error) {
      this.#parts.onFault(error, 'answer', null)
    }
    return trialView(nowMs)
  }

  /** The key in a web page must reveal to nobody a customer's volume: a page sees the minute's windows alone. */
  #windowsFor(app: App, outcome: Outcome, isFromPage: boolean): readonly WindowView[] | null {
    try {
      const { admission, bytes } = this.#parts
      const isOver = isOverLimit(outcome)
      const near = bytes.window(app, isOver)
      const windows = admission.nearLimits(app, isOver || near !== null)
      const ofBytes = near ?? (windows === null ? null : bytes.window(app, true))
      if (ofBytes === null) return null
      const all = [...(windows ?? []), ofBytes]
      return isFromPage ? all.filter(({ name }) => name !== 'day' && name !== 'month') : all
    } catch (error) {
      this.#parts.onFault(error, 'answer', null)
      return null
    }
  }
}

/** `accepted`: the hash of the accepted events; undefined: not known here. */
export function replayedBody({ eventsHash }: Ticket, accepted: number | undefined): ReplayedBody {
  if (accepted === undefined) return 'unknown'
  return eventsHash === accepted ? 'same' : 'other'
}

/** The refusal of an invalid body. */
export function violation(validation: Validation | null): Outcome {
  if (validation?.kind !== 'refused') throw new Error('an accepted body has an app_key')
  const { code, message, errors } = validation
  return { kind: 'refused', code, message, retryAfterSeconds: null, reason: null, origin: null, errors }
}

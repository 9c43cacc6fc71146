// The path of a request with all its branches, in order. The functions called from here return values; the first check
// that fails ends the request. A refused request costs the app nothing, but for a batch that may have been stored.

import type { App } from '../apps/app.ts'
import { trialView } from '../apps/plans.ts'
import type { Charge } from '../contract/charge.ts'
import { batchIdOf, isUuid } from '../contract/ids.ts'
import {
  type Answer,
  answerTo,
  foreignPage,
  type Outcome,
  overBytes,
  overloaded,
  refused,
} from '../contract/outcome.ts'
import { recordLine, recordLineBytes } from '../contract/record/record.ts'
import { compressionOf } from '../decode/json.ts'
import type { DecodePool } from '../decode/pool.ts'
import type { Refused, Validation } from '../decode/verdict.ts'
import type { Admitted, Replay } from '../limits/admission.ts'
import {
  appKeyIn,
  eventsBytesIn,
  eventsIn,
  recordPlaceIn,
  sdkVersionBytesIn,
  sdkVersionIn,
  shownSdkVersionIn,
} from '../ring/decoded-body.ts'
import { decide, isAppKey } from './decide.ts'
import type { Exchange } from './exchange.ts'
import { Finisher, replayedBody, violation } from './finish.ts'
import { contentEncodingOf, type RequestHead, traceOf } from './head.ts'
import type { Inflated } from './inflate.ts'
import type { IngestParts } from './parts.ts'
import { screen } from './screen.ts'
import { newTicket, type Ticket } from './ticket.ts'

const OPENING_BRACE = 0x7b

export class Ingest {
  readonly #parts: IngestParts
  readonly #submit: DecodePool['submit']
  /** The request whose body is in each slot. */
  readonly #exchangeInSlot: (Exchange | null)[]
  readonly #finisher: Finisher

  constructor(parts: IngestParts, submit: DecodePool['submit']) {
    this.#parts = parts
    this.#submit = submit
    this.#finisher = new Finisher(parts)
    this.#exchangeInSlot = Array.from({ length: parts.ring.slots }, () => null)
  }

  /** Requests without an outcome yet. */
  get inFlight(): number {
    return this.received - this.#finisher.ended
  }

  /** Requests received so far. */
  get received(): number {
    return this.#parts.metrics.requestsReceived
  }

  /** A head has arrived. true: the body is needed; false: the request was answered. */
  begin(exchange: Exchange): boolean {
    this.#parts.metrics.requestsReceived++
    return !this.#endsWith(exchange, () => screen(exchange.head, this.#parts.ring))
  }

  /** The whole body has arrived. `pieces` are valid only during this call. */
  body(exchange: Exchange, pieces: readonly Uint8Array[], lengthBytes: number): void {
    this.#endsWith(exchange, () => {
      exchange.bodyAtMs = this.#parts.turn.monotonicMs()
      this.#parts.metrics.stageSeconds.receive.observe((exchange.bodyAtMs - exchange.startedAtMs) / 1000)
      const encoding = contentEncodingOf(exchange.head.contentEncoding) ?? 'identity'
      if (encoding === 'identity') return this.#enter(exchange, pieces, lengthBytes)
      const body = Buffer.concat(pieces)
      const inflating = this.#parts.inflater.inflate(encoding, body)
      if (!(inflating instanceof Promise)) return this.#inflated(exchange, encoding, body, inflating)
      this.#awaitInflated(exchange, encoding, body, inflating)
      return null
    })
  }

  /** Ends the request with the outcome of `step`, also where that throws. null: the request continues elsewhere. */
  #endsWith(exchange: Exchange, step: () => Outcome | null): boolean {
    let outcome: Outcome | null
    try {
      outcome = step()
    } catch (error) {
      this.#finisher.faultEarly(exchange, error)
      return true
    }
    if (outcome === null) return false
    this.#finisher.end(exchange, outcome, null)
    return true
  }

  #awaitInflated(exchange: Exchange, encoding: string, body: Buffer, inflating: Promise<Inflated>): void {
    inflating.then(
      (inflated) => this.#endsWith(exchange, () => this.#inflated(exchange, encoding, body, inflated)),
      (error: unknown) => this.#finisher.faultEarly(exchange, error),
    )
  }

  #inflated(exchange: Exchange, encoding: string, body: Buffer, inflated: Inflated): Outcome | null {
    if (inflated === 'too large') return refused('payload_too_large')
    if (inflated === 'busy') return overloaded('inflate_busy')
    if (inflated !== 'corrupt') return this.#enter(exchange, [inflated], inflated.length)
    return (
      this.#badKey(exchange.head) ??
      refused('invalid_json', `body: cannot be decoded as ${encoding}${hintOf(encoding, body)}`)
    )
  }

  /** The body exceeds the maximum size. */
  bodyTooLarge(exchange: Exchange): void {
    this.#finisher.end(exchange, refused('payload_too_large'), null)
  }

  /** A partial body was evicted to make room for others, or since the service ends. */
  bodyEvicted(exchange: Exchange): void {
    this.#finisher.end(exchange, overloaded(this.#finisher.closing ? 'stopping' : 'evicted'), null)
  }

  /** The client left before its request was complete. */
  clientLeft(exchange: Exchange): void {
    this.#finisher.abandon(exchange)
  }

  /** To what is no request, and is not counted. */
  answerUnread(status: string, message: string): Answer {
    const nowMs = this.#parts.turn.nowMs()
    const answer = answerTo(refused('validation_failed', message), trialView(nowMs), this.#parts.freshId(nowMs))
    return { ...answer, status }
  }

  /** The service stops: every answer from now on closes its connection. */
  close(): void {
    this.#finisher.closing = true
  }

  /** Copies the body into the ring and submits it to the pool. */
  #enter(exchange: Exchange, pieces: readonly Uint8Array[], lengthBytes: number): Outcome | null {
    const badKey = this.#badKey(exchange.head)
    if (badKey !== null) return badKey
    const { ring, metrics } = this.#parts
    const slot = ring.claim(lengthBytes)
    if (slot < 0) return overloaded('ring_full')
    try {
      ring.fill(slot, pieces)
      ring.commit(slot, exchange.head.idempotencyKey !== null)
      metrics.bodyBytes.observe(lengthBytes)
      this.#exchangeInSlot[slot] = exchange
      this.#submit(slot)
    } catch (error) {
      this.#exchangeInSlot[slot] = null
      ring.release(slot)
      throw error
    }
    return null
  }

  /** Checked after the body's size and before its grammar, as the contract says. */
  #badKey({ idempotencyKey }: RequestHead): Outcome | null {
    if (idempotencyKey === null || isUuid(idempotencyKey)) return null
    return refused('validation_failed', 'Idempotency-Key: must be a UUID')
  }

  /** The pool has decoded a slot. `validation` null: accepted, with no more data than the slot's words. */
  decoded(slot: number, validation: Validation | null): void {
    if (!this.#parts.ring.isDecoded(slot)) throw new Error(`slot ${slot} was handed back before it was decoded`)
    const ticket = this.#ticketFor(slot)
    try {
      this.#admit(ticket, validation)
    } catch (error) {
      this.#finisher.fault(ticket, error)
    }
  }

  /** The pool failed on a slot. */
  decodeFailed(slot: number, error: unknown): void {
    this.#finisher.fault(this.#ticketFor(slot), error)
  }

  /** Too many bodies wait for the explainer's thread. */
  decodeBusy(slot: number): void {
    const ticket = this.#ticketFor(slot)
    try {
      this.#finisher.refuse(ticket, overloaded('explain_busy'))
    } catch (error) {
      this.#finisher.fault(ticket, error)
    }
  }

  #ticketFor(slot: number): Ticket {
    const exchange = this.#exchangeInSlot[slot]
    if (exchange === null) throw new Error(`the pool handed back slot ${slot}, which holds no body`)
    this.#exchangeInSlot[slot] = null
    return newTicket(exchange, slot, this.#parts.ring.eventsHash(slot))
  }

  /** From the decoded body to the limits. */
  #admit(ticket: Ticket, validation: Validation | null): void {
    const { apps, metrics } = this.#parts
    const { exchange } = ticket
    ticket.decodedAtMs = this.#parts.turn.monotonicMs()
    metrics.stageSeconds.parse.observe((ticket.decodedAtMs - exchange.bodyAtMs) / 1000)

    const appKey = validation === null ? appKeyIn(this.#parts.ring, ticket.slot) : validation.appKey
    const app = isAppKey(appKey) ? apps.find(appKey) : 'unknown'
    if (typeof app === 'object') ticket.app = app
    const decision = decide(appKey, app, validation?.kind !== 'refused', this.#parts.turn.nowMs(), exchange.head.origin)
    switch (decision) {
      case 'apps_unread':
        return this.#finisher.refuse(ticket, overloaded(decision))
      case 'invalid_app_key':
      case 'subscription_inactive':
      case 'trial_expired':
        return this.#refuse(ticket, validation, refused(decision))
      case 'foreign_page':
        return this.#refuse(ticket, validation, foreignPage(exchange.head.origin))
      case 'no app key':
        return this.#refuse(ticket, validation, violation(validation))
      case 'invalid':
        return this.#refuseOrReplay(ticket, validation, violation(validation))
      case 'limits':
        return this.#take(ticket, validation as Exclude<Validation, Refused> | null)
    }
  }

  /** A batch that would be refused gets, under a key that was accepted before, the answer of that one. */
  #refuseOrReplay(ticket: Ticket, validation: Validation | null, outcome: Outcome): void {
    const app = ticket.app as App
    const keyedId = keyedIdOf(ticket, app)
    const replayed = keyedId === null ? null : this.#parts.admission.replayOf(app, keyedId)
    const end = (replay: Replay | null): void =>
      replay === null ? this.#refuse(ticket, validation, outcome) : this.#replay(ticket, validation, replay)
    if (!(replayed instanceof Promise)) return end(replayed)
    void this.#after(ticket, replayed, end)
  }

  #take(ticket: Ticket, validation: Exclude<Validation, Refused> | null): void {
    const app = ticket.app as App
    const { track, screen, revenue } = eventsIn(this.#parts.ring, ticket.slot)
    ticket.events = track + screen + revenue
    // An empty batch is not stored.
    if (ticket.events > 0 && !this.#takeBytes(ticket, app, validation?.extras ?? null))
      return this.#refuseOrReplay(ticket, validation, overBytes(this.#parts.bytes.secondsUntilRoom))
    const refusal = ticket.events === 0 ? null : (this.#parts.queue.refusalOfNew?.() ?? null)
    const admitting = this.#parts.admission.admit(app, ticket.events, keyedIdOf(ticket, app), refusal)
    if (!(admitting instanceof Promise)) return this.#admitted(ticket, app, validation, admitting)
    void this.#after(ticket, admitting, (admitted) => this.#admitted(ticket, app, validation, admitted))
  }

  /** false: the minute has no room for them. */
  #takeBytes(ticket: Ticket, app: App, extras: string | null): boolean {
    const { bytes, ring, turn } = this.#parts
    ticket.trace = traceOf(ticket.exchange.head.traceparent)
    const at = ring.decodedAt(ticket.slot)
    const lineBytes = recordLineBytes(eventsBytesIn(ring, at), sdkVersionBytesIn(ring, at), app, ticket.trace, extras)
    if (!bytes.take(app, lineBytes)) return false
    ticket.bytesTaken = lineBytes
    ticket.bytesTakenAtMs = turn.nowMs()
    return true
  }

  /** Goes on when a store has answered. */
  async #after<T>(ticket: Ticket, answer: Promise<T>, next: (answer: T) => void): Promise<void> {
    try {
      next(await answer)
    } catch (error) {
      this.#finisher.fault(ticket, error)
    }
  }

  /** From the limits to the queue. */
  #admitted(ticket: Ticket, app: App, validation: Exclude<Validation, Refused> | null, admitted: Admitted): void {
    const { metrics } = this.#parts
    const keyedId = ticket.exchange.head.idempotencyKey === null ? null : ticket.batchId
    switch (admitted.kind) {
      case 'replay':
        return this.#replay(ticket, validation, admitted)
      case 'over limit':
        return this.#refuse(ticket, validation, refused(admitted.refusal, null, admitted.retryAfterSeconds))
      case 'overloaded':
        return this.#finisher.refuse(ticket, overloaded(admitted.reason))
      case 'taken':
        ticket.held = { charge: admitted.charge, key: keyedId }
    }

    metrics.stageSeconds.admit.observe((this.#parts.turn.monotonicMs() - ticket.decodedAtMs) / 1000)
    const { charge } = admitted
    if (keyedId === null) ticket.batchId = this.#parts.freshId(charge.takenAtMs)
    if (ticket.events === 0) this.#finisher.acknowledged(ticket, 'durable')
    else this.#publish(ticket, app, charge, validation?.extras ?? null)
  }

  /** Refuses what a client sent, with its SDK version for the list of refusals. A 503 needs none: it is our fault. */
  #refuse(ticket: Ticket, validation: Validation | null, outcome: Outcome): void {
    ticket.sdkVersion = this.#sdkVersion(ticket, validation)
    this.#finisher.refuse(ticket, outcome)
  }

  #replay(ticket: Ticket, validation: Validation | null, replay: Replay): void {
    if (replayedBody(ticket, replay.eventsHash) === 'other') ticket.sdkVersion = this.#sdkVersion(ticket, validation)
    this.#finisher.replay(ticket, replay)
  }

  #sdkVersion({ slot }: Ticket, validation: Validation | null): string | null {
    return validation?.kind === 'refused' ? validation.sdkVersion : shownSdkVersionIn(this.#parts.ring, slot)
  }

  #publish(ticket: Ticket, app: App, charge: Charge, extras: string | null): void {
    const { ring, queue } = this.#parts
    const { slot, batchId } = ticket
    const line = recordLine(ring.bytes, recordPlaceIn(ring, slot), {
      batchId,
      appId: app.appId,
      receivedAt: this.#parts.isoTime(charge.takenAtMs),
      sdkVersion: sdkVersionIn(ring, slot, 'latin1'),
      trace: ticket.trace,
      extras,
    })
    ticket.line = line
    ticket.publishedAtMs = this.#parts.turn.monotonicMs()
    const keyed = ticket.held?.key !== null
    queue.publish({ line, batchId, appId: app.appId, keyed, charge }, (ack, storedEvents) => {
      try {
        this.#finisher.acknowledged(ticket, ack, storedEvents)
      } catch (error) {
        this.#finisher.fault(ticket, error)
      }
    })
  }
}

/** The id of a keyed batch, which is then the ticket's; null: it has no key. */
function keyedIdOf(ticket: Ticket, app: App): string | null {
  const key = ticket.exchange.head.idempotencyKey
  if (key === null) return null
  ticket.batchId = batchIdOf(app.appId, key.toLowerCase())
  return ticket.batchId
}

/** What a body is that was said to be compressed, where its first byte or two tell. */
function hintOf(encoding: string, body: Buffer): string {
  const packed = compressionOf(body)
  if (packed !== null) return packed === encoding ? '' : `: it is compressed with ${packed}`
  return body[0] === OPENING_BRACE ? ': it is not compressed' : ''
}

// What a node knows of its own requests, for the people who run it: what it refused, what each app had accepted, and the
// stored events that somebody watches.

import { messageOf } from '../../contract/outcome.ts'
import type { Writable } from '../../lib/writable.ts'
import type { EndedRequest, RequestObserver, StoredBatch } from '../../request/observer.ts'
import type { EventTaps } from '../live/event-tap.ts'
import { foreignPageText, type OwnRefusal } from '../refusals/refusal.ts'
import { Refusals } from '../refusals/refusals.ts'
import { AcceptedCounts } from './accepted-counts.ts'

const OTHER_BODY = 'this Idempotency-Key was accepted with another body: these events are not stored'

const MAX_ORIGIN_CHARACTERS = 200

export class Activity implements RequestObserver {
  readonly refusals = new Refusals()
  readonly accepted = new AcceptedCounts()
  readonly taps: EventTaps
  /** Written over for each. */
  readonly #refusal = {} as Writable<OwnRefusal>

  constructor(taps: EventTaps) {
    this.taps = taps
  }

  ended(request: EndedRequest): void {
    const { outcome } = request
    const refusal = this.#refusal
    refusal.time_ms = request.timeMs
    refusal.request_id = request.requestId
    refusal.app_id = request.app?.appId ?? null
    refusal.sdk_version = request.sdkVersion
    refusal.reason = null
    refusal.origin = null
    refusal.path = null
    refusal.shape = null
    if (outcome.kind === 'replayed') {
      refusal.code = 'replayed_other_body'
      refusal.message = OTHER_BODY
    } else {
      refusal.code = outcome.code
      refusal.reason = outcome.reason
      refusal.origin = shownOrigin(outcome.origin)
      refusal.message =
        refusal.origin === null
          ? messageOf(outcome.code, outcome.message)
          : foreignPageText(refusal.origin, outcome.code)
      if (outcome.errors !== null) {
        refusal.path = refusal.message.slice(0, refusal.message.indexOf(': '))
        refusal.shape = outcome.errors.shape
      }
    }
    this.refusals.add(refusal)
  }

  stored(batch: StoredBatch): void {
    const { app, timeMs, track, screen, revenue } = batch
    this.accepted.add(app.appId, track + screen + revenue, timeMs)
    this.taps.onStored?.(batch)
  }
}

/** It is the client's text, and goes into the log: an origin that a browser writes is short and of visible characters. */
function shownOrigin(origin: string | null): string | null {
  return origin === null ? null : origin.slice(0, MAX_ORIGIN_CHARACTERS).replaceAll(/[^!-~]/g, '?')
}

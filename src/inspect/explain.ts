// Says what would happen to a body now: the checks of a request in their order, without a queue and without a charge. For
// `sluice explain` and the console.

import type { App, AppLookup } from '../apps/app.ts'
import { monthTolerancePercent, trialView } from '../apps/plans.ts'
import { MAX_BODY_BYTES } from '../contract/bounds.ts'
import {
  answerTo,
  foreignPage,
  type Outcome,
  type OverloadReason,
  overBytes,
  overloaded,
  type RefusalCode,
  type RefusalReason,
  refused,
  type WindowView,
} from '../contract/outcome.ts'
import { type Violation, type Violations, violations } from '../decode/validator.ts'
import { limitRefusal, secondsUntilRoom, type Usage } from '../limits/limiter.ts'
import { decide, isAppKey } from '../request/decide.ts'
import type { WindowsUsed } from './usage-report.ts'

export interface ExplainStores {
  findApp(appKey: string): Promise<AppLookup>
  usageOf(app: App, nowMs: number): Promise<Usage>
  /** Of this minute on one node, before this body; null: not known. */
  bytesOf(app: App): Promise<WindowView | null>
  /** Why the queue would refuse a body of this length now; null: it would not, or that is not known. */
  queueRefusal(bodyBytes: number): Promise<OverloadReason | null>
}

export interface Explanation {
  readonly status: number
  readonly outcome: 'accepted' | RefusalCode
  readonly message: string | null
  /** Of a 503, of a 429 for its bytes, or of a 401 for the page's origin. */
  readonly reason: RefusalReason | null
  readonly retryAfterSeconds: number | null
  /** null: too large. */
  readonly bodyBytes: number | null
  /** null: the body is invalid, so its events were not counted. */
  readonly events: number | null
  readonly violations: readonly Violation[]
  /** Without these events the body would fit; null: it would not, or it does. */
  readonly invalidEvents: readonly number[] | null
  readonly app: Pick<App, 'appId' | 'name' | 'plan' | 'subscription'> | null
  /** The usage before this body. */
  readonly usage: WindowsUsed | null
  /** null: not known. */
  readonly bytes: WindowView | null
}

/** What a body says by itself; null: it is too large. `appKey`: in place of the body's own; null: the body's own. */
export function judgeBody(body: Buffer, appKey: string | null, nowMs: number): Violations | null {
  return body.length > MAX_BODY_BYTES ? null : violations(body, nowMs, appKey)
}

export interface Question {
  readonly bodyBytes: number
  readonly verdict: Violations | null
  readonly nowMs: number
  /** Of the web page that would send it; null: none. */
  readonly origin: string | null
  readonly stores: ExplainStores
}

/** A valid body of a known app. */
interface Judged {
  readonly app: App
  readonly usage: Usage
  readonly bytes: WindowView | null
  readonly events: number
}

/** In the order of the checks of a request, from the size of the body on. */
export async function explain({ bodyBytes, verdict, nowMs, origin, stores }: Question): Promise<Explanation> {
  const base = { bodyBytes, events: null, violations: [], invalidEvents: null, app: null, usage: null, bytes: null }
  const ending = (outcome: Outcome, found: Partial<Explanation> = {}): Explanation => ({
    ...base,
    ...answerParts(outcome, nowMs),
    ...found,
  })
  if (verdict === null) return ending(refused('payload_too_large'), { bodyBytes: null })
  const isValid = verdict.code === null
  const schemaRefusal = isValid ? null : refused(verdict.code, verdict.message)
  const judged = isValid
    ? { events: verdict.events, violations: [], invalidEvents: null }
    : { events: null, violations: verdict.found, invalidEvents: verdict.invalidEvents }
  const { appKey } = verdict
  const app = isAppKey(appKey) ? await stores.findApp(appKey) : 'unknown'
  const found =
    typeof app === 'object'
      ? { ...judged, app, usage: await stores.usageOf(app, nowMs), bytes: await stores.bytesOf(app) }
      : judged
  const decision = decide(appKey, app, isValid, nowMs, origin)
  switch (decision) {
    case 'no app key':
    case 'invalid':
      return ending(schemaRefusal as Outcome, found)
    case 'apps_unread':
      return ending(overloaded(decision), found)
    case 'invalid_app_key':
    case 'subscription_inactive':
    case 'trial_expired':
      return ending(refused(decision), found)
    case 'foreign_page':
      return ending(foreignPage(origin), found)
    case 'limits':
      return ending(await fate(found as Judged, bodyBytes, stores), found)
  }
}

/** What limits and queue say. */
async function fate({ app, usage, bytes, events }: Judged, bodyBytes: number, stores: ExplainStores): Promise<Outcome> {
  const { minute, day, month } = usage
  // The record is about as long as the body.
  if (events > 0 && bytes !== null && !hasRoom(bytes, bodyBytes)) return overBytes(bytes.resetSeconds)
  const full = limitRefusal(app, minute.used, day.used, month.used, events)
  if (full !== null) return refused(full, null, secondsUntilRoom(usage, full))
  // An empty batch is not stored.
  const reason = events === 0 ? null : await stores.queueRefusal(bodyBytes)
  return reason === null ? { kind: 'accepted', events, batchId: '' } : overloaded(reason)
}

/** Status and message of the answer that a client would get. */
function answerParts(
  outcome: Outcome,
  nowMs: number,
): Pick<Explanation, 'status' | 'outcome' | 'message' | 'reason' | 'retryAfterSeconds'> {
  const answer = answerTo(outcome, trialView(nowMs), '')
  const { message } = JSON.parse(answer.body) as { message?: string }
  return {
    status: Number.parseInt(answer.status, 10),
    outcome: outcome.kind === 'refused' ? outcome.code : 'accepted',
    message: message ?? null,
    reason: outcome.kind === 'refused' ? outcome.reason : null,
    retryAfterSeconds: outcome.kind === 'refused' ? outcome.retryAfterSeconds : null,
  }
}

/** As `StoredBytes.take`. */
function hasRoom({ limit, remaining }: WindowView, bytes: number): boolean {
  return remaining === limit || bytes <= remaining
}

function windowJson({ limit, used, endsAtMs }: Usage['day']) {
  const remaining = limit === null ? null : Math.max(0, limit - used)
  return { limit, used, remaining, ends_at: new Date(endsAtMs).toISOString() }
}

export function violationText({ path, message }: Violation): string {
  return `${path}: ${message}`
}

export function toJson({ app, usage, bytes, ...explanation }: Explanation) {
  return {
    outcome: explanation.outcome,
    status: explanation.status,
    message: explanation.message,
    reason: explanation.reason,
    retry_after_seconds: explanation.retryAfterSeconds,
    body_bytes: explanation.bodyBytes,
    events: explanation.events,
    violations: explanation.violations.map(violationText),
    errors: explanation.violations.map(({ path, message, code, event }) => ({ path, message, code, event })),
    invalid_events: explanation.invalidEvents,
    app: app === null ? null : { app_id: app.appId, name: app.name, plan: app.plan, subscription: app.subscription },
    limits: app === null || usage === null ? null : limitsOf(app, usage, bytes),
  }
}

/** The month's limit is the enforced one, so its tolerance is given beside it. */
function limitsOf({ plan }: Pick<App, 'plan'>, { minute, day, month }: WindowsUsed, bytes: WindowView | null): object {
  const { endsAtMs } = minute
  return {
    minute: windowJson(minute),
    day: windowJson(day),
    month: { ...windowJson(month), tolerance_percent: monthTolerancePercent(plan) },
    ...(bytes && { bytes: windowJson({ limit: bytes.limit, used: bytes.limit - bytes.remaining, endsAtMs }) }),
  }
}

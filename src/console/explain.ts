// Says what would happen to a body now: the checks of a request in their order, without a queue and without a charge. For
// `sluice explain` and the console.

import type { App } from '../apps/app.ts'
import { subscriptionRefusal } from '../apps/app-record.ts'
import { monthTolerancePercent, trialView } from '../apps/plans.ts'
import { MAX_BODY_BYTES } from '../bounds.ts'
import { readJson } from '../decode/json.ts'
import { type Violations, violations } from '../decode/validator.ts'
import { type LimitRefusal, secondsUntilRoom, type Usage } from '../limits/limiter.ts'
import { answerTo, type Outcome, type RefusalCode, refused } from '../outcome.ts'

export interface ExplainStores {
  findApp(appKey: string): Promise<App | null>
  usageOf(app: App, nowMs: number): Promise<Usage>
}

export interface Explanation {
  readonly status: number
  readonly outcome: 'accepted' | RefusalCode
  readonly message: string | null
  readonly retryAfterSeconds: number | null
  /** null: too large. */
  readonly bodyBytes: number | null
  /** null: the body is invalid, so its events were not counted. */
  readonly events: number | null
  readonly violations: readonly string[]
  readonly app: App | null
  /** The usage before this body. */
  readonly usage: Usage | null
}

/** What a body says by itself. null: it is too large. */
export interface BodyVerdict {
  readonly bodyBytes: number
  readonly result: Violations
}

/** `appKey`: in place of the body's own; null: the body's own. */
export function judgeBody(body: Buffer, appKey: string | null, nowMs: number): BodyVerdict | null {
  const sent = appKey === null || appKey === '' ? body : withAppKey(body, appKey)
  return sent.length > MAX_BODY_BYTES ? null : { bodyBytes: sent.length, result: violations(sent, nowMs) }
}

export interface Question {
  readonly verdict: BodyVerdict | null
  readonly nowMs: number
  readonly stores: ExplainStores
}

/** In the order of the checks of a request, from the size of the body on. */
export async function explain({ verdict, nowMs, stores }: Question): Promise<Explanation> {
  const base = { bodyBytes: verdict?.bodyBytes ?? null, events: null, violations: [], app: null, usage: null }
  const ending = (outcome: Outcome, found: Partial<Explanation> = {}): Explanation => ({
    ...base,
    ...answerParts(outcome, nowMs),
    ...found,
  })
  if (verdict === null) return ending(refused('payload_too_large'))
  const { result } = verdict
  const messages = result.code === null ? [] : result.messages
  const schemaRefusal = result.code === null ? null : refused(result.code, result.message)
  if (schemaRefusal !== null && result.appKey === null) return ending(schemaRefusal, { violations: messages })

  const events = result.code === null ? result.events : null
  const app = await stores.findApp(result.appKey ?? '')
  if (app === null) return ending(refused('invalid_app_key'), { events, violations: messages })
  const found = { events, violations: messages, app, usage: await stores.usageOf(app, nowMs) }
  const inactive = subscriptionRefusal(app, nowMs)
  if (inactive !== null) return ending(refused(inactive), found)
  if (schemaRefusal !== null) return ending(schemaRefusal, found)
  const count = events ?? 0
  const full = limitRefusal(found.usage, Math.max(1, count))
  if (full !== null) return ending(refused(full, null, secondsUntilRoom(found.usage, full)), found)
  return ending({ kind: 'accepted', events: count, batchId: '' }, found)
}

/** The widest window without room for `cost`. */
function limitRefusal({ minute, day, month }: Usage, cost: number): LimitRefusal | null {
  if (month.used + cost > month.limit) return 'monthly_limit_exceeded'
  if (day.limit !== null && day.used + cost > day.limit) return 'daily_limit_exceeded'
  return minute.used + cost > minute.limit ? 'rate_limit_exceeded' : null
}

/** Status and message of the answer that a client would get. */
function answerParts(
  outcome: Outcome,
  nowMs: number,
): Pick<Explanation, 'status' | 'outcome' | 'message' | 'retryAfterSeconds'> {
  const answer = answerTo(outcome, trialView(nowMs), '')
  const { message } = JSON.parse(answer.body) as { message?: string }
  return {
    status: Number.parseInt(answer.status, 10),
    outcome: outcome.kind === 'refused' ? outcome.code : 'accepted',
    message: message ?? null,
    retryAfterSeconds: outcome.kind === 'refused' ? outcome.retryAfterSeconds : null,
  }
}

/** Replaces the body's app_key, or adds one as its first member. Only a JSON object is changed. */
export function withAppKey(body: Buffer, appKey: string): Buffer {
  const reading = body.length > MAX_BODY_BYTES ? null : readJson(body)
  if (reading?.kind !== 'value' || reading.value.kind !== 'object') return body
  const { start: open, members } = reading.value
  const keyText = Buffer.from(JSON.stringify(appKey))
  const places = members.filter(({ key }) => key === 'app_key').map(({ value }) => value)
  if (places.length === 0) {
    const rest = members.length === 0 ? '' : ','
    return Buffer.concat([
      body.subarray(0, open + 1),
      Buffer.from('"app_key":'),
      keyText,
      Buffer.from(rest),
      body.subarray(open + 1),
    ])
  }
  const pieces: Buffer[] = []
  let from = 0
  for (const { start, end } of places) {
    pieces.push(body.subarray(from, start), keyText)
    from = end
  }
  return Buffer.concat([...pieces, body.subarray(from)])
}

export function windowsOf(usage: Usage) {
  return (['minute', 'day', 'month'] as const).map((name) => {
    const { limit, used, endsAtMs } = usage[name]
    const remaining = limit === null ? null : Math.max(0, limit - used)
    return { name, limit, used, remaining, ends_at: new Date(endsAtMs).toISOString() }
  })
}

export function toJson({ app, usage, ...explanation }: Explanation): object {
  return {
    outcome: explanation.outcome,
    status: explanation.status,
    message: explanation.message,
    retry_after_seconds: explanation.retryAfterSeconds,
    body_bytes: explanation.bodyBytes,
    events: explanation.events,
    violations: explanation.violations,
    app: app === null ? null : { app_id: app.appId, name: app.name, plan: app.plan, subscription: app.subscription },
    limits: app === null || usage === null ? null : limitsOf(app, usage),
  }
}

/** The month's limit is the enforced one, so its tolerance is told beside it. */
export function limitsOf({ plan }: App, usage: Usage): object {
  const windows = windowsOf(usage).map(({ name, ...window }) => [name, window] as const)
  const { month, ...others } = Object.fromEntries(windows)
  return { ...others, month: { ...month, tolerance_percent: monthTolerancePercent(plan) } }
}

// `sluice explain`: says what would happen to a body now. It makes the checks of a request against the stores, but
// queues and charges nothing.

import { createReadStream } from 'node:fs'
import type { App } from '../../apps/app.ts'
import { subscriptionRefusal } from '../../apps/app-record.ts'
import { monthTolerancePercent, trialView } from '../../apps/plans.ts'
import { MAX_BODY_BYTES, MAX_ERRORS_COUNTED } from '../../bounds.ts'
import { readJson } from '../../decode/json.ts'
import { violations } from '../../decode/validator.ts'
import { errorMessage, StartError } from '../../lib/errors.ts'
import { type LimitRefusal, secondsUntilRoom, type Usage } from '../../limits/limiter.ts'
import { answerTo, type Outcome, type RefusalCode, refused } from '../../outcome.ts'
import { readConfig } from '../../settings/config.ts'
import { EXIT, paint, print, readFlags, type Shell } from '../shell.ts'
import { formatBytes, formatCount, formatTable } from '../table.ts'
import { type Stores, withStores } from './explain-stores.ts'

export const help = `Usage: sluice explain [--app-key K] [--json] FILE

Says what would happen to the body in FILE ('-': standard input) if it were sent now: the answer, every offending
member (up to 1,000), and the app's limits with what is left of them. What many events have wrong in the same way is
one line, events[*]; --json has each by itself. Nothing is queued or spent, and a service may be running on the same
settings.

Apps and limits come from where the settings have the service keep them: files in SLUICE_DATA_DIR, or NATS
and Redis where NATS_URL and REDIS_URL are set.

  --app-key K   put this key in place of the body's app_key
  --json        for machines

Headers are not looked at: a body is taken as sent with the right Content-Type and no Idempotency-Key.
Exit code: 0 it would be accepted, 1 refused, 2 for a wrong command line.

Example:
  sluice explain --app-key ak_demo_2f6c1d body.json
`

export async function run(args: readonly string[], shell: Shell): Promise<number> {
  const { values: flags, positionals } = readFlags(
    args,
    { 'app-key': { type: 'string' }, json: { type: 'boolean', default: false } },
    ['FILE'],
  )
  const explanation = await withStores(readConfig(shell.env), shell.clock, async (stores) => {
    const sent = await readBody(positionals[0], shell)
    const nowMs = await stores.now()
    const key = flags['app-key']
    return explain({ body: key === undefined ? sent : withAppKey(sent, key), nowMs, stores })
  })
  await print(
    shell.stdout,
    flags.json ? `${JSON.stringify(toJson(explanation), null, 2)}\n` : format(explanation, shell),
  )
  return explanation.outcome === 'accepted' ? EXIT.ok : EXIT.failed
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

export interface Question {
  readonly body: Uint8Array
  readonly nowMs: number
  readonly stores: Pick<Stores, 'findApp' | 'usageOf'>
}

/** In the order of the checks of a request, from the size of the body on. */
export async function explain({ body, nowMs, stores }: Question): Promise<Explanation> {
  const bodyBytes = body.length > MAX_BODY_BYTES ? null : body.length
  const base = { bodyBytes, events: null, violations: [], app: null, usage: null }
  const ending = (outcome: Outcome, found: Partial<Explanation> = {}): Explanation => ({
    ...base,
    ...answerParts(outcome, nowMs),
    ...found,
  })
  if (bodyBytes === null) return ending(refused('payload_too_large'))
  const result = violations(body, nowMs)
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

/** Stops once the body is too large. */
async function readBody(file: string, shell: Shell): Promise<Buffer> {
  const stream = file === '-' ? shell.stdin : createReadStream(file)
  const pieces: Buffer[] = []
  let bytes = 0
  try {
    for await (const piece of stream) {
      pieces.push(Buffer.from(piece))
      bytes += piece.length
      if (bytes > MAX_BODY_BYTES) break
    }
  } catch (error) {
    throw new StartError(`cannot read ${file}: ${errorMessage(error)}`)
  }
  return Buffer.concat(pieces)
}

function windowsOf(usage: Usage) {
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
    limits: app === null || usage === null ? null : limitsJson(app, usage),
  }
}

/** The month's limit is the enforced one, so its tolerance is told beside it. */
function limitsJson({ plan }: App, usage: Usage): object {
  const windows = windowsOf(usage).map(({ name, ...window }) => [name, window] as const)
  const { month, ...others } = Object.fromEntries(windows)
  return { ...others, month: { ...month, tolerance_percent: monthTolerancePercent(plan) } }
}

/** What many events have wrong in the same way is one line. */
function folded(violations: readonly string[]): string[] {
  const groups = new Map<string, { text: string; count: number }>()
  for (const violation of violations) {
    const ofAnyEvent = violation.replace(/^events\[\d+\]/, 'events[*]')
    const group = groups.get(ofAnyEvent)
    if (group === undefined) groups.set(ofAnyEvent, { text: violation, count: 1 })
    else {
      group.count += 1
      if (group.text !== violation) group.text = ofAnyEvent
    }
  }
  return [...groups.values()].map(({ text, count }) => (count === 1 ? text : `${text} (${formatCount(count)} times)`))
}

export function format(explanation: Explanation, shell: Pick<Shell, 'colour'>): string {
  const { status, outcome, message, retryAfterSeconds, bodyBytes, events, app, usage } = explanation
  const verdict = paint(outcome === 'accepted' ? 'green' : 'red', `${status} ${outcome}`, shell)
  const about = [
    ['body', bodyBytes === null ? `more than ${formatBytes(MAX_BODY_BYTES)}` : formatBytes(bodyBytes)],
    ...(events === null ? [] : [['events', String(events)]]),
    ...(app === null ? [] : [['app', `${app.appId}, plan ${app.plan}, ${app.subscription}`]]),
    ...(retryAfterSeconds === null ? [] : [['again in', `${formatCount(retryAfterSeconds)} s`]]),
  ]
  const sections = [`${verdict}${message === null ? '' : `: ${message}`}\n${formatTable(about)}`]
  if (explanation.violations.length > 0) {
    const { length } = explanation.violations
    const lines = folded(explanation.violations).map((line) => `  ${line}\n`)
    sections.push(
      `Offending members: ${formatCount(length)}${length < MAX_ERRORS_COUNTED ? '' : ' or more'}\n${lines.join('')}`,
    )
  }
  if (usage !== null) {
    const rows = windowsOf(usage).map(({ name, limit, used, remaining, ends_at }) => [
      name,
      limit === null ? 'none' : formatCount(limit),
      formatCount(used),
      remaining === null ? '' : formatCount(remaining),
      ends_at,
    ])
    const percent = app === null ? 0 : monthTolerancePercent(app.plan)
    const tolerance =
      percent === 0 ? '' : `The month's limit includes the ${percent}% that a paid plan may go over it.\n`
    sections.push(formatTable([['window', 'limit', 'used', 'left', 'ends'], ...rows]) + tolerance)
  }
  return sections.join('\n')
}

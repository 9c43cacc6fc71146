// What one process answers for all from the stores: what would happen to a body, where a batch is, how much apps have used.

import type { App, AppDirectory } from '../apps/app.ts'
import type { Example } from '../contract/admin/apps.ts'
import type { LastHourPiece } from '../contract/admin/peers.ts'
import { PORTAL_PROBLEMS, type PortalProblem, PROBLEMS, problemOf } from '../contract/admin/problems.ts'
import type { OfStores } from '../contract/admin/words.ts'
import { MAX_BODY_BYTES, MAX_REPORTED_APPS, MAX_USAGE_DAYS } from '../contract/bounds.ts'
import { isUuid } from '../contract/ids.ts'
import type { Violations } from '../decode/validator.ts'
import { UnavailableError } from '../lib/errors.ts'
import { slices } from '../lib/slices.ts'
import type { Timers } from '../lib/timers.ts'
import type { Usage } from '../limits/limiter.ts'
import type { StoredBytes } from '../limits/stored-bytes.ts'
import { readQuestion } from '../queue/find/question.ts'
import type { EventQueue } from '../queue/queue.ts'
import { alertsSince, MAX_ALERTS_SHOWN, type ReadAlerts } from './alerts.ts'
import { type ExplainStores, type Explanation, explain, toJson } from './explain.ts'
import type { QueuePlace } from './find/find-in-queue.ts'
import { seenOf } from './last-hour.ts'
import { readEventFilter } from './live/event-filter.ts'
import { Places } from './places.ts'
import { countIn, flagIn } from './query.ts'
import { type Answer, answerOf, type Question } from './question.ts'
import { ReadingBudget } from './reading-budget.ts'
import { isOfOperators, narrowed, type Scope, toldReason } from './scope.ts'
import { answerInThread } from './start-thread.ts'
import { unavailableReason } from './unavailable.ts'
import {
  type ReadDays,
  type ReadUsages,
  usageByDay,
  usageForApp,
  usageReport,
  usageReportText,
} from './usage-report.ts'

export interface OpenStores {
  readonly apps: Pick<AppDirectory, 'find' | 'findById' | 'all'>
  readonly readUsages: ReadUsages
  readonly readDays: ReadDays
  readonly readAlerts: ReadAlerts
  readonly queue: Pick<EventQueue, 'refusalNow'>
  readonly bytes: Pick<StoredBytes, 'window'>
  readonly place: QueuePlace
  /** What a request to try is made of. */
  readonly example: () => Example
}

const NO_BODY = Buffer.alloc(0)
/** A search reads up to gigabytes of the queue. */
const MAX_SEARCHES = 1
/** Each has a thread of its own. */
const MAX_READINGS = 1
const MAX_EVENTS_READ = 200
/** Of a batch. */
const ASKED = ['id', 'app', 'key', 'since', 'before'] as const
/** An app and a key, or a user id, which has at most 256 characters. */
const MAX_SEARCH_CHARACTERS = 256
/** Of 100,000 apps it makes 200 calls to Redis, of their days 500; on a cluster, as many for each partition. */
const MAX_REPORTS = 1
const MAX_ALERT_READINGS = 4
/** Whose ids are listed for a thread in one turn of the event loop. */
const SLICE_APPS = 2000
const DEFAULT_APPS = 1000
/** Each has a thread of its own. */
const MAX_EXPLANATIONS = 1
/** Questions for one app. */
const MAX_WAITING = 20

/** So many of which are answered at a time. */
type InPlaces = Exclude<OfStores, 'example'>
/** What threads read for, which an app's developers have a budget of. */
const OF_BUDGET: ReadonlySet<OfStores> = new Set(['explain', 'batch', 'events'])

export class StoreAnswers {
  readonly #timers: Timers
  readonly #lastHours: (scope: Scope) => Promise<readonly LastHourPiece[]>
  readonly #onFault: (error: unknown) => void
  readonly #budget: ReadingBudget
  readonly #places: { readonly [Name in InPlaces]: Places }
  /** null: they are not open yet. */
  open: OpenStores | null = null

  /** `lastHours`: what all processes counted. */
  constructor(
    timers: Timers,
    lastHours: (scope: Scope) => Promise<readonly LastHourPiece[]>,
    onFault: (error: unknown) => void,
  ) {
    this.#timers = timers
    this.#lastHours = lastHours
    this.#onFault = onFault
    this.#budget = new ReadingBudget(timers)
    const places = (most: number): Places => new Places(timers, most, MAX_WAITING)
    const [searches, reports] = [places(MAX_SEARCHES), places(MAX_REPORTS)]
    this.#places = {
      explain: places(MAX_EXPLANATIONS),
      batch: searches,
      search: searches,
      events: places(MAX_READINGS),
      apps: reports,
      days: reports,
      alerts: places(MAX_ALERT_READINGS),
    }
  }

  async answer(name: OfStores, { query, body = NO_BODY, scope }: Omit<Question, 'name'>): Promise<Answer> {
    const stores = this.open
    if (stores === null) return problemOf('starting')
    if (name === 'example') return answerOf(stores.example())
    const asked = new URLSearchParams(query)
    const answers: { readonly [Name in InPlaces]: () => Promise<Answer> } = {
      explain: () => this.#explain(stores, body, asked.get('app_key') || null, scope),
      batch: () => this.#find(stores, asked, scope),
      search: () => this.#search(stores, asked),
      events: () => this.#newestEvents(stores, asked, scope),
      apps: () => this.#report(stores, asked, scope),
      days: () => this.#byDay(stores, asked, scope),
      alerts: () => this.#alerts(stores, asked, scope),
    }
    const refusal = (): Answer | null => (OF_BUDGET.has(name) ? this.#refusalOfBudget(scope) : null)
    try {
      // Those before it may use the budget up while it waits.
      const work = async (): Promise<Answer> => refusal() ?? (await answers[name]())
      const answer = refusal() ?? (await this.#places[name].within(scope, work))
      return answer === 'busy' ? problemOf('busy') : answer
    } catch (error) {
      const reason = unavailableReason(error)
      if (reason !== null) return problemOf('unavailable', reason)
      this.#onFault(error)
      return problemOf('internal_error')
    }
  }

  #refusalOfBudget(scope: Scope): Answer | null {
    const seconds = isOfOperators(scope) ? 0 : this.#budget.secondsLeft(scope.appId)
    if (seconds === 0) return null
    const error: PortalProblem = 'too_many_searches'
    const json = JSON.stringify({ error, message: TOO_MUCH_READ, retry_after_seconds: seconds })
    return { status: PORTAL_PROBLEMS[error][0], json }
  }

  #onRead(scope: Scope): (readMs: number) => void {
    return (readMs) => isOfOperators(scope) || this.#budget.add(scope.appId, readMs)
  }

  async #explain(
    { apps, readUsages, bytes, queue }: OpenStores,
    body: Buffer,
    appKey: string | null,
    scope: Scope,
  ): Promise<Answer> {
    const findApp: ExplainStores['findApp'] = async (key) => {
      const app = apps.find(key)
      // Whether another app has this key is nobody's to know.
      return scope === 'all' || typeof app === 'string' || app.appId === scope.appId ? app : 'unknown'
    }
    const usageOf = async (app: App): Promise<Usage> => {
      const usages = await readUsages([app])
      if (usages === 'away') throw new UnavailableError(COUNTERS_AWAY)
      return usages[0]
    }
    const queueRefusal: ExplainStores['queueRefusal'] = async (bodyBytes) => queue.refusalNow(bodyBytes)
    const bytesOf: ExplainStores['bytesOf'] = async (app) => bytes.window(app, true)
    const stores = { findApp, usageOf, bytesOf, queueRefusal }
    const nowMs = this.#timers.nowMs()
    const onRead = this.#onRead(scope)
    let verdict = await answerInThread('explain', [body, appKey, nowMs], this.#timers, onRead)
    if (scope !== 'all' && verdict !== null && namesNoApp(verdict)) {
      // A body for one app that names none is judged as that app's.
      const own = apps.findById(scope.appId)
      if (typeof own === 'object')
        verdict = await answerInThread('explain', [body, own.appKey, nowMs], this.#timers, onRead)
    }
    const explanation = await explain({ bodyBytes: body.length, verdict, nowMs, origin: null, stores })
    return answerOf(explainedJson(explanation, scope))
  }

  /** Of one app for itself; or of the nearest to a limit, or of one of them, for the operators. */
  async #report({ apps, readUsages }: OpenStores, asked: URLSearchParams, scope: Scope): Promise<Answer> {
    const app = scope === 'all' ? null : appIn(apps, scope.appId, scope)
    if (app !== null && 'status' in app) return app
    const top = countIn(asked, 'top', { most: MAX_REPORTED_APPS, standard: DEFAULT_APPS })
    if (typeof top === 'string') return problemOf('bad_request', top)
    const appId = app?.appId ?? (asked.get('app') || null)
    const [report, pieces] = await Promise.all([
      usageReport(app === null ? apps.all() : [app], readUsages, appId === null ? { top } : { appId }, this.#timers),
      this.#lastHours(appId === null ? 'all' : { appId }),
    ])
    if (report === 'away') return problemOf('unavailable', COUNTERS_AWAY)
    if (app !== null) return answerOf(usageForApp(report, seenOf(app.appId, pieces)))
    return { status: 200, json: await usageReportText(report, (id) => seenOf(id, pieces), this.#timers) }
  }

  async #byDay({ apps, readDays }: OpenStores, asked: URLSearchParams, scope: Scope): Promise<Answer> {
    const appId = appIdOf(asked, scope)
    const days = countIn(asked, 'days', { most: MAX_USAGE_DAYS, standard: MAX_USAGE_DAYS })
    if (typeof days === 'string') return problemOf('bad_request', days)
    const app = appId === null ? null : appIn(apps, appId, scope)
    if (app !== null && 'status' in app) return app
    const asksFor = app === null ? apps.all() : [app]
    const report = await usageByDay(asksFor, readDays, { days, isOfOne: app !== null }, this.#timers)
    return report === 'away' ? problemOf('unavailable', COUNTERS_AWAY) : answerOf(report)
  }

  async #alerts({ readAlerts }: OpenStores, asked: URLSearchParams, scope: Scope): Promise<Answer> {
    const limit = countIn(asked, 'limit', { most: MAX_ALERTS_SHOWN, standard: MAX_ALERTS_SHOWN })
    if (typeof limit === 'string') return problemOf('bad_request', limit)
    const question = { since: asked.get('since') || null, after: asked.get('after') || null, limit }
    const found = await alertsSince(readAlerts, appIdOf(asked, scope), question, this.#timers.nowMs())
    if (found === 'away') return problemOf('unavailable', 'the alerts cannot be read: NATS is away')
    if ('mistake' in found) return problemOf('bad_request', found.mistake)
    return answerOf(found)
  }

  async #find({ place }: OpenStores, asked: URLSearchParams, scope: Scope): Promise<Answer> {
    const [id, asksFor, key, since, before] = ASKED.map((name) => asked.get(name) || undefined)
    const owner = scope === 'all' ? undefined : scope.appId
    const app = owner === undefined ? asksFor : id === undefined ? owner : undefined
    const reading = readQuestion({ id, app, key, since, before }, this.#timers.nowMs())
    if (reading.kind === 'mistake') return problemOf('bad_request', `${reading.member}: ${reading.mistake}`)
    const question = owner === undefined ? reading.question : { ...reading.question, appId: owner }
    const withRecord = flagIn(asked, 'events')
    if (typeof withRecord === 'string') return problemOf('bad_request', withRecord)
    const shown = { withRecord, isForApp: owner !== undefined }
    const work = [place, question, shown] as const
    return { status: 200, json: await answerInThread('batch', [...work], this.#timers, this.#onRead(scope)) }
  }

  async #newestEvents({ place }: OpenStores, asked: URLSearchParams, scope: Scope): Promise<Answer> {
    const read = readEventFilter(asked)
    if (typeof read === 'string') return problemOf('bad_request', read)
    const filter = narrowed(read, scope)
    const limit = countIn(asked, 'limit', { most: MAX_EVENTS_READ, standard: MAX_EVENTS_READ })
    if (typeof limit === 'string') return problemOf('bad_request', limit)
    return {
      status: 200,
      json: await answerInThread('events', [place, filter, limit, scope !== 'all'], this.#timers, this.#onRead(scope)),
    }
  }

  async #search({ place, apps }: OpenStores, asked: URLSearchParams): Promise<Answer> {
    const text = asked.get('q')?.trim() ?? ''
    if (text === '' || text.length > MAX_SEARCH_CHARACTERS) {
      return problemOf('bad_request', `q: must have 1 to ${MAX_SEARCH_CHARACTERS} characters`)
    }
    // Any app's Idempotency-Key is a UUID.
    const some = isUuid(text) ? slices(apps.all(), SLICE_APPS, this.#timers) : []
    const ids: Uint8Array[] = []
    for await (const slice of some) ids.push(Buffer.from(slice.map(({ appId }) => appId).join('\n')))
    const json = await answerInThread('search', [place, text, ids], this.#timers)
    return { status: 200, json }
  }
}

const TOO_MUCH_READ = 'what is searched and explained for an app takes at most 20 seconds a minute'
const COUNTERS_AWAY = 'the counters of the limits cannot be read: Redis is away'

/** The body is an object without the member; one with a wrong member is refused for it, as a request is. */
function namesNoApp(verdict: Violations): boolean {
  if (verdict.code !== 'validation_failed' || verdict.appKey !== null) return false
  const [{ path, message }] = verdict.found
  return path === 'app_key' && message === 'required'
}

/** null: all. */
function appIdOf(asked: URLSearchParams, scope: Scope): string | null {
  return scope === 'all' ? asked.get('app') || null : scope.appId
}

/** Or why there is none. */
function appIn(apps: OpenStores['apps'], appId: string, scope: Scope): App | Answer {
  const app = apps.findById(appId)
  if (app === 'unavailable') return problemOf('unavailable', 'the app records cannot be read')
  if (app !== 'unknown') return app
  // The portal has no word for it: whoever asks there has a key of the app.
  return isOfOperators(scope) ? problemOf('no_such_app') : problemOf('not_found', PROBLEMS.no_such_app[1])
}

function explainedJson(explanation: Explanation, scope: Scope): object {
  const { outcome: code, message, body_bytes: bytes, violations: _, reason, ...others } = toJson(explanation)
  return {
    ...others,
    ...(scope === 'all' ? { reason } : toldReason({ code, reason })),
    code,
    message: message ?? `${explanation.events ?? 0} events would be stored`,
    body_bytes: bytes ?? MAX_BODY_BYTES + 1,
    errors: explanation.violations,
  }
}

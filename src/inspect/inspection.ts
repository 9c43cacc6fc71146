// What is asked of the service, as a whole. Every answer is for a scope, all apps or one, which holds here and wherever a
// question goes from here.

import type { Alerts } from '../contract/admin/alerts.ts'
import type { Now } from '../contract/admin/now.ts'
import type { RefusalFilter } from '../contract/admin/peers.ts'
import { problemOf } from '../contract/admin/problems.ts'
import type { Refusal } from '../contract/admin/refusals.ts'
import { MAX_REFUSALS_SHOWN, type OfStores, type Range } from '../contract/admin/words.ts'
import { isUuid, timeOfId } from '../contract/ids.ts'
import type { Timers } from '../lib/timers.ts'
import { readEventFilter } from './live/event-filter.ts'
import { LiveList, type Watcher } from './live/live-list.ts'
import { NowFeed } from './live/now-feed.ts'
import { mergeNow } from './now/now.ts'
import { flagIn, rangeIn, textsIn } from './query.ts'
import { type Answer, type Ask, answerOf, type Question } from './question.ts'
import { mergeRefusals, newestRefusals, readRefusalFilter, readRefusalQuestion } from './refusals/refusal-view.ts'
import { narrowed, pieceForApp, refusalForApp, refusalsForApp, type Scope, withoutNode } from './scope.ts'

export interface InspectionOptions {
  readonly ask: Ask
  readonly timers: Timers
  readonly onFault: (error: unknown) => void
}

export type QuestionName = OfStores | 'now' | 'refusals'
export type StreamName = 'now' | 'events' | 'refusals' | 'alerts'

/** What an app's own developers may ask. */
const OF_ONE_APP: ReadonlySet<QuestionName | StreamName> = new Set([
  'apps',
  'days',
  'alerts',
  'events',
  'refusals',
  'batch',
  'explain',
])
const MAX_APP_TEXT = 200
/** Everybody who looks at a page of one app asks for the state. */
const STATE_KEPT_MS = 2000

export class Inspection {
  readonly #options: InspectionOptions
  readonly #now: NowFeed
  readonly #events: LiveList<'events'>
  readonly #refusals: LiveList<'refusals'>
  readonly #alerts: LiveList<'alerts'>
  #state: { readonly atMs: number; readonly degradedSince: Promise<string | null> } | null = null
  #degradedSinceMs: number | null = null

  constructor(options: InspectionOptions) {
    const { timers, onFault } = options
    this.#options = options
    this.#now = new NowFeed({ read: (range) => this.#readNow(range), timers, onFault })
    this.#events = new LiveList('events', options)
    this.#refusals = new LiveList('refusals', options)
    this.#alerts = new LiveList('alerts', options)
  }

  async answer(question: Question & { readonly name: QuestionName }): Promise<Answer> {
    const { name, scope, query: text } = question
    checkMayAsk(scope, name)
    const query = new URLSearchParams(text)
    if (name === 'now') {
      const range = query.has('range') ? rangeIn(query) : '15m'
      if (range === null) return problemOf('bad_request', 'range: must be 15m, 1h or 24h')
      return answerOf(await this.#readNow(range))
    }
    if (name === 'refusals') return await this.#answerRefusals(scope, query)
    const id = (name === 'batch' ? query.get('id') : name === 'search' ? query.get('q') : null)?.trim() ?? ''
    const refusal = await this.#refusalWith(scope, id)
    if (refusal !== null) {
      const found = [{ kind: 'refusal', ...refusal }]
      const whole = { found, query: id, searched_back_to: null, complete: true, skipped: 0 }
      return answerOf(name === 'batch' ? { found: true, refusal } : whole)
    }
    return await this.#options.ask.one({ ...question, name })
  }

  /**
   * Begins to send what fits the query. `lastId`: of the last message that whoever asks has had of such a stream. Returns
   * what ends that; or a sentence where the query is wrong.
   */
  watch(
    scope: Scope,
    name: StreamName,
    query: URLSearchParams,
    lastId = '',
  ): ((watcher: Watcher) => () => void) | string {
    checkMayAsk(scope, name)
    if (name === 'now') return (watcher) => this.#now.add(watcher)
    if (name === 'events') {
      const filter = readEventFilter(query)
      if (typeof filter === 'string') return filter
      const how = scope === 'all' ? {} : { show: withoutNode }
      return (watcher) => this.#events.add(watcher, narrowed(filter, scope), how)
    }
    if (name === 'alerts') {
      const read = textsIn(query, ['app'], MAX_APP_TEXT)
      if (typeof read === 'string') return read
      const earlier = isUuid(lastId) ? { earlier: () => this.#alertsAfter(scope, read.app, lastId) } : {}
      return (watcher) => this.#alerts.add(watcher, narrowed(read, scope), earlier)
    }
    const asked = readRefusalFilter(query)
    if (typeof asked === 'string') return asked
    const isFromStart = flagIn(query, 'from_start')
    if (typeof isFromStart === 'string') return isFromStart
    const filter = narrowed(asked, scope)
    const show = scope === 'all' ? {} : { show: (json: string) => JSON.stringify(refusalForApp(JSON.parse(json))) }
    return (watcher) =>
      this.#refusals.add(
        watcher,
        filter,
        isFromStart ? { ...show, earlier: () => this.#earlierRefusals(scope, filter) } : show,
      )
  }

  /** Since when the service answers some requests 503, or does without a part; null: it does neither, as far as is known. */
  degradedSince(): Promise<string | null> {
    const atMs = this.#options.timers.monotonicMs()
    if (this.#state === null || atMs - this.#state.atMs > STATE_KEPT_MS) {
      this.#state = { atMs, degradedSince: this.#readDegradedSince() }
    }
    return this.#state.degradedSince
  }

  async #readDegradedSince(): Promise<string | null> {
    const nowMs = this.#options.timers.nowMs()
    let sinceMs: number | null = null
    try {
      const { pieces } = await this.#options.ask.all({ name: 'now', scope: 'all', query: '' })
      for (const { state, state_reason: reason, degraded_ms: ms } of pieces) {
        // One that starts waits for the part of which the reason is.
        const isDegraded = state === 'refusing' || state === 'degraded' || (state === 'starting' && reason !== null)
        if (isDegraded) sinceMs = Math.min(sinceMs ?? nowMs, ms ?? nowMs)
      }
      // No process answers at all.
      if (pieces.length === 0) sinceMs = nowMs
    } catch (error) {
      // A bug is no outage.
      this.#options.onFault(error)
      return null
    }
    this.#degradedSinceMs = sinceMs === null ? null : Math.min(sinceMs, this.#degradedSinceMs ?? sinceMs)
    return this.#degradedSinceMs === null ? null : new Date(this.#degradedSinceMs).toISOString()
  }

  async #readNow(range: Range | null): Promise<Now> {
    const query = range === null ? '' : `range=${range}`
    const { pieces, silent, problem } = await this.#options.ask.all({ name: 'now', scope: 'all', query })
    return mergeNow({ reports: pieces, silent, problem }, { nowMs: this.#options.timers.nowMs(), range })
  }

  async #answerRefusals(scope: Scope, query: URLSearchParams): Promise<Answer> {
    const asked = readRefusalQuestion(query)
    if (typeof asked === 'string') return problemOf('bad_request', asked)
    const { pieces } = await this.#options.ask.all({ name: 'refusals', scope, query: query.toString() })
    if (scope === 'all') return answerOf(mergeRefusals(pieces, asked.limit))
    return answerOf(refusalsForApp(mergeRefusals(pieces.map(pieceForApp), asked.limit)))
  }

  /** As JSON, oldest first; none where they cannot be read. */
  async #alertsAfter(scope: Scope, app: string | null, lastId: string): Promise<readonly string[]> {
    const query = new URLSearchParams({ after: lastId, app: app ?? '' }).toString()
    const { status, json } = await this.#options.ask.one({ name: 'alerts', scope, query })
    return status === 200 ? (JSON.parse(json) as Alerts).alerts.map((alert) => JSON.stringify(alert)) : []
  }

  /** As JSON, oldest first; none where they cannot be read. */
  async #earlierRefusals(scope: Scope, { app, code }: RefusalFilter): Promise<readonly string[]> {
    const { ask, onFault } = this.#options
    const asked = new URLSearchParams({ app: app ?? '', code: code ?? '', limit: `${MAX_REFUSALS_SHOWN}` })
    try {
      const { pieces } = await ask.all({ name: 'refusals', scope, query: asked.toString() })
      const oldestFirst = newestRefusals(pieces, MAX_REFUSALS_SHOWN).toReversed()
      return oldestFirst.map((refusal) => JSON.stringify(refusal))
    } catch (error) {
      onFault(error)
      return []
    }
  }

  /** null: none is known. A client has an id of version 7 from a 202, or from a refusal. */
  async #refusalWith(scope: Scope, id: string): Promise<Refusal | ReturnType<typeof refusalForApp> | null> {
    if (timeOfId(id) === null) return null
    const { pieces } = await this.#options.ask.all({ name: 'refusals', scope, query: `limit=1&request_id=${id}` })
    const refusal = pieces.flatMap(({ refusals }) => refusals).at(0) ?? null
    return refusal === null || scope === 'all' ? refusal : refusalForApp(refusal)
  }
}

function checkMayAsk(scope: Scope, name: QuestionName | StreamName): void {
  if (scope !== 'all' && !OF_ONE_APP.has(name)) throw new Error(`${name} is not for one app's developers`)
}

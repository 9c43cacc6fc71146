// The questions that one node answers for all: what would happen to a body, and where a batch is. A node answers them
// from its own stores; a process without stores passes them on.

import type { App, AppStore } from '../apps/app.ts'
import { MAX_BODY_BYTES } from '../bounds.ts'
import { errorMessage } from '../lib/errors.ts'
import type { Timers } from '../lib/timers.ts'
import type { Usage } from '../limits/limiter.ts'
import { MAX_REPORTED_APPS, type ReadUsages, usageReport, usageReportText } from '../limits/usage-report.ts'
import { type Finding, findingJson } from '../queue/find/finding.ts'
import { type Question, readQuestion } from '../queue/find/question.ts'
import { type Explanation, explain, limitsOf } from './explain.ts'
import { type LastHourPiece, lastHourOf } from './questions.ts'
import { judgeInThread } from './start-explain.ts'

export type InquiryName = 'explain' | 'batch' | 'apps'

export interface Inquiry {
  readonly name: InquiryName
  /** As in the address. For a batch, `id` stands in it too. */
  readonly query: string
  readonly body: Buffer
}

/** `status`: an HTTP status; `json`: the answer's body. */
export interface InquiryAnswer {
  readonly status: number
  readonly json: string
}

export interface Inquiries {
  answer(inquiry: Inquiry): Promise<InquiryAnswer>
}

export interface OwnStores {
  readonly apps: Pick<AppStore, 'find' | 'all'>
  readonly readUsages: ReadUsages
  readonly find: (question: Question, signal: AbortSignal) => Promise<Finding>
}

/** A search reads up to gigabytes of the queue. */
const MAX_SEARCHES = 2
const SEARCH_TIMEOUT_MS = 30_000
/** Of 100,000 apps it makes 200 calls to Redis. */
const MAX_REPORTS = 1
const DEFAULT_APPS = 1000
/** Each has a thread of its own. */
const MAX_EXPLANATIONS = 1

export class OwnInquiries implements Inquiries {
  readonly #timers: Timers
  readonly #lastHours: (app: string | null) => Promise<readonly LastHourPiece[]>
  readonly #searches = new Places(MAX_SEARCHES)
  readonly #explanations = new Places(MAX_EXPLANATIONS)
  readonly #reports = new Places(MAX_REPORTS)
  /** null: they are not open yet. */
  stores: OwnStores | null = null

  /** `lastHours`: what all processes counted; of one app, or of all. */
  constructor(timers: Timers, lastHours: (app: string | null) => Promise<readonly LastHourPiece[]>) {
    this.#timers = timers
    this.#lastHours = lastHours
  }

  async answer({ name, query, body }: Inquiry): Promise<InquiryAnswer> {
    const { stores } = this
    if (stores === null) return problemOf(503, 'starting', 'this node is starting: ask again in a moment')
    const asked = new URLSearchParams(query)
    switch (name) {
      case 'explain':
        return await this.#explanations.within(() => this.#explain(stores, body, asked.get('app_key')))
      case 'batch':
        return await this.#searches.within(() => this.#find(stores, asked))
      case 'apps':
        return await this.#reports.within(() => this.#report(stores, asked))
    }
  }

  async #explain({ apps, readUsages }: OwnStores, body: Buffer, appKey: string | null): Promise<InquiryAnswer> {
    const findApp = async (key: string): Promise<App | null> => {
      const found = apps.find(key)
      if (found === 'unavailable') throw new Error('the app records are not read yet')
      return found === 'unknown' ? null : found
    }
    const usageOf = async (app: App): Promise<Usage> => {
      const usages = await readUsages([app])
      if (usages === 'away') throw new Error(COUNTERS_AWAY)
      return usages[0]
    }
    const stores = { findApp, usageOf }
    const nowMs = this.#timers.nowMs()
    const verdict = await judgeInThread({ body, appKey, nowMs }, this.#timers)
    return { status: 200, json: JSON.stringify(explainedJson(await explain({ verdict, nowMs, stores }))) }
  }

  async #report({ apps, readUsages }: OwnStores, asked: URLSearchParams): Promise<InquiryAnswer> {
    const appId = asked.get('app') ?? ''
    const top = asked.get('top') ?? String(DEFAULT_APPS)
    if (!/^[1-9]\d{0,4}$/.test(top) || Number(top) > MAX_REPORTED_APPS) {
      return problemOf(400, 'bad_request', `top: must be a whole number from 1 to ${MAX_REPORTED_APPS}`)
    }
    const wanted = appId === '' ? { top: Number(top) } : { appId }
    const [report, pieces] = await Promise.all([
      usageReport(apps.all(), readUsages, wanted, this.#timers),
      this.#lastHours(appId === '' ? null : appId),
    ])
    if (report === 'away') return problemOf(503, 'unavailable', COUNTERS_AWAY)
    return { status: 200, json: await usageReportText(report, (id) => lastHourOf(id, pieces), this.#timers) }
  }

  async #find({ find }: OwnStores, asked: URLSearchParams): Promise<InquiryAnswer> {
    const value = (name: string): string | undefined => {
      const text = asked.get(name)
      return text === null || text === '' ? undefined : text
    }
    const reading = readQuestion(
      { id: value('id'), app: value('app'), key: value('key'), since: value('since') },
      this.#timers.nowMs(),
    )
    if (reading.kind === 'mistake') return problemOf(400, 'bad_request', reading.mistake)
    const finding = await find(reading.question, AbortSignal.timeout(SEARCH_TIMEOUT_MS))
    return { status: 200, json: findingJson(finding, reading.question, { withRecord: asked.get('events') === '1' }) }
  }
}

const COUNTERS_AWAY = 'the counters of the limits cannot be read: Redis is away'

/** At most so many pieces of work at a time; further ones are refused. */
class Places {
  readonly #most: number
  #taken = 0

  constructor(most: number) {
    this.#most = most
  }

  async within(work: () => Promise<InquiryAnswer>): Promise<InquiryAnswer> {
    if (this.#taken >= this.#most)
      return problemOf(503, 'busy', 'others ask the same of this node: try again in a moment')
    this.#taken += 1
    try {
      return await work()
    } catch (error) {
      return problemOf(503, 'unavailable', errorMessage(error))
    } finally {
      this.#taken -= 1
    }
  }
}

export function problemOf(status: number, error: string, message: string): InquiryAnswer {
  return { status, json: JSON.stringify({ error, message }) }
}

function explainedJson(explanation: Explanation): object {
  const { app, usage, bodyBytes } = explanation
  return {
    status: explanation.status,
    code: explanation.outcome,
    message: explanation.message ?? `${explanation.events ?? 0} events would be stored`,
    retry_after_seconds: explanation.retryAfterSeconds,
    body_bytes: bodyBytes ?? MAX_BODY_BYTES + 1,
    events: explanation.events,
    errors: explanation.violations.map(pathAndMessage),
    app: app === null ? null : { app_id: app.appId, name: app.name, plan: app.plan, subscription: app.subscription },
    limits: app === null || usage === null ? null : limitsOf(app, usage),
  }
}

/** A violation is `events[3].name: must be a string`. */
function pathAndMessage(violation: string): { path: string; message: string } {
  const at = violation.indexOf(': ')
  return { path: violation.slice(0, Math.max(0, at)), message: violation.slice(at < 0 ? 0 : at + 2) }
}

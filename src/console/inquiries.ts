// The questions that one node answers for all: what would happen to a body, and where a batch is. A node answers them
// from its own stores; a process without stores passes them on.

import type { App, AppStore } from '../apps/app.ts'
import { MAX_BODY_BYTES } from '../bounds.ts'
import { errorMessage } from '../lib/errors.ts'
import { isUuid } from '../lib/ids.ts'
import type { Timers } from '../lib/timers.ts'
import type { Usage } from '../limits/limiter.ts'
import { MAX_REPORTED_APPS, type ReadUsages, usageReport, usageReportText } from '../limits/usage-report.ts'
import type { QueuePlace } from '../queue/find/find-in-queue.ts'
import { readQuestion } from '../queue/find/question.ts'
import type { EventQueue } from '../queue/queue.ts'
import { readEventFilter } from './event-filter.ts'
import { type ExplainStores, type Explanation, explain, toJson } from './explain.ts'
import { countIn } from './query.ts'
import { type LastHourPiece, lastHourOf } from './questions.ts'
import { answerInThread } from './start-thread.ts'

export type InquiryName = 'explain' | 'batch' | 'apps' | 'events' | 'search' | 'example'

export interface Inquiry {
  readonly name: InquiryName
  /** As in the address. For a batch, `id` is in it too. */
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
  readonly queue: Pick<EventQueue, 'refusalNow'>
  readonly place: QueuePlace
  readonly example: () => Example
}

/** What a request to try is made of. */
export interface Example {
  readonly port: number
  readonly tls: boolean
  /** Of the demo app that a first start makes, whose key is no secret; null: there is none. */
  readonly app_key: string | null
}

/** A search reads up to gigabytes of the queue. */
const MAX_SEARCHES = 1
/** Each has a thread of its own. */
const MAX_READINGS = 1
const MAX_EVENTS_READ = 200
/** Of a batch. */
const ASKED = ['id', 'app', 'key', 'since', 'before'] as const
/** An app and a key, or a user id, which has at most 256 characters. */
const MAX_SEARCH_CHARACTERS = 256
/** Of 100,000 apps it makes 200 calls to Redis. */
const MAX_REPORTS = 1
const DEFAULT_APPS = 1000
/** Each has a thread of its own. */
const MAX_EXPLANATIONS = 1

export class OwnInquiries implements Inquiries {
  readonly #timers: Timers
  readonly #lastHours: (app: string | null) => Promise<readonly LastHourPiece[]>
  readonly #searches = new Places(MAX_SEARCHES)
  readonly #readings = new Places(MAX_READINGS)
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
      case 'events':
        return await this.#readings.within(() => this.#newestEvents(stores, asked))
      case 'search':
        return await this.#searches.within(() => this.#search(stores, asked))
      case 'example':
        return { status: 200, json: JSON.stringify(stores.example()) }
    }
  }

  async #explain({ apps, readUsages, queue }: OwnStores, body: Buffer, appKey: string | null): Promise<InquiryAnswer> {
    const findApp: ExplainStores['findApp'] = async (key) => {
      const found = apps.find(key)
      if (found === 'unavailable') return 'unread'
      return found === 'unknown' ? null : found
    }
    const usageOf = async (app: App): Promise<Usage> => {
      const usages = await readUsages([app])
      if (usages === 'away') throw new Error(COUNTERS_AWAY)
      return usages[0]
    }
    const queueRefusal: ExplainStores['queueRefusal'] = async (bodyBytes) => queue.refusalNow(bodyBytes)
    const stores = { findApp, usageOf, queueRefusal }
    const nowMs = this.#timers.nowMs()
    const verdict = await answerInThread('explain', [body, appKey, nowMs], this.#timers)
    const explanation = await explain({ bodyBytes: body.length, verdict, nowMs, stores })
    return { status: 200, json: JSON.stringify(explainedJson(explanation)) }
  }

  async #report({ apps, readUsages }: OwnStores, asked: URLSearchParams): Promise<InquiryAnswer> {
    const appId = asked.get('app') ?? ''
    const top = countIn(asked, 'top', { most: MAX_REPORTED_APPS, standard: DEFAULT_APPS })
    if (typeof top === 'string') return problemOf(400, 'bad_request', top)
    const wanted = appId === '' ? { top } : { appId }
    const [report, pieces] = await Promise.all([
      usageReport(apps.all(), readUsages, wanted, this.#timers),
      this.#lastHours(appId === '' ? null : appId),
    ])
    if (report === 'away') return problemOf(503, 'unavailable', COUNTERS_AWAY)
    return { status: 200, json: await usageReportText(report, (id) => lastHourOf(id, pieces), this.#timers) }
  }

  async #find({ place }: OwnStores, asked: URLSearchParams): Promise<InquiryAnswer> {
    const [id, app, key, since, before] = ASKED.map((name) => asked.get(name) || undefined)
    const reading = readQuestion({ id, app, key, since, before }, this.#timers.nowMs())
    if (reading.kind === 'mistake') return problemOf(400, 'bad_request', `${reading.member}: ${reading.mistake}`)
    const work = [place, reading.question, asked.get('events') === '1'] as const
    return { status: 200, json: await answerInThread('batch', [...work], this.#timers) }
  }

  async #newestEvents({ place }: OwnStores, asked: URLSearchParams): Promise<InquiryAnswer> {
    const filter = readEventFilter(asked)
    if (typeof filter === 'string') return problemOf(400, 'bad_request', filter)
    const limit = countIn(asked, 'limit', { most: MAX_EVENTS_READ, standard: MAX_EVENTS_READ })
    if (typeof limit === 'string') return problemOf(400, 'bad_request', limit)
    return { status: 200, json: await answerInThread('events', [place, filter, limit], this.#timers) }
  }

  async #search({ place, apps }: OwnStores, asked: URLSearchParams): Promise<InquiryAnswer> {
    const text = asked.get('q')?.trim() ?? ''
    if (text === '' || text.length > MAX_SEARCH_CHARACTERS) {
      return problemOf(400, 'bad_request', `q: must have 1 to ${MAX_SEARCH_CHARACTERS} characters`)
    }
    // Any app's Idempotency-Key is a UUID.
    const ids = isUuid(text) ? Array.from(apps.all(), ({ appId }) => appId) : []
    const json = await answerInThread('search', [place, text, ids], this.#timers)
    return { status: 200, json }
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
  const { outcome: code, message, body_bytes: bytes, violations: _, ...others } = toJson(explanation)
  return {
    ...others,
    code,
    message: message ?? `${explanation.events ?? 0} events would be stored`,
    body_bytes: bytes ?? MAX_BODY_BYTES + 1,
    errors: explanation.violations,
  }
}

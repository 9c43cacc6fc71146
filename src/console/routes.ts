// The paths of the console on the admin port: who may ask, which methods each has, and what answers.

import { MAX_BODY_BYTES } from '../bounds.ts'
import {
  type AdminRequest,
  type AdminRoutes,
  type Answer,
  answered,
  jsonAnswer,
  jsonTextAnswer,
  methodProblem,
  problem,
  type Reply,
} from '../http/admin-routes.ts'
import { timeOfId } from '../lib/ids.ts'
import type { Timers } from '../lib/timers.ts'
import { Access, type AccessOptions, type Refusal } from './access.ts'
import { CODES, REASONS } from './codes.ts'
import { readEventFilter } from './event-filter.ts'
import { EVENTS } from './event-tap.ts'
import type { Inquiries, Inquiry, InquiryName } from './inquiries.ts'
import { LiveList } from './live-list.ts'
import { REFUSALS } from './live-refusals.ts'
import { mergeNow } from './now.ts'
import type { Now, Range } from './now-answer.ts'
import { NowFeed } from './now-feed.ts'
import { Pages, VIEWS } from './pages.ts'
import { type Ask, findRefusal } from './questions.ts'
import type { ShownRefusal } from './refusal.ts'
import {
  MAX_REFUSALS_SHOWN,
  mergeRefusals,
  newestRefusals,
  type RefusalFilter,
  type RefusalQuestion,
  readRefusalFilter,
  readRefusalQuestion,
} from './refusal-view.ts'
import type { LiveSources } from './remote-watch.ts'
import { RANGES } from './totals.ts'
import { type Watcher, Watchers } from './watchers.ts'

const MAX_SESSION_BYTES = 4096
const BATCH_PATH = /^\/api\/batches\/([^/]{1,100})$/
const NO_BODY = Buffer.alloc(0)

const REFUSED: Readonly<Record<Exclude<Refusal, null>, Answer>> = {
  off: problem(
    403,
    'console_off',
    'console disabled: the admin port can be reached from other hosts and SLUICE_CONSOLE_TOKEN is not set',
  ),
  host: problem(
    421,
    'foreign_host',
    'the Host is neither a loopback name, nor SLUICE_ADMIN_HOST, nor that of SLUICE_CONSOLE_ORIGIN: set the last one to the address that you ask by',
  ),
  origin: problem(403, 'foreign_origin', 'pages of other origins may not ask'),
  token: problem(401, 'token_wanted', 'the token is missing or wrong: it is the value of SLUICE_CONSOLE_TOKEN', {
    'WWW-Authenticate': 'Bearer',
  }),
  'too many wrong tokens': problem(429, 'too_many_tries', 'too many wrong tokens in the last second: try again', {
    'Retry-After': '1',
  }),
}

export interface ConsoleOptions {
  readonly access: AccessOptions
  /** The folder of the built pages. */
  readonly pages: string
  readonly inquiries: Inquiries
  readonly ask: Ask
  /** What is shown live: of this process, of others, or of both. */
  readonly sources: readonly LiveSources[]
  readonly timers: Timers
  readonly onFault: (error: unknown) => void
}

type Handler = (request: AdminRequest, query: URLSearchParams) => Reply | Promise<Reply>
type Methods = Readonly<Record<string, Handler>>

export class Console implements AdminRoutes {
  readonly #access: Access
  readonly #pages: Pages
  readonly #watchers: Watchers
  readonly #options: ConsoleOptions
  readonly #paths: ReadonlyMap<string, Methods>

  constructor(options: ConsoleOptions) {
    const { sources, timers, onFault } = options
    this.#access = new Access(options.access)
    this.#pages = new Pages(options.pages)
    this.#watchers = new Watchers(timers)
    this.#options = options
    const now = new NowFeed({ read: (range) => this.#now(range), timers, onFault })
    const [eventSources, refusalSources] = [sources.map(({ events }) => events), sources.map((one) => one.refusals)]
    const events = new LiveList(EVENTS, eventSources, timers)
    const refusals = new LiveList(REFUSALS, refusalSources, timers)
    const paths: Readonly<Record<string, Methods>> = {
      '/api/session': this.#session(),
      '/api/now': { GET: wanted(readRange, async ({ range }) => jsonAnswer(await this.#now(range))) },
      '/api/now/stream': this.#stream(readNothing, (watcher) => now.add(watcher)),
      '/api/events': this.#inquiry('events'),
      '/api/events/stream': this.#stream(readEventFilter, (watcher, filter) => events.add(watcher, filter)),
      '/api/refusals': { GET: wanted(readRefusalQuestion, (question) => this.#refusals(question)) },
      '/api/refusals/stream': this.#stream(readRefusalWatch, (watcher, { filter, isFromStart }) =>
        refusals.add(watcher, filter, isFromStart ? this.#earlierRefusals(filter) : undefined),
      ),
      '/api/apps': this.#inquiry('apps'),
      // The id stands in the path only.
      '/api/batches': { GET: (_, query) => this.#batch(query, null) },
      '/api/search': { GET: (_, query) => this.#search(query) },
      '/api/example': this.#inquiry('example'),
      '/api/explain': {
        POST: withBody(MAX_BODY_BYTES, (body, { query }) => this.#ask({ name: 'explain', query, body })),
      },
      '/api/codes': { GET: () => jsonAnswer({ codes: CODES, reasons: REASONS }) },
    }
    this.#paths = new Map(Object.entries(paths))
  }

  answer(request: AdminRequest): Reply | Promise<Reply> | null {
    const { path, headers } = request
    const screened = this.#access.screen(headers)
    if (screened === 'host') return REFUSED.host
    const page = this.#pages.answer(request)
    if (page !== null) return pageAnswer(request, page, screened)
    if (!path.startsWith('/api/')) return null
    const refusal = path === '/api/session' ? screened : this.#access.check(headers)
    if (refusal !== null) return REFUSED[refusal]
    const methods = this.#paths.get(path) ?? this.#batchMethods(path)
    if (methods === undefined) return null
    const method = request.method === 'HEAD' ? 'GET' : request.method
    const found = Object.hasOwn(methods, method) ? methods[method] : undefined
    if (found === undefined) return methodProblem(Object.keys(methods))
    return found(request, new URLSearchParams(request.query))
  }

  #session(): Methods {
    const access = this.#access
    return {
      GET: ({ headers }) => jsonAnswer({ token_wanted: access.isTokenWanted, open: access.isShown(headers) }),
      POST: withBody(MAX_SESSION_BYTES, (body) => {
        const token = tokenIn(body)
        if (token === null) return problem(400, 'bad_request', 'the body must be {"token": "…"}')
        if (!access.isTokenWanted) return noContent({})
        const opened = access.open(token)
        return typeof opened === 'string' ? REFUSED[opened] : noContent({ 'Set-Cookie': opened.cookie })
      }),
      DELETE: ({ headers }) => noContent({ 'Set-Cookie': access.signOut(headers) }),
    }
  }

  async #now(range: Range | null): Promise<Now> {
    const { pieces, silent, problem: why } = await this.#options.ask('now', { range })
    return mergeNow({ reports: pieces, silent, problem: why }, { nowMs: this.#options.timers.nowMs(), range })
  }

  async #refusals(question: RefusalQuestion): Promise<Answer> {
    const { pieces } = await this.#options.ask('refusals', question)
    return jsonAnswer(mergeRefusals(pieces, question.limit))
  }

  /** As JSON, oldest first; none where they cannot be read. */
  async #earlierRefusals(filter: RefusalFilter): Promise<readonly string[]> {
    const { ask, onFault } = this.#options
    try {
      const { pieces } = await ask('refusals', { ...filter, limit: MAX_REFUSALS_SHOWN })
      const oldestFirst = newestRefusals(pieces, MAX_REFUSALS_SHOWN).toReversed()
      return oldestFirst.map((refusal) => JSON.stringify(refusal))
    } catch (error) {
      onFault(error)
      return []
    }
  }

  #inquiry(name: InquiryName): Methods {
    return { GET: ({ query }) => this.#ask({ name, query }) }
  }

  async #ask({ name, query, body = NO_BODY }: Omit<Inquiry, 'body'> & Partial<Inquiry>): Promise<Answer> {
    return jsonTextAnswer(await this.#options.inquiries.answer({ name, query, body }))
  }

  /** `/api/batches/ID`. */
  #batchMethods(path: string): Methods | undefined {
    const id = BATCH_PATH.exec(path)?.[1]
    return id === undefined ? undefined : { GET: (_, query) => this.#batch(query, id) }
  }

  async #batch(query: URLSearchParams, id: string | null): Promise<Answer> {
    const refusal = id === null ? null : await this.#refusalWith(id)
    if (refusal !== null) return jsonAnswer({ found: true, refusal })
    if (id === null) query.delete('id')
    else query.set('id', id)
    return await this.#ask({ name: 'batch', query: query.toString() })
  }

  /** null: none is known. A client has an id of version 7 from a 202, or from a refusal. */
  async #refusalWith(id: string): Promise<ShownRefusal | null> {
    return timeOfId(id) === null ? null : await findRefusal(this.#options.ask, id.toLowerCase())
  }

  async #search(query: URLSearchParams): Promise<Answer> {
    const text = query.get('q')?.trim() ?? ''
    const refusal = await this.#refusalWith(text)
    if (refusal === null) return await this.#ask({ name: 'search', query: query.toString() })
    const found = [{ kind: 'refusal', ...refusal }]
    return jsonAnswer({ found, query: text, searched_back_to: null, complete: true, skipped: 0 })
  }

  #stream<Filter>(read: Read<Filter>, begin: (watcher: Watcher, filter: Filter) => () => void): Methods {
    return {
      GET: wanted(read, (filter, { method }) => {
        // An answer without a body has no stream.
        if (method === 'HEAD') return problem(405, 'method_not_allowed', 'only GET', { Allow: 'GET' })
        return (sink) => this.#watchers.open(sink, (watcher) => begin(watcher, filter))
      }),
    }
  }

  stop(): void {
    this.#watchers.stop()
  }
}

function pageAnswer({ method, path }: AdminRequest, page: Answer, refusal: Refusal): Answer | null {
  // The plain list of what this port has stays where there is no console.
  if (refusal === 'off' && path === VIEWS[0]) return null
  if (refusal !== null) return REFUSED[refusal]
  return method === 'GET' || method === 'HEAD' ? page : methodProblem(['GET'])
}

/** A sentence where the query is wrong. */
type Read<Wanted> = (query: URLSearchParams) => Wanted | string

function wanted<Wanted>(
  read: Read<Wanted>,
  answer: (wanted: Wanted, request: AdminRequest) => Reply | Promise<Reply>,
): Handler {
  return (request, query) => {
    const found = read(query)
    return typeof found === 'string' ? problem(400, 'bad_request', found) : answer(found, request)
  }
}

function readNothing(): null {
  return null
}

function readRange(query: URLSearchParams): { readonly range: Range } | string {
  const range = query.get('range') ?? '15m'
  return Object.hasOwn(RANGES, range) ? { range: range as Range } : 'range: must be 15m, 1h or 24h'
}

function readRefusalWatch(query: URLSearchParams): { filter: RefusalFilter; isFromStart: boolean } | string {
  const filter = readRefusalFilter(query)
  return typeof filter === 'string' ? filter : { filter, isFromStart: query.get('from_start') === '1' }
}

function withBody(
  maxBytes: number,
  answer: (body: Buffer, request: AdminRequest) => Answer | Promise<Answer>,
): Handler {
  return async (request) => {
    const body = await request.body(maxBytes)
    return Buffer.isBuffer(body) ? answer(body, request) : body
  }
}

function noContent(headers: Answer['headers']): Answer {
  return answered(204, 'text/plain', '', headers)
}

function tokenIn(body: Buffer): string | null {
  try {
    const value = JSON.parse(body.toString()) as { token?: unknown } | null
    return typeof value?.token === 'string' ? value.token : null
  } catch {
    return null
  }
}

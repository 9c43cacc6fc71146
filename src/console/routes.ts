// The paths of the console on the admin port: who may ask, which methods each has, and what answers.

import { MAX_BODY_BYTES } from '../bounds.ts'
import {
  type AdminHead,
  type AdminRoutes,
  type Answer,
  jsonAnswer,
  jsonTextAnswer,
  problem,
  type Route,
} from '../http/admin-routes.ts'
import type { Timers } from '../lib/timers.ts'
import { Access, type AccessOptions, type Refusal } from './access.ts'
import { CODES } from './codes.ts'
import type { EventFeed } from './event-feed.ts'
import { readEventFilter } from './event-filter.ts'
import type { Inquiries, Inquiry, InquiryAnswer } from './inquiries.ts'
import { mergeNow } from './now.ts'
import type { Now } from './now-answer.ts'
import { NowFeed } from './now-feed.ts'
import { Pages, VIEWS } from './pages.ts'
import type { Ask } from './questions.ts'
import type { ShownRefusal } from './refusal.ts'
import type { RefusalFeed } from './refusal-feed.ts'
import {
  MAX_REFUSALS_SHOWN,
  mergeRefusals,
  newestRefusals,
  type RefusalFilter,
  readRefusalFilter,
  readRefusalQuestion,
} from './refusal-view.ts'
import { type Watcher, Watchers } from './watchers.ts'

const MAX_SESSION_BYTES = 4096
const BATCH_PATH = /^\/api\/batches\/([^/]{1,100})$/
const NO_BODY = Buffer.alloc(0)

export interface ConsoleOptions {
  readonly access: AccessOptions
  /** The folder of the built pages. */
  readonly pages: string
  readonly events: EventFeed
  readonly inquiries: Inquiries
  readonly refusals: RefusalFeed
  readonly ask: Ask
  readonly timers: Timers
  readonly onFault: (error: unknown) => void
}

type Methods = Readonly<Record<string, (head: AdminHead, query: URLSearchParams) => Route>>

export class Console implements AdminRoutes {
  readonly #access: Access
  readonly #pages: Pages
  readonly #watchers: Watchers
  readonly #options: ConsoleOptions
  readonly #paths: ReadonlyMap<string, Methods>

  constructor(options: ConsoleOptions) {
    this.#access = new Access(options.access)
    this.#pages = new Pages(options.pages)
    this.#watchers = new Watchers(options.timers)
    this.#options = options
    const now = async ({ withHistory }: { withHistory: boolean }): Promise<Now> => {
      const { pieces, silent, problem: why } = await options.ask('now', { withHistory })
      return mergeNow({ reports: pieces, silent, problem: why }, { nowMs: options.timers.nowMs(), withHistory })
    }
    const feed = new NowFeed({ read: now, timers: options.timers, onFault: options.onFault })
    this.#paths = new Map<string, Methods>([
      ['/api/session', this.#session()],
      ['/api/now', get(async () => jsonAnswer(await now({ withHistory: true })))],
      ['/api/now/stream', this.#stream((watcher) => feed.add(watcher))],
      ['/api/events/stream', this.#filtered(readEventFilter, (watcher, filter) => options.events.add(watcher, filter))],
      ['/api/refusals', get((query) => this.#refusals(query))],
      ['/api/refusals/stream', this.#refusalStream()],
      ['/api/apps', this.#inquiry((query) => ({ name: 'apps', query: query.toString() }))],
      ['/api/batches', this.#inquiry((query) => ({ name: 'batch', query: withoutId(query) }))],
      ['/api/explain', this.#explain()],
      ['/api/codes', get(() => jsonAnswer({ codes: CODES }))],
    ])
  }

  open(head: AdminHead): Route | null {
    const page = this.#pages.answer(head)
    if (page !== null) return this.#page(head, page)
    if (!head.path.startsWith('/api/')) return null
    const isSession = head.path === '/api/session'
    const refusal = isSession ? this.#access.screen(head) : this.#access.check(head)
    if (refusal !== null) return answer(() => refusalAnswer(refusal))
    const methods = this.#paths.get(head.path) ?? this.#batch(head.path)
    if (methods === undefined) {
      return answer(() => problem('404 Not Found', 'not_found', 'the API of the console has no such path'))
    }
    const method = head.method === 'HEAD' ? 'GET' : head.method
    const found = Object.hasOwn(methods, method) ? methods[method] : undefined
    if (found === undefined) return answer(() => methodProblem(Object.keys(methods)))
    return found(head, new URLSearchParams(head.query))
  }

  #page(head: AdminHead, page: Answer): Route | null {
    const refusal = this.#access.screen(head)
    // The plain list of what this port has stays where there is no console.
    if (refusal === 'off' && head.path === VIEWS[0]) return null
    if (refusal !== null) return answer(() => refusalAnswer(refusal))
    if (head.method !== 'GET' && head.method !== 'HEAD') return answer(() => methodProblem(['GET']))
    return answer(() => page)
  }

  #session(): Methods {
    const access = this.#access
    return {
      GET: (head) => answer(() => jsonAnswer({ token_wanted: access.isTokenWanted, open: access.isShown(head) })),
      POST: () => ({
        kind: 'body',
        maxBytes: MAX_SESSION_BYTES,
        answer: (body) => {
          const token = tokenIn(body)
          if (token === null) return problem('400 Bad Request', 'bad_request', 'the body must be {"token": "…"}')
          const opened = access.isTokenWanted ? access.open(token) : { cookie: '' }
          if (opened === 'wrong') return refusalAnswer('token')
          if (opened === 'not looked at') return refusalAnswer('too many wrong tokens')
          return noContent(opened.cookie)
        },
      }),
      DELETE: () => answer(() => noContent(access.closing)),
    }
  }

  async #refusals(query: URLSearchParams): Promise<Answer> {
    const question = readRefusalQuestion(query)
    if (typeof question === 'string') return problem('400 Bad Request', 'bad_request', question)
    const { pieces } = await this.#options.ask('refusals', question)
    return jsonAnswer(mergeRefusals(pieces, question.limit))
  }

  #refusalStream(): Methods {
    const { refusals, onFault } = this.#options
    const read = (query: URLSearchParams): { filter: RefusalFilter; fromStart: boolean } | string => {
      const filter = readRefusalFilter(query)
      return typeof filter === 'string' ? filter : { filter, fromStart: query.get('from_start') === '1' }
    }
    return this.#filtered(read, (watcher, { filter, fromStart }) => {
      const earlier = fromStart ? this.#earlierRefusals(filter) : Promise.resolve([])
      return refusals.add(
        watcher,
        filter,
        earlier.catch((error: unknown) => {
          onFault(error)
          return []
        }),
      )
    })
  }

  /** Oldest first. */
  async #earlierRefusals(filter: RefusalFilter): Promise<readonly ShownRefusal[]> {
    const { pieces } = await this.#options.ask('refusals', { ...filter, limit: MAX_REFUSALS_SHOWN })
    return newestRefusals(pieces, MAX_REFUSALS_SHOWN).toReversed()
  }

  #inquiry(read: (query: URLSearchParams) => Omit<Inquiry, 'body'>): Methods {
    return get(async (query) => inquiryAnswer(await this.#options.inquiries.answer({ ...read(query), body: NO_BODY })))
  }

  /** `/api/batches/ID`. */
  #batch(path: string): Methods | undefined {
    const id = BATCH_PATH.exec(path)?.[1]
    if (id === undefined) return undefined
    return this.#inquiry((query) => {
      query.set('id', id)
      return { name: 'batch', query: query.toString() }
    })
  }

  #explain(): Methods {
    return {
      POST: (head) => ({
        kind: 'body',
        maxBytes: MAX_BODY_BYTES,
        answer: async (body) =>
          inquiryAnswer(await this.#options.inquiries.answer({ name: 'explain', query: head.query, body })),
      }),
    }
  }

  #stream(begin: (watcher: Watcher) => () => void): Methods {
    return this.#filtered(() => null, begin)
  }

  /** `read` gives a sentence where the query is wrong. */
  #filtered<Filter>(
    read: (query: URLSearchParams) => Filter | string,
    begin: (watcher: Watcher, filter: Filter) => () => void,
  ): Methods {
    return {
      GET: (head, query) => {
        const filter = read(query)
        if (typeof filter === 'string') return answer(() => problem('400 Bad Request', 'bad_request', filter))
        // An answer without a body has no stream.
        if (head.method === 'HEAD') return answer(() => methodProblem([]))
        return { kind: 'stream', open: (sink) => this.#watchers.open(sink, (watcher) => begin(watcher, filter)) }
      },
    }
  }

  stop(): void {
    this.#watchers.stop()
  }
}

function get(read: (query: URLSearchParams) => Answer | Promise<Answer>): Methods {
  return { GET: (_head, query) => answer(() => read(query)) }
}

function answer(make: () => Answer | Promise<Answer>): Route {
  return { kind: 'answer', answer: make }
}

function noContent(headers: string): Answer {
  return {
    status: '204 No Content',
    contentType: 'text/plain',
    headers: `\r\nCache-Control: no-store${headers}`,
    body: '',
  }
}

/** The id stands in the path only. */
function withoutId(query: URLSearchParams): string {
  query.delete('id')
  return query.toString()
}

const STATUS_LINES: Readonly<Record<number, string>> = {
  200: '200 OK',
  400: '400 Bad Request',
  503: '503 Service Unavailable',
}

function inquiryAnswer({ status, json }: InquiryAnswer): Answer {
  return jsonTextAnswer(STATUS_LINES[status] ?? '500 Internal Server Error', json)
}

function tokenIn(body: Buffer): string | null {
  try {
    const value = JSON.parse(body.toString()) as { token?: unknown } | null
    return typeof value?.token === 'string' ? value.token : null
  } catch {
    return null
  }
}

function methodProblem(methods: readonly string[]): Answer {
  const allowed =
    methods.length === 0
      ? 'GET'
      : methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ')
  return problem('405 Method Not Allowed', 'method_not_allowed', `only ${allowed}`, `\r\nAllow: ${allowed}`)
}

function refusalAnswer(refusal: Exclude<Refusal, null>): Answer {
  switch (refusal) {
    case 'off':
      return problem(
        '403 Forbidden',
        'console_off',
        'the console is off, since others reach this address: set SLUICE_CONSOLE_TOKEN to open it',
      )
    case 'host':
      return problem(
        '403 Forbidden',
        'foreign_host',
        'the Host is neither a loopback name nor SLUICE_ADMIN_HOST: ask by one of these, or with Authorization: Bearer and the token',
      )
    case 'origin':
      return problem('403 Forbidden', 'foreign_origin', 'pages of other origins may not ask')
    case 'token':
      return problem(
        '401 Unauthorized',
        'token_wanted',
        'the token is missing or wrong: it is the value of SLUICE_CONSOLE_TOKEN',
        '\r\nWWW-Authenticate: Bearer',
      )
    case 'too many wrong tokens':
      return problem(
        '429 Too Many Requests',
        'too_many_tries',
        'too many wrong tokens in the last second: try again',
        '\r\nRetry-After: 1',
      )
  }
}

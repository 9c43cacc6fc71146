// The paths of the console on the admin port: who may ask, which methods each has, and what answers.

import { MAX_BODY_BYTES } from '../contract/bounds.ts'
import { CODES, REASONS } from '../contract/codes.ts'
import {
  type AdminRequest,
  type AdminRoutes,
  type Answer,
  jsonAnswer,
  jsonTextAnswer,
  methodProblem,
  problem,
  type Reply,
} from '../http/admin-routes.ts'
import type { Inspection, QuestionName, StreamName } from '../inspect/inspection.ts'
import { type AddressRanges, clientAddress } from '../lib/address-ranges.ts'
import type { Timers } from '../lib/timers.ts'
import { Access, type AccessOptions, type Denial } from './access.ts'
import type { AppsApi } from './apps-api.ts'
import { type Pages, VIEWS } from './pages.ts'
import { batchIdIn, MAX_SESSION_BYTES, NO_TOKEN, noContent, tokenIn } from './session-body.ts'
import { Watchers } from './watchers.ts'

/** Open streams of this process. */
const MAX_WATCHERS = 50

export interface ConsoleOptions {
  readonly access: AccessOptions
  readonly pages: Pages
  readonly inspection: Inspection
  readonly appsApi: AppsApi
  readonly trustedProxies: AddressRanges
  readonly timers: Timers
}

type Handler = (request: AdminRequest, query: URLSearchParams) => Reply | Promise<Reply>
type Methods = Readonly<Record<string, Handler>>

export class Console implements AdminRoutes {
  readonly #access: Access
  readonly #pages: Pages
  readonly #watchers: Watchers
  readonly #inspection: Inspection
  readonly #appsApi: AppsApi
  readonly #trustedProxies: AddressRanges
  readonly #paths: ReadonlyMap<string, Methods>

  get isOn(): boolean {
    return this.#access.isOn
  }

  /** Reads the file of the token, where there is one. */
  reread(): void {
    this.#access.reread()
  }

  constructor({ access, pages, inspection, appsApi, trustedProxies, timers }: ConsoleOptions) {
    this.#appsApi = appsApi
    this.#trustedProxies = trustedProxies
    this.#access = new Access(access)
    this.#pages = pages
    this.#watchers = new Watchers(timers, MAX_WATCHERS)
    this.#inspection = inspection
    const paths: Readonly<Record<string, Methods>> = {
      '/api/session': this.#session(),
      '/api/now': this.#question('now'),
      '/api/now/stream': this.#stream('now'),
      '/api/events': this.#question('events'),
      '/api/events/stream': this.#stream('events'),
      '/api/refusals': this.#question('refusals'),
      '/api/refusals/stream': this.#stream('refusals'),
      '/api/apps': this.#question('apps'),
      '/api/alerts': this.#question('alerts'),
      '/api/alerts/stream': this.#stream('alerts'),
      // The id stands in the path only.
      '/api/batches': { GET: (_, query) => this.#batch(query, null) },
      '/api/search': this.#question('search'),
      '/api/example': this.#question('example'),
      '/api/explain': {
        POST: withBody(MAX_BODY_BYTES, (body, { query }) => this.#ask('explain', query, body)),
      },
      '/api/codes': { GET: () => jsonAnswer({ codes: CODES, reasons: REASONS }) },
    }
    this.#paths = new Map(Object.entries(paths))
  }

  answer(request: AdminRequest): Reply | Promise<Reply> | null {
    const { path, headers } = request
    const forwarded = headers['x-forwarded-for']?.toString()
    const address = clientAddress(request.address, forwarded, this.#trustedProxies)
    const screened = this.#access.screen(headers)
    if (screened === 'foreign_host') return problem(screened)
    const page = this.#pages.answer(request)
    if (page !== null) return pageAnswer(request, page, screened)
    if (!path.startsWith('/api/')) return null
    const refusal = path === '/api/session' ? screened : this.#access.check(headers, address)
    if (refusal !== null) return problem(refusal)
    const methods = this.#paths.get(path) ?? this.#batchMethods(path) ?? this.#appMethods(path)
    if (methods === undefined) return null
    const method = request.method === 'HEAD' ? 'GET' : request.method
    const found = Object.hasOwn(methods, method) ? methods[method] : undefined
    if (found === undefined) return methodProblem(Object.keys(methods))
    return found({ ...request, address }, new URLSearchParams(request.query))
  }

  #session(): Methods {
    const access = this.#access
    return {
      GET: ({ headers, address }) =>
        jsonAnswer({ token_wanted: access.isTokenWanted, open: access.isShown(headers, address) }),
      POST: withBody(MAX_SESSION_BYTES, (body, { address }) => {
        const token = tokenIn(body)
        if (token === null) return problem('bad_request', NO_TOKEN)
        if (!access.isTokenWanted) return noContent({})
        const opened = access.open(token, address)
        return typeof opened === 'string' ? problem(opened) : noContent({ 'Set-Cookie': opened.cookie })
      }),
      DELETE: ({ headers }) => noContent({ 'Set-Cookie': access.signOut(headers) }),
    }
  }

  #question(name: QuestionName): Methods {
    return { GET: ({ query }) => this.#ask(name, query) }
  }

  async #ask(name: QuestionName, query: string, body?: Buffer): Promise<Answer> {
    return jsonTextAnswer(
      await this.#inspection.answer({ name, scope: 'all', query, ...(body === undefined ? {} : { body }) }),
    )
  }

  /** `/api/apps/ID` and what is below it. */
  #appMethods(path: string): Methods | undefined {
    const methods = this.#appsApi.methods(path)
    if (methods === undefined) return undefined
    const guarded = Object.entries(methods).map(([method, answer]): [string, Handler] => [
      method,
      (request) => {
        const { headers, address } = request
        const mayWrite = this.#access.mayWrite(headers)
        if (method === 'GET') return answer(request, { mayWrite, by: '' })
        const writer = this.#access.writer(headers)
        if (writer === 'foreign_origin' || writer === 'read_only') return problem(writer)
        return answer(request, { mayWrite, by: `${writer} from ${address}` })
      },
    ])
    return Object.fromEntries(guarded)
  }

  /** `/api/batches/ID`. */
  #batchMethods(path: string): Methods | undefined {
    const id = batchIdIn(path)
    return id === undefined ? undefined : { GET: (_, query) => this.#batch(query, id) }
  }

  #batch(query: URLSearchParams, id: string | null): Promise<Answer> {
    if (id === null) query.delete('id')
    else query.set('id', id)
    return this.#ask('batch', query.toString())
  }

  #stream(name: StreamName): Methods {
    return {
      GET: ({ method, headers }, query) => {
        const begin = this.#inspection.watch('all', name, query, headers['last-event-id']?.toString())
        if (typeof begin === 'string') return problem('bad_request', begin)
        // An answer without a body has no stream.
        if (method === 'HEAD') return problem('method_not_allowed')
        // One that was signed out, or whose token is no longer in force, is shown nothing more.
        return (sink) => this.#watchers.open(sink, begin, () => this.#access.isStillShown(headers))
      },
    }
  }

  stop(): void {
    this.#watchers.stop()
  }
}

function pageAnswer({ method, path }: AdminRequest, page: Answer, refusal: Denial): Answer | null {
  // The plain list of what this port has stays where there is no console.
  if (refusal === 'console_off' && path === VIEWS[0]) return null
  if (refusal !== null) return problem(refusal)
  return method === 'GET' || method === 'HEAD' ? page : methodProblem(['GET'])
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

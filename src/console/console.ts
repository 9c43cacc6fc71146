// The console on the admin port: who may ask, and what it has beside the questions that the portal has too.

import type { Example } from '../contract/admin/apps.ts'
import { CODES, REASONS } from '../contract/codes.ts'
import {
  type AdminRequest,
  type AdminRoutes,
  type Answer,
  jsonAnswer,
  jsonTextAnswer,
  problem,
  type Reply,
} from '../http/admin-routes.ts'
import type { Inspection } from '../inspect/inspection.ts'
import { type AddressRanges, clientAddress } from '../lib/address-ranges.ts'
import type { Timers } from '../lib/timers.ts'
import type { Caller } from './app-edits.ts'
import type { AppsApi } from './apps-api.ts'
import { ConsoleAccess, type ConsoleAccessOptions, denialOf } from './console-access.ts'
import { type Pages, VIEWS } from './pages.ts'
import { handlerOf, type Methods, noContent, routesOf, SESSION_PATH, tokenIn } from './routes.ts'
import { Watchers } from './watchers.ts'

/** Open streams of this process. */
const MAX_WATCHERS = 50

export interface ConsoleOptions {
  readonly access: ConsoleAccessOptions
  readonly pages: Pages
  readonly inspection: Inspection
  readonly appsApi: AppsApi
  readonly trustedProxies: AddressRanges
  readonly timers: Timers
}

export class Console implements AdminRoutes {
  readonly #options: ConsoleOptions
  readonly #access: ConsoleAccess
  readonly #watchers: Watchers
  readonly #methods: (path: string) => Methods<null> | undefined

  constructor(options: ConsoleOptions) {
    const { appsApi, inspection, timers } = options
    this.#options = options
    const access = new ConsoleAccess(options.access)
    this.#access = access
    this.#watchers = new Watchers(timers, MAX_WATCHERS, (error) =>
      error === 'draining' ? problem(error) : problem(error, `this node has its ${MAX_WATCHERS} watchers already`),
    )
    const shared = routesOf<null>({
      isPortal: false,
      inspection,
      watchers: this.#watchers,
      answerOf: jsonTextAnswer,
      body: (request, mostBytes) => request.body(mostBytes),
      searchRefusal: () => null,
      takeStream: () => () => {},
      // One that was signed out, or whose token is no longer in force, is shown nothing more.
      isStillOpen: ({ request: { headers } }) => access.isStillShown(headers),
    })
    const own = new Map<string, Methods<null>>([
      [SESSION_PATH, this.#session()],
      ['/api/example', { GET: ({ request }) => this.#example(request) }],
      ['/api/codes', { GET: () => jsonAnswer({ codes: CODES, reasons: REASONS }) }],
    ])
    this.#methods = (path) =>
      own.get(path) ?? shared(path) ?? appsApi.methods(path, (...asked) => this.#callerOf(...asked))
  }

  get isOn(): boolean {
    return this.#access.isOn
  }

  /** Reads the file of the token, where there is one. */
  reread(): void {
    this.#access.reread()
  }

  answer(request: AdminRequest): Reply | Promise<Reply> | null {
    const { path, headers } = request
    const { pages, trustedProxies } = this.#options
    const address = clientAddress(request.address, headers['x-forwarded-for']?.toString(), trustedProxies)
    const screened = this.#access.screen(headers)
    if (screened === 'foreign_host') return problem(screened)
    const page = pages.answer(request)
    // The plain list of what this port has stays where there is no console.
    if (page !== null && screened === 'console_off' && path === VIEWS[0]) return null
    if (page !== null) return screened === null ? page : problem(screened)
    if (!path.startsWith('/api/')) return null
    const refusal = path === SESSION_PATH ? screened : this.#access.check(headers, address)
    if (refusal !== null) return problem(refusal)
    const methods = this.#methods(path)
    if (methods === undefined) return null
    const handler = handlerOf(request, methods)
    if (typeof handler !== 'function') return handler
    const query = new URLSearchParams(request.query)
    return handler({ request: { ...request, address }, query, scope: 'all', who: null })
  }

  #session(): Methods<null> {
    const access = this.#access
    return {
      GET: ({ request: { headers, address } }) =>
        jsonAnswer({ token_wanted: access.isTokenWanted, open: typeof access.read(headers, address) === 'object' }),
      POST: async ({ request }) => {
        const token = await tokenIn(request)
        if (typeof token !== 'string') return token
        if (!access.isTokenWanted) return noContent()
        const opened = access.open(token, request.address)
        return typeof opened === 'string' ? problem(denialOf(opened)) : noContent({ 'Set-Cookie': opened.cookie })
      },
      DELETE: ({ request: { headers } }) => noContent({ 'Set-Cookie': access.signOut(headers) }),
    }
  }

  /** A key is masked to whoever may only read, and a masked one is of no use here. */
  async #example({ headers }: AdminRequest): Promise<Answer> {
    const told = await this.#options.inspection.answer({ name: 'example', scope: 'all', query: '' })
    const isShown = !this.#access.isTokenWanted || this.#access.mayWrite(headers)
    if (isShown || told.status !== 200) return jsonTextAnswer(told)
    return jsonAnswer({ ...(JSON.parse(told.json) as Example), app_key: null })
  }

  /** For apps. */
  #callerOf({ headers, address }: AdminRequest, isReading: boolean): Caller | Answer {
    const mayWrite = this.#access.mayWrite(headers)
    if (isReading) return { mayWrite, by: '' }
    const writer = this.#access.writer(headers)
    if (writer === 'foreign_origin' || writer === 'read_only') return problem(writer)
    return { mayWrite, by: `${writer} from ${address}` }
  }

  stop(): void {
    this.#watchers.stop()
  }
}

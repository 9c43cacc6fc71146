// The portal: what an app's own developers see of it, on a listener and with a table of paths of its own. Nothing here
// names an app: whose figures are shown is decided by the key.

import type { UsageByDay } from '../contract/admin/apps.ts'
import type { PortalSession } from '../contract/admin/portal.ts'
import type { PortalProblem } from '../contract/admin/problems.ts'
import { MAX_BODY_BYTES } from '../contract/bounds.ts'
import {
  type AdminRequest,
  type Answer,
  answered,
  jsonAnswer,
  jsonTextAnswer,
  methodProblem,
  portalProblem,
  type Reply,
} from '../http/admin-routes.ts'
import type { Inspection, QuestionName, StreamName } from '../inspect/inspection.ts'
import type { Scope } from '../inspect/scope.ts'
import { usageByDayCsv } from '../inspect/usage-days.ts'
import { type AddressRanges, clientAddress } from '../lib/address-ranges.ts'
import type { Timers } from '../lib/timers.ts'
import { type Pages, PORTAL_VIEWS } from './pages.ts'
import { type NoReader, PortalAccess, type PortalAccessOptions, type Reader } from './portal-access.ts'
import { MAX_PORTAL_STREAMS, PortalBounds } from './portal-bounds.ts'
import { batchIdIn, MAX_SESSION_BYTES, NO_TOKEN, noContent, tokenIn } from './session-body.ts'
import { Watchers } from './watchers.ts'

/** Beyond the budget of reading. */
interface InquiryRefusal {
  readonly message: string
  readonly retry_after_seconds: number
}

const SESSION_PATH = '/api/session'

/** One that was revoked or has ended gets the same answer. */
const KEY_UNKNOWN = 'this read key is not known, or not yet: a new one holds within a second or so'

interface Asked {
  readonly request: AdminRequest
  readonly query: URLSearchParams
  readonly reader: Reader
  readonly scope: Scope
}

type Handler = (asked: Asked) => Reply | Promise<Reply>
type Methods = Readonly<Record<string, Handler>>

export interface PortalOptions extends Omit<PortalAccessOptions, 'nowMs'> {
  readonly pages: Pages
  readonly inspection: Inspection
  readonly trustedProxies: AddressRanges
  /** A key was used. */
  readonly onUse: (reader: Reader) => void
  readonly timers: Timers
  readonly onFault: (error: unknown) => void
}

export class Portal {
  readonly #options: PortalOptions
  readonly #access: PortalAccess
  readonly #bounds: PortalBounds
  readonly #watchers: Watchers
  readonly #paths: ReadonlyMap<string, Methods>

  constructor(options: PortalOptions) {
    const { timers } = options
    this.#options = options
    this.#access = new PortalAccess({ ...options, nowMs: () => timers.nowMs() })
    this.#bounds = new PortalBounds(() => timers.monotonicMs())
    this.#watchers = new Watchers(timers, MAX_PORTAL_STREAMS)
    const paths: Readonly<Record<string, Methods>> = {
      [SESSION_PATH]: { GET: (asked) => this.#session(asked), DELETE: ({ request }) => this.#signOut(request) },
      '/api/usage': { GET: (asked) => this.#usage(asked) },
      '/api/alerts': this.#question('alerts', ['since', 'after', 'limit']),
      '/api/alerts/stream': this.#stream('alerts', []),
      '/api/events': this.#question('events', ['type', 'name', 'user', 'limit']),
      '/api/events/stream': this.#stream('events', ['type', 'name', 'user']),
      '/api/refusals': this.#question('refusals', ['code', 'limit', 'request_id']),
      '/api/refusals/stream': this.#stream('refusals', ['code', 'from_start']),
      '/api/batches': { GET: (asked) => this.#batch(asked, null) },
      '/api/explain': { POST: (asked) => this.#explain(asked) },
    }
    this.#paths = new Map(Object.entries(paths))
  }

  /** Never rejects, and no error says anything of the service. */
  async answer(request: AdminRequest): Promise<Reply> {
    try {
      return await this.#answer(request)
    } catch (error) {
      this.#options.onFault(error)
      return portalProblem('internal_error')
    }
  }

  async #answer(request: AdminRequest): Promise<Reply> {
    const { path, headers, method } = request
    if (!this.#access.isOwnHost(headers)) return portalProblem('foreign_host')
    const page = this.#options.pages.answer(request, PORTAL_VIEWS)
    if (page !== null) {
      if (this.#access.isForeign(headers) && path.startsWith('/assets/')) return portalProblem('foreign_origin')
      return method === 'GET' || method === 'HEAD' ? page : methodProblem(['GET'])
    }
    const methods = this.#paths.get(path) ?? this.#batchMethods(path)
    if (methods === undefined) return portalProblem('not_found')
    if (path === SESSION_PATH && method === 'POST') return await this.#signIn(request)
    const { trustedProxies } = this.#options
    const address = clientAddress(request.address, headers['x-forwarded-for']?.toString(), trustedProxies)
    const reader = this.#access.read(headers, address)
    if (typeof reader === 'string') return this.#refusal(reader)
    if (this.#access.isForeign(headers)) return portalProblem('foreign_origin')
    const known = method === 'HEAD' ? 'GET' : method
    const handler = Object.hasOwn(methods, known) ? methods[known] : undefined
    if (handler === undefined) {
      const names = Object.keys(methods)
      return methodProblem(path === SESSION_PATH ? [...names, 'POST'] : names)
    }
    const seconds = this.#bounds.request(reader.key.hash)
    if (seconds > 0) return beyond('too_many_requests', seconds)
    this.#options.onUse(reader)
    const query = new URLSearchParams(request.query)
    return await handler({ request, query, reader, scope: { appId: reader.app.appId } })
  }

  async #refusal(why: NoReader): Promise<Answer> {
    if (why === 'no key') return portalProblem('key_wanted')
    if (why === 'unknown key') return portalProblem('key_wanted', KEY_UNKNOWN)
    return why === 'away' ? await this.#unavailable() : portalProblem('too_many_tries')
  }

  /** All that is said of an outage. */
  async #unavailable(): Promise<Answer> {
    const since = await this.#options.inspection.degradedSince()
    const what = since === null ? 'this cannot be answered now' : `degraded since ${since}`
    return portalProblem('unavailable', `${what}: try again in a moment`, { 'Retry-After': '2' })
  }

  async #signIn(request: AdminRequest): Promise<Answer> {
    if (this.#access.isForeign(request.headers)) return portalProblem('foreign_origin')
    const body = await request.body(MAX_SESSION_BYTES)
    if (!Buffer.isBuffer(body)) return body
    const key = tokenIn(body)
    if (key === null) return portalProblem('bad_request', NO_TOKEN)
    const forwarded = request.headers['x-forwarded-for']?.toString()
    const opened = this.#access.open(key, clientAddress(request.address, forwarded, this.#options.trustedProxies))
    if (typeof opened === 'string') return await this.#refusal(opened)
    const seconds = this.#bounds.request(opened.hash)
    if (seconds > 0) return beyond('too_many_requests', seconds)
    return noContent({ 'Set-Cookie': opened.cookie })
  }

  #signOut({ headers }: AdminRequest): Answer {
    return noContent({ 'Set-Cookie': this.#access.signOut(headers) })
  }

  async #session({ reader: { app, key } }: Asked): Promise<Answer> {
    const session: PortalSession = {
      app: { app_id: app.appId, name: app.name, plan: app.plan, subscription: app.subscription },
      key: { name: key.name, expires_at: key.endsAtMs === null ? null : new Date(key.endsAtMs).toISOString() },
      degraded_since: await this.#options.inspection.degradedSince(),
    }
    return jsonAnswer(session)
  }

  async #usage({ scope, query, request }: Asked): Promise<Answer> {
    const { inspection } = this.#options
    const isCsv = wantsCsv(request)
    if (isCsv || query.has('days')) {
      const days = await inspection.answer({ name: 'days', scope, query: only(query, ['days']) })
      return days.status === 200 ? daysAnswer(days.json, isCsv) : await this.#answerOf(days)
    }
    const [{ status, json }, degraded_since] = await Promise.all([
      inspection.answer({ name: 'apps', scope, query: '' }),
      inspection.degradedSince(),
    ])
    if (status !== 200) return await this.#answerOf({ status, json })
    return jsonAnswer({ ...JSON.parse(json), degraded_since })
  }

  /** `members`: of the query. Others are not looked at. */
  #question(name: QuestionName, members: readonly string[]): Methods {
    return {
      GET: async ({ scope, query }) =>
        await this.#answerOf(await this.#options.inspection.answer({ name, scope, query: only(query, members) })),
    }
  }

  #batchMethods(path: string): Methods | undefined {
    const id = batchIdIn(path)
    return id === undefined ? undefined : { GET: (asked) => this.#batch(asked, id) }
  }

  async #batch({ scope, query, reader }: Asked, id: string | null): Promise<Answer> {
    const seconds = this.#bounds.search(reader.key.hash)
    if (seconds > 0) return beyond('too_many_searches', seconds)
    const members = only(query, id === null ? ['key', 'since', 'before', 'events'] : ['since', 'before', 'events'])
    const asked = id === null ? members : `${members}&id=${encodeURIComponent(id)}`
    return await this.#answerOf(await this.#options.inspection.answer({ name: 'batch', scope, query: asked }))
  }

  async #explain({ scope, request, reader }: Asked): Promise<Answer> {
    const body = await request.body(MAX_BODY_BYTES, reader.key.hash)
    if (!Buffer.isBuffer(body)) return body.status === 413 ? body : portalProblem('busy')
    return await this.#answerOf(await this.#options.inspection.answer({ name: 'explain', scope, query: '', body }))
  }

  #stream(name: StreamName, members: readonly string[]): Methods {
    return {
      GET: ({ request, query, scope, reader }) => {
        const lastId = request.headers['last-event-id']?.toString()
        const begin = this.#options.inspection.watch(scope, name, new URLSearchParams(only(query, members)), lastId)
        if (typeof begin === 'string') return portalProblem('bad_request', begin)
        if (request.method === 'HEAD') return portalProblem('method_not_allowed')
        const end = this.#bounds.stream(reader.key.hash)
        if (typeof end === 'number') return beyond('too_many_streams', end)
        return (sink) => {
          const opened = this.#watchers.open(sink, begin, () => this.#isStillOpen(request, reader))
          if (typeof opened === 'function')
            return () => {
              end()
              opened()
            }
          end()
          return portalProblem('busy')
        }
      },
    }
  }

  /** A key that was revoked, or has ended, ends its streams too; and so does a session that was signed out. */
  #isStillOpen({ headers }: AdminRequest, { app, key }: Reader): boolean {
    return this.#access.isValid(key.hash, app.appId) && !this.#access.isSignedOut(headers)
  }

  /** What went wrong inside is not said. */
  async #answerOf({ status, json }: { status: number; json: string }): Promise<Answer> {
    if (status === 429) {
      const { message, retry_after_seconds: seconds } = JSON.parse(json) as InquiryRefusal
      return beyond('too_many_searches', seconds, message)
    }
    if (status < 500) return jsonTextAnswer({ status, json })
    if (status === 500) return portalProblem('internal_error')
    return (JSON.parse(json) as { error: string }).error === 'busy' ? portalProblem('busy') : await this.#unavailable()
  }

  /** Ends every open stream, and refuses new ones. */
  stop(): void {
    this.#watchers.stop()
  }
}

/** By day, as a script of the operators gets it too. */
export function daysAnswer(json: string, isCsv: boolean): Answer {
  if (!isCsv) return jsonTextAnswer({ status: 200, json })
  return answered(200, 'text/csv; charset=utf-8', usageByDayCsv(JSON.parse(json) as UsageByDay), {
    'X-Content-Type-Options': 'nosniff',
  })
}

export function wantsCsv({ headers }: AdminRequest): boolean {
  return headers.accept?.includes('text/csv') ?? false
}

/** Seconds: until it may ask again. */
function beyond(error: Extract<PortalProblem, `too_many_${string}`>, seconds: number, message?: string): Answer {
  return portalProblem(error, message, { 'Retry-After': String(seconds) })
}

function only(query: URLSearchParams, members: readonly string[]): string {
  const kept = members.flatMap((name) => {
    const text = query.get(name)
    return text === null ? [] : [[name, text] as [string, string]]
  })
  return new URLSearchParams(kept).toString()
}

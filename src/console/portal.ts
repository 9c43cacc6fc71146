// The portal: what an app's own developers see of it, on a listener and with a table of paths of its own. Nothing here
// names an app: whose figures are shown is decided by the key.

import type { UsageByDay } from '../contract/admin/apps.ts'
import type { PortalSession } from '../contract/admin/portal.ts'
import type { PortalProblem } from '../contract/admin/problems.ts'
import {
  type AdminRequest,
  type Answer,
  answered,
  jsonAnswer,
  jsonTextAnswer,
  portalProblem,
  type Reply,
} from '../http/admin-routes.ts'
import type { Inspection } from '../inspect/inspection.ts'
import type { Answer as Told } from '../inspect/question.ts'
import type { Scope } from '../inspect/scope.ts'
import { usageByDayCsv } from '../inspect/usage-report.ts'
import { type AddressRanges, clientAddress } from '../lib/address-ranges.ts'
import type { Timers } from '../lib/timers.ts'
import { Access, type AccessOptions, type Denied } from './access.ts'
import { type Pages, PORTAL_VIEWS } from './pages.ts'
import { MAX_PORTAL_STREAMS, PortalBounds } from './portal-bounds.ts'
import { type Reader, ReadKeys } from './readers.ts'
import { type Asked, handlerOf, type Methods, noContent, routesOf, SESSION_PATH, tokenIn } from './routes.ts'
import { Watchers } from './watchers.ts'

/** One that was revoked or has ended gets the same answer. */
const KEY_UNKNOWN = 'this read key is not known, or not yet: a new one holds within a second or so'

/** Of a request: each session may cost a signature of the slow kind. */
const MOST_SESSIONS = 2

export interface PortalOptions extends Pick<AccessOptions, 'ended'> {
  /** null: none; then the portal is on a loopback address. */
  readonly origin: string | null
  /** null: they are not open yet. */
  readonly apps: ConstructorParameters<typeof ReadKeys>[0]
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
  readonly #keys: ReadKeys
  readonly #access: Access<Reader>
  readonly #bounds: PortalBounds
  readonly #watchers: Watchers
  readonly #methods: (path: string) => Methods<Reader> | undefined

  constructor(options: PortalOptions) {
    const { timers, origin, ended, apps, inspection } = options
    const nowMs = (): number => timers.nowMs()
    this.#options = options
    this.#keys = new ReadKeys(apps, nowMs)
    const cookie = { cookie: 'sluice_portal', readsBothNames: false, mostSessions: MOST_SESSIONS }
    const hosts = origin === null ? [null] : []
    this.#access = new Access({ ...cookie, origin, hosts, ended, nowMs }, this.#keys)
    this.#bounds = new PortalBounds(() => timers.monotonicMs())
    this.#watchers = new Watchers(timers, MAX_PORTAL_STREAMS, () => portalProblem('busy'))
    const shared = routesOf<Reader>({
      isPortal: true,
      inspection,
      watchers: this.#watchers,
      answerOf: (told) => this.#answerOf(told),
      body: async (request, mostBytes, { key }) => {
        const body = await request.body(mostBytes, key.hash)
        return Buffer.isBuffer(body) || body.status === 413 ? body : portalProblem('busy')
      },
      searchRefusal: ({ key }) => {
        const seconds = this.#bounds.search(key.hash)
        return seconds > 0 ? beyond('too_many_searches', seconds) : null
      },
      takeStream: ({ key }) => {
        const end = this.#bounds.stream(key.hash)
        return typeof end === 'number' ? beyond('too_many_streams', end) : end
      },
      isStillOpen: (asked) => this.#isStillOpen(asked),
    })
    const signOut = ({ request: { headers } }: Asked<Reader>): Answer =>
      noContent({ 'Set-Cookie': this.#access.signOut(headers) })
    const own = new Map<string, Methods<Reader>>([
      [SESSION_PATH, { GET: (asked) => this.#session(asked), DELETE: signOut }],
      ['/api/usage', { GET: (asked) => this.#usage(asked) }],
    ])
    this.#methods = (path) => own.get(path) ?? shared(path)
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
    if (page !== null)
      return this.#access.isForeign(headers) && path.startsWith('/assets/') ? portalProblem('foreign_origin') : page
    const methods = this.#methods(path)
    if (methods === undefined) return portalProblem('not_found')
    const address = clientAddress(request.address, headers['x-forwarded-for']?.toString(), this.#options.trustedProxies)
    if (path === SESSION_PATH && method === 'POST') return await this.#signIn(request, address)
    const reader = this.#access.read(headers, address)
    if (typeof reader === 'string') return this.#refusal(reader)
    if (this.#access.isForeign(headers)) return portalProblem('foreign_origin')
    const handler = handlerOf(request, methods, path === SESSION_PATH ? ['POST'] : [])
    if (typeof handler !== 'function') return handler
    const seconds = this.#bounds.request(reader.key.hash)
    if (seconds > 0) return beyond('too_many_requests', seconds)
    this.#options.onUse(reader)
    const query = new URLSearchParams(request.query)
    return await handler({ request, query, who: reader, scope: { appId: reader.app.appId } })
  }

  async #refusal(why: Denied): Promise<Answer> {
    if (why === 'none') return portalProblem('key_wanted')
    if (why === 'unknown') return portalProblem('key_wanted', KEY_UNKNOWN)
    return why === 'away' ? await this.#unavailable() : portalProblem(why)
  }

  /** All that is said of an outage. */
  async #unavailable(): Promise<Answer> {
    const since = await this.#options.inspection.degradedSince()
    const what = since === null ? 'this cannot be answered now' : `degraded since ${since}`
    return portalProblem('unavailable', `${what}: try again in a moment`, { 'Retry-After': '2' })
  }

  async #signIn(request: AdminRequest, address: string): Promise<Answer> {
    if (this.#access.isForeign(request.headers)) return portalProblem('foreign_origin')
    const key = await tokenIn(request)
    if (typeof key !== 'string') return key
    const opened = this.#access.open(key, address)
    if (typeof opened === 'string') return await this.#refusal(opened)
    const seconds = this.#bounds.request(opened.who.key.hash)
    if (seconds > 0) return beyond('too_many_requests', seconds)
    return noContent({ 'Set-Cookie': opened.cookie })
  }

  async #session({ who: { app, key } }: Asked<Reader>): Promise<Answer> {
    const session: PortalSession = {
      app: { app_id: app.appId, name: app.name, plan: app.plan, subscription: app.subscription },
      key: { name: key.name, expires_at: key.endsAtMs === null ? null : new Date(key.endsAtMs).toISOString() },
      degraded_since: await this.#options.inspection.degradedSince(),
    }
    return jsonAnswer(session)
  }

  async #usage({ scope, request }: Asked<Reader>): Promise<Answer> {
    const { inspection } = this.#options
    const byDay = await daysAnswer(inspection, scope, request, (told) => this.#answerOf(told))
    if (byDay !== null) return byDay
    const [{ status, json }, degraded_since] = await Promise.all([
      inspection.answer({ name: 'apps', scope, query: '' }),
      inspection.degradedSince(),
    ])
    if (status !== 200) return await this.#answerOf({ status, json })
    return jsonAnswer({ ...JSON.parse(json), degraded_since })
  }

  /** A key that was revoked, or has ended, ends its streams too; and so does a session that was signed out. */
  #isStillOpen({ request: { headers }, who: { app, key } }: Asked<Reader>): boolean {
    const found = this.#keys.byHash(key.hash)
    const isOfApp = typeof found === 'object' ? found.app.appId === app.appId : found === 'away'
    return isOfApp && this.#access.isStillShown(headers)
  }

  /** What went wrong inside is not said. */
  async #answerOf({ status, json }: Told): Promise<Answer> {
    if (status === 429) {
      // Beyond the budget of reading.
      const refusal = JSON.parse(json) as { readonly message: string; readonly retry_after_seconds: number }
      return beyond('too_many_searches', refusal.retry_after_seconds, refusal.message)
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

/** Usage by day, where that is asked for; null: it is not. A script of the operators gets it too. */
export async function daysAnswer(
  inspection: Inspection,
  scope: Scope,
  { query, headers }: AdminRequest,
  answerOf: (told: Told) => Answer | Promise<Answer>,
): Promise<Answer | null> {
  const days = new URLSearchParams(query).get('days')
  const isCsv = headers.accept?.includes('text/csv') ?? false
  if (days === null && !isCsv) return null
  const asked = days === null ? '' : `days=${encodeURIComponent(days)}`
  const told = await inspection.answer({ name: 'days', scope, query: asked })
  if (told.status !== 200 || !isCsv) return await answerOf(told)
  return answered(200, 'text/csv; charset=utf-8', usageByDayCsv(JSON.parse(told.json) as UsageByDay), {
    'X-Content-Type-Options': 'nosniff',
  })
}

/** Seconds: until it may ask again. */
function beyond(error: Extract<PortalProblem, `too_many_${string}`>, seconds: number, message?: string): Answer {
  return portalProblem(error, message, { 'Retry-After': String(seconds) })
}

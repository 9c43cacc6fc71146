// The admin port: metrics for Prometheus, probes for the platform, and the console. No page waits for the queue or for
// Redis, and the port is not meant for the open network.

import { ADMIN_MAX_CONNECTIONS } from '../contract/bounds.ts'
import { type AskedHealth, describePart, type Part, viewOf } from '../contract/health.ts'
import { errorMessage } from '../lib/errors.ts'
import type { Log } from '../observe/log.ts'
import type { Metrics } from '../observe/metrics.ts'
import {
  type AdminRequest,
  type AdminRoutes,
  type Answer,
  answered,
  methodProblem,
  problem,
  type Reply,
} from './admin-routes.ts'
import { startPages } from './pages.ts'
import { NO_SUCH_ADMIN_PAGE } from './port.ts'

export interface AdminOptions {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  readonly metrics: Pick<Metrics, 'scrape' | 'contentType'>
  readonly health: AskedHealth
  /** The console. It decides about all paths but those of metrics and probes. */
  readonly routes: AdminRoutes
  readonly log: Pick<Log, 'error'>
}

export type AdminServer = Awaited<ReturnType<typeof startAdmin>>

type Page = (request: AdminRequest) => Answer | Promise<Answer>

const TEXT = 'text/plain; charset=utf-8'
const JSON_TYPE = 'application/json'
/** What GET / answers where there is no console, for whoever meets the port without its documentation. */
const PAGE_LIST = [
  { path: '/metrics', about: 'metrics for Prometheus' },
  { path: '/livez', about: '200 while the process runs' },
  { path: '/readyz', about: '200 where requests should be sent; /readyz?verbose names the state of each part' },
]

export function startAdmin(options: AdminOptions) {
  const { host, port, log } = options
  const pages = openPages(options)
  return startPages({
    host,
    port,
    settings: 'SLUICE_ADMIN_HOST and SLUICE_ADMIN_PORT',
    mostConnections: ADMIN_MAX_CONNECTIONS,
    answer: (request) => replyTo(request, pages, options),
    onFault: (error) =>
      log.error({ err: error }, 'bug in the admin port: a page could not be sent; events are not affected'),
  })
}

async function replyTo(
  request: AdminRequest,
  pages: ReadonlyMap<string, Page>,
  { routes, log }: AdminOptions,
): Promise<Reply> {
  try {
    const page = pages.get(request.path)
    if (page === undefined) return (await routes.answer(request)) ?? ownPage(request)
    return isRead(request) ? await page(request) : methodProblem(['GET'])
  } catch (error) {
    log.error({ err: error }, 'bug in the admin port: a page is answered 500; events are not affected')
    return problem('internal_error', errorMessage(error))
  }
}

/** The same whatever the Host, since probes and Prometheus use the addresses of pods. */
function openPages({ metrics, health }: AdminOptions): ReadonlyMap<string, Page> {
  // Scrapes that overlap share one page, which takes some milliseconds to make.
  let scraping: Promise<string> | null = null
  const scrape = (): Promise<string> => {
    scraping ??= metrics.scrape().finally(() => {
      scraping = null
    })
    return scraping
  }
  return new Map<string, Page>([
    ['/metrics', async () => answered(200, metrics.contentType, await scrape())],
    ['/livez', () => answered(200, TEXT, 'ok\n')],
    ['/readyz', (request) => readiness(health, request)],
  ])
}

async function readiness(health: AskedHealth, request: AdminRequest): Promise<Answer> {
  const ready = await health.ready()
  const status = ready ? 200 : 503
  const verbose = new URLSearchParams(request.query).has('verbose')
  const parts = verbose ? await health.parts() : []
  if (accepts(request, JSON_TYPE)) {
    const shown = parts.map((part) => [nameOf(part), viewOf(part)])
    const body = verbose ? { ready, parts: Object.fromEntries(shown) } : { ready }
    return answered(status, JSON_TYPE, `${JSON.stringify(body)}\n`)
  }
  const lines = [ready ? 'ok' : 'not ready', ...parts.map((part) => `${nameOf(part)}: ${lineOf(part)}`)]
  return answered(status, TEXT, `${lines.join('\n')}\n`)
}

function nameOf({ part, worker }: Part): string {
  return worker === undefined ? part : `worker process ${worker} ${part}`
}

function lineOf(part: Part): string {
  return part.state === 'ok' ? `ok, ${describePart(part)}` : describePart(part)
}

/** What the console leaves: the list of pages where it is off, and paths that are not there. */
function ownPage(request: AdminRequest): Answer {
  if (request.path === '/') return isRead(request) ? pageList(request) : methodProblem(['GET'])
  if (!accepts(request, 'text/html')) return problem('not_found', NO_SUCH_ADMIN_PAGE)
  return answered(404, 'text/html; charset=utf-8', MISSING_PAGE, {
    'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
    'X-Content-Type-Options': 'nosniff',
  })
}

function pageList(request: AdminRequest): Answer {
  if (accepts(request, JSON_TYPE)) return answered(200, JSON_TYPE, `${JSON.stringify({ pages: PAGE_LIST })}\n`)
  const lines = PAGE_LIST.map(({ path, about }) => `${path.padEnd(10)}${about}\n`)
  return answered(200, TEXT, `The admin port of sluice:\n\n${lines.join('')}`)
}

const MISSING_PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>No such page · sluice</title>
<h1>There is no such page</h1>
<p>This is the admin port of sluice. <a href="/">Open the console</a>, or one of these:</p>
<ul>
${PAGE_LIST.map(({ path, about }) => `<li><a href="${path}">${path}</a>: ${about}</li>`).join('\n')}
</ul>
</html>
`

function isRead({ method }: AdminRequest): boolean {
  return method === 'GET' || method === 'HEAD'
}

function accepts({ headers }: AdminRequest, type: string): boolean {
  return headers.accept?.includes(type) ?? false
}

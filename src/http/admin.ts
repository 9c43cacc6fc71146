// The admin port: metrics for Prometheus and probes for the platform. No page waits for the queue or for Redis, and the
// port is not meant for the open network.

import uWS from 'uWebSockets.js'
import { ADMIN_MAX_CONNECTIONS } from '../bounds.ts'
import { errorMessage } from '../lib/errors.ts'
import type { Metrics } from '../observe/metrics.ts'
import { AdminExchange, type BodyBudget } from './admin-exchange.ts'
import { type AdminHead, type AdminRoutes, type Answer, answered, problem } from './admin-routes.ts'
import { listen } from './listen.ts'
import { Turn } from './turn.ts'

/** A supervisor has to ask its front ends, so its answers are promises. */
export interface Health {
  /** True from the first successful start until the drain. */
  ready(): boolean | Promise<boolean>
  /** The state of each part, such as `queue: connected`. */
  parts(): Parts | Promise<Parts>
}

export type Parts = Readonly<Record<string, string>>

export interface AdminOptions {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  readonly metrics: Pick<Metrics, 'scrape' | 'contentType'>
  readonly health: Health
  /** The console. */
  readonly routes?: AdminRoutes | null
  /** A page could not be sent, which is a bug. */
  readonly onFault: (error: unknown) => void
}

export interface AdminServer {
  readonly port: number
  stop(): void
}

type Page = (head: AdminHead) => Answer | Promise<Answer>

const TEXT = 'text/plain; charset=utf-8'
const JSON_TYPE = 'application/json'
/** What GET / answers, for whoever meets the port without its documentation. */
const PAGE_LIST = [
  { path: '/metrics', about: 'metrics for Prometheus' },
  { path: '/livez', about: '200 while the process runs' },
  { path: '/readyz', about: '200 where requests should be sent; /readyz?verbose names the state of each part' },
]

export async function startAdmin(options: AdminOptions): Promise<AdminServer> {
  const pages = adminPages(options)
  const app = uWS.App()
  const turn = new Turn(options.onFault)
  let connections = 0
  app.filter((response, change) => {
    connections += Number(change)
    if (connections > ADMIN_MAX_CONNECTIONS) response.close()
  })
  const budget: BodyBudget = { usedBytes: 0 }
  app.any('/*', (response, request) => {
    const exchange = new AdminExchange(request, response, budget)
    const run = (work: () => Promise<void>): void => turn.atEnd(() => void work().catch(options.onFault))
    serve(pages, options.routes ?? null, exchange, run)
  })
  const { port } = await listen(app, { host: options.host, port: options.port })
  return { port, stop: () => void app.close() }
}

function adminPages({ metrics, health }: AdminOptions): ReadonlyMap<string, Page> {
  // Scrapes that overlap share one page, which takes some milliseconds to make.
  let scraping: Promise<string> | null = null
  const scrape = (): Promise<string> => {
    scraping ??= metrics.scrape().finally(() => {
      scraping = null
    })
    return scraping
  }
  return new Map<string, Page>([
    ['/', pageList],
    ['/metrics', async () => answered('200 OK', metrics.contentType, await scrape())],
    ['/livez', () => answered('200 OK', TEXT, 'ok\n')],
    ['/readyz', (head) => readiness(health, head)],
  ])
}

function pageList({ accept }: AdminHead): Answer {
  if (accept.includes(JSON_TYPE)) return answered('200 OK', JSON_TYPE, `${JSON.stringify({ pages: PAGE_LIST })}\n`)
  const lines = PAGE_LIST.map(({ path, about }) => `${path.padEnd(10)}${about}\n`)
  return answered('200 OK', TEXT, `The admin port of sluice:\n\n${lines.join('')}`)
}

async function readiness(health: Health, head: AdminHead): Promise<Answer> {
  const ready = await health.ready()
  const status = ready ? '200 OK' : '503 Service Unavailable'
  const wantsJson = head.accept.includes(JSON_TYPE)
  const verbose = new URLSearchParams(head.query).has('verbose')
  const parts = verbose ? await health.parts() : {}
  if (wantsJson) {
    const body = verbose ? { ready, parts } : { ready }
    return answered(status, JSON_TYPE, `${JSON.stringify(body)}\n`)
  }
  const lines = [ready ? 'ok' : 'not ready', ...Object.entries(parts).map(([part, state]) => `${part}: ${state}`)]
  return answered(status, TEXT, `${lines.join('\n')}\n`)
}

/** `run`: never inside the engine's callback, where a read full of requests would block all others. */
function serve(
  pages: ReadonlyMap<string, Page>,
  routes: AdminRoutes | null,
  exchange: AdminExchange,
  run: (work: () => Promise<void>) => void,
): void {
  const { head } = exchange
  const route = routes?.open(head) ?? null
  if (route === null) {
    run(async () => exchange.send(await answerTo(pages.get(head.path), head)))
    return
  }
  switch (route.kind) {
    case 'answer':
      run(async () => exchange.send(await guarded(route.answer)))
      return
    case 'body':
      exchange.readBody(route.maxBytes, (body) =>
        run(async () => exchange.send(await guarded(() => route.answer(body)))),
      )
      return
    case 'stream':
      run(async () => exchange.stream(route.open))
  }
}

function answerTo(page: Page | undefined, head: AdminHead): Answer | Promise<Answer> {
  if (!page) return problem('404 Not Found', 'not_found', 'no such page on the admin port; see /')
  if (head.method !== 'GET' && head.method !== 'HEAD') {
    return problem('405 Method Not Allowed', 'method_not_allowed', 'only GET and HEAD', '\r\nAllow: GET, HEAD')
  }
  return guarded(() => page(head))
}

async function guarded(answer: () => Answer | Promise<Answer>): Promise<Answer> {
  try {
    return await answer()
  } catch (error) {
    return problem('500 Internal Server Error', 'internal_error', errorMessage(error))
  }
}

// The admin port: metrics for Prometheus and probes for the platform. No page waits for the queue or for Redis, and the
// port is not meant for the open network.

import uWS, { type HttpRequest, type HttpResponse } from 'uWebSockets.js'
import { ADMIN_MAX_CONNECTIONS } from '../bounds.ts'
import { errorMessage } from '../lib/errors.ts'
import type { Metrics } from '../observe/metrics.ts'
import { listen } from './listen.ts'
import { wantsToClose } from './read-head.ts'
import { type Reply, send } from './send.ts'
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
  /** A page could not be sent, which is a bug. */
  readonly onFault: (error: unknown) => void
}

export interface AdminServer {
  readonly port: number
  stop(): void
}

type Answer = Omit<Reply, 'withoutBody' | 'thenClose'>

/** A copy, because the request of uWebSockets.js is valid only inside its handler. */
interface AdminRequest {
  readonly query: string
  readonly accept: string
}

type Page = (request: AdminRequest) => Answer | Promise<Answer>

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
  app.any('/*', (response, request) => serve(pages, response, request, { turn, onFault: options.onFault }))
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
    ['/readyz', (request) => readiness(health, request)],
  ])
}

function pageList({ accept }: AdminRequest): Answer {
  if (accept.includes(JSON_TYPE)) return answered('200 OK', JSON_TYPE, `${JSON.stringify({ pages: PAGE_LIST })}\n`)
  const lines = PAGE_LIST.map(({ path, about }) => `${path.padEnd(10)}${about}\n`)
  return answered('200 OK', TEXT, `The admin port of sluice:\n\n${lines.join('')}`)
}

async function readiness(health: Health, request: AdminRequest): Promise<Answer> {
  const ready = await health.ready()
  const status = ready ? '200 OK' : '503 Service Unavailable'
  const wantsJson = request.accept.includes(JSON_TYPE)
  const verbose = new URLSearchParams(request.query).has('verbose')
  const parts = verbose ? await health.parts() : {}
  if (wantsJson) {
    const body = verbose ? { ready, parts } : { ready }
    return answered(status, JSON_TYPE, `${JSON.stringify(body)}\n`)
  }
  const lines = [ready ? 'ok' : 'not ready', ...Object.entries(parts).map(([part, state]) => `${part}: ${state}`)]
  return answered(status, TEXT, `${lines.join('\n')}\n`)
}

function serve(
  pages: ReadonlyMap<string, Page>,
  response: HttpResponse,
  request: HttpRequest,
  { turn, onFault }: { turn: Turn; onFault: (error: unknown) => void },
): void {
  // An aborted response must not be used: uWebSockets.js would throw, and the process would end.
  let isAborted = false
  response.onAborted(() => {
    isAborted = true
  })
  const path = request.getUrl()
  const thenClose = wantsToClose(request.getHeader('connection'))
  const method = request.getMethod()
  const asked = { query: request.getQuery() ?? '', accept: request.getHeader('accept') }
  const respond = async (): Promise<void> => {
    if (isAborted) return
    const answer = await answerTo(pages.get(path), method, asked)
    if (!isAborted) send(response, { ...answer, withoutBody: method === 'head', thenClose })
  }
  // Never inside the engine's callback, where a read full of requests would block all others.
  turn.atEnd(() => void respond().catch(onFault))
}

async function answerTo(page: Page | undefined, method: string, asked: AdminRequest): Promise<Answer> {
  if (!page) return problem('404 Not Found', 'not_found', 'no such page on the admin port; / lists them')
  if (method !== 'get' && method !== 'head') {
    return problem('405 Method Not Allowed', 'method_not_allowed', 'only GET and HEAD', '\r\nAllow: GET, HEAD')
  }
  try {
    return await page(asked)
  } catch (error) {
    return problem('500 Internal Server Error', 'internal_error', errorMessage(error))
  }
}

function answered(status: string, contentType: string, body: string, headers = ''): Answer {
  return { status, contentType, headers: `\r\nCache-Control: no-store${headers}`, body }
}

function problem(status: string, error: string, message: string, headers = ''): Answer {
  return answered(status, JSON_TYPE, `${JSON.stringify({ error, message })}\n`, headers)
}

// The second port: metrics for Prometheus, probes for the platform. Nothing here waits for the queue or for Redis,
// and none of it is meant for the open network.

import uWS, { type HttpRequest, type HttpResponse } from 'uWebSockets.js'
import type { Metrics } from '../observe/metrics.ts'
import { listen } from './listen.ts'

/** What a supervisor says of itself comes from its front ends, and so later. */
export interface Health {
  /** True from the first successful start until the drain. */
  ready(): boolean | Promise<boolean>
  /** What each part says of itself, as `queue: connected`. */
  parts(): Parts | Promise<Parts>
}

export type Parts = Readonly<Record<string, string>>

export interface AdminOptions {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  readonly metrics: Pick<Metrics, 'scrape' | 'contentType'>
  readonly health: Health
}

export interface AdminServer {
  readonly port: number
  stop(): void
}

interface Answer {
  readonly status: string
  readonly contentType: string
  readonly body: string
}

/** What a page may ask of a request; copied, because uWebSockets.js takes the request back after its handler. */
interface AdminRequest {
  readonly query: string
  readonly accept: string
}

type Page = (request: AdminRequest) => Answer | Promise<Answer>

const TEXT = 'text/plain; charset=utf-8'
const JSON_TYPE = 'application/json'

export async function startAdmin(options: AdminOptions): Promise<AdminServer> {
  const pages = adminPages(options)
  const app = uWS.App()
  app.any('/*', (response, request) => serve(pages, response, request))
  const { port } = await listen(app, { host: options.host, port: options.port })
  return { port, stop: () => void app.close() }
}

function adminPages({ metrics, health }: AdminOptions): ReadonlyMap<string, Page> {
  return new Map<string, Page>([
    ['/metrics', async () => ({ status: '200 OK', contentType: metrics.contentType, body: await metrics.scrape() })],
    ['/livez', () => ({ status: '200 OK', contentType: TEXT, body: 'ok\n' })],
    ['/readyz', (request) => readiness(health, request)],
  ])
}

async function readiness(health: Health, request: AdminRequest): Promise<Answer> {
  const ready = await health.ready()
  const status = ready ? '200 OK' : '503 Service Unavailable'
  const wantsJson = request.accept.includes(JSON_TYPE)
  const verbose = new URLSearchParams(request.query).has('verbose')
  const parts = verbose ? await health.parts() : {}
  if (wantsJson) {
    const body = verbose ? { ready, parts } : { ready }
    return { status, contentType: JSON_TYPE, body: `${JSON.stringify(body)}\n` }
  }
  const lines = [ready ? 'ok' : 'not ready', ...Object.entries(parts).map(([part, state]) => `${part}: ${state}`)]
  return { status, contentType: TEXT, body: `${lines.join('\n')}\n` }
}

function serve(pages: ReadonlyMap<string, Page>, response: HttpResponse, request: HttpRequest): void {
  const method = request.getMethod()
  const page = pages.get(request.getUrl())
  if (!page) {
    send(response, method, problem('404 Not Found', 'not_found', 'no such page on the admin port'))
    return
  }
  if (method !== 'get' && method !== 'head') {
    send(response, method, problem('405 Method Not Allowed', 'method_not_allowed', 'only GET and HEAD'), 'GET, HEAD')
    return
  }
  const answer = page({ query: request.getQuery() ?? '', accept: request.getHeader('accept') })
  if (answer instanceof Promise) sendLater(response, method, answer)
  else send(response, method, answer)
}

function sendLater(response: HttpResponse, method: string, answer: Promise<Answer>): void {
  // An aborted response must not be touched again: uWebSockets.js throws, and the process would end.
  let aborted = false
  response.onAborted(() => {
    aborted = true
  })
  const finish = (ready: Answer) => {
    if (!aborted) response.cork(() => send(response, method, ready))
  }
  answer.then(finish, (error: unknown) => {
    const message = error instanceof Error ? error.message : String(error)
    finish(problem('500 Internal Server Error', 'internal_error', message))
  })
}

function send(response: HttpResponse, method: string, answer: Answer, allow?: string): void {
  response.writeStatus(answer.status).writeHeader('Content-Type', answer.contentType)
  response.writeHeader('Cache-Control', 'no-store')
  if (allow) response.writeHeader('Allow', allow)
  if (method !== 'head') {
    response.end(answer.body)
    return
  }
  // Given the length as its argument, endWithoutBody would wait for a body of that length.
  response.writeHeader('Content-Length', String(Buffer.byteLength(answer.body))).endWithoutBody()
}

function problem(status: string, error: string, message: string): Answer {
  return { status, contentType: JSON_TYPE, body: `${JSON.stringify({ error, message })}\n` }
}

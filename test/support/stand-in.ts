// Stands in for the service where a test wants one that misbehaves in a certain way.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

const MILLISECONDS = 1000
const WINDOW_SECONDS = 60

export interface StandIn {
  readonly url: string
  /** POSTs so far. */
  requests(): number
  stop(): Promise<void>
}

/** What a stand-in does with a POST: `underWay` counts this one too. */
export interface Reaction {
  readonly overloaded?: boolean
  readonly delayMs?: number
  readonly withoutBatchId?: boolean
}

export interface StandInOptions {
  readonly react?: (seen: { request: number; underWay: number }) => Reaction
  /** The text of /metrics. */
  readonly metrics?: () => string
}

/** A service that answers as sluice does, but for what a test wants otherwise; its admin port is the same. */
export async function startStandIn({ react = () => ({}), metrics = () => '' }: StandInOptions = {}): Promise<StandIn> {
  let [requests, underWay] = [0, 0]
  const server = createServer((request, response) => {
    if (request.method === 'GET') return answerGet(request, response, metrics)
    requests++
    underWay++
    const { overloaded = false, delayMs = 0, withoutBatchId = false } = react({ request: requests, underWay })
    let body = ''
    request.setEncoding('utf8').on('data', (text: string) => (body += text))
    request.on('end', () => {
      const events = (JSON.parse(body) as { events: unknown[] }).events.length
      setTimeout(() => {
        underWay--
        if (overloaded)
          return answer(response, 503, { error: 'service_overloaded', message: 'later' }, { 'Retry-After': '1' })
        const batch = { 'X-Batch-Id': '018f0000-0000-7000-8000-000000000000' }
        answer(response, 202, { status: 'accepted', events }, withoutBatchId ? {} : batch)
      }, delayMs)
    })
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo
  const stop = (): Promise<void> =>
    new Promise((done) => {
      server.close(() => done())
      server.closeAllConnections()
    })
  return { url: `http://127.0.0.1:${port}`, requests: () => requests, stop }
}

function answerGet(request: IncomingMessage, response: ServerResponse, metrics: () => string): void {
  if (request.url === '/metrics') return void response.end(metrics())
  if (request.url === '/readyz') return void response.end('ready')
  answer(response, 405, { error: 'method_not_allowed', message: 'POST' }, { Allow: 'POST' })
}

function answer(response: ServerResponse, status: number, body: unknown, headers: Record<string, string>): void {
  const reset = (Math.floor(Date.now() / MILLISECONDS / WINDOW_SECONDS) + 1) * WINDOW_SECONDS
  const limits = { 'X-RateLimit-Limit': '100', 'X-RateLimit-Remaining': '100', 'X-RateLimit-Reset': String(reset) }
  response.writeHead(status, { 'Content-Type': 'application/json', ...limits, ...headers })
  response.end(JSON.stringify(body))
}

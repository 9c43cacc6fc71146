// A double of the admin API, which serves the built pages of the console and whatever answers a test puts into it: for
// states that are hard to make with a service, such as a thousand apps, silent nodes or Redis away.

import { existsSync, readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname, join, resolve } from 'node:path'

const PAGES = resolve(import.meta.dirname, '../../dist/console')
const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.woff2': 'font/woff2',
}
const VIEWS = new Set(['/', '/events', '/refused', '/batch', '/apps', '/app', '/explain', '/search'])
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; connect-src 'self'; " +
  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

export type Json = Readonly<Record<string, unknown>>

export interface Asked {
  readonly method: string
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  readonly body: string
}

/** What an answer is made of; a status of 0 ends the connection without one. */
export interface Given {
  readonly status: number
  readonly body: unknown
}

export class ConsoleDouble {
  /** The token that opens it; null: it is open. */
  token: string | null = null
  /** Whose portal it is; null: it is the console. */
  portal: object | null = null
  /** What it says of the time; null: that it is now. */
  time: string | null = null
  now: Json
  /** By path; a function sees the request. */
  readonly answers = new Map<string, (asked: Asked) => Given>()
  readonly asked: Asked[] = []
  private readonly streams = new Map<ServerResponse, string>()
  private readonly server: Server
  private isAway = false
  private timer: NodeJS.Timeout | undefined

  constructor(now: Json) {
    this.now = now
    this.server = createServer((request, response) => void this.serve(request, response))
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  async start(port = 0): Promise<this> {
    await new Promise<void>((done) => void this.server.listen(port, '127.0.0.1', done))
    this.timer = setInterval(() => this.sendNow(), 200)
    return this
  }

  stop(): void {
    clearInterval(this.timer)
    this.server.close().closeAllConnections()
  }

  /** Every connection ends, and no new one is answered. */
  goAway(isAway = true): void {
    this.isAway = isAway
    if (isAway) this.server.closeAllConnections()
  }

  /** It keeps its connections, and says nothing more. */
  fallSilent(): void {
    clearInterval(this.timer)
  }

  /** How many listen to a stream whose URL begins so. */
  listeners(url: string): number {
    return [...this.streams.values()].filter((streamUrl) => streamUrl.startsWith(url)).length
  }

  send(path: string, name: string, data: unknown): void {
    this.sendText(path, name, JSON.stringify(data))
  }

  sendText(path: string, name: string, data: string): void {
    for (const [response, url] of this.streams) {
      if (url.split('?')[0] === path) response.write(`event: ${name}\ndata: ${data}\n\n`)
    }
  }

  private sendNow(): void {
    const { history: _, ...now } = this.now
    this.send('/api/now/stream', 'now', { ...now, time: this.time ?? new Date().toISOString() })
  }

  private async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.isAway) return void request.socket.destroy()
    const url = new URL(request.url ?? '/', 'http://127.0.0.1')
    const asked = {
      method: request.method ?? '',
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      body: await bodyOf(request),
    }
    if (!asked.path.startsWith('/api/')) return this.servePage(asked.path, response)
    this.asked.push(asked)
    const given = this.answer(asked, request.headers.cookie ?? '')
    if (given !== null) {
      const cookie = asked.path === '/api/session' && asked.method === 'POST' ? { 'Set-Cookie': 'session=open' } : {}
      response.writeHead(given.status, { 'Content-Type': 'application/json', ...(given.status < 300 ? cookie : {}) })
      return void response.end(given.status === 204 ? undefined : JSON.stringify(given.body))
    }
    response.writeHead(200, { 'Content-Type': 'text/event-stream' })
    response.write('retry: 2000\n\n')
    this.streams.set(response, request.url ?? '')
    response.on('close', () => this.streams.delete(response))
    if (asked.path === '/api/now/stream') {
      const now = { ...this.now, time: this.time ?? new Date().toISOString() }
      response.write(`event: now\ndata: ${JSON.stringify(now)}\n\n`)
    }
  }

  /** null: a stream. */
  private answer(asked: Asked, cookie: string): Given | null {
    const isOpen = this.token === null || cookie.includes('session=open')
    const session = this.answers.get('/api/session')
    if (session !== undefined && asked.path === '/api/session') return session(asked)
    if (asked.path === '/api/session') {
      if (asked.method === 'GET' && this.portal !== null) {
        return isOpen ? ok(this.portal) : refusal(401, 'key_wanted', 'a read key is wanted')
      }
      if (asked.method === 'GET') return ok({ token_wanted: this.token !== null, open: isOpen })
      if (asked.method === 'DELETE') return { status: 204, body: null }
      const { token } = JSON.parse(asked.body) as { token: string }
      if (token === this.token) return { status: 204, body: null }
      return this.portal === null
        ? refusal(401, 'wrong_token', 'this is not the token')
        : refusal(401, 'key_wanted', 'this read key is not known, or not yet: a new one holds within a second or so')
    }
    if (!isOpen) return refusal(401, 'token_wanted', 'the console wants its token')
    const own = this.answers.get(asked.path)
    if (own !== undefined) return own(asked)
    if (asked.path.endsWith('/stream')) return null
    return refusal(404, 'not_found', 'there is nothing here')
  }

  private servePage(path: string, response: ServerResponse): void {
    const file = join(PAGES, VIEWS.has(path) ? 'index.html' : path)
    if (!existsSync(file) || path.includes('..') || extname(file) === '') return void response.writeHead(404).end()
    response.writeHead(200, { 'Content-Type': TYPES[extname(file)], 'Content-Security-Policy': CSP })
    response.end(readFileSync(file))
  }
}

export function ok(body: unknown): Given {
  return { status: 200, body }
}

export function refusal(status: number, error: string, message: string): Given {
  return { status, body: { error, message } }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  for await (const piece of request) pieces.push(piece as Buffer)
  return Buffer.concat(pieces).toString()
}

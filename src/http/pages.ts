// A server for pages, streams and small bodies that people and scripts ask for a few times a second: the admin port and
// the portal. What a client does to it cannot hold up another, nor the requests with events.

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { plainAddress } from '../lib/address-ranges.ts'
import { AdminBodies, discardRest } from './admin-bodies.ts'
import { AdminConnections } from './admin-connections.ts'
import type { AdminRequest, Answer, Reply, Stream } from './admin-routes.ts'
import { bind, type Place } from './port.ts'

export interface PagesOptions extends Place {
  readonly mostConnections: number
  readonly answer: (request: AdminRequest) => Reply | Promise<Reply>
  readonly onFault: (error: unknown) => void
}

/** `requestTimeout`: for a body of 512 KB through a slow tunnel. */
const TIMEOUTS_MS = { headersTimeout: 5000, requestTimeout: 20_000, keepAliveTimeout: 8000 }
const TIMEOUT_CHECK_INTERVAL_MS = 1000
/** For an answer that is not read. A stream says something every 15 s, and no search takes as long. */
const SILENCE_TIMEOUT_MS = 60_000

export async function startPages({ host, port, settings, mostConnections, answer, onFault }: PagesOptions) {
  const connections = new AdminConnections(mostConnections)
  const bodies = new AdminBodies()
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { socket } = request
    if (!connections.begins(socket)) return
    const body: AdminRequest['body'] = async (maxBytes, key) => {
      connections.waits(socket)
      try {
        return await bodies.read(request, maxBytes, key)
      } finally {
        connections.goesOn(socket)
      }
    }
    const reply = await answer({ ...headOf(request), body })
    // The client has left.
    if (response.destroyed) return
    if (typeof reply === 'function') stream(response, reply, () => connections.waits(socket))
    else {
      send(response, reply)
      discardRest(request)
      connections.waits(socket)
    }
  }
  const server = createServer(
    { ...TIMEOUTS_MS, connectionsCheckingInterval: TIMEOUT_CHECK_INTERVAL_MS, requireHostHeader: false },
    (request, response) => {
      serve(request, response).catch((error: unknown) => {
        response.destroy()
        onFault(error)
      })
    },
  )
  server.setTimeout(SILENCE_TIMEOUT_MS)
  server.on('connection', (socket) => connections.opened(socket))
  const found = await bind(server, { host, port, settings })
  server.on('error', onFault)
  return {
    port: found,
    stop: () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

function headOf({ method = '', url = '', headers, socket }: IncomingMessage): Omit<AdminRequest, 'body'> {
  // Of a target that is a whole URL the host counts, and the header does not (RFC 9112, 3.2.2).
  const [, host = headers.host, target = url] = /^https?:\/\/([^/?]*)(.*)$/i.exec(url) ?? []
  const [path, ...rest] = target.split('?')
  return {
    method,
    path: path === '' ? '/' : path,
    query: rest.join('?'),
    headers: { ...headers, host },
    address: plainAddress(socket.remoteAddress ?? ''),
  }
}

function send(response: ServerResponse, { status, contentType, headers, body }: Answer): void {
  const length = status === 204 ? {} : { 'Content-Length': Buffer.byteLength(body) }
  response.writeHead(status, { 'Content-Type': contentType, ...headers, ...length }).end(body)
}

function stream(response: ServerResponse, open: Stream, onOver: () => void): void {
  response
    .setHeader('Content-Type', 'text/event-stream; charset=utf-8')
    .setHeader('Cache-Control', 'no-store')
    .setHeader('X-Content-Type-Options', 'nosniff')
    .setHeader('X-Accel-Buffering', 'no')
  const opened = open(response)
  response.once('close', onOver)
  if (typeof opened === 'function') response.once('close', opened)
  else send(response, opened)
}

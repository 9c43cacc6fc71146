// Binds a uWebSockets.js app to an address, exclusively or shared by the processes of a supervisor.

import uWS, { type TemplatedApp, type us_listen_socket } from 'uWebSockets.js'
import { type AddressInfo, createServer } from 'node:net'
import { errorCode } from '../lib/errors.ts'
import { omitEngineHeader } from './engine.ts'

/** Without this option, two processes of one user would silently share a port. */
const EXCLUSIVE_PORT = 1
/** Sets SO_REUSEPORT: the kernel distributes new connections. uWebSockets.js does not set it for port 0. */
const SHARED_PORT = 0

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is taken',
  EADDRNOTAVAIL: 'this machine has no such address',
  EACCES: 'this user may not listen on that port',
}

export interface Listening {
  readonly socket: us_listen_socket
  readonly port: number
}

export interface Address {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  /** Other processes that set this may listen on the same port. */
  readonly shared?: boolean
}

/** Rejects with an Error that names the address and the reason. */
export function listen(app: TemplatedApp, { host, port, shared = false }: Address): Promise<Listening> {
  omitEngineHeader(uWS)
  // The library's types do not declare the overload with a host and options.
  const bind = app.listen.bind(app) as unknown as (
    host: string,
    port: number,
    options: number,
    bound: (socket: us_listen_socket | false) => void,
  ) => void
  return new Promise((resolve, reject) => {
    bind(host, port, shared ? SHARED_PORT : EXCLUSIVE_PORT, (socket) => {
      if (socket) resolve({ socket, port: uWS.us_socket_local_port(socket) })
      // uWebSockets.js gives no reason, so Node tries the same and reports one.
      else findPort(host, port).then(() => reject(refusal(host, port, 'it was taken a moment ago')), reject)
    })
  })
}

/**
 * Finds a port on which nobody listens, not even a process that shares it: `port`, or any for 0. It is not kept.
 * Rejects with an Error that names the address and the reason.
 */
export function findPort(host: string, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', (error) => reject(refusal(host, port, REASONS[errorCode(error) ?? ''] ?? error.message)))
    server.listen({ host, port, exclusive: true }, () => {
      const { port: found } = server.address() as AddressInfo
      server.close(() => resolve(found))
    })
  })
}

function refusal(host: string, port: number, why: string): Error {
  return new Error(`cannot listen on ${host}:${port}: ${why}`)
}

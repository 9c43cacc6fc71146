// Binds a uWebSockets.js app to an address: one of its own, or one that the processes of a supervisor share.

import uWS, { type TemplatedApp, type us_listen_socket } from 'uWebSockets.js'
import { type AddressInfo, createServer } from 'node:net'
import { errorCode } from '../lib/errors.ts'
import { omitEngineHeader } from './engine.ts'

/** Takes the port for this process alone: without it any two processes of one user share a port without a word. */
const EXCLUSIVE_PORT = 1
/** Sets SO_REUSEPORT, and the kernel deals new connections out; not for port 0, where uWebSockets.js leaves it unset. */
const SHARED_PORT = 0

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is taken',
  EADDRNOTAVAIL: 'this machine has no such address',
  EACCES: 'this user may not listen on that port',
}

export interface Listening {
  readonly socket: us_listen_socket
  /** The port in force, where 0 asked for any. */
  readonly port: number
}

export interface Address {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  /** Others that share the port may listen there at the same time. */
  readonly shared?: boolean
}

/** Rejects with an Error that names the address where it cannot be had. */
export function listen(app: TemplatedApp, { host, port, shared = false }: Address): Promise<Listening> {
  omitEngineHeader(uWS)
  // The types leave out the form with a host and options, which the library has.
  const bind = app.listen.bind(app) as unknown as (
    host: string,
    port: number,
    options: number,
    bound: (socket: us_listen_socket | false) => void,
  ) => void
  return new Promise((resolve, reject) => {
    bind(host, port, shared ? SHARED_PORT : EXCLUSIVE_PORT, (socket) => {
      if (socket) resolve({ socket, port: uWS.us_socket_local_port(socket) })
      // uWebSockets.js does not say why, so Node is asked to do the same.
      else findPort(host, port).then(() => reject(refusal(host, port, 'it was taken a moment ago')), reject)
    })
  })
}

/**
 * A port of this address that nobody listens on, not even a process that would share it: the one asked for, or any
 * for 0. It is free again at once. Rejects with an Error that names the address where it cannot be had.
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

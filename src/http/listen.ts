// Binds a uWebSockets.js app to an address of its own.

import { createServer } from 'node:net'
import uWS, { type TemplatedApp, type us_listen_socket } from 'uWebSockets.js'
import { errorCode } from '../lib/errors.ts'

/** Takes the port for this process alone: uWebSockets.js would let two processes share it without a word. */
const EXCLUSIVE_PORT = 1

export interface Listening {
  readonly socket: us_listen_socket
  /** The port in force, where 0 asked for any. */
  readonly port: number
}

/** Rejects with an Error that names the address where it cannot be had. */
export function listen(app: TemplatedApp, host: string, port: number): Promise<Listening> {
  // The types leave out the form with a host and options, which the library has.
  const bind = app.listen.bind(app) as unknown as (
    host: string,
    port: number,
    options: number,
    bound: (socket: us_listen_socket | false) => void,
  ) => void
  return new Promise((resolve, reject) => {
    bind(host, port, EXCLUSIVE_PORT, (socket) => {
      if (socket) resolve({ socket, port: uWS.us_socket_local_port(socket) })
      else void whyNot(host, port).then((why) => reject(new Error(`cannot listen on ${host}:${port}: ${why}`)))
    })
  })
}

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is taken',
  EADDRNOTAVAIL: 'this machine has no such address',
  EACCES: 'this user may not listen on that port',
}

/** uWebSockets.js does not say why, so Node is asked to do the same. */
function whyNot(host: string, port: number): Promise<string> {
  return new Promise((done) => {
    const server = createServer()
    server.once('error', (error) => done(REASONS[errorCode(error) ?? ''] ?? error.message))
    server.listen({ host, port, exclusive: true }, () => server.close(() => done('the port was taken a moment ago')))
  })
}

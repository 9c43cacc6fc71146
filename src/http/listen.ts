// Binds a uWebSockets.js app to an address of its own.

import uWS, { type TemplatedApp, type us_listen_socket } from 'uWebSockets.js'

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
      else reject(new Error(`cannot listen on ${host}:${port}: the port is taken, or the address is not ours`))
    })
  })
}

// Binds a uWebSockets.js app to an address, exclusively or shared by the processes of a supervisor.

import uWS, { type TemplatedApp, type us_listen_socket } from 'uWebSockets.js'
import { findPort, refusal } from '../port.ts'
import type { EngineOptions } from '../wire.ts'
import { omitEngineHeader } from './load.ts'

/** Without this option, two processes of one user would silently share a port. */
const EXCLUSIVE_PORT = 1
/** Sets SO_REUSEPORT: the kernel distributes new connections. uWebSockets.js does not set it for port 0. */
const SHARED_PORT = 0

export type Address = EngineOptions['address']

/** Rejects with an Error that names the address, its settings and the reason. */
export function listen(app: TemplatedApp, address: Address): Promise<{ socket: us_listen_socket; port: number }> {
  const { host, port, shared = false } = address
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
      else findPort(address).then(() => reject(refusal(address, 'it was taken a moment ago')), reject)
    })
  })
}

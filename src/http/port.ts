// Binds a server of Node's own to an address, and says in words why it cannot.

import { type AddressInfo, createServer, type Server } from 'node:net'
import { errorCode } from '../lib/errors.ts'

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is taken',
  EADDRNOTAVAIL: 'this machine has no such address',
  EACCES: 'this user may not listen on that port',
}

/** Where to listen. */
export interface Place {
  readonly host: string
  /** 0: any free port. */
  readonly port: number
  readonly settings:
    | 'HOST and PORT'
    | 'SLUICE_ADMIN_HOST and SLUICE_ADMIN_PORT'
    | 'SLUICE_PORTAL_HOST and SLUICE_PORTAL_PORT'
}

/** Resolves with the port. Rejects with an Error that names the address, its settings and the reason. */
export function bind(server: Server, place: Place): Promise<number> {
  const { host, port } = place
  return new Promise((resolve, reject) => {
    server.once('error', (error) => reject(refusal(place, REASONS[errorCode(error) ?? ''] ?? error.message)))
    server.listen({ host, port, exclusive: true }, () => resolve((server.address() as AddressInfo).port))
  })
}

/** The same, of a port on which nobody listens, not even a process that shares it. It is not kept. */
export async function findPort(place: Place): Promise<number> {
  const server = createServer()
  const found = await bind(server, place)
  return new Promise((resolve) => {
    server.close(() => resolve(found))
  })
}

export function refusal({ host, port, settings }: Place, why: string): Error {
  return new Error(`cannot listen on ${host}:${port}, which ${settings} name: ${why}`)
}

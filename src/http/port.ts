// Binds a server of Node's own to an address, and says in words why it cannot.

import { get } from 'node:http'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { hostAndPort, hostToReach } from '../lib/admin-address.ts'
import { errorCode } from '../lib/errors.ts'

const REASONS: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is taken',
  EADDRNOTAVAIL: 'this machine has no such address',
  EACCES: 'this user may not listen on that port',
  ENOTFOUND: 'the host name is not known',
  EAI_AGAIN: 'the host name is not known',
}

/** What the admin port says of a path that it does not have. */
export const NO_SUCH_ADMIN_PAGE = 'no such page on the admin port; see /'
/** Of who holds a port. */
const QUESTION_TIMEOUT_MS = 500

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

/** IPv6 and IPv4 on one socket, whatever the system's default is: neither Node nor the engine asks for IPv6 alone. */
export const EVERY_ADDRESS = '::'

/** Whether the system has IPv6; else `EVERY_ADDRESS` is 0.0.0.0. */
export async function hasIpv6(): Promise<boolean> {
  const server = createServer()
  const error = await new Promise<Error | null>((resolve) => {
    server.once('error', resolve)
    server.listen({ host: EVERY_ADDRESS, port: 0, exclusive: true }, () => server.close(() => resolve(null)))
  })
  return !['EAFNOSUPPORT', 'EADDRNOTAVAIL'].includes(errorCode(error) ?? '')
}

/** Resolves with the port. Rejects with an Error that names the address, its settings and the reason. */
export function bind(server: Server, place: Place, options: { readonly reusePort?: boolean } = {}): Promise<number> {
  const { host, port } = place
  return new Promise((resolve, reject) => {
    server.once('error', async (error) => {
      const code = errorCode(error) ?? ''
      const isSluice = code === 'EADDRINUSE' && (await answersAsSluice(place))
      const port = place.settings.split(' and ')[1]
      const here = `sluice runs here already (stop it, or set ${port})`
      reject(refusal(place, isSluice ? here : (REASONS[code] ?? error.message)))
    })
    server.listen({ host, port, exclusive: true, ...options }, () => resolve((server.address() as AddressInfo).port))
  })
}

/** Whether a service is there: its public port says the minute's figures in every answer, its admin port what it is. */
function answersAsSluice({ host, port }: Place): Promise<boolean> {
  return new Promise((resolve) => {
    const signal = AbortSignal.timeout(QUESTION_TIMEOUT_MS)
    const asked = get({ host: hostToReach(host), port, path: '/none', agent: false, signal }, (response) => {
      response.once('data', (text) => {
        resolve(response.headers['x-ratelimit-limit'] !== undefined || String(text).includes(NO_SUCH_ADMIN_PAGE))
        response.destroy()
      })
      response.on('close', () => resolve(false))
    })
    asked.on('error', () => resolve(false))
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
  return new Error(`cannot listen on ${hostAndPort(host, port)}, which ${settings} name: ${why}`)
}

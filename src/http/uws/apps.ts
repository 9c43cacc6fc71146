// The engine's apps behind the public port. The engine binds a certificate to an app for good, so a new certificate is a
// new app: it gets the new connections, and the app before it keeps its own until they end.

import uWS, { type HttpRequest, type HttpResponse, type TemplatedApp, type us_listen_socket } from 'uWebSockets.js'
import { EVENTS_PATH } from '../../contract/bounds.ts'
import type { TlsFiles } from '../certificate.ts'
import { findPort } from '../port.ts'
import type { EngineOptions, OpenEngine, Reply, Route, Wire } from '../wire.ts'
import { listen } from './listen.ts'
import { send } from './send.ts'

/** What the engine of 2026 has, and its types do not declare: one app accepts connections for others. */
interface Acceptor {
  getDescriptor(): unknown
  addChildAppDescriptor(descriptor: unknown): void
  removeChildAppDescriptor(descriptor: unknown): void
}

export const openEngine: OpenEngine = async (options) => {
  const apps = new EngineApps(options)
  await apps.open()
  return apps
}

class UwsWire implements Wire {
  readonly #response: HttpResponse

  constructor(response: HttpResponse) {
    this.#response = response
  }

  onAborted(left: () => void): void {
    this.#response.onAborted(left)
  }

  onData(take: (piece: Uint8Array, isLast: boolean) => void): void {
    this.#response.onData((piece, isLast) => take(new Uint8Array(piece), isLast))
  }

  send(reply: Reply): boolean {
    return send(this.#response, reply)
  }

  giveMoreTime(): void {
    this.#response.pause()
    this.#response.resume()
  }

  close(): void {
    this.#response.close()
  }
}

class EngineApps {
  readonly #options: EngineOptions
  readonly #apps: TemplatedApp[] = []
  /** Listens for the others; null: the present app listens by itself. */
  #acceptor: (TemplatedApp & Acceptor) | null = null
  #listening: { readonly socket: us_listen_socket; readonly port: number } | null = null

  constructor(options: EngineOptions) {
    this.#options = options
  }

  get port(): number {
    return this.#listening?.port ?? 0
  }

  async open(): Promise<void> {
    const { address, tls } = this.#options
    const first = this.#newApp()
    if (tls === null) {
      this.#listening = await listen(first, address)
      this.#apps.push(first)
      return
    }
    if (!isAcceptor(first)) {
      // That engine binds a port that it chose itself so that nobody can bind it again while a connection is open.
      const port = address.port === 0 ? await findPort(address) : address.port
      this.#listening = await listen(first, { ...address, port })
      this.#apps.push(first)
      return
    }
    const acceptor = engineApp(tls) as TemplatedApp & Acceptor
    acceptor.addChildAppDescriptor(first.getDescriptor())
    this.#listening = await listen(acceptor, address)
    this.#acceptor = acceptor
    this.#apps.push(first)
  }

  /** Uses the files of the certificate, as they are now, for new connections. Throws where the engine refuses them. */
  async renew(): Promise<void> {
    const last = this.#apps.at(-1)
    if (last === undefined || this.#listening === null) return
    const next = this.#newApp()
    if (this.#acceptor !== null && isAcceptor(next) && isAcceptor(last)) {
      this.#acceptor.addChildAppDescriptor(next.getDescriptor())
      // Not before it serves: the next renewal removes the last one.
      this.#apps.push(next)
      this.#acceptor.removeChildAppDescriptor(last.getDescriptor())
      return
    }
    // The engine of 2024: a connection that is being made in this moment may be reset, and another process may take the port.
    const { port } = this.#listening
    this.stopListening()
    try {
      this.#listening = await listen(next, { ...this.#options.address, port })
      this.#apps.push(next)
    } catch (error) {
      this.#options.onPortLost(error)
    }
  }

  stopListening(): void {
    if (this.#listening !== null) uWS.us_listen_socket_close(this.#listening.socket)
    this.#listening = null
  }

  /** Closes every connection. */
  close(): void {
    for (const app of this.#apps.splice(0)) app.close()
    this.#acceptor?.close()
  }

  #newApp(): TemplatedApp {
    const { tls, onOpened, onEnded, onRequest } = this.#options
    const app = engineApp(tls)
    app.filter((response, change) => {
      if (Number(change) < 0) onEnded()
      else if (!onOpened()) response.close()
    })
    const receiveFrom = (route: Route | null) => (response: HttpResponse, request: HttpRequest) =>
      onRequest(request, new UwsWire(response), route)
    // Whatever comes on other ways is read for its method and path, which most requests need not be.
    app.post(EVENTS_PATH, receiveFrom({ method: 'POST', path: EVENTS_PATH }))
    app.any('/*', receiveFrom(null))
    return app
  }
}

function engineApp(tls: TlsFiles | null): TemplatedApp {
  return tls === null ? uWS.App() : uWS.SSLApp({ cert_file_name: tls.certFile, key_file_name: tls.keyFile })
}

function isAcceptor(app: TemplatedApp): app is TemplatedApp & Acceptor {
  return 'addChildAppDescriptor' in app
}

// The engine's apps behind the public port. The engine binds a certificate to an app for good, so a new certificate is a
// new app: it gets the new connections, and the app before it keeps its own until they end.

import uWS, { type TemplatedApp, type us_listen_socket } from 'uWebSockets.js'
import type { TlsFiles } from './certificate.ts'
import { type Address, listen } from './listen.ts'
import { findPort } from './port.ts'

/** What the engine of 2026 has, and its types do not declare: one app accepts connections for others. */
interface Acceptor {
  getDescriptor(): unknown
  addChildAppDescriptor(descriptor: unknown): void
  removeChildAppDescriptor(descriptor: unknown): void
}

export interface EngineAppsOptions {
  readonly address: Address
  readonly tls: TlsFiles | null
  /** Gives an app its routes. */
  readonly prepare: (app: TemplatedApp) => void
  /** Another process took the port while the certificate was renewed, which only the engine of 2024 allows. */
  readonly onPortLost: (error: unknown) => void
}

/** Rejects with an Error that names the address and the reason. */
export async function openEngineApps(options: EngineAppsOptions): Promise<EngineApps> {
  const apps = new EngineApps(options)
  await apps.open()
  return apps
}

export class EngineApps {
  readonly #options: EngineAppsOptions
  readonly #apps: TemplatedApp[] = []
  /** Listens for the others; null: the present app listens by itself. */
  #acceptor: (TemplatedApp & Acceptor) | null = null
  #listening: { readonly socket: us_listen_socket; readonly port: number } | null = null

  constructor(options: EngineAppsOptions) {
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
    // The engine of 2024: a connection that is being made in this moment may be reset.
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
    const app = engineApp(this.#options.tls)
    this.#options.prepare(app)
    return app
  }
}

function engineApp(tls: TlsFiles | null): TemplatedApp {
  return tls === null ? uWS.App() : uWS.SSLApp({ cert_file_name: tls.certFile, key_file_name: tls.keyFile })
}

function isAcceptor(app: TemplatedApp): app is TemplatedApp & Acceptor {
  return 'addChildAppDescriptor' in app
}

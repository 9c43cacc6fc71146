// The seam between the public port and the engine that reads HTTP for it: uWebSockets.js (uws) or Node's own server (node).
// What an engine gives is here. What is done with it is the same for both, and exists once.

import type { RequestHead } from '../request/head.ts'
import type { TlsFiles } from './certificate.ts'
import type { Place } from './port.ts'

export interface Reply {
  readonly status: string
  readonly contentType: string
  /** Further header lines, each led by CRLF. */
  readonly headers: string
  readonly body: string
  /** For HEAD, and for an empty body: send the headers only. */
  readonly withoutBody: boolean
  /**
   * The connection takes no more requests. To be true where there is no body: uWebSockets.js does not tell then whether
   * earlier answers are left unread, and a client that reads none could fill the memory with them.
   */
  readonly thenClose: boolean
}

/** Both engines close an idle connection after 9 s or more. Clients that respect this header stop using it before that. */
export const KEEP_ALIVE = '\r\nKeep-Alive: timeout=8'

/** What the engine has matched. */
export type Route = Pick<RequestHead, 'method' | 'path'>

/** Valid only while the engine hands it over. A request of uWebSockets.js is one as it is. */
export interface WireHead {
  getCaseSensitiveMethod(): string
  /** Without the query. */
  getUrl(): string
  getQuery(): string | undefined
  /** Names are in small letters; one that is repeated comes as often. */
  forEach(each: (name: string, value: string) => void): void
}

/** What an engine refuses by itself, uncounted: uWebSockets.js in words of its own. */
export type Unreadable = 'malformed' | 'head_too_large' | 'not_http'

/** One request on its connection. */
export interface Wire {
  /** `left` is called once, where the connection ends before the answer: by its client, by the engine, or by `close`. */
  onAborted(left: () => void): void
  /** Each piece is valid only during its call. An empty body is one empty last piece. */
  onData(take: (piece: Uint8Array, isLast: boolean) => void): void
  /** false: the client leaves earlier answers unread, so the connection was closed instead. */
  send(reply: Reply): boolean
  /** The engine allows 10 s for each 160 KB of a body. These 10 s start again. */
  giveMoreTime(): void
  close(): void
}

export interface EngineOptions {
  readonly address: Place & {
    /** Other processes that set this may listen on the same port. */
    readonly shared?: boolean
  }
  readonly tls: TlsFiles | null
  /** A connection has come. false: it is closed at once. */
  readonly onOpened: () => boolean
  /** A connection has ended, one that was closed at once too. */
  readonly onEnded: () => void
  /** A head has come. It is not called while the request before it on that connection has no answer: that ends both. */
  readonly onRequest: (head: WireHead, wire: Wire, route: Route | null) => void
  /** A head has come that is none. The connection takes nothing more. */
  readonly onUnreadable: (wire: Pick<Wire, 'send'>, what: Unreadable) => void
  /** Nobody listens any more: the process must not go on. */
  readonly onPortLost: (error: unknown) => void
}

export interface Engine {
  readonly port: number
  /** Uses the files of the certificate, as they are now, for new connections. Throws where the engine refuses them. */
  renew(): Promise<void>
  stopListening(): void
  /** Closes every connection. */
  close(): void
}

/** Rejects with an Error that names the address and the reason. */
export type OpenEngine = (options: EngineOptions) => Promise<Engine>

// What the admin port hands to the console, and takes back: plain values, so that only this room knows the engine.

import type { Reply } from './send.ts'

/** `withoutBody`: with the head of an answer whose body is not sent (304). */
export type Answer = Omit<Reply, 'withoutBody' | 'thenClose'> & { readonly withoutBody?: boolean }

/** A copy, because the request of uWebSockets.js is valid only inside its handler. An absent header is empty. */
export interface AdminHead {
  /** In capitals. */
  readonly method: string
  readonly path: string
  readonly query: string
  readonly accept: string
  readonly acceptEncoding: string
  readonly authorization: string
  readonly cookie: string
  readonly host: string
  readonly ifNoneMatch: string
  readonly origin: string
  /** What a browser says of the page that asks: `same-origin`, `cross-site`. */
  readonly fetchSite: string
}

/** One open answer of server-sent events. */
export interface EventSink {
  /**
   * false: the client does not read as fast as it is sent to. This text still arrives; `send` nothing more until
   * `isDrained`.
   */
  send(text: string): boolean
  readonly isDrained: boolean
  end(): void
}

export type Route =
  | { readonly kind: 'answer'; readonly answer: () => Answer | Promise<Answer> }
  /** The body is read first: beyond `maxBytes` the request is answered 413. */
  | {
      readonly kind: 'body'
      readonly maxBytes: number
      readonly answer: (body: Buffer) => Answer | Promise<Answer>
    }
  /** Returns what to do when the client has left, or the answer that refuses it. */
  | { readonly kind: 'stream'; readonly open: (sink: EventSink) => (() => void) | Answer }

export interface AdminRoutes {
  /** By the head alone. null: it is no path of the console. */
  open(head: AdminHead): Route | null
  /** Ends every open stream, and refuses new ones. */
  stop(): void
}

const JSON_TYPE = 'application/json'

/** `headers`: further header lines, each led by CRLF. */
export function answered(status: string, contentType: string, body: string, headers = ''): Answer {
  return { status, contentType, headers: `\r\nCache-Control: no-store${headers}`, body }
}

export function jsonAnswer(value: unknown): Answer {
  return jsonTextAnswer('200 OK', JSON.stringify(value))
}

/** What the console shows is for its own pages only. */
export function jsonTextAnswer(status: string, json: string): Answer {
  const headers = '\r\nX-Content-Type-Options: nosniff\r\nCross-Origin-Resource-Policy: same-origin'
  return answered(status, JSON_TYPE, `${json}\n`, headers)
}

export function problem(status: string, error: string, message: string, headers = ''): Answer {
  return answered(status, JSON_TYPE, `${JSON.stringify({ error, message })}\n`, headers)
}

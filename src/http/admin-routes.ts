// What the admin port and the portal hand to the console, and take back.

import type { IncomingHttpHeaders } from 'node:http'
import {
  PORTAL_PROBLEMS,
  type PortalProblem,
  PROBLEMS,
  type Problem,
  type ProblemRow,
  problemOfRow,
  type Said,
} from '../contract/admin/problems.ts'

export interface AdminRequest {
  /** In capitals. */
  readonly method: string
  readonly path: string
  readonly query: string
  readonly headers: IncomingHttpHeaders
  /** That the connection comes from. */
  readonly address: string
  /** The whole body, or what refuses it. `key`: who asks, and has at most two large ones under way. */
  body(maxBytes: number, key?: string): Promise<Buffer | Answer>
}

export interface Answer {
  readonly status: number
  readonly contentType: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

/** One open answer of server-sent events. */
export interface EventSink {
  readonly destroyed: boolean
  readonly writableEnded: boolean
  /** What waits for the client to read. */
  readonly writableLength: number
  write(text: string): unknown
  end(): unknown
}

/** Begins a stream. Returns what to do when it is over, or the answer that refuses it. */
export type Stream = (sink: EventSink) => (() => void) | Answer

export type Reply = Answer | Stream

export interface AdminRoutes {
  /** null: there is no such path. */
  answer(request: AdminRequest): Reply | Promise<Reply> | null
  /** Ends every open stream, and refuses new ones. */
  stop(): void
}

const JSON_TYPE = 'application/json'

export function answered(status: number, contentType: string, body: string, headers: Answer['headers'] = {}): Answer {
  return { status, contentType, headers: { 'Cache-Control': 'no-store', ...headers }, body }
}

export function jsonAnswer(value: unknown): Answer {
  return jsonTextAnswer({ status: 200, json: JSON.stringify(value) })
}

/** What the console shows is for its own pages only. */
export function jsonTextAnswer({ status, json }: { status: number; json: string }): Answer {
  const headers = { 'X-Content-Type-Options': 'nosniff', 'Cross-Origin-Resource-Policy': 'same-origin' }
  return answered(status, JSON_TYPE, `${json}\n`, headers)
}

export function problem<Name extends Problem>(error: Name, ...said: Said<(typeof PROBLEMS)[Name]>): Answer {
  return problemBy(PROBLEMS[error], error, said)
}

export function portalProblem<Name extends PortalProblem>(
  error: Name,
  ...said: Said<(typeof PORTAL_PROBLEMS)[Name]>
): Answer {
  return problemBy(PORTAL_PROBLEMS[error], error, said)
}

function problemBy(
  row: ProblemRow,
  error: Problem | PortalProblem,
  [message, headers = row[2]]: Readonly<Partial<Said<ProblemRow>>>,
): Answer {
  const { status, json } = problemOfRow(row, error, message)
  return answered(status, JSON_TYPE, `${json}\n`, headers)
}

/** `methods` without HEAD, which each path with GET has. */
export function methodProblem(methods: readonly string[]): Answer {
  const allowed = methods.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ')
  return problem('method_not_allowed', `only ${allowed}`, { Allow: allowed })
}

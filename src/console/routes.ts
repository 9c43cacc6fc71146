// What can be asked on console and portal, once: each path with its question or stream, and what the portal has of it.

import { MAX_BODY_BYTES } from '../contract/bounds.ts'
import { type AdminRequest, type Answer, answered, methodProblem, problem, type Reply } from '../http/admin-routes.ts'
import type { Inspection, QuestionName, StreamName } from '../inspect/inspection.ts'
import type { Answer as Told } from '../inspect/question.ts'
import type { Scope } from '../inspect/scope.ts'
import type { Watchers } from './watchers.ts'

/** `app`: the members of the query that are looked at on the portal; absent: it is for the operators alone. */
type Route = ({ readonly ask: QuestionName } | { readonly stream: StreamName }) & { readonly app?: readonly string[] }

const BATCH = '/api/batches/ID'
const BATCH_PATH = /^\/api\/batches\/([^/]{1,100})$/
const ROUTES: Readonly<Record<string, Route>> = {
  '/api/now': { ask: 'now' },
  '/api/now/stream': { stream: 'now' },
  '/api/events': { ask: 'events', app: ['type', 'name', 'user', 'limit'] },
  '/api/events/stream': { stream: 'events', app: ['type', 'name', 'user'] },
  '/api/refusals': { ask: 'refusals', app: ['code', 'limit', 'request_id'] },
  '/api/refusals/stream': { stream: 'refusals', app: ['code', 'from_start'] },
  '/api/alerts': { ask: 'alerts', app: ['since', 'after', 'limit'] },
  '/api/alerts/stream': { stream: 'alerts', app: [] },
  '/api/apps': { ask: 'apps' },
  '/api/batches': { ask: 'batch', app: ['key', 'since', 'before', 'events'] },
  [BATCH]: { ask: 'batch', app: ['since', 'before', 'events'] },
  '/api/search': { ask: 'search' },
  '/api/explain': { ask: 'explain', app: [] },
}

export interface Asked<Who> {
  readonly request: AdminRequest
  readonly query: URLSearchParams
  readonly scope: Scope
  readonly who: Who
}

export type Methods<Who> = Readonly<Record<string, (asked: Asked<Who>) => Reply | Promise<Reply>>>

/** Console or portal: what each does in its own way. */
export interface Face<Who> {
  readonly isPortal: boolean
  readonly inspection: Inspection
  readonly watchers: Watchers
  readonly answerOf: (told: Told) => Answer | Promise<Answer>
  readonly body: (request: AdminRequest, mostBytes: number, who: Who) => Promise<Buffer | Answer>
  /** null: it may. */
  readonly searchRefusal: (who: Who) => Answer | null
  /** Takes a place, and returns what leaves it; or what refuses the stream. */
  readonly takeStream: (who: Who) => (() => void) | Answer
  readonly isStillOpen: (asked: Asked<Who>) => boolean
}

/** By path; undefined: it is none of these. */
export function routesOf<Who>(face: Face<Who>): (path: string) => Methods<Who> | undefined {
  const all = Object.entries(ROUTES).filter(([, { app }]) => !face.isPortal || app !== undefined)
  const table = new Map(all.map(([path, route]) => [path, methodsOf(face, route)]))
  return (path) => table.get(BATCH_PATH.test(path) ? BATCH : path)
}

/** What answers a request by its method, or refuses it. `others`: methods that are answered elsewhere. */
export function handlerOf<Who>(
  { method }: AdminRequest,
  methods: Methods<Who>,
  others: readonly string[] = [],
): Methods<Who>[string] | Answer {
  const known = method === 'HEAD' ? 'GET' : method
  return Object.hasOwn(methods, known) ? methods[known] : methodProblem([...Object.keys(methods), ...others])
}

function methodsOf<Who>(face: Face<Who>, route: Route): Methods<Who> {
  const queryOf = ({ request, query }: Asked<Who>): URLSearchParams => {
    const wanted = face.isPortal ? only(query, route.app ?? []) : query
    // The id of a batch stands in the path only.
    const id = BATCH_PATH.exec(request.path)?.[1]
    wanted.delete('id')
    if (id !== undefined) wanted.set('id', id)
    return wanted
  }
  if ('stream' in route) return { GET: (asked) => openStream(face, route.stream, asked, queryOf(asked)) }
  const name = route.ask
  const answer = async (asked: Asked<Who>, body?: Buffer): Promise<Answer> => {
    const question = { name, scope: asked.scope, query: queryOf(asked).toString() }
    return await face.answerOf(await face.inspection.answer(body === undefined ? question : { ...question, body }))
  }
  if (name === 'batch') return { GET: async (asked) => face.searchRefusal(asked.who) ?? (await answer(asked)) }
  if (name !== 'explain') return { GET: (asked) => answer(asked) }
  return {
    POST: async (asked) => {
      const body = await face.body(asked.request, MAX_BODY_BYTES, asked.who)
      return Buffer.isBuffer(body) ? await answer(asked, body) : body
    },
  }
}

function openStream<Who>(face: Face<Who>, name: StreamName, asked: Asked<Who>, query: URLSearchParams): Reply {
  const { request, scope, who } = asked
  const begin = face.inspection.watch(scope, name, query, request.headers['last-event-id']?.toString())
  if (typeof begin === 'string') return problem('bad_request', begin)
  // An answer without a body has no stream.
  if (request.method === 'HEAD') return problem('method_not_allowed')
  const leave = face.takeStream(who)
  if (typeof leave !== 'function') return leave
  return (sink) => {
    const close = face.watchers.open(sink, begin, () => face.isStillOpen(asked))
    if (typeof close === 'function')
      return () => {
        leave()
        close()
      }
    leave()
    return close
  }
}

function only(query: URLSearchParams, members: readonly string[]): URLSearchParams {
  return new URLSearchParams(
    members.flatMap((name) => {
      const text = query.get(name)
      return text === null ? [] : [[name, text] as [string, string]]
    }),
  )
}

export const SESSION_PATH = '/api/session'
const MAX_SESSION_BYTES = 4096

/** The token or key of the body that opens a session, `{"token": "…"}`; or what refuses it. */
export async function tokenIn(request: AdminRequest): Promise<string | Answer> {
  const body = await request.body(MAX_SESSION_BYTES)
  if (!Buffer.isBuffer(body)) return body
  try {
    const value = JSON.parse(body.toString()) as { token?: unknown } | null
    if (typeof value?.token === 'string') return value.token
  } catch {
    // Said below.
  }
  return problem('bad_request', 'the body must be {"token": "…"}')
}

export function noContent(headers: Answer['headers'] = {}): Answer {
  return answered(204, 'text/plain', '', headers)
}

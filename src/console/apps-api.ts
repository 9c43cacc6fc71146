// App records over HTTP: what `sluice apps` does, with the same checks, for scripts and the console.

import { createHash } from 'node:crypto'
import { type AppRecord, READ_KEY_NAME } from '../apps/app-record.ts'
import { type AdminRequest, type Answer, answered, jsonAnswer, jsonTextAnswer, problem } from '../http/admin-routes.ts'
import type { Inspection } from '../inspect/inspection.ts'
import { maskedKey } from '../inspect/usage-report.ts'
import { StartError } from '../lib/errors.ts'
import { type Draft, mistakeIn, takenIn } from '../records/app-draft.ts'
import {
  freshKey,
  readKeysOf,
  rotated,
  shownReadKey,
  spanMsOf,
  withoutReadKey,
  withReadKey,
} from '../records/app-keys.ts'
import type { AppRecords } from '../records/app-records.ts'
import { repeatedMembers } from '../records/repeated-members.ts'
import { daysAnswer, wantsCsv } from './portal.ts'

const PATH = /^\/api\/apps\/([A-Za-z0-9_-]{1,64})(?:\/(rotate|usage|read-keys)(?:\/([A-Za-z0-9_-]{1,64}))?)?$/
const MAX_RECORD_BYTES = 65_536
/** Edits that wait for the one at hand; each reads all records. */
const MAX_WAITING = 200
const DEFAULT_OVERLAP = '30d'

const NOT_THERE = problem(404, 'no_such_app', 'there is no such app')
const STALE = problem(412, 'precondition_failed', 'the record is not the one that If-Match or If-None-Match names')
const NO_JSON = problem(415, 'unsupported_media_type', 'the Content-Type must be application/json')

export interface AppChange {
  readonly app: string
  /** In words, such as `made`. */
  readonly what: string
  readonly by: string
}

export interface AppsApiOptions {
  /** Opens the file or the bucket for one question or edit. Rejects where it cannot be used. */
  readonly withRecords: <T>(use: (records: AppRecords) => Promise<T>) => Promise<T>
  /** Why records cannot be changed here; null: they can. */
  readonly whyFixed: () => string | null
  readonly inspection: Inspection
  readonly onChange: (change: AppChange) => void
  readonly nowMs: () => number
}

/** What a request may do, and who it is for the log. */
export interface Caller {
  readonly mayWrite: boolean
  readonly by: string
}

interface Asked {
  readonly request: AdminRequest
  readonly appId: string
  readonly name: string
  readonly caller: Caller
}

type Handler = (asked: Asked) => Promise<Answer>
export type AppMethods = Readonly<Record<string, (request: AdminRequest, caller: Caller) => Promise<Answer>>>

/** Returns the app's next record, null to remove it, or what refuses the edit. */
type Change = (record: AppRecord | undefined) => Draft | null | Refusal

interface EditDetails {
  /** What is logged of it; absent: made, replaced or removed. */
  readonly what?: string
  /** Called when it is this edit's turn. */
  readonly before?: (stored: AppRecords) => Promise<void>
}

class Refusal {
  readonly answer: Answer

  constructor(answer: Answer) {
    this.answer = answer
  }
}

export class AppsApi {
  readonly #options: AppsApiOptions
  readonly #table: Readonly<Record<string, Readonly<Record<string, Handler>>>>
  #waiting = 0
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: AppsApiOptions) {
    this.#options = options
    this.#table = {
      '': {
        GET: (asked) => this.#get(asked),
        PUT: (asked) => this.#put(asked),
        DELETE: (asked) => this.#remove(asked),
      },
      rotate: { POST: (asked) => this.#rotate(asked) },
      usage: { GET: (asked) => this.#usage(asked) },
      'read-keys': { GET: (asked) => this.#readKeys(asked), POST: (asked) => this.#makeReadKey(asked) },
      'read-keys/': { DELETE: (asked) => this.#revoke(asked) },
    }
  }

  /** undefined: it is no path of an app. */
  methods(path: string): AppMethods | undefined {
    const [, appId, part = '', name] = PATH.exec(path) ?? []
    const handlers = this.#table[name === undefined ? part : `${part}/`]
    if (appId === undefined || handlers === undefined) return undefined
    const bound = Object.entries(handlers).map(([method, handler]) => [
      method,
      (request: AdminRequest, caller: Caller) =>
        handler({ request, appId, name: name ?? '', caller }).catch(unavailableOr),
    ])
    return Object.fromEntries(bound) as AppMethods
  }

  async #get({ appId, caller, request }: Asked): Promise<Answer> {
    const record = await this.#find(appId)
    if (record === undefined) return NOT_THERE
    const etag = etagOf(record)
    if (matches(request.headers['if-none-match'], etag)) return answered(304, 'application/json', '', { ETag: etag })
    return withEtag(jsonAnswer(shown(record, caller.mayWrite)), etag)
  }

  async #put(asked: Asked): Promise<Answer> {
    const { appId, request } = asked
    // Before the body is looked at.
    const early = this.#fixed() ?? staleAnswer(request, await this.#find(appId))
    if (early !== null) return early
    const given = await jsonIn(request, true)
    if (given instanceof Refusal) return given.answer
    // Keys that were made up here are nobody's.
    const givesKeys = 'app_key' in given || 'previous_keys' in given
    let others: readonly AppRecord[] = []
    const readOthers = async (stored: AppRecords): Promise<void> => {
      others = (await stored.list()).records.filter((other) => other.app_id !== appId)
    }
    const change: Change = (present) => {
      const { read_keys: _, ...members } = given
      const keys = 'app_key' in members ? {} : keysFor(appId, present)
      const draft = { app_id: appId, ...members, ...keys, ...pick(present, 'read_keys') }
      if (draft.app_id !== appId) return new Refusal(badRecord('app_id: must be the one in the address'))
      const wrong = takenIn(draft, others) ?? mistakeIn(draft)
      return wrong === null ? draft : new Refusal(badRecord(wrong))
    }
    return await this.#edit(asked, change, givesKeys ? { before: readOthers } : {})
  }

  async #remove(asked: Asked): Promise<Answer> {
    const early = this.#fixed()
    if (early !== null) return early
    return await this.#edit(asked, (present) => (present === undefined ? new Refusal(NOT_THERE) : null))
  }

  async #rotate(asked: Asked): Promise<Answer> {
    const { appId, request } = asked
    const early = this.#fixed()
    if (early !== null) return early
    const given = await jsonIn(request, false)
    if (given instanceof Refusal) return given.answer
    const overlapMs = spanIn(given, 'overlap', DEFAULT_OVERLAP)
    if (overlapMs === null) return badRequest('overlap: must be such as 30d or 12h, at most 3650d, or 0')
    const key = freshKey(appId)
    let olderValidUntil: string | null = null
    const answer = await this.#edit(
      asked,
      (present) => {
        if (present === undefined) return new Refusal(NOT_THERE)
        const result = rotated(present, { key, overlapMs, nowMs: this.#options.nowMs() })
        olderValidUntil = result.olderValidUntil
        return result.record
      },
      { what: 'given a new key' },
    )
    return answer.status === 200 ? jsonAnswer({ app_key: key, older_valid_until: olderValidUntil }) : answer
  }

  async #usage({ appId, request }: Asked): Promise<Answer> {
    const { inspection } = this.#options
    const days = new URLSearchParams(request.query).get('days')
    const isCsv = wantsCsv(request)
    if (days === null && !isCsv) return jsonTextAnswer(await inspection.answer({ appId }, { name: 'apps', query: '' }))
    const query = days === null ? '' : `days=${encodeURIComponent(days)}`
    const answer = await inspection.answer({ appId }, { name: 'days', query })
    return answer.status === 200 ? daysAnswer(answer.json, isCsv) : jsonTextAnswer(answer)
  }

  async #readKeys({ appId }: Asked): Promise<Answer> {
    const record = await this.#find(appId)
    return record === undefined ? NOT_THERE : jsonAnswer({ read_keys: readKeysOf(record).map(shownReadKey) })
  }

  async #makeReadKey(asked: Asked): Promise<Answer> {
    const early = this.#fixed()
    if (early !== null) return early
    const given = await jsonIn(asked.request, false)
    if (given instanceof Refusal) return given.answer
    const { name = null } = given
    const isEnding = 'expires' in given
    if (name !== null && !(typeof name === 'string' && READ_KEY_NAME.test(name)))
      return badRequest('name: must be 1 to 64 letters, digits, _ or -')
    const lifetimeMs = isEnding ? spanIn(given, 'expires') : null
    if (isEnding && !lifetimeMs) return badRequest('expires: must be such as 90d or 12h, at most 3650d')
    const endsAtMs = lifetimeMs === null ? null : this.#options.nowMs() + lifetimeMs
    let made: object = {}
    const answer = await this.#edit(
      asked,
      (present) => {
        if (present === undefined) return new Refusal(NOT_THERE)
        const result = withReadKey(present, { name, endsAtMs })
        if (result === 'name taken')
          return new Refusal(problem(409, 'key_exists', 'the app has a read key of this name'))
        if (typeof result === 'string')
          return new Refusal(problem(409, 'key_exists', 'the app has 8 read keys already'))
        made = { key: result.key, ...shownReadKey(result.made) }
        return result.record
      },
      { what: 'given a read key' },
    )
    return answer.status === 200 ? { ...jsonAnswer(made), status: 201 } : answer
  }

  async #revoke(asked: Asked): Promise<Answer> {
    const early = this.#fixed()
    if (early !== null) return early
    const { name } = asked
    const answer = await this.#edit(
      asked,
      (present) => {
        if (present === undefined) return new Refusal(NOT_THERE)
        const changed = withoutReadKey(present, name)
        return typeof changed === 'string'
          ? new Refusal(problem(404, 'no_such_key', 'there is no such read key'))
          : changed
      },
      { what: `freed of its read key ${name}` },
    )
    return answer.status === 200 ? NO_CONTENT : answer
  }

  #fixed(): Answer | null {
    const why = this.#options.whyFixed()
    return why === null ? null : problem(409, 'apps_in_file', why)
  }

  async #find(appId: string): Promise<AppRecord | undefined> {
    return await this.#options.withRecords((stored) => stored.one(appId))
  }

  /** One after the other; `change` is called again where another edit came between. */
  async #edit(asked: Asked, change: Change, details: EditDetails = {}): Promise<Answer> {
    if (this.#waiting >= MAX_WAITING) return problem(503, 'busy', 'too many edits at once: try again')
    this.#waiting += 1
    const edit = this.#last.then(() => this.#editNow(asked, change, details))
    this.#last = edit.catch(() => {})
    try {
      return await edit
    } finally {
      this.#waiting -= 1
    }
  }

  async #editNow({ appId, request, caller }: Asked, change: Change, { what, before }: EditDetails): Promise<Answer> {
    let answer: Answer = NOT_THERE
    let done: string | null = null
    await this.#options.withRecords(async (stored) => {
      await before?.(stored)
      await stored.editOne(appId, (present) => {
        const stale = staleAnswer(request, present)
        const next = stale === null ? change(present) : new Refusal(stale)
        done = null
        if (next instanceof Refusal) {
          answer = next.answer
          return 'same'
        }
        if (next === null) {
          ;[answer, done] = [NO_CONTENT, 'removed']
          return null
        }
        const record = next as AppRecord
        const isNew = present === undefined
        done = what ?? (isNew ? 'made' : 'replaced')
        answer = withEtag({ ...jsonAnswer(shown(record, true)), status: isNew ? 201 : 200 }, etagOf(record))
        return record
      })
    })
    if (done !== null) this.#options.onChange({ app: appId, what: done, by: caller.by })
    return answer
  }
}

/** The keys that an app keeps, or a new one gets. */
function keysFor(appId: string, present: AppRecord | undefined): Draft {
  if (present === undefined) return { app_key: freshKey(appId) }
  return { app_key: present.app_key, ...pick(present, 'previous_keys') }
}

function pick(record: AppRecord | undefined, member: 'previous_keys' | 'read_keys'): Draft {
  const value = record?.[member]
  return value === undefined ? {} : { [member]: value }
}

/** Keys are shown in full to who may change them, and read keys to nobody. */
function shown(record: AppRecord, isWhole: boolean): object {
  const { app_key: key, previous_keys: older, read_keys: readKeys, ...members } = record
  const keyOf = (one: string): string => (isWhole ? one : maskedKey(one, record.app_id))
  return {
    app_key: keyOf(key),
    ...members,
    ...(older === undefined
      ? {}
      : { previous_keys: older.map((one) => Object.assign({}, one, { app_key: keyOf(one.app_key) })) }),
    ...(readKeys === undefined ? {} : { read_keys: readKeys.map(shownReadKey) }),
  }
}

/** Of the record, but for the last use of its read keys, which is no edit. */
function etagOf(record: AppRecord): string {
  const text = JSON.stringify(record, (member, value: unknown) => (member === 'last_used_at' ? undefined : value))
  return `"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"`
}

function withEtag(answer: Answer, etag: string): Answer {
  return { ...answer, headers: { ...answer.headers, ETag: etag } }
}

function matches(header: string | undefined, etag: string): boolean {
  return header?.split(',').some((tag) => tag.trim() === '*' || tag.trim() === etag) ?? false
}

/** null: the record is the one that the request is for. */
function staleAnswer({ headers }: AdminRequest, present: AppRecord | undefined): Answer | null {
  const wanted = headers['if-match']
  if (wanted !== undefined && (present === undefined || !matches(wanted, etagOf(present)))) return STALE
  return headers['if-none-match']?.trim() === '*' && present !== undefined ? STALE : null
}

/** An object; empty where there is no body and none is needed. */
async function jsonIn(request: AdminRequest, isNeeded: boolean): Promise<Readonly<Record<string, unknown>> | Refusal> {
  const type = request.headers['content-type'] ?? ''
  const hasBody =
    request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0
  if ((isNeeded || hasBody) && !/^application\/json *(;|$)/i.test(type)) return new Refusal(NO_JSON)
  const body = await request.body(MAX_RECORD_BYTES)
  if (!Buffer.isBuffer(body)) return new Refusal(body)
  if (body.length === 0 && !isNeeded) return {}
  try {
    const text = body.toString()
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      const [repeated] = repeatedMembers(text)
      return repeated === undefined ? (value as Record<string, unknown>) : new Refusal(badRecord(repeated))
    }
  } catch {
    // Said below.
  }
  return new Refusal(badRecord('record: must be a JSON object'))
}

const NO_CONTENT = answered(204, 'text/plain', '')

/** null: it is no span. */
function spanIn(given: Readonly<Record<string, unknown>>, member: string, standard = ''): number | null {
  const text = given[member] ?? standard
  return typeof text === 'string' ? spanMsOf(text) : null
}

function badRecord(message: string): Answer {
  return problem(400, 'bad_record', message)
}

function badRequest(message: string): Answer {
  return problem(400, 'bad_request', message)
}

/** The records cannot be read or written. Anything else is a bug. */
function unavailableOr(error: unknown): Answer {
  if (error instanceof StartError) return problem(503, 'unavailable', error.message)
  throw error
}

// App records over HTTP: what `sluice apps` does, with the same checks, for scripts and the console.

import type { AppRecord } from '../apps/app-record.ts'
import { READ_KEY_NAME } from '../apps/record-members.ts'
import { type AdminRequest, type Answer, answered, jsonAnswer, jsonTextAnswer, problem } from '../http/admin-routes.ts'
import type { Inspection } from '../inspect/inspection.ts'
import { StartError } from '../lib/errors.ts'
import { describeTaken, mistakeIn, takenIn } from '../records/app-draft.ts'
import { freshKey, readKeysOf, rotated, shownReadKey, withoutReadKey, withReadKey } from '../records/app-keys.ts'
import type { AppRecords } from '../records/app-records.ts'
import {
  etagOf,
  jsonIn,
  matches,
  NO_CONTENT,
  pick,
  Refusal,
  shown,
  spanIn,
  staleAnswer,
  withEtag,
  withKeys,
} from './app-bodies.ts'
import { AppEdits, type AppEditsOptions, type Caller, type Change, NOT_THERE } from './app-edits.ts'
import { daysAnswer } from './portal.ts'
import type { Methods } from './routes.ts'

const PATH = /^\/api\/apps\/([A-Za-z0-9_-]{1,64})(?:\/(rotate|usage|read-keys)(?:\/([A-Za-z0-9_-]{1,64}))?)?$/
const DEFAULT_OVERLAP = '30d'

export interface AppsApiOptions extends AppEditsOptions {
  /** Why records cannot be changed here; null: they can. */
  readonly whyFixed: () => string | null
  readonly inspection: Inspection
  readonly nowMs: () => number
}

interface Asked {
  readonly request: AdminRequest
  readonly appId: string
  readonly name: string
  readonly caller: Caller
}

type Handler = (asked: Asked) => Promise<Answer>
export class AppsApi {
  readonly #options: AppsApiOptions
  readonly #table: Readonly<Record<string, Readonly<Record<string, Handler>>>>
  readonly #edits: AppEdits

  constructor(options: AppsApiOptions) {
    this.#options = options
    this.#edits = new AppEdits(options)
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

  /** undefined: it is no path of an app. `callerOf`: who asks, or why that one may not. */
  methods(
    path: string,
    callerOf: (request: AdminRequest, isReading: boolean) => Caller | Answer,
  ): Methods<null> | undefined {
    const [, appId, part = '', name] = PATH.exec(path) ?? []
    const handlers = this.#table[name === undefined ? part : `${part}/`]
    if (appId === undefined || handlers === undefined) return undefined
    const bound = Object.entries(handlers).map(([method, handler]): [string, Methods<null>[string]] => [
      method,
      async ({ request }) => {
        const caller = callerOf(request, method === 'GET')
        if ('status' in caller) return caller
        const fixed = method === 'GET' ? null : this.#options.whyFixed()
        if (fixed !== null) return problem('apps_in_file', fixed)
        return await handler({ request, appId, name: name ?? '', caller }).catch(unavailableOr)
      },
    ])
    return Object.fromEntries(bound)
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
    const early = staleAnswer(request, await this.#find(appId))
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
      const draft = { app_id: appId, ...withKeys(members, appId, present), ...pick(present, 'read_keys') }
      if (draft.app_id !== appId) return new Refusal(problem('bad_record', 'app_id: must be the one in the address'))
      const [taken] = takenIn(draft, others)
      const wrong = taken === undefined ? mistakeIn(draft) : describeTaken(draft, taken)
      return wrong === null ? draft : new Refusal(problem('bad_record', wrong))
    }
    // Another node may have stored one of these keys at the same time: the older entry has it.
    const after = async (stored: AppRecords, record: AppRecord): Promise<Refusal | null> => {
      await readOthers(stored)
      for (const key of takenIn(record, others)) {
        const owner = await stored.find(key)
        if (owner === 'unknown' || owner.appId !== appId)
          return new Refusal(problem('bad_record', describeTaken(record, key)))
      }
      return null
    }
    return await this.#edits.edit(asked, change, givesKeys ? { before: readOthers, after } : {})
  }

  async #remove(asked: Asked): Promise<Answer> {
    return await this.#change(asked, undefined, () => null)
  }

  async #rotate(asked: Asked): Promise<Answer> {
    const { appId, request } = asked
    const given = await jsonIn(request, false)
    if (given instanceof Refusal) return given.answer
    const overlapMs = spanIn(given, 'overlap', DEFAULT_OVERLAP)
    if (overlapMs === null) return problem('bad_request', 'overlap: must be such as 30d or 12h, at most 3650d, or 0')
    const key = freshKey(appId)
    let olderValidUntil: string | null = null
    const answer = await this.#change(asked, 'given a new key', (present) => {
      const result = rotated(present, { key, overlapMs, nowMs: this.#options.nowMs() })
      olderValidUntil = result.olderValidUntil
      return result.record
    })
    return answer.status === 200 ? jsonAnswer({ app_key: key, older_valid_until: olderValidUntil }) : answer
  }

  async #usage({ appId, request }: Asked): Promise<Answer> {
    const { inspection } = this.#options
    const scope = { appId, isOperator: true }
    const byDay = await daysAnswer(inspection, scope, request, jsonTextAnswer)
    return byDay ?? jsonTextAnswer(await inspection.answer({ name: 'apps', scope, query: '' }))
  }

  async #readKeys({ appId }: Asked): Promise<Answer> {
    const record = await this.#find(appId)
    return record === undefined ? NOT_THERE : jsonAnswer({ read_keys: readKeysOf(record).map(shownReadKey) })
  }

  async #makeReadKey(asked: Asked): Promise<Answer> {
    const given = await jsonIn(asked.request, false)
    if (given instanceof Refusal) return given.answer
    const { name = null } = given
    const isEnding = 'expires' in given
    if (name !== null && !(typeof name === 'string' && READ_KEY_NAME.test(name)))
      return problem('bad_request', 'name: must be 1 to 64 letters, digits, _ or -')
    const lifetimeMs = isEnding ? spanIn(given, 'expires') : null
    if (isEnding && !lifetimeMs) return problem('bad_request', 'expires: must be such as 90d or 12h, at most 3650d')
    const endsAtMs = lifetimeMs === null ? null : this.#options.nowMs() + lifetimeMs
    let made: object = {}
    const answer = await this.#change(asked, 'given a read key', (present) => {
      const result = withReadKey(present, { name, endsAtMs })
      if (result === 'name taken') return new Refusal(problem('key_exists', 'the app has a read key of this name'))
      if (typeof result === 'string') return new Refusal(problem('key_exists', 'the app has 8 read keys already'))
      made = { key: result.key, ...shownReadKey(result.made) }
      return result.record
    })
    return answer.status === 200 ? { ...jsonAnswer(made), status: 201 } : answer
  }

  async #revoke(asked: Asked): Promise<Answer> {
    const { name } = asked
    const answer = await this.#change(asked, `freed of its read key ${name}`, (present) => {
      const changed = withoutReadKey(present, name)
      return typeof changed === 'string' ? new Refusal(problem('no_such_key')) : changed
    })
    return answer.status === 200 ? NO_CONTENT : answer
  }

  /** Of an app that there is. */
  #change(asked: Asked, what: string | undefined, change: (present: AppRecord) => ReturnType<Change>): Promise<Answer> {
    const known: Change = (present) => (present === undefined ? new Refusal(NOT_THERE) : change(present))
    return this.#edits.edit(asked, known, what === undefined ? {} : { what })
  }

  async #find(appId: string): Promise<AppRecord | undefined> {
    return await this.#options.withRecords((stored) => stored.one(appId))
  }
}

/** The records cannot be read or written. Anything else is a bug. */
function unavailableOr(error: unknown): Answer {
  if (error instanceof StartError) return problem('unavailable', error.message)
  throw error
}

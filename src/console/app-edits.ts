// Edits of app records over HTTP, one after the other: what refuses one, what it answers, and what is logged of it.

import type { AppRecord } from '../apps/app-record.ts'
import { type AdminRequest, type Answer, jsonAnswer, problem } from '../http/admin-routes.ts'
import type { Draft } from '../records/app-draft.ts'
import type { AppRecords } from '../records/app-records.ts'
import { etagOf, NO_CONTENT, Refusal, shown, staleAnswer, withEtag } from './app-bodies.ts'

/** Edits that wait for the one at hand; each reads all records. */
const MAX_WAITING = 200

export const NOT_THERE = problem('no_such_app')

export interface AppChange {
  readonly app: string
  /** In words, such as `made`. */
  readonly what: string
  readonly by: string
}

/** What a request may do, and who it is for the log. */
export interface Caller {
  readonly mayWrite: boolean
  readonly by: string
}

interface Wanted {
  readonly request: AdminRequest
  readonly appId: string
  readonly caller: Caller
}

/** Returns the app's next record, null to remove it, or what refuses the edit. */
export type Change = (record: AppRecord | undefined) => Draft | null | Refusal

interface EditDetails {
  /** What is logged of it; absent: made, replaced or removed. */
  readonly what?: string
  /** Called when it is this edit's turn. */
  readonly before?: (stored: AppRecords) => Promise<void>
  /** What is wrong with the record now that it is stored: it is put back. null: nothing. */
  readonly after?: (stored: AppRecords, record: AppRecord) => Promise<Refusal | null>
}

export interface AppEditsOptions {
  /** Opens the file or the bucket for one question or edit. Rejects where it cannot be used. */
  readonly withRecords: <T>(use: (records: AppRecords) => Promise<T>) => Promise<T>
  readonly onChange: (change: AppChange) => void
}

export class AppEdits {
  readonly #options: AppEditsOptions
  #waiting = 0
  #last: Promise<unknown> = Promise.resolve()

  constructor(options: AppEditsOptions) {
    this.#options = options
  }

  /** One after the other; `change` is called again where another edit came between. */
  async edit(asked: Wanted, change: Change, details: EditDetails = {}): Promise<Answer> {
    if (this.#waiting >= MAX_WAITING) return problem('busy', 'too many edits at once: try again')
    this.#waiting += 1
    const edit = this.#last.then(() => this.#editNow(asked, change, details))
    this.#last = edit.catch(() => {})
    try {
      return await edit
    } finally {
      this.#waiting -= 1
    }
  }

  async #editNow(asked: Wanted, change: Change, { what, before, after }: EditDetails): Promise<Answer> {
    const { appId, request, caller } = asked
    let edit = refusedBy(NOT_THERE)
    await this.#options.withRecords(async (stored) => {
      await before?.(stored)
      await stored.editOne(appId, (present) => {
        edit = decide(staleAnswer(request, present), change, present)
        return edit.next
      })
      const { next, over } = edit
      if (next === null || next === 'same') return
      const refusal = (await after?.(stored, next)) ?? null
      if (refusal === null) return
      // But for the last use of a read key, which may come between.
      const isThere = (record: AppRecord | undefined): boolean =>
        record !== undefined && etagOf(record) === etagOf(next)
      await stored.editOne(appId, (present) => (isThere(present) ? (over ?? null) : 'same'))
      edit = refusedBy(refusal.answer)
    })
    if (edit.done !== null) this.#options.onChange({ app: appId, what: what ?? edit.done, by: caller.by })
    return edit.answer
  }
}

interface Edit {
  /** What `editOne` takes. */
  readonly next: AppRecord | null | 'same'
  /** The record in whose place it stands. */
  readonly over: AppRecord | undefined
  readonly answer: Answer
  /** For the log; null: nothing was changed. */
  readonly done: string | null
}

function refusedBy(answer: Answer): Edit {
  return { next: 'same', over: undefined, answer, done: null }
}

function decide(stale: Answer | null, change: Change, over: AppRecord | undefined): Edit {
  const next = stale === null ? change(over) : new Refusal(stale)
  if (next instanceof Refusal) return refusedBy(next.answer)
  if (next === null) return { next, over, answer: NO_CONTENT, done: 'removed' }
  const record = next as AppRecord
  const isNew = over === undefined
  const answer = withEtag({ ...jsonAnswer(shown(record, true)), status: isNew ? 201 : 200 }, etagOf(record))
  return { next: record, over, answer, done: isNew ? 'made' : 'replaced' }
}

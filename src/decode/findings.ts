// What the validator finds wrong with a body, and the texts that name it.

import { MAX_ERRORS_COUNTED } from '../contract/bounds.ts'
import type { ErrorCode } from '../contract/outcome.ts'
import type { Span } from './json.ts'

/** Most characters of a member's own name in a path of `namedPathOf`. */
const MAX_NAME_CHARACTERS = 60

/** A member that does not fit. No text of it repeats anything of the body. */
export interface Finding {
  readonly path: string
  readonly message: string
  readonly code: ErrorCode
  /** The place of its event in `events`; null: it is outside of them. */
  readonly event: number | null
  /** Its bytes in the body. Of a member that is missing: the bracket of the object that has not got it. */
  readonly span: Span
  /** The name of the member of `properties` or `revenue` that the path names by its place. */
  readonly name: string | null
}

/** Counts the offending members, lists the first ones, and knows which events have any. Once it is full, checks may stop. */
export class Findings {
  readonly listed: Finding[] = []
  total = 0
  /** The place of the event that is being checked; null: what is checked is outside of them. */
  event: number | null = null
  readonly #invalidEvents = new Set<number>()
  #isOutside = false
  private readonly maxListed: number

  constructor(maxListed: number) {
    this.maxListed = maxListed
  }

  /** No more are counted, and it is known already that this event has one. */
  get full(): boolean {
    return this.total >= MAX_ERRORS_COUNTED && this.event !== null && this.#invalidEvents.has(this.event)
  }

  /** Without these the body would fit. null: it would not, since a member outside of them does not. */
  get invalidEvents(): readonly number[] | null {
    return this.#isOutside ? null : [...this.#invalidEvents]
  }

  add(code: ErrorCode, path: string, message: string, span: Span, name: string | null = null): void {
    const { event } = this
    if (event === null) this.#isOutside = true
    else this.#invalidEvents.add(event)
    if (this.total >= MAX_ERRORS_COUNTED) return
    this.total += 1
    if (this.listed.length < this.maxListed) this.listed.push({ path, message, code, event, span, name })
  }
}

export function textOf({ path, message }: Finding): string {
  return `${path}: ${message}`
}

/** With `properties.colour`, or `properties["a name"]`, in place of `properties[12]`. */
export function namedPathOf({ path, name }: Finding): string {
  if (name === null) return path
  const cut = name.length > MAX_NAME_CHARACTERS ? `${name.slice(0, MAX_NAME_CHARACTERS)}…` : name
  // JSON.stringify escapes all other characters that a terminal would obey.
  const shown = /^\w+$/.test(cut) ? `.${cut}` : `[${JSON.stringify(cut).replace(/[\u007f-\u009f]/g, '?')}]`
  return path.slice(0, path.lastIndexOf('[')) + shown
}

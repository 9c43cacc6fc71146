// What the validator finds wrong with a body, and the texts that name it.

import { MAX_ERRORS_COUNTED } from '../contract/bounds.ts'
import type { Span } from './json.ts'

/** Most characters of a member's own name in a path of `namedPathOf`. */
const MAX_NAME_CHARACTERS = 60

/** A member that does not fit. Neither text repeats anything of the body. */
export interface Finding {
  readonly path: string
  readonly message: string
  /** Its bytes in the body. Of a member that is missing: the bracket of the object that has not got it. */
  readonly span: Span
  /** The name of the member of `properties` or `revenue` that the path names by its place. */
  readonly name: string | null
}

/** Counts the offending members, and lists the first ones. Once it is full, checks may stop. */
export class Findings {
  readonly listed: Finding[] = []
  total = 0
  private readonly maxListed: number

  constructor(maxListed: number) {
    this.maxListed = maxListed
  }

  get full(): boolean {
    return this.total >= MAX_ERRORS_COUNTED
  }

  add(path: string, message: string, span: Span, name: string | null = null): void {
    if (this.full) return
    this.total += 1
    if (this.listed.length < this.maxListed) this.listed.push({ path, message, span, name })
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

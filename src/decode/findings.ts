// What the validator finds wrong with a body, and the texts that name it.

import { MAX_ERRORS_COUNTED } from '../bounds.ts'
import type { JsonMember } from './json.ts'

/** Most characters of a member's own name in a text of `namedTextOf`. */
const MAX_NAME_CHARACTERS = 60

/** A member that does not fit. Neither text repeats anything of the body. */
export interface Finding {
  readonly path: string
  readonly message: string
  /** The member of `properties` or `revenue` that `path` names by its place. */
  readonly member: JsonMember | null
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

  add(path: string, message: string, member: JsonMember | null = null): void {
    if (this.full) return
    this.total += 1
    if (this.listed.length < this.maxListed) this.listed.push({ path, message, member })
  }
}

export function textOf({ path, message }: Omit<Finding, 'member'>): string {
  return `${path}: ${message}`
}

/** As `textOf`, but `properties[12]` becomes `properties.colour`, or `properties["a name"]`. */
export function namedTextOf({ path, message, member }: Finding): string {
  if (member === null) return textOf({ path, message })
  const { key } = member
  const name = key.length > MAX_NAME_CHARACTERS ? `${key.slice(0, MAX_NAME_CHARACTERS)}…` : key
  // JSON.stringify escapes all other characters that a terminal would obey.
  const shown = /^\w+$/.test(name) ? `.${name}` : `[${JSON.stringify(name).replace(/[\u007f-\u009f]/g, '?')}]`
  return textOf({ path: path.slice(0, path.lastIndexOf('[')) + shown, message })
}

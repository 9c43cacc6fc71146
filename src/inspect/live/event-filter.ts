// Which events a watcher wants: by app, type, name and user. An event is looked for by its bytes first, so that only those
// that may fit are parsed.

import type { EventFilter } from '../../contract/admin/peers.ts'
import { EVENT_TYPES } from '../../contract/bounds.ts'
import { textsIn } from '../query.ts'

const MAX_TEXT = 200

/** A sentence where the query is wrong. */
export function readEventFilter(query: URLSearchParams): EventFilter | string {
  const texts = textsIn(query, ['app', 'name', 'user'], MAX_TEXT)
  const asked = query.get('type') || null
  const type = EVENT_TYPES.find((name) => name === asked) ?? null
  if (asked !== null && type === null) return `type: must be one of ${EVENT_TYPES.join(', ')}`
  return typeof texts === 'string' ? texts : { ...texts, type }
}

/** What the bytes of a fitting event hold, or would if nothing in it was written as an escape. */
export function needlesOf({ type, name, user }: EventFilter): Buffer[] {
  const texts = [name, user].flatMap((text) => (text === null ? [] : [writtenText(text)]))
  return [...(type === null ? [] : [JSON.stringify(type)]), ...texts].map((needle) => Buffer.from(needle))
}

/** Each byte of the rarer text as one character; empty: every name and user fits. */
export function textNeedleOf({ name, user }: EventFilter): string {
  const text = user ?? name
  return text === null ? '' : Buffer.from(writtenText(text)).toString('latin1')
}

function writtenText(text: string): string {
  return text.endsWith('*') ? JSON.stringify(text.slice(0, -1)).slice(0, -1) : JSON.stringify(text)
}

/**
 * The same of a whole record. The text is looked for without its first quote, which is everywhere and would make the
 * search five times as slow.
 */
export function mayHoldText(text: string, needle: string): boolean {
  return (text.includes(needle.slice(1)) && text.includes(needle)) || text.includes('\\')
}

/** Whether these bytes may hold the needle: as they are, or with characters written as escapes. */
export function mayHold(bytes: Buffer, needle: Buffer): boolean {
  return bytes.includes(needle) || bytes.includes(0x5c)
}

/** Exactly, on an event of an app that fits. */
export function fits({ type, name, user }: EventFilter, event: Readonly<Record<string, unknown>>): boolean {
  return (type === null || event['type'] === type) && isLike(name, event['name']) && isLike(user, event['user_id'])
}

/** `wanted`: null: any; with `*` at its end, what begins so. */
function isLike(wanted: string | null, found: unknown): boolean {
  if (wanted === null) return true
  if (typeof found !== 'string') return false
  return wanted.endsWith('*') ? found.startsWith(wanted.slice(0, -1)) : found === wanted
}

// Which events a watcher wants: by app, by type, by name. An event is looked for by its bytes first, so that only those
// that may fit are parsed.

import type { EventFilter } from '../../contract/admin/peers.ts'
import { EVENT_TYPES } from '../../contract/admin/words.ts'
import { textsIn } from '../query.ts'

const MAX_TEXT = 200

/** A sentence where the query is wrong. */
export function readEventFilter(query: URLSearchParams): EventFilter | string {
  const texts = textsIn(query, ['app', 'name'], MAX_TEXT)
  const asked = query.get('type') || null
  const type = EVENT_TYPES.find((name) => name === asked) ?? null
  if (asked !== null && type === null) return `type: must be one of ${EVENT_TYPES.join(', ')}`
  return typeof texts === 'string' ? texts : { ...texts, type }
}

/** Equal filters have equal texts. */
export function filterKey({ app, type, name }: EventFilter): string {
  return JSON.stringify([app, type, name])
}

/** What the bytes of a fitting event hold, or would if nothing in it was written as an escape. */
export function needlesOf({ type, name }: EventFilter): Buffer[] {
  const needles = [...(type === null ? [] : [JSON.stringify(type)]), ...(name === null ? [] : [nameText(name)])]
  return needles.map((needle) => Buffer.from(needle))
}

/** Each byte of the name's text as one character; empty: every name fits. */
export function nameNeedleOf({ name }: EventFilter): string {
  return name === null ? '' : Buffer.from(nameText(name)).toString('latin1')
}

function nameText(name: string): string {
  return name.endsWith('*') ? JSON.stringify(name.slice(0, -1)).slice(0, -1) : JSON.stringify(name)
}

/**
 * The same of a whole record. The name is looked for without its first quote, which is everywhere and would make the
 * search five times as slow.
 */
export function mayHoldName(text: string, nameNeedle: string): boolean {
  return (text.includes(nameNeedle.slice(1)) && text.includes(nameNeedle)) || text.includes('\\')
}

/** Whether these bytes may hold the needle: as they are, or with characters written as escapes. */
export function mayHold(bytes: Buffer, needle: Buffer): boolean {
  return bytes.includes(needle) || bytes.includes(0x5c)
}

/** Exactly, on an event of an app that fits. */
export function fits({ type, name }: EventFilter, event: Readonly<Record<string, unknown>>): boolean {
  if (type !== null && event['type'] !== type) return false
  if (name === null) return true
  const found = event['name']
  if (typeof found !== 'string') return false
  return name.endsWith('*') ? found.startsWith(name.slice(0, -1)) : found === name
}

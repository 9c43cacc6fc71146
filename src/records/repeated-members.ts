// Finds members that stand twice in a JSON text of app records.

import { type JsonValue, readJson } from '../decode/json.ts'
import { printable } from '../lib/printable.ts'

const MAX_REPEATS_NAMED = 100

/** JSON.parse takes the last of them, so that a limit that is written twice would be whichever stands below. */
export function repeatedMembers(json: string): readonly string[] {
  const reading = readJson(Buffer.from(json))
  if (reading.kind === 'broken') return [reading.problem]
  const found: string[] = []
  const look = (value: JsonValue, path: string): void => {
    if (found.length > MAX_REPEATS_NAMED) return
    if (value.kind === 'array') for (const [index, item] of value.items.entries()) look(item, `${path}[${index}]`)
    if (value.kind !== 'object') return
    const names = new Set<string>()
    for (const { key, value: member } of value.members) {
      const memberPath = path === '' ? key : `${path}.${key}`
      if (names.has(key)) found.push(`${printable(memberPath)}: stands twice in its object`)
      names.add(key)
      look(member, memberPath)
    }
  }
  look(reading.value, '')
  return found.length > MAX_REPEATS_NAMED ? [...found.slice(0, MAX_REPEATS_NAMED), 'and more'] : found
}

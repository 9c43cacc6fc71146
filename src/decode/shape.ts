// Type and length of a member that does not fit: what may be said of it to whoever looks at refusals, who see nothing of its
// content.

import type { Finding } from './findings.ts'
import type { JsonValue } from './json.ts'

export function shapeOf({ message, span }: Finding, root: JsonValue): string {
  if (message === 'required') return 'absent'
  const value = valueAt(root, span.start)
  switch (value.kind) {
    case 'string':
      return `string of ${many(countCodePoints(value.text), 'character')}`
    case 'number':
      return `number of ${many(value.end - value.start, 'character')}`
    case 'array':
      return `array of ${many(value.items.length, 'item')}`
    case 'object':
      return `object of ${many(value.members.length, 'member')}`
    case 'boolean':
    case 'null':
      return value.kind
  }
}

/** `start`: of an item, or of the name of a member. */
function valueAt(value: JsonValue, start: number): JsonValue {
  if (value.kind === 'object') {
    const member = value.members.findLast((one) => one.start <= start)
    if (member !== undefined) return member.start === start ? member.value : valueAt(member.value, start)
  }
  if (value.kind === 'array') {
    const item = value.items.findLast((one) => one.start <= start)
    if (item !== undefined) return item.start === start ? item : valueAt(item, start)
  }
  return value
}

function many(count: number, word: string): string {
  return `${count} ${word}${count === 1 ? '' : 's'}`
}

/** A surrogate pair counts as one, and so does a lone surrogate. */
export function countCodePoints(decoded: string): number {
  let characters = 0
  for (const _ of decoded) characters += 1
  return characters
}

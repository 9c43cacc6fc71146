// Changes one event in one way that a rule of the schema may or may not forbid: a member dropped, doubled, moved or
// renamed, a value of another type, or one at or beyond a bound.

import { LENGTHS, NUMBERS, type Random, stringText, TIMESTAMPS, valueText } from '../unit/decode/bodies.ts'
import { BOUNDS, CONTEXT_NAMES, type Member, plainText } from './layout.ts'

const EVENT_NAMES = ['type', 'timestamp', 'context', 'properties', 'revenue', ...Object.keys(BOUNDS)]
const MAX_VALUE_CHARACTERS = 500
const TYPES = [
  'track',
  'screen',
  'revenue',
  'Track',
  'trac',
  'tracks',
  'screeN',
  'revenues',
  'tr\\u0061ck',
  '',
  'trbck',
]
const WORDS = ['null', 'true', 'false', 'nul', 'True', '[]', '{}', '""', '0', '[1,2]', '{"os":"x"}', '{"a":{"b":1}}']
const NO_NUMBERS = [
  '01',
  '1.',
  '-',
  '+1',
  '.5',
  '1e',
  '1e+',
  '0x1',
  '1_0',
  '--1',
  '1.5.5',
  '1e5e',
  '1,',
  'NaN',
  '"1"',
  '1"',
]
const NUMBERS_LIKE_ORDINARY = ['1179', '0', '-0', '9007199254740993', '1.25', '1E5', '1e-5', '-2556', '10']

/** `event` is changed in place; its members lie in no other event. */
export function changeMembers(random: Random, event: Member[]): void {
  const lists = [event, event]
  for (const { value } of event) if (typeof value === 'object' && value.length > 0) lists.push(value)
  const list = lists[random(lists.length)]
  if (list.length === 0) return
  const at = random(list.length)
  const member = list[at]
  switch (random(16)) {
    case 0:
      list.splice(at, 1)
      return
    case 1:
      list.splice(random(2) === 0 ? at : random(list.length + 1), 0, { ...member })
      return
    case 2: {
      // Twice under one name, with the value of another member, so that it may fit nowhere.
      const { value } = list[random(list.length)]
      list.splice(random(list.length + 1), 0, { name: member.name, value })
      return
    }
    case 3: {
      const other = random(list.length)
      ;[list[at], list[other]] = [list[other], list[at]]
      return
    }
    case 4:
      list.splice(random(list.length), 0, ...list.splice(at, 1))
      return
    case 5:
    case 6:
      member.name = changedName(random, member.name)
      return
    case 7:
      list.splice(random(list.length + 1), 0, { name: anyName(random), value: valueText(random, 2) })
      return
    case 8:
      member.value = random(3) === 0 ? nested(random) : WORDS[random(WORDS.length)]
      return
    case 9: {
      // Values change places, their names do not.
      const other = list[random(list.length)]
      ;[member.value, other.value] = [other.value, member.value]
      return
    }
    default:
      member.value = nearValue(random, member, list === event)
  }
}

/** A value that is just inside or just outside what the member takes. */
function nearValue(random: Random, { name, value }: Member, inEvent: boolean): string | Member[] {
  if (inEvent && name === 'type') return `"${TYPES[random(TYPES.length)]}"`
  if (inEvent && name === 'timestamp') return timestamp(random, value)
  if (typeof value === 'object') {
    if (name === 'context' || random(2) === 0)
      return random(2) === 0 ? [] : value.map((member) => ({ ...member })).slice(1)
    // More members than allowed, or just as many.
    const members = Array.from({ length: 49 + random(3) }, (_, index) => ({ name: `k${index}`, value: '1' }))
    return members
  }
  if (!value.startsWith('"') && random(2) === 0) {
    const numbers = [NUMBERS, NO_NUMBERS, NUMBERS_LIKE_ORDINARY][random(3)]
    return numbers[random(numbers.length)]
  }
  const [least, most] = (inEvent ? BOUNDS[name] : undefined) ?? [0, MAX_VALUE_CHARACTERS]
  const characters = [least, most][random(2)] + random(3) - 1
  const length = Math.max(0, random(3) === 0 ? LENGTHS[random(LENGTHS.length)] : characters)
  switch (random(6)) {
    case 0:
      return stringText(random, length)
    case 1: {
      // One character that is not plain, anywhere in a string of that length.
      const odd = ['é', '東', '😀', '\\n', '\\u0041', '\\ud83d\\ude00', '\\udc00', '\\x', '\\u12g4', '\u0001', '"'][
        random(11)
      ]
      const at = random(length + 1)
      return `${plainText(random, at).slice(0, -1)}${odd}${plainText(random, Math.max(0, length - at - 1)).slice(1)}`
    }
    case 2:
      // Measured as sent: digits, and an array of one character for each of three bytes.
      return random(2) === 0 ? '1'.repeat(Math.max(1, length)) : `["${'東'.repeat(Math.max(0, length - 4))}"]`
    default:
      return plainText(random, length)
  }
}

function timestamp(random: Random, value: Member['value']): string {
  const own = typeof value === 'string' && value.length > 2 && random(2) === 0 ? value.slice(1, -1) : null
  const text = own ?? TIMESTAMPS[random(random(2) === 0 ? 3 : TIMESTAMPS.length)]
  if (own === null && random(3) === 0) return `"${text}"`
  const at = random(text.length)
  // Mostly one digit for another, since each place has a greatest digit of its own.
  const next = random(3) > 0 ? '0123456789'[random(10)] : '-:TZ.+ t"'[random(9)]
  return `"${text.slice(0, at)}${next}${text.slice(at + (random(4) > 0 ? 1 : 0))}"`
}

/** Too deep, or just deep enough, wherever it stands. */
function nested(random: Random): string {
  const depth = 57 + random(9)
  return random(2) === 0 ? `${'['.repeat(depth)}${']'.repeat(depth)}` : `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`
}

function anyName(random: Random): string {
  const names = [EVENT_NAMES, CONTEXT_NAMES, ['os', 'x', '', 'é', 'sixteen_letters_', 'n\\u0061me']][random(3)]
  return names[random(names.length)]
}

/** One letter changed, put in, taken out, or escaped. */
function changedName(random: Random, name: string): string {
  const at = random(Math.max(1, name.length))
  const [before, letter, after] = [name.slice(0, at), name.slice(at, at + 1), name.slice(at + 1)]
  const code = letter === '' ? 97 : letter.charCodeAt(0)
  switch (random(7)) {
    case 0:
      return before + after
    case 1:
      return before + letter + 'aeo_ 0é'[random(7)] + after
    case 2:
      return `${before}\\u${code.toString(16).padStart(4, '0')}${after}`
    case 3:
      return before + letter.toUpperCase() + after
    case 4:
      return anyName(random)
    case 5:
      return name + ['x', '_', '"', '\\', '\\"', ' '][random(6)]
    default:
      return before + String.fromCharCode(code < 128 ? code ^ (1 << random(5)) : code + 1) + after
  }
}

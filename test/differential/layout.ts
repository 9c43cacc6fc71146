// Events of one layout: the same members in the same order and with the same punctuation, as one SDK sends them. Only
// values differ, and some of them stay the same from one event to the next.

import { HASH, NUMBERS, type Random, stringText, valueText } from '../unit/decode/bodies.ts'

export interface Member {
  name: string
  /** JSON text, or the members of an object. */
  value: string | Member[]
}

interface Slot {
  readonly name: string
  readonly make: ((random: Random) => string) | readonly Slot[]
}

export interface Layout {
  readonly slots: readonly Slot[]
  /** What stands after each colon, and after each comma. */
  readonly space: string
}

/** Least and most characters of the strings of an event. */
export const BOUNDS: Readonly<Record<string, readonly [number, number]>> = {
  name: [1, 200],
  hashed_daily_id: [16, 128],
  hashed_monthly_id: [16, 128],
  hashed_retention_id: [16, 128],
  session_id: [1, 128],
  user_id: [1, 256],
}

export const CONTEXT_NAMES = [
  'os_version',
  'app_version',
  'locale',
  'device_type',
  'screen_width',
  'screen_height',
] as const
const CONTEXT_BOUNDS = [1, 20] as const
const PLAIN = HASH.repeat(40)

/** As long as said, of plain letters and digits. */
export function plainText(random: Random, characters: number): string {
  const from = random(16)
  return `"${PLAIN.slice(from, from + characters)}"`
}

export function layoutOf(random: Random): Layout {
  const type = ['track', 'track', 'screen', 'revenue'][random(4)]
  const slots: Slot[] = [
    { name: 'type', make: () => `"${type}"` },
    textSlot(random, 'name', 4 + random(16)),
    textSlot(random, 'hashed_daily_id', 32),
    textSlot(random, 'hashed_monthly_id', 32),
    textSlot(random, 'session_id', 36),
    { name: 'timestamp', make: timestampMaker(random) },
    { name: 'context', make: contextSlots(random) },
  ]
  if (random(2) === 0) slots.splice(4, 0, textSlot(random, 'hashed_retention_id', 32))
  if (random(2) === 0) slots.push({ name: 'properties', make: propertySlots(random) })
  if (random(3) === 0) slots.push(textSlot(random, 'user_id', 1 + random(30)))
  if (type === 'revenue' || random(8) === 0) slots.push({ name: 'revenue', make: propertySlots(random) })
  if (random(8) === 0) slots.push({ name: `extra_${random(3)}`, make: propertyMaker(random) })
  if (random(3) === 0) swapSome(random, slots)
  return { slots, space: random(10) === 0 ? [' ', '\n', '   '][random(3)] : '' }
}

/** The next event; some values are those of the event before it. */
export function fill(random: Random, slots: readonly Slot[], before: readonly Member[] | null): Member[] {
  return slots.map(({ name, make }, index) => {
    const earlier = before?.[index].value
    if (typeof make === 'function') {
      return { name, value: typeof earlier === 'string' && random(5) < 2 ? earlier : make(random) }
    }
    return { name, value: fill(random, make, typeof earlier === 'object' ? earlier : null) }
  })
}

export function render(value: string | readonly Member[], space: string): string {
  if (typeof value === 'string') return value
  let text = ''
  for (const member of value) {
    text += `${text === '' ? '{' : `,${space}`}"${member.name}":${space}${render(member.value, space)}`
  }
  return text === '' ? '{}' : `${text}}`
}

function textSlot(random: Random, name: string, usual: number): Slot {
  const [least, most] = BOUNDS[name]
  const kind = random(12)
  // A layout whose strings are at a bound, of changing lengths, or not plain.
  if (kind === 0) return { name, make: (lot) => plainText(lot, lot(2) === 0 ? most : least) }
  if (kind === 1) return { name, make: (lot) => plainText(lot, least + lot(Math.min(40, most - least))) }
  if (kind === 2) return { name, make: (lot) => stringText(lot, Math.max(least, usual)) }
  return { name, make: (lot) => plainText(lot, Math.max(least, usual)) }
}

function timestampMaker(random: Random): Slot['make'] {
  const zone = ['Z', 'Z', 'Z', '+00:00', '-0000', ''][random(6)]
  const fraction = random(4) > 0
  return (lot) =>
    `"2026-11-20T${10 + lot(2)}:${10 + lot(50)}:${10 + lot(50)}${fraction ? `.${100 + lot(900)}` : ''}${zone}"`
}

function contextSlots(random: Random): Slot[] {
  const slots: Slot[] = [{ name: 'os', make: () => '"iOS"' }]
  for (const name of CONTEXT_NAMES) {
    if (random(4) === 0) continue
    const length = CONTEXT_BOUNDS[0] + random(CONTEXT_BOUNDS[1])
    slots.push({ name, make: name.startsWith('screen') ? numberOf : (lot) => plainText(lot, length) })
  }
  if (random(10) === 0) slots.push({ name: 'carrier', make: propertyMaker(random) })
  if (random(4) === 0) swapSome(random, slots)
  return slots
}

function propertySlots(random: Random): Slot[] {
  const count = random(40) === 0 ? 48 + random(4) : random(5)
  const names = ['button', 'a', 'screen', 'é', 'position', 'type', 'sixteen_letters_']
  return Array.from({ length: count }, (_, index) => ({
    name: count > 10 ? `p${index}` : names[(index + count) % names.length],
    make: propertyMaker(random),
  }))
}

function propertyMaker(random: Random): Slot['make'] {
  const length = random(20)
  switch (random(12)) {
    case 0:
      return (lot) => valueText(lot, 3)
    case 1:
      return (lot) => (lot(2) === 0 ? 'true' : 'false')
    case 2:
      return (lot) => stringText(lot, lot(20))
    case 3:
      return (lot) => plainText(lot, 498 + lot(3))
    case 4:
    case 5:
    case 6:
      return numberOf
    default:
      return (lot) => plainText(lot, length)
  }
}

function numberOf(random: Random): string {
  return random(10) === 0 ? NUMBERS[random(NUMBERS.length)] : String(1 + random(3000))
}

function swapSome(random: Random, list: Slot[]): void {
  for (let times = 1 + random(4); times > 0; times--) {
    const [one, other] = [random(list.length), random(list.length)]
    ;[list[one], list[other]] = [list[other], list[one]]
  }
}

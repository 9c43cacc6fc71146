// Where the members of a JSON text stand, by the paths of the service's answers: events[3].context.os. A member of
// `properties` or `revenue` has two: by its place, properties[12], and by its name, properties.colour.

export interface Span {
  readonly start: number
  readonly end: number
}

interface Place extends Span {
  /** Where the value begins, behind the member's name. */
  readonly value: number
}

/** Deeper JSON is refused, so nothing in it has a path. */
const MAX_DEPTH = 80
/** The service cuts longer names. */
const MAX_NAME_CHARACTERS = 60

/** The text must be JSON. A member that is missing is shown by the bracket of the nearest one around it that is there. */
export function placesOf(text: string, paths: readonly string[]): Map<string, Span> {
  const all = new Map<string, Place>()
  walk(text, all)
  const found = new Map<string, Span>()
  for (const path of paths) {
    let near = path
    while (near !== '' && !all.has(near)) near = near.replace(/(\.[^.[]*|\[\d+\]|^[^.[]+)$/, '')
    const place = all.get(near)
    if (place === undefined) continue
    found.set(path, near === path ? place : { start: place.value, end: place.value + 1 })
  }
  return found
}

function walk(text: string, found: Map<string, Place>): void {
  let at = 0
  const skip = (): void => {
    while (/\s/.test(text[at] ?? '')) at++
  }
  const skipString = (): void => {
    at++
    while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1
    at++
  }
  const items = (close: string, item: (place: number) => void): void => {
    at++
    skip()
    for (let place = 0; at < text.length && text[at] !== close; place++) {
      item(place)
      skip()
      if (text[at] === ',') at++
      skip()
    }
    at++
  }
  const value = (path: string, byPlace: boolean, depth: number): void => {
    skip()
    const start = at
    if (depth > MAX_DEPTH) at = text.length
    else if (text[at] === '"') skipString()
    else if (text[at] === '[') items(']', (place) => value(`${path}[${place}]`, false, depth + 1))
    else if (text[at] === '{') items('}', (index) => member(path, index, byPlace, depth))
    else while (at < text.length && !/[\s,\]}]/.test(text[at])) at++
    found.set(path, { start, end: at, value: start })
  }
  const member = (path: string, index: number, byPlace: boolean, depth: number): void => {
    const start = at
    skipString()
    const name = nameOf(text.slice(start, at))
    skip()
    at++
    const below = byPlace ? `${path}[${index}]` : path === '' ? name : `${path}.${name}`
    const isOfEvent = /^events\[\d+\]$/.test(path)
    value(below, isOfEvent && (name === 'properties' || name === 'revenue'), depth + 1)
    // The name belongs to what is wrong.
    const place = { start, end: at, value: found.get(below)?.value ?? start }
    found.set(below, place)
    if (byPlace) found.set(path + shownName(name), place)
  }
  value('', false, 0)
}

/** As the service writes a member's own name into a path. */
function shownName(name: string): string {
  const cut = name.length > MAX_NAME_CHARACTERS ? `${name.slice(0, MAX_NAME_CHARACTERS)}…` : name
  return /^\w+$/.test(cut) ? `.${cut}` : `[${JSON.stringify(cut)}]`
}

function nameOf(quoted: string): string {
  try {
    return String(JSON.parse(quoted))
  } catch {
    return ''
  }
}

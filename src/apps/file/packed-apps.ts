// A set of apps in a few typed arrays, which one thread transfers to another without a copy. An App object is made when
// it is first looked up, so that a new set of any size costs the main thread almost nothing.

import { type App, lookupsOf } from '../app.ts'

export interface PackedApps {
  readonly count: number
  /** The apps as JSON texts, one after the other. */
  readonly texts: Uint8Array<ArrayBuffer>
  /** Where each app's text ends. */
  readonly ends: Uint32Array<ArrayBuffer>
  /** A hash table by what finds an app, at most half full. `numbers`: the app's index + 1, or 0; `hashes`: the hash of its key. */
  readonly numbers: Uint32Array<ArrayBuffer>
  readonly hashes: Uint32Array<ArrayBuffer>
}

/** Nothing that finds an app is longer. */
const MAX_LOOKUP_CHARACTERS = 256
const MIN_TABLE_SLOTS = 16

/** `count`: number of apps; `keys`: number of all their keys, or more. No two apps may share a key or an id. */
export function packApps(apps: Iterable<App>, count: number, keys: number): PackedApps {
  const slots = Math.max(MIN_TABLE_SLOTS, 2 ** Math.ceil(Math.log2((count + keys) * 2 + 1)))
  const numbers = new Uint32Array(slots)
  const hashes = new Uint32Array(slots)
  const ends = new Uint32Array(count)
  const texts: string[] = []
  let end = 0
  for (const app of apps) {
    const text = textOf(app)
    end += Buffer.byteLength(text)
    ends[texts.length] = end
    const number = texts.push(text)
    for (const key of [idLookup(app.appId), ...lookupsOf(app)]) {
      const hash = hashOf(key)
      let slot = hash & (slots - 1)
      while (numbers[slot] !== 0) slot = (slot + 1) & (slots - 1)
      numbers[slot] = number
      hashes[slot] = hash
    }
  }
  // Unlike a small Buffer, it does not lie in memory that others use too.
  const bytes = new TextEncoder().encode(texts.join(''))
  return { count: texts.length, texts: bytes, ends, numbers, hashes }
}

/** The buffers to transfer to another thread. */
export function buffersOf({ texts, ends, numbers, hashes }: PackedApps): ArrayBuffer[] {
  return [texts.buffer, ends.buffer, numbers.buffer, hashes.buffer]
}

export class AppTable {
  readonly #packed: PackedApps
  readonly #texts: Buffer
  /** Apps that were looked up. */
  readonly #known = new Map<string, App>()

  constructor(packed: PackedApps) {
    this.#packed = packed
    this.#texts = Buffer.from(packed.texts.buffer)
  }

  get count(): number {
    return this.#packed.count
  }

  /** By any of its keys, also an expired one; or as `lookupsOf` says. */
  find(lookup: string): App | undefined {
    const known = this.#known.get(lookup)
    if (known !== undefined || lookup.length > MAX_LOOKUP_CHARACTERS) return known
    const found = this.#lookUp(lookup)
    if (found !== undefined) this.#known.set(lookup, found)
    return found
  }

  /** In the order in which they were packed. */
  *all(): Generator<App> {
    for (let number = 0; number < this.#packed.count; number++) yield this.#read(number)
  }

  #lookUp(appKey: string): App | undefined {
    const { numbers, hashes } = this.#packed
    const hash = hashOf(appKey)
    const last = numbers.length - 1
    for (let slot = hash & last; numbers[slot] !== 0; slot = (slot + 1) & last) {
      if (hashes[slot] !== hash) continue
      const app = this.#read(numbers[slot] - 1)
      if (appKey === idLookup(app.appId) || lookupsOf(app).includes(appKey)) return app
    }
    return undefined
  }

  #read(number: number): App {
    const { ends } = this.#packed
    return appOf(this.#texts.toString('utf8', number === 0 ? 0 : ends[number - 1], ends[number]))
  }
}

/** In the order of a text's values. */
const MEMBERS = Object.keys({
  appKey: true,
  appId: true,
  name: true,
  plan: true,
  subscription: true,
  trialEndsAtMs: true,
  billingAnchorMs: true,
  eventsPerMinute: true,
  eventsPerDay: true,
  eventsPerMonth: true,
  bytesPerMinute: true,
  alertSteps: true,
  origins: true,
  previousKeys: true,
  readKeys: true,
} satisfies Record<keyof App, true>) as readonly (keyof App)[]

/** An array of values takes half the bytes of an object with member names. */
function textOf(app: App): string {
  return JSON.stringify(MEMBERS.map((member) => app[member]))
}

function appOf(text: string): App {
  const values = JSON.parse(text) as readonly unknown[]
  const app: Partial<Record<keyof App, unknown>> = {}
  for (let at = 0; at < MEMBERS.length; at++) app[MEMBERS[at]] = values[at]
  return app as App
}

/** No key begins so. */
export function idLookup(appId: string): string {
  return `id ${appId}`
}

/** FNV-1a of the UTF-16 units, mixed once more because the table uses the low bits. */
function hashOf(key: string): number {
  let hash = 0x811c9dc5
  for (let at = 0; at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x7feb352d)
  return (hash ^ (hash >>> 15)) >>> 0
}

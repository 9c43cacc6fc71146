// Where batches wait: localStorage or memory here, files in file.ts. What a store has no room for stays in memory, and what
// somebody else clears from it is put back.

import { attempt, uuid } from './platform.ts'
import type { SyncStore } from './types.ts'

export function webStore(storage: Storage, prefix: string): SyncStore {
  const get = (name: string): string | null => storage.getItem(prefix + name)
  return {
    keys: () =>
      Object.keys(storage)
        .filter((name) => name.startsWith(prefix))
        .map((name) => name.slice(prefix.length)),
    get,
    set(name, value) {
      storage.setItem(prefix + name, value)
      // Other scripts put things in its place that take everything and keep nothing.
      return get(name) === value
    },
    remove(name) {
      attempt(() => storage.removeItem(prefix + name))
      // What cannot be removed holds nothing any more, for the next page.
      if (get(name) !== null) storage.setItem(prefix + name, '')
    },
  }
}

/** One that throws nothing, whatever another script has put in its place. */
export function guarded(store: SyncStore): SyncStore {
  // What is set and never listed would never be sent.
  let canList = true
  return {
    keys() {
      const names = attempt(() => store.keys())
      canList = Array.isArray(names)
      return canList ? names! : []
    },
    get(name) {
      const text = canList ? attempt(() => store.get(name)) : null
      return typeof text === 'string' ? text : null
    },
    set: (name, value) => canList && attempt(() => store.set(name, value), false),
    remove: (name) => attempt(() => store.remove(name)),
  }
}

/** A store that has more in memory than it has kept. */
export type BufferedStore = SyncStore & {
  /** It ends with this process. */
  isInMemory(name: string): boolean
  /** What was set is kept, or never will be. */
  settled(): Promise<void>
}

export type SpillingStore = BufferedStore & {
  /** Removes what is kept, but for the choice of the user. */
  forget(): void
}

/** A random text in the store. Where it is gone, or another one, somebody has cleared the store since it was read. */
const MARK = 'mark'
const isWorthKeeping = (name: string): boolean => /^(b\d|dropped$)/.test(name)

/** Takes everything: in memory what `lasting`, where there is one, does not, and what the user has not agreed to keep. */
export function spillingStore(
  lasting: (SyncStore & Partial<BufferedStore>) | null,
  mayKeep: () => boolean,
): SpillingStore {
  /** Null: removed, but a disk that only reads has it still. */
  const memory = new Map<string, string | null>()
  /** Batches as they were in `lasting` when it was last looked at. */
  const copies = new Map<string, string>()
  const getLasting = (name: string): string | null => lasting?.get(name) ?? null
  const keysOf = (): string[] => lasting?.keys() ?? []
  keysOf()
  let mark = getLasting(MARK)

  function set(name: string, value: string): boolean {
    const isAllowed = name === 'consent' || mayKeep()
    const isKept = isAllowed && lasting?.set(name, value) === true
    if (isKept) memory.delete(name)
    else memory.set(name, value)
    if (isKept && isWorthKeeping(name)) copies.set(name, value)
    return true
  }

  function remove(name: string): void {
    copies.delete(name)
    lasting?.remove(name)
    if (keysOf().includes(name)) memory.set(name, null)
    else memory.delete(name)
  }

  /** Names of what is kept. Another client that removes a batch leaves the mark; who clears all does not. */
  function look(): string[] {
    const names = new Set(keysOf())
    const seen = getLasting(MARK)
    const isCleared = mark !== null && seen !== mark && mayKeep()
    for (const [name, text] of Array.from(copies))
      if (isCleared ? getLasting(name) === null : !names.has(name)) {
        copies.delete(name)
        if (isCleared && !memory.has(name)) set(name, text)
      }
    const kept = isCleared ? keysOf() : [...names]
    for (const name of kept.filter((one) => isWorthKeeping(one) && !copies.has(one) && !memory.has(one)))
      copies.set(name, getLasting(name) ?? '')
    mark = seen
    if (mark === null && copies.size > 0 && mayKeep()) {
      mark = uuid()
      lasting?.set(MARK, mark)
    }
    return kept
  }

  return {
    keys: () => [...new Set([...look(), ...memory.keys()])].filter((name) => memory.get(name) !== null),
    get: (name) => (memory.has(name) ? memory.get(name)! : getLasting(name)),
    set,
    remove,
    isInMemory: (name) => typeof memory.get(name) === 'string' || lasting?.isInMemory?.(name) === true,
    settled: async () => await lasting?.settled?.(),
    forget() {
      for (const name of keysOf()) if (name !== 'consent' && !memory.has(name)) remove(name)
      // What is in memory may be there in an older state.
      for (const name of memory.keys()) if (name !== 'consent') lasting?.remove(name)
      mark = null
    },
  }
}

/** An object or a list that was stored as JSON; `otherwise` where there is none that can be read. */
export function readJson<T>(store: SyncStore, name: string, otherwise: T): T {
  const found = attempt(() => JSON.parse(store.get(name) ?? 'null') as T | null)
  return found && typeof found === 'object' ? found : otherwise
}

// Where batches wait: localStorage or memory here, files in file.ts. What a store has no room for stays in memory.

import { attempt } from './platform.ts'
import type { Store } from './types.ts'

export function webStore(storage: Storage, prefix: string): Store {
  return {
    keys: () =>
      Object.keys(storage)
        .filter((name) => name.startsWith(prefix))
        .map((name) => name.slice(prefix.length)),
    get: (name) => storage.getItem(prefix + name),
    set: (name, value) => attempt(() => storage.setItem(prefix + name, value), false) !== false,
    remove: (name) => storage.removeItem(prefix + name),
  }
}

export interface SpillingStore extends Store {
  /** It ends with this process. */
  isInMemory(name: string): boolean
}

/** Takes everything: in memory what `lasting`, where there is one, does not. */
export function spillingStore(lasting: Store | null): SpillingStore {
  const memory = new Map<string, string>()
  /** What a disk that only reads could not remove. */
  const gone = new Set<string>()
  return {
    keys: () => [...new Set([...(lasting?.keys() ?? []), ...memory.keys()])].filter((name) => !gone.has(name)),
    get: (name) => memory.get(name) ?? (gone.has(name) ? null : (lasting?.get(name) ?? null)),
    set(name, value) {
      if (lasting?.set(name, value) === true) memory.delete(name)
      else memory.set(name, value)
      gone.delete(name)
      return true
    },
    remove(name) {
      memory.delete(name)
      lasting?.remove(name)
      if ((lasting?.get(name) ?? null) !== null) gone.add(name)
    },
    isInMemory: (name) => memory.has(name),
  }
}

/** What was stored as JSON; `otherwise` where there is nothing, or nothing that can be read. */
export function readJson<T>(store: Store, name: string, otherwise: T): T {
  return attempt(() => JSON.parse(store.get(name) ?? 'null') as T | null, null) ?? otherwise
}

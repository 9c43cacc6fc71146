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

/** `isInMemory`: it ends with this process. */
export type SpillingStore = Store & { isInMemory(name: string): boolean }

/** Takes everything: in memory what `lasting`, where there is one, does not. */
export function spillingStore(lasting: Store | null): SpillingStore {
  /** Null: removed, but a disk that only reads has it still. */
  const memory = new Map<string, string | null>()
  const getLasting = (name: string): string | null => lasting?.get(name) ?? null
  return {
    keys: () =>
      [...new Set([...(lasting?.keys() ?? []), ...memory.keys()])].filter((name) => memory.get(name) !== null),
    get: (name) => (memory.has(name) ? memory.get(name)! : getLasting(name)),
    set(name, value) {
      if (lasting?.set(name, value) === true) memory.delete(name)
      else memory.set(name, value)
      return true
    },
    remove(name) {
      lasting?.remove(name)
      if (getLasting(name) === null) memory.delete(name)
      else memory.set(name, null)
    },
    isInMemory: (name) => typeof memory.get(name) === 'string',
  }
}

/** What was stored as JSON; `otherwise` where there is nothing, or nothing that can be read. */
export function readJson<T>(store: Store, name: string, otherwise: T): T {
  return attempt(() => JSON.parse(store.get(name) ?? 'null') as T | null, null) ?? otherwise
}

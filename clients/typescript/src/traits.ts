// What each event has of its user, until reset().

import { readJson } from './store.ts'
import type { Members, Overrides, SyncStore } from './types.ts'

type Kept = { readonly user_id?: unknown; readonly properties?: Members }

/** The service refuses each event that has more. */
const MAX_ID = 256
const MAX_TEXT = 500
const MAX_PROPERTIES = 50

function fitting({ user_id: id, properties }: Kept, without: readonly string[] = []): Kept {
  const isId = typeof id === 'string' || typeof id === 'bigint' || Number.isFinite(id)
  const fit = Object.entries(properties ?? {}).filter(
    ([name, value]) =>
      !without.includes(name) &&
      Array.from(typeof value === 'string' ? value : JSON.stringify(value)).length <= MAX_TEXT,
  )
  return {
    user_id: isId ? String(id).slice(0, MAX_ID) : '',
    properties: Object.fromEntries(fit.slice(0, MAX_PROPERTIES)),
  }
}

/** `mayStore`: a later page of this store may know it. */
export function createTraits(store: SyncStore, mayStore: () => boolean) {
  let kept: Kept | null = null
  const current = (): Kept => (kept ??= fitting(mayStore() ? readJson<Kept>(store, 'traits', {}) : {}))

  function keep(): void {
    if (mayStore() && kept !== null) store.set('traits', JSON.stringify(kept))
  }

  function change(given: Kept, without?: readonly string[]): void {
    const { properties } = current()
    kept = fitting({ ...kept, ...given, properties: { ...properties, ...given.properties } }, without)
    keep()
  }

  return {
    keep,
    identify: (user_id: unknown): void => change({ user_id }),
    register: (properties: Members): void => change({ properties }),
    unregister: (names: readonly string[]): void => change({}, names),
    /** What an event has of its user, and of its own call. */
    addTo(given: Overrides): Overrides {
      const { user_id, properties } = current()
      const all = { ...properties, ...given.properties }
      return {
        ...(user_id ? { user_id: user_id as string } : {}),
        ...given,
        ...((given.properties || Object.keys(all).length > 0) && { properties: all }),
      }
    },
    forget(): void {
      kept = {}
      store.remove('traits')
    },
  }
}

// What each event has of its user, until reset().

import { attempt } from './platform.ts'
import { readJson } from './store.ts'
import type { Members, Overrides, SyncStore } from './types.ts'

type Kept = { readonly user_id?: string; readonly properties?: Members }

/** `mayStore`: a later page of this store may know it. */
export function createTraits(store: SyncStore, mayStore: () => boolean) {
  let kept: Kept | null = null
  const current = (): Kept => (kept ??= mayStore() ? readJson<Kept>(store, 'traits', {}) : {})

  function keep(): void {
    if (mayStore() && kept !== null) store.set('traits', JSON.stringify(kept))
  }

  function change(to: Kept): void {
    kept = to
    keep()
  }

  return {
    keep,
    identify: (userId: string): void => change({ ...current(), user_id: userId }),
    register(given: Members): void {
      // A copy. What has no JSON would spoil each later event.
      const properties = attempt(() => JSON.parse(JSON.stringify(given)) as Members, {})
      change({ ...current(), properties: { ...current().properties, ...properties } })
    },
    unregister(names: readonly string[]): void {
      const properties = Object.entries(current().properties ?? {}).filter(([name]) => !names.includes(name))
      change({ ...current(), properties: Object.fromEntries(properties) })
    },
    /** What an event has of its user, and of its own call. */
    addTo(given: Overrides): Overrides {
      const { user_id, properties } = current()
      const all = { ...properties, ...given.properties }
      return {
        ...(user_id !== undefined && { user_id }),
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

// A store whose answers come later, as one whose answers come at once: what it has is read at the start, and what is set
// is written behind, in order.

import { type Timers, within } from './platform.ts'
import type { BufferedStore } from './store.ts'
import type { AsyncStore } from './types.ts'

const TIMEOUT_MS = 5000
const LATE = Symbol('late')

export type Mirror = BufferedStore & { readonly loaded: Promise<void>; isConsentRead(): boolean }

export function mirrorOf(store: AsyncStore, keys: PromiseLike<readonly string[]>, timers: Timers): Mirror {
  const texts = new Map<string, string>()
  /** Null: to be removed. */
  const waiting = new Map<string, string | null>()
  const unkept = new Set<string>()
  /** One that was silent once is not asked again: what is set is in memory alone. */
  let isSilent = false
  let isConsentRead = false
  let writing: Promise<void> | null = null

  async function ask<T, F>(work: () => PromiseLike<T>, otherwise: F): Promise<T | F> {
    if (isSilent) return otherwise
    const start = async (): Promise<T | F> => {
      try {
        return await work()
      } catch {
        return otherwise
      }
    }
    const answer = await within(timers, TIMEOUT_MS, start, LATE)
    if (answer !== LATE) return answer
    isSilent = true
    return otherwise
  }

  async function load(): Promise<void> {
    const names = await ask(() => keys, [])
    const read = async (name: string): Promise<void> => {
      const text = await ask(() => store.get(name), LATE)
      if (typeof text === 'string' && !texts.has(name)) texts.set(name, text)
      if (name === 'consent') isConsentRead = text !== LATE
    }
    // Whether it is named or not: what could not be read may be an opt-out.
    await Promise.all(['consent', ...(Array.isArray(names) ? names : [])].map(read))
  }

  async function write(): Promise<void> {
    // What is set meanwhile is written too.
    for (const [name, text] of waiting) {
      waiting.delete(name)
      const done = await ask(() => (text === null ? store.remove(name) : store.set(name, text)), false)
      if (text !== null && done === false) unkept.add(name)
      else unkept.delete(name)
    }
    writing = null
  }

  function put(name: string, text: string | null): void {
    // Writes keep their order: this one comes after all that were asked for before it.
    waiting.delete(name)
    waiting.set(name, text)
    writing ??= write()
  }

  return {
    loaded: load(),
    settled: async () => {
      await writing
    },
    isConsentRead: () => isConsentRead,
    isInMemory: (name) => unkept.has(name),
    keys: () => [...texts.keys()],
    get: (name) => texts.get(name) ?? null,
    set(name, value) {
      texts.set(name, value)
      put(name, value)
      return true
    },
    remove(name) {
      if (texts.delete(name)) put(name, null)
    },
  }
}

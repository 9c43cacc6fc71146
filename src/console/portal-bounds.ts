// How much one read key may ask, so that no app's developers hold up another's.

const WINDOW_MS = 60_000
const MAX_REQUESTS = 60
const MAX_SEARCHES = 6
const MAX_STREAMS = 2
/** Of all keys together, on this node. */
export const MAX_PORTAL_STREAMS = 200
/** A key that has no stream and did not ask for a minute is forgotten. */
const SWEEP_FROM_KEYS = 1000
const SWEEP_INTERVAL_MS = 10_000

interface Use {
  sinceMs: number
  requests: number
  searches: number
  streams: number
}

/** In how many seconds to ask again; 0: it may. */
export class PortalBounds {
  readonly #monotonicMs: () => number
  readonly #uses = new Map<string, Use>()
  #streams = 0
  #sweptAtMs = Number.NEGATIVE_INFINITY

  /** A monotonic time. */
  constructor(monotonicMs: () => number) {
    this.#monotonicMs = monotonicMs
  }

  request(key: string): number {
    const use = this.#useOf(key)
    if (use.requests >= MAX_REQUESTS) return this.#secondsLeft(use)
    use.requests += 1
    return 0
  }

  search(key: string): number {
    const use = this.#useOf(key)
    if (use.searches >= MAX_SEARCHES) return this.#secondsLeft(use)
    use.searches += 1
    return 0
  }

  /** Returns what ends it, or the seconds. */
  stream(key: string): (() => void) | number {
    const use = this.#useOf(key)
    if (use.streams >= MAX_STREAMS || this.#streams >= MAX_PORTAL_STREAMS) return 5
    use.streams += 1
    this.#streams += 1
    return () => {
      use.streams -= 1
      this.#streams -= 1
    }
  }

  #useOf(key: string): Use {
    const atMs = this.#monotonicMs()
    if (this.#uses.size >= SWEEP_FROM_KEYS && atMs - this.#sweptAtMs >= SWEEP_INTERVAL_MS) {
      this.#sweptAtMs = atMs
      for (const [one, { sinceMs, streams }] of this.#uses) {
        if (streams === 0 && atMs - sinceMs >= WINDOW_MS) this.#uses.delete(one)
      }
    }
    const use = this.#uses.get(key) ?? { sinceMs: atMs, requests: 0, searches: 0, streams: 0 }
    if (atMs - use.sinceMs >= WINDOW_MS) Object.assign(use, { sinceMs: atMs, requests: 0, searches: 0 })
    this.#uses.set(key, use)
    return use
  }

  #secondsLeft({ sinceMs }: Use): number {
    return Math.max(1, Math.ceil((sinceMs + WINDOW_MS - this.#monotonicMs()) / 1000))
  }
}

// How much of an app's limits may be used at most, from the clients' side: what is stored, what is in flight or in doubt,
// and what the nodes' buckets may hold. Where a batch fits beside all that, it must not be refused.

/** The audit has decided by then what became of a batch in doubt. */
const DOUBT_MS = 600_000
/** take.lua grants a bucket at most this share of what is left. */
const BUCKET_SHARE = 1 / 16

/** One request. */
export interface Attempt {
  readonly app: number
  readonly events: number
  readonly sentAtMs: number
}

export class Room {
  /** By app, oldest first: requests that were neither accepted nor refused by a limit. */
  readonly #open = new Map<number, Attempt[]>()

  asked(attempt: Attempt): void {
    const known = this.#open.get(attempt.app)
    if (known === undefined) this.#open.set(attempt.app, [attempt])
    else known.push(attempt)
  }

  /** It is stored, or certainly took nothing. */
  settled(attempt: Attempt): void {
    const known = this.#open.get(attempt.app)
    const at = known?.indexOf(attempt) ?? -1
    if (at >= 0) known?.splice(at, 1)
  }

  /** Whether the batch fits into a window with this limit, of which `stored` events are stored. */
  isFor(attempt: Attempt, window: { readonly limit: number; readonly stored: number }, nodes: number): boolean {
    const { app, events, sentAtMs } = attempt
    const known = this.#open.get(app) ?? []
    while (known.length > 0 && known[0].sentAtMs < sentAtMs - DOUBT_MS) known.shift()
    let others = 0
    for (const other of known) if (other !== attempt) others += other.events
    const { limit, stored } = window
    return stored + others + nodes * Math.ceil(limit * BUCKET_SHARE) + events <= limit
  }
}

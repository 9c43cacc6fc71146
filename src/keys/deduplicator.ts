// The result of claiming an idempotency key.

/** The key was accepted before, with this number of events. */
export interface Replay {
  readonly kind: 'replay'
  readonly events: number
  /** The hash of the accepted body; undefined: it is not known here. */
  readonly eventsHash?: number | undefined
}

export type Claim =
  /** The caller holds the key, and must `confirm` or `release` it. */
  | { readonly kind: 'claimed' }
  | Replay
  /** The maximum of keys is reached: answer 503. */
  | { readonly kind: 'full' }

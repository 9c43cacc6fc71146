// The result of claiming an idempotency key.

export type Claim =
  /** The caller holds the key, and must `confirm` or `release` it. */
  | { readonly kind: 'claimed' }
  /** The key was accepted before, with this number of events. */
  | { readonly kind: 'replay'; readonly events: number }
  /** The maximum of keys is reached: answer 503. */
  | { readonly kind: 'full' }

// The seam of idempotency: which keyed requests are in flight, and which were accepted in the last 300 s.

export type Claim =
  /** The caller has the key now, and must `confirm` or `release` it. */
  | { readonly kind: 'claimed' }
  /** The key was accepted before, with so many events. */
  | { readonly kind: 'replay'; readonly events: number }
  /** Every place for keys is taken: answer 503. */
  | { readonly kind: 'full' }

// The seam of idempotency: which keyed requests are in flight, and which were accepted in the last 300 s.

/** Seconds for which an accepted key is remembered, from its acceptance. */
export const IDEMPOTENCY_WINDOW_SECONDS = 300

export type Claim =
  /**
   * The caller has the key now, and must `confirm` or `release` it. `inDoubt`: an earlier request under it was refused
   * without knowing whether the queue had stored it, and what it cost was given back.
   */
  | { readonly kind: 'claimed'; readonly inDoubt: boolean }
  /** The key was accepted before, with so many events. */
  | { readonly kind: 'replay'; readonly events: number }
  /** Every place for keys is taken: answer 503. */
  | { readonly kind: 'full' }

/**
 * One key is held by one request at a time. `batchId` is the UUIDv5 of app and key in its
 * usual lower-case text: the scope of a key is its app, so the id alone names it.
 */
export interface Deduplicator {
  /** Answers at once where the key is new or was accepted; waits while another request holds it. */
  claim(batchId: string, nowMs: number): Claim | Promise<Claim>
  /** The request was accepted: remember it, and let those who wait replay it. */
  confirm(batchId: string, events: number, nowMs: number): void
  /** The request was not accepted: the first of those who wait has the key now. `inDoubt`: the queue may have stored it. */
  release(batchId: string, inDoubt: boolean, nowMs: number): void
}

// The windows that a batch is charged to. The queue stores them with the record, so that the audit can count again.

export interface Charge {
  readonly events: number
  /** Unix ms, within `minute`. The batch counts in the windows that contain this time. */
  readonly takenAtMs: number
  /** UTC minutes since 1970. */
  readonly minute: number
  /** The start of the app's billing cycle, in UTC minutes since 1970. */
  readonly cycleMinute: number
  /** An earlier request under the same key took these events. It is in doubt, and keeps them. */
  readonly isOfDoubt?: true
  /** Taken from this node's share, without Redis: another node may have taken its key too. */
  readonly isShare?: true
}

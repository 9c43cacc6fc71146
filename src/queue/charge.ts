// What a batch is charged to. The queue keeps it with the record, so that the audit can count anew.

export interface Charge {
  readonly events: number
  /** Unix ms, within `minute`: the batch counts in the windows that hold it. */
  readonly takenAtMs: number
  /** UTC minutes since 1970. */
  readonly minute: number
  /** Where the app's billing cycle began, in UTC minutes since 1970. */
  readonly cycleMinute: number
}

// An application as the rest of the service knows it: its record, checked, with its plan's figures filled in.

export type Subscription = 'trialing' | 'active' | 'past_due' | 'canceled' | 'unpaid' | 'paused'
export type PlanName = 'trial' | '10k' | '100k' | '500k' | '1m' | '2m' | '5m'

export interface App {
  readonly appKey: string
  readonly appId: string
  readonly name: string | null
  readonly plan: PlanName
  readonly subscription: Subscription
  /** Unix ms; null: the trial has no end. */
  readonly trialEndsAtMs: number | null
  /** Unix ms; null: the billing cycle is the calendar month, UTC. */
  readonly billingAnchorMs: number | null
  /** Events a UTC minute. */
  readonly eventsPerMinute: number
  /** Events a UTC day; null: no daily limit. */
  readonly eventsPerDay: number | null
  /** Events a billing cycle as enforced, a paid plan's tolerance included. */
  readonly eventsPerMonth: number
}

/** A store answers at once from what it holds, or later; 'unavailable' is no answer, and never a refusal. */
export type AppLookup = App | 'unknown' | 'unavailable'

/** Where app records come from: a file, or Redis. */
export interface AppStore {
  /** Constant time; never throws. */
  find(appKey: string): AppLookup | Promise<AppLookup>
  /** Every record, for `sluice apps list` and for the journal's recovery. */
  all(): Iterable<App>
  stop(): void | Promise<void>
}

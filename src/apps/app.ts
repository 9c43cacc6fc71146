// An application as the rest of the service knows it: its record, checked, with its plan's figures filled in.

export type Subscription = 'trialing' | 'active' | 'past_due' | 'canceled' | 'unpaid' | 'paused'
export type PlanName = 'trial' | '10k' | '100k' | '500k' | '1m' | '2m' | '5m'

/** A key that was rotated out, and still finds its app for a while. */
export interface PreviousKey {
  readonly appKey: string
  /** Unix ms. */
  readonly validUntilMs: number
}

export interface App {
  readonly appKey: string
  readonly previousKeys: readonly PreviousKey[]
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

/** 'unavailable': the store has not read its records yet, which is never a refusal. */
export type AppLookup = App | 'unknown' | 'unavailable'

/** Where app records come from: a file, or a bucket in NATS. All of them are held in memory. */
export interface AppStore {
  /** Constant time; never throws. */
  find(appKey: string): AppLookup
  /** Every record, for `sluice apps list` and for the journal's recovery. */
  all(): Iterable<App>
  stop(): void | Promise<void>
}

/** Each key that names the app, its own first. */
export function keysOf(app: App): string[] {
  return [app.appKey, ...app.previousKeys.map(({ appKey }) => appKey)]
}

/** Whether a key that names the app is still valid. */
export function isValidKey(app: App, appKey: string, nowMs: number): boolean {
  return (
    app.appKey === appKey ||
    app.previousKeys.some((previous) => previous.appKey === appKey && nowMs < previous.validUntilMs)
  )
}

// An app as the rest of the service sees it: its checked record with the limits of its plan filled in.

export type Subscription = 'trialing' | 'active' | 'past_due' | 'canceled' | 'unpaid' | 'paused'
export type PlanName = 'trial' | '10k' | '100k' | '500k' | '1m' | '2m' | '5m'

/** A key that was rotated out and stays valid for a while. */
export interface PreviousKey {
  readonly appKey: string
  /** Unix ms. */
  readonly validUntilMs: number
}

/** A key that reads the app's figures. */
export interface ReadKey {
  readonly name: string
  readonly hash: string
  /** Knows a session that was opened with it. */
  readonly sessionKey: string
  /** Unix ms; null: it has no end. */
  readonly endsAtMs: number | null
  /** Unix ms, to the hour; null: it was not used. */
  readonly usedAtMs: number | null
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
  /** Per UTC minute. */
  readonly eventsPerMinute: number
  /** Per UTC day; null: no daily limit. */
  readonly eventsPerDay: number | null
  /** Per billing cycle, as enforced: a paid plan's 10% tolerance included. */
  readonly eventsPerMonth: number
  /** Of its records' lines, in a UTC minute, over all nodes. */
  readonly bytesPerMinute: number
  /** Of the web pages that may send, as browsers write them; null: all, as far as the service lets them. */
  readonly origins: readonly string[] | null
  readonly readKeys: readonly ReadKey[]
  /** Percent of day and month at which alerts are raised, ascending; empty: none is raised. */
  readonly alertSteps: readonly number[]
}

/** unavailable: the store has not read its records yet. It is no reason to refuse a key as unknown. */
export type AppLookup = App | 'unknown' | 'unavailable'

/** The app records of a file or of a NATS bucket, all of them in memory. */
export interface AppStore {
  /** Takes constant time and never throws. */
  find(appKey: string): AppLookup
  /** For `sluice apps list` and the journal's recovery. */
  all(): Iterable<App>
  stop(): void | Promise<void>
}

/** The same where apps are found by more than their keys. Both take constant time and never throw. */
export interface AppDirectory extends AppStore {
  findById(appId: string): AppLookup
  /** By the hash of a read key, which may have ended. */
  findReader(hash: string): AppLookup
}

/** Every key of the app, the current one first. */
export function keysOf(app: App): string[] {
  return [app.appKey, ...app.previousKeys.map(({ appKey }) => appKey)]
}

/** What an app is found by in a table, beside its id. No app key begins as a hash does here. */
export function lookupsOf(app: App): string[] {
  return [...keysOf(app), ...app.readKeys.map(({ hash }) => readerLookup(hash))]
}

export function readerLookup(hash: string): string {
  return `rk ${hash}`
}

/** Whether `appKey` is the app's current key, or a previous one that is still valid. */
export function isValidKey(app: App, appKey: string, nowMs: number): boolean {
  return (
    app.appKey === appKey ||
    app.previousKeys.some((previous) => previous.appKey === appKey && nowMs < previous.validUntilMs)
  )
}

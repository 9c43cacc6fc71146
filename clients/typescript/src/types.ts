// What the users of the package see: events, options, and why an event was dropped.

export type DropReason =
  | 'before_send' // beforeSend returned null, or threw
  | 'blocked' // 403, or the page's policy forbids the request
  | 'closed' // tracked after close(), or still in memory then
  | 'consent' // opted out
  | 'expired' // 72 h old
  | 'invalid' // the service refused it, or it has no JSON
  | 'key_reused' // a batch of other events was stored under its key, and this one was not
  | 'overflow' // the queue was full, and it was the oldest
  | 'refused' // another answer that no retry changes
  | 'subscription' // 402
  | 'too_large'
  | 'unauthorized' // 401
  | 'unconfirmed' // sent as the page ended, and no answer seen while its key was remembered: most such are stored

export type HeldReason =
  | 'origin' // the app's `origins` do not name this page
  | 'no_answer' // two tries or more in a row had none, though the browser does not say that it is offline

export type Members = Record<string, unknown>

export interface Context {
  os: string
  os_version?: string
  app_version?: string
  locale?: string
  device_type?: string
  screen_width?: number
  screen_height?: number
}

export interface SluiceEvent {
  event_id: string
  type: 'track' | 'screen' | 'revenue'
  name: string
  hashed_daily_id: string
  hashed_monthly_id: string
  hashed_retention_id?: string
  session_id: string
  timestamp: string
  context: Context
  properties?: Members
  user_id?: string
  revenue?: Members
  /** What the device's clock said, where `timestamp` was corrected by `clock_correction_ms`. */
  client_timestamp?: string
  clock_correction_ms?: number
}

/** What a call may set of its event; a server sets the ids of the user it speaks for. */
export type Overrides = Partial<Omit<SluiceEvent, 'event_id' | 'type' | 'name' | 'context'>> & {
  context?: Partial<Context>
}

/** Small texts by name. A `set` that finds no room is false. */
export interface SyncStore {
  keys(): string[]
  get(name: string): string | null
  set(name: string, value: string): boolean
  remove(name: string): void
}

/** One that answers later. What it has is read once, so that no two clients may have it at a time. */
export interface AsyncStore {
  keys(): PromiseLike<readonly string[]>
  get(name: string): PromiseLike<string | null>
  set(name: string, value: string): PromiseLike<boolean | void>
  remove(name: string): PromiseLike<unknown>
}

export type Store = SyncStore | AsyncStore

export interface Options {
  /** Where the service is: https://events.example.com */
  readonly url: string
  readonly appKey: string
  /** `pending`: events wait in memory, and nothing is stored or sent, until optIn() or optOut(). */
  readonly consent?: 'granted' | 'pending'
  /** By default localStorage, else memory; `fileStore(folder)` of sluice-client/file on Node. */
  readonly store?: Store
  readonly context?: Partial<Context>
  /** User and registered properties are known to later pages too. */
  readonly persist?: boolean
  /** A `screen` for each page that is shown, also where a script changes the address. */
  readonly pageViews?: boolean
  /** Most events of a batch, 1 to 100. Default 100. */
  readonly batchSize?: number
  /** How long an event waits for others, 0 to 60,000. Default 3,000. */
  readonly flushIntervalMs?: number
  /** Says on the console what is taken, sent, answered and dropped. */
  readonly debug?: boolean
  /** May change an event, or drop it by null. */
  readonly beforeSend?: (event: SluiceEvent) => SluiceEvent | null
  readonly onDropped?: (reason: DropReason, events: readonly SluiceEvent[]) => void
  /** Told at each try of a batch that waits. */
  readonly onHeld?: (reason: HeldReason, events: readonly SluiceEvent[]) => void
  /** Most bytes of batches that wait; beyond it the oldest go. Default 2,000,000. */
  readonly maxQueueBytes?: number
}

/** Names of events, and the properties of each: createClient<{ signup: { plan: string } }>(…). */
export type AnyEvents = Record<string, Members>

type Given<P> = {} extends P ? [properties?: P, overrides?: Overrides] : [properties: P, overrides?: Overrides]

export interface Client<E extends object = AnyEvents> {
  track<N extends keyof E & string>(name: N, ...given: Given<E[N]>): void
  screen(name: string, properties?: Members, overrides?: Overrides): void
  revenue(name: string, revenue: Members, overrides?: Overrides): void
  /** Each later event has this `user_id`, as a text of at most 256 characters. Null, '' and what is no id forget the user. */
  identify(userId: string | number | bigint | null): void
  /** Each later event has these properties too, where it names no others: 50, each of at most 500 characters. */
  register(properties: Members): void
  unregister(...names: string[]): void
  /** Forgets the user, the registered properties and all ids. */
  reset(): void
  /** Seals what is open and tries to send all, once. True: nothing waits any more. */
  flush(): Promise<boolean>
  /** Flushes for at most so long, and ends. What is stored waits for the next client. */
  close(timeoutMs?: number): Promise<void>
  optIn(): void
  /** Drops what waits, forgets the user and the ids, and takes no events until optIn(). The choice is stored. */
  optOut(): void
}

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

/** Small texts by name. Nothing throws: a `set` that finds no room is false. */
export interface Store {
  keys(): string[]
  get(name: string): string | null
  set(name: string, value: string): boolean
  remove(name: string): void
}

export interface Options {
  /** Where the service is: https://events.example.com */
  readonly url: string
  readonly appKey: string
  /** `pending`: events wait in memory, and nothing is stored or sent, until optIn() or optOut(). */
  readonly consent?: 'granted' | 'pending'
  /** By default localStorage, else memory; `fileStore(folder)` of sluice-client/file on Node. */
  readonly store?: Store
  readonly context?: Partial<Context>
  /** May change an event, or drop it by null. */
  readonly beforeSend?: (event: SluiceEvent) => SluiceEvent | null
  readonly onDropped?: (reason: DropReason, events: readonly SluiceEvent[]) => void
  /** Told at each try of a batch that waits, since the app's `origins` do not name this page. */
  readonly onHeld?: (reason: 'origin', events: readonly SluiceEvent[]) => void
  /** Most bytes of batches that wait; beyond it the oldest go. Default 2,000,000. */
  readonly maxQueueBytes?: number
}

export interface Client {
  track(name: string, properties?: Members, overrides?: Overrides): void
  screen(name: string, properties?: Members, overrides?: Overrides): void
  revenue(name: string, revenue: Members, overrides?: Overrides): void
  /** Seals what is open and tries to send all, once. True: nothing waits any more. */
  flush(): Promise<boolean>
  /** Flushes for at most so long, and ends. What is stored waits for the next client. */
  close(timeoutMs?: number): Promise<void>
  optIn(): void
  /** Drops what waits, forgets the ids, and takes no events until optIn(). The choice is stored. */
  optOut(): void
}

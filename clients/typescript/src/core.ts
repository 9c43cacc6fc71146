// Takes events, seals them into batches, and ties queue, sender and page together.

import { createClock } from './clock.ts'
import { createIdentity } from './identity.ts'
import { createLease } from './lease.ts'
import type { Mirror } from './mirror.ts'
import type { Watch } from './pages.ts'
import { attempt, bounded, bytesOf, isoTime, type Page, type Platform, type Timers, uuid, within } from './platform.ts'
import { createQueue } from './queue.ts'
import { createSender } from './sender.ts'
import { guarded, spillingStore, webStore } from './store.ts'
import { createTraits } from './traits.ts'
import { createTransport } from './transport.ts'
import type { AsyncStore, Client, DropReason, Members, Options, Overrides, SluiceEvent, SyncStore } from './types.ts'

const MAX_EVENTS = 100
const SEAL_AFTER_MS = 3000
const MAX_SEAL_AFTER_MS = 60_000
/** So that a batch, with what surrounds its events, fits what a browser sends for a page that is gone. */
const MAX_BATCH_BYTES = 59 * 1024
/** The browser's quota is 65,536 bytes under way, of all scripts together. */
const QUOTA_BYTES = 60 * 1024
/** The service takes 512 KB. */
const MAX_EVENT_BYTES = 500_000
/** Events that wait in memory for consent, or for a store. */
const MAX_OPEN_EVENTS = 1000
const MAX_OPEN_BYTES = 2_000_000
/** What a page ends with goes in small batches, since a browser may have little room left for it. */
const LAST_BATCH_BYTES = 15 * 1024
/** What a browser opens to one host at a time. */
const MAX_LAST_FETCHES = 6
const CLOSE_TIMEOUT_MS = 5000

/** What a smaller build leaves out. */
type Extras = {
  readonly mirrorOf?: (store: AsyncStore, keys: PromiseLike<readonly string[]>, timers: Timers) => Mirror
  readonly watchPages?: (watch: Watch) => () => void
}

export function createCore(platform: Platform, options: Options, { mirrorOf, watchPages }: Extras = {}): Client {
  const { timers, page } = platform
  const given = options.store ?? (platform.storage && webStore(platform.storage, `sluice:${options.appKey}:`))
  const keys = attempt(() => given?.keys())
  const later = keys as PromiseLike<readonly string[]> | null
  const mirror = later?.then ? (mirrorOf?.(given as AsyncStore, later, timers) ?? null) : null
  /** With other tabs or processes. */
  const shared = given && mirror === null ? guarded(given as SyncStore) : null
  const store = spillingStore(mirror ?? shared, () => isLoaded() && consent() === 'granted')
  /** Calls that wait for the store. */
  let early: (() => void)[] | null = mirror && []
  let choice: string | null = null
  let isClosed = false
  const isLoaded = (): boolean => early === null
  const mayStore = (): boolean => !isClosed && isLoaded() && consent() === 'granted'
  const clock = createClock(store)
  const queue = createQueue(store, timers, clock, options)
  const identity = createIdentity(store, timers, mayStore)
  const traits = createTraits(store, () => options.persist === true && mayStore())
  const transport = createTransport(options.url, platform, clock)
  // What is in memory is nobody else's, whoever holds the lease.
  const isMine = (name: string): boolean => lease === null || lease.isHeld() || store.isInMemory(name)
  const maySend = (name: string): boolean => mayStore() && isMine(name)
  const mayAsk = (name: string): boolean => mayStore() && queue.names().includes(name)
  const sender = createSender({ queue, transport, clock, store, maySend, mayAsk }, platform)
  const wake = (): void => void sender.wake()
  const batchSize = bounded(options.batchSize, 1, MAX_EVENTS, MAX_EVENTS)
  const sealAfterMs = bounded(options.flushIntervalMs, 0, MAX_SEAL_AFTER_MS, SEAL_AFTER_MS)
  const open: { readonly event: SluiceEvent; readonly bytes: number }[] = []
  let sealTimer: unknown = null
  let quotaBytes = QUOTA_BYTES
  /** What ends with the client. */
  const ends: (() => void)[] = []

  // Where a user has taken the consent back in another tab, nothing is written.
  const lease =
    shared && createLease({ ...shared, set: (name, value) => mayStore() && shared.set(name, value) }, timers, wake)

  function begin(): void {
    const calls = early ?? []
    early = null
    // What waits from before is seen, and can be put back.
    queue.names()
    for (const call of calls) attempt(call)
    sealAndSend()
  }

  function whenLoaded(call: () => void): void {
    if (early === null) attempt(call)
    else early.push(call)
  }

  /** Another script may have cleared the store. An opt-out outlasts that, at least for this page. */
  function consent(): string {
    const text = store.get('consent')
    const stored = text === 'granted' || text === 'denied' ? text : null
    if (stored === null && choice === 'denied') store.set('consent', choice)
    const isTakenBack = stored === 'denied' && choice !== stored
    choice = stored ?? choice
    // In another tab, or on the page before.
    if (isTakenBack) forget(queue.names())
    return choice ?? (mirror?.isConsentRead() === false ? 'pending' : (options.consent ?? 'granted'))
  }

  function on(target: EventTarget, type: string, listener: (event: Event) => void): void {
    const guardedListener = (event: Event): void => {
      if (!isClosed) attempt(() => listener(event))
    }
    attempt(() => target.addEventListener(type, guardedListener))
    ends.push(() => target.removeEventListener(type, guardedListener))
  }

  // After `hidden` a browser may end a page without any further event. `pagehide` is the last one, where it comes.
  // `unload` is not reliable, and keeps pages out of the back/forward cache.
  function listen({ window, document }: Page): void {
    on(document, 'visibilitychange', () => (document.visibilityState === 'hidden' ? hide(false) : show()))
    on(document, 'securitypolicyviolation', (event) => transport.noteViolation(event))
    on(window, 'pagehide', () => hide(true))
    for (const type of ['pageshow', 'online']) on(window, type, show)
    on(window, 'storage', () => void (mayStore() && wake()))
    const tell: Watch['tell'] = (name, properties) => take('screen', name, () => ({ properties }))
    if (options.pageViews && watchPages) ends.push(watchPages({ page: page!, timers, on, tell }))
  }

  /** `read` may throw, since it reads what the caller gave. */
  function take(type: SluiceEvent['type'], name: string, read: () => Overrides): void {
    const event_id = uuid()
    const timestamp = isoTime(timers.nowMs())
    // A copy, where it waits for the store: the caller may go on changing what it gave.
    const given = attempt(() => (early === null ? read() : (JSON.parse(JSON.stringify(read())) as Overrides)))
    const make = (members: Overrides): SluiceEvent => ({
      event_id,
      type,
      name,
      ...identity.ids(),
      timestamp,
      ...members,
      // What throws there is not to cost each event.
      context: { ...platform.context, ...attempt(() => ({ ...options.context })), ...members.context },
    })
    const enter = (): void => {
      const event = attempt(() => make(traits.addTo(given!)))
      enterEvent(event ?? make({}), event ? null : 'invalid')
    }
    if (early !== null && early.length >= MAX_OPEN_EVENTS) queue.drop('overflow', [make({})])
    else whenLoaded(enter)
  }

  const taker =
    (type: SluiceEvent['type'], member: 'properties' | 'revenue' = 'properties') =>
    (name: string, given?: object, overrides?: Overrides): void =>
      take(type, name, () => ({ ...(given && { [member]: given }), ...overrides }))

  function enterEvent(event: SluiceEvent, fault: DropReason | null): void {
    const given = consent()
    const reason = fault ?? (isClosed ? 'closed' : given === 'denied' ? 'consent' : add(event))
    if (reason !== null) return queue.drop(reason, [event])
    while (open.length > MAX_OPEN_EVENTS || bytesIn(open) > MAX_OPEN_BYTES) queue.drop('overflow', takeOpen(1))
    if (given === 'granted' && (open.length >= batchSize || bytesIn(open) >= MAX_BATCH_BYTES)) sealAndSend()
    else sealTimer ??= timers.setTimeout(sealAndSend, sealAfterMs)
  }

  /** Null, or why the event is not taken. */
  function add(given: SluiceEvent): DropReason | null {
    const event = attempt(() => (options.beforeSend ? options.beforeSend(given) : given))
    if (!event) return 'before_send'
    const text = attempt(() => JSON.stringify(event))
    // A copy: the caller may go on changing what it gave.
    const copy = attempt(() => JSON.parse(text!) as SluiceEvent)
    if (!text || !copy) return 'invalid'
    if (bytesOf(text) > MAX_EVENT_BYTES) return 'too_large'
    open.push({ event: copy, bytes: bytesOf(text) + 1 })
    return null
  }

  const takeOpen = (count: number): SluiceEvent[] => open.splice(0, count).map(({ event }) => event)

  function sealAndSend(): void {
    if (!mayStore()) return
    lease?.acquire()
    sealOpen(MAX_BATCH_BYTES)
    wake()
  }

  /** Seals the open events, oldest first, each batch as large as it may be, but of one event at least. */
  function sealOpen(maxBytes: number): void {
    timers.clear(sealTimer)
    sealTimer = null
    while (open.length > 0) {
      let bytes = 0
      const past = open.findIndex((one, index) => (bytes += one.bytes) > maxBytes && index > 0)
      queue.add(takeOpen(Math.min(past < 0 ? open.length : past, batchSize)))
    }
  }

  function hide(ending: boolean): void {
    if (page === null || !mayStore()) return
    sealOpen(LAST_BATCH_BYTES)
    const mayAsk = !transport.isOffline() && sender.mustWaitMs() === 0
    const mine = mayAsk ? queue.names().filter((name) => isMine(name) || queue.isOwn(name)) : []
    const left = mine.filter((name) => !hand(page, name, ending))
    if (!ending) return wake()
    for (const name of left.slice(0, MAX_LAST_FETCHES)) void sender.send(name, queue.read(name)[0], false)
    lease?.release()
  }

  /** Gives a batch to the browser to send whatever becomes of the page. False: the browser has no room for it. */
  function hand({ keepalive }: Page, name: string, ending: boolean): boolean {
    const [batch] = queue.read(name)
    if (batch === undefined || batch.handedMs !== undefined) return true
    const byBeacon = transport.hasBeacon && (ending || !keepalive)
    const bytes = bytesOf(batch.body)
    if (bytes > quotaBytes || !(byBeacon || keepalive) || (queue.busy.has(name) && !ending)) return false
    if (byBeacon && !transport.beacon(batch)) {
      // Other scripts have used the quota too.
      quotaBytes = Math.floor(quotaBytes / 2)
      return false
    }
    quotaBytes -= bytes
    const handed = { ...batch, handedMs: timers.nowMs() }
    queue.replace(name, batch, [handed])
    if (!byBeacon) void sender.send(name, handed, true).then(wake)
    return true
  }

  function show(): void {
    quotaBytes = QUOTA_BYTES
    void flush()
  }

  async function flush(): Promise<boolean> {
    if (mirror !== null) await mirror.loaded
    sealAndSend()
    await sender.wake(true)
    return open.length === 0 && queue.names().length === 0
  }

  async function close(timeoutMs = CLOSE_TIMEOUT_MS): Promise<void> {
    await within(timers, timeoutMs, flush, false)
    isClosed = true
    for (const end of ends) attempt(end)
    sender.stop()
    lease?.release()
    timers.clear(sealTimer)
    queue.drop('closed', takeOpen(Infinity))
    for (const name of queue.names()) if (store.isInMemory(name)) queue.takeItem(name)('closed')
    await store.settled()
  }

  function optIn(): void {
    choice = 'granted'
    store.set('consent', choice)
    traits.keep()
    sealAndSend()
  }

  function optOut(): void {
    // What another script has cleared is put back by this, and reported.
    const names = queue.names()
    choice = 'denied'
    store.set('consent', choice)
    forget(names)
  }

  function forgetUser(): void {
    traits.forget()
    identity.forget()
  }

  /** All of it, before `onDropped` is called: a hook may throw, and call any method. */
  function forget(names: readonly string[]): void {
    const events = takeOpen(Infinity)
    const reports = names.map(queue.takeItem)
    forgetUser()
    lease?.release()
    store.forget()
    keepChoice()
    // A store that answers later says later that it was full.
    void store.settled().then(keepChoice)
    queue.drop('consent', events)
    for (const report of reports) report('consent')
  }

  /** What was full has room for it now. */
  function keepChoice(): void {
    if (store.isInMemory('consent')) store.set('consent', choice!)
  }

  if (page !== null) listen(page)
  if (mirror === null) begin()
  else void mirror.loaded.then(begin)

  return {
    track: taker('track'),
    screen: taker('screen'),
    revenue: taker('revenue', 'revenue'),
    identify: (userId) => whenLoaded(() => traits.identify(userId)),
    register(properties) {
      // A copy: the caller may go on changing it. What has no JSON would spoil each later event.
      const text = attempt(() => JSON.stringify(properties)) ?? '{}'
      whenLoaded(() => traits.register(JSON.parse(text) as Members))
    },
    unregister: (...names) => whenLoaded(() => traits.unregister(names)),
    reset: () => whenLoaded(forgetUser),
    flush,
    close,
    optIn: () => whenLoaded(optIn),
    optOut: () => whenLoaded(optOut),
  }
}

const bytesIn = (list: readonly { readonly bytes: number }[]): number => list.reduce((sum, one) => sum + one.bytes, 0)

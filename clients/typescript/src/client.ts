// Takes events, seals them into batches, and ties queue, sender and page together.

import { createClock } from './clock.ts'
import { createIdentity } from './identity.ts'
import { createLease } from './lease.ts'
import { attempt, bytesOf, type Page, type Platform, uuid } from './platform.ts'
import { createQueue } from './queue.ts'
import { createSender } from './sender.ts'
import { spillingStore, webStore } from './store.ts'
import { createTransport } from './transport.ts'
import type { Client, DropReason, Options, Overrides, SluiceEvent } from './types.ts'

const MAX_EVENTS = 100
const SEAL_AFTER_MS = 3000
/** So that a batch, with what surrounds its events, fits what a browser sends for a page that is gone. */
const MAX_BATCH_BYTES = 59 * 1024
/** The browser's quota is 65,536 bytes under way, of all scripts together. */
const QUOTA_BYTES = 60 * 1024
/** The service takes 512 KB. */
const MAX_EVENT_BYTES = 500_000
/** Events that wait in memory for consent. */
const MAX_OPEN_EVENTS = 1000
const MAX_OPEN_BYTES = 2_000_000
/** What a page ends with goes in small batches, since a browser may have little room left for it. */
const LAST_BATCH_BYTES = 15 * 1024
/** What a browser opens to one host at a time. */
const MAX_LAST_FETCHES = 6
const CLOSE_TIMEOUT_MS = 5000

export function createClientOn(platform: Platform, options: Options): Client {
  const { timers, page } = platform
  const lasting = options.store ?? (platform.storage && webStore(platform.storage, `sluice:${options.appKey}:`))
  const store = spillingStore(lasting)
  const consent = (): string => store.get('consent') ?? options.consent ?? 'granted'
  const closing = new AbortController()
  const { signal } = closing
  const mayStore = (): boolean => !signal.aborted && consent() === 'granted'
  const clock = createClock(store)
  const queue = createQueue(store, timers, clock, options)
  const identity = createIdentity(store, timers, mayStore)
  const transport = createTransport(options.url, platform, clock)
  // What is in memory is nobody else's, whoever holds the lease.
  const isMine = (name: string): boolean => lease.isHeld() || store.isInMemory(name)
  const maySend = (name: string): boolean => mayStore() && isMine(name)
  const sender = createSender({ queue, transport, clock, store, maySend }, platform)
  const wake = (): void => void sender.wake()
  const open: { readonly event: SluiceEvent; readonly bytes: number }[] = []
  let sealTimer: unknown = null
  let quotaBytes = QUOTA_BYTES

  const lease = createLease(lasting ?? store, timers, wake)
  if (page !== null) listen(page)
  sealAndSend()

  // After `hidden` a browser may end a page without any further event. `pagehide` is the last one, where it comes.
  // `unload` is not reliable, and keeps pages out of the back/forward cache.
  function listen({ window, document }: Page): void {
    const turn = (): void => (document.visibilityState === 'hidden' ? hide(false) : show())
    document.addEventListener('visibilitychange', turn, { signal })
    document.addEventListener('securitypolicyviolation', (event) => transport.noteViolation(event), { signal })
    window.addEventListener('pagehide', () => hide(true), { signal })
    for (const type of ['pageshow', 'online']) window.addEventListener(type, show, { signal })
    window.addEventListener('storage', wake, { signal })
  }

  function take(type: SluiceEvent['type'], name: string, members: Overrides): void {
    const event: SluiceEvent = {
      event_id: uuid(),
      type,
      name,
      ...identity.ids(),
      timestamp: new Date(timers.nowMs()).toISOString(),
      ...members,
      context: { ...platform.context, ...options.context, ...members.context },
    }
    const given = consent()
    const reason = signal.aborted ? 'closed' : given === 'denied' ? 'consent' : add(event)
    if (reason !== null) return queue.drop(reason, [event])
    while (open.length > MAX_OPEN_EVENTS || openBytes() > MAX_OPEN_BYTES) queue.drop('overflow', takeOpen(1))
    if (given === 'granted' && (open.length >= MAX_EVENTS || openBytes() >= MAX_BATCH_BYTES)) sealAndSend()
    else sealTimer ??= timers.setTimeout(sealAndSend, SEAL_AFTER_MS)
  }

  /** Null, or why the event is not taken. */
  function add(given: SluiceEvent): DropReason | null {
    const event = attempt(() => (options.beforeSend ? options.beforeSend(given) : given), null)
    if (!event) return 'before_send'
    const text = attempt(() => JSON.stringify(event), null)
    if (!text) return 'invalid'
    if (bytesOf(text) > MAX_EVENT_BYTES) return 'too_large'
    // A copy: the caller may go on changing what it gave.
    open.push({ event: JSON.parse(text) as SluiceEvent, bytes: bytesOf(text) + 1 })
    return null
  }

  const openBytes = (): number => open.reduce((sum, one) => sum + one.bytes, 0)
  const takeOpen = (count: number): SluiceEvent[] => open.splice(0, count).map(({ event }) => event)

  function sealAndSend(): void {
    if (!mayStore()) return
    lease.acquire()
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
      queue.add(takeOpen(Math.min(past < 0 ? open.length : past, MAX_EVENTS)))
    }
  }

  function hide(ending: boolean): void {
    if (page === null || !mayStore()) return
    sealOpen(LAST_BATCH_BYTES)
    const mayAsk = page.navigator.onLine !== false && sender.mustWaitMs() === 0
    const mine = mayAsk ? queue.names().filter((name) => isMine(name) || queue.isOwn(name)) : []
    const left = mine.filter((name) => !hand(page, name, ending))
    if (!ending) return wake()
    for (const name of left.slice(0, MAX_LAST_FETCHES)) void sender.send(name, queue.read(name)[0], false)
    lease.release()
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
    sealAndSend()
    await sender.wake(true)
    return open.length === 0 && queue.names().length === 0
  }

  async function close(timeoutMs = CLOSE_TIMEOUT_MS): Promise<void> {
    let timer: unknown
    const late = new Promise<void>((resolve) => void (timer = timers.setTimeout(resolve, timeoutMs)))
    await Promise.race([flush(), late])
    timers.clear(timer)
    closing.abort()
    sender.stop()
    lease.release()
    queue.drop('closed', takeOpen(Infinity))
    for (const name of queue.names()) if (store.isInMemory(name)) queue.dropItem(name, 'closed')
  }

  function optIn(): void {
    store.set('consent', 'granted')
    sealAndSend()
  }

  function optOut(): void {
    store.set('consent', 'denied')
    queue.drop('consent', takeOpen(Infinity))
    for (const name of queue.names()) queue.dropItem(name, 'consent')
    identity.forget()
    lease.release()
  }

  return {
    track: (name, properties, overrides) => take('track', name, { ...(properties && { properties }), ...overrides }),
    screen: (name, properties, overrides) => take('screen', name, { ...(properties && { properties }), ...overrides }),
    revenue: (name, revenue, overrides) => take('revenue', name, { revenue, ...overrides }),
    flush,
    close,
    optIn,
    optOut,
  }
}

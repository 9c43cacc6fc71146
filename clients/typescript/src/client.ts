// Takes events, seals them into batches, and ties queue, sender and page together.

import { createClock } from './clock.ts'
import { createIdentity } from './identity.ts'
import { leaseLock, webLock } from './lock.ts'
import { attempt, bytesOf, type Platform, uuid } from './platform.ts'
import { createQueue } from './queue.ts'
import { createSender } from './sender.ts'
import { spillingStore, webStore } from './store.ts'
import { createTransport } from './transport.ts'
import type { Client, DropReason, Options, Overrides, SluiceEvent } from './types.ts'

const VERSION = 'sluice-client/0.1.0'
const MAX_EVENTS = 100
const SEAL_AFTER_MS = 3000
/** So that a batch fits what a browser sends for a page that is gone; the rest is for what surrounds the events. */
const MAX_BATCH_BYTES = 59 * 1024
const SURROUNDINGS_BYTES = 1024
/** The browser's quota is 65,536 bytes under way, of all scripts together. */
const QUOTA_BYTES = 60 * 1024
/** The service takes 512 KB. */
const MAX_EVENT_BYTES = 500_000
/** Events that wait in memory for consent. */
const MAX_OPEN_EVENTS = 1000
/** What a browser opens to one host at a time. */
const MAX_LAST_FETCHES = 6
const CLOSE_TIMEOUT_MS = 5000

export function createClientOn(platform: Platform, options: Options): Client {
  const { timers, page } = platform
  const prefix = `sluice:${options.appKey}:`
  const lasting = options.store ?? (platform.storage && webStore(platform.storage, prefix))
  const store = spillingStore(lasting)
  const consent = (): string => store.get('consent') ?? options.consent ?? 'granted'
  const isGranted = (): boolean => consent() === 'granted'
  const queue = createQueue(store, timers, options, VERSION)
  const clock = createClock(store)
  const identity = createIdentity(store, timers, isGranted)
  const transport = createTransport(options.url, platform, clock)
  const maySend = (): boolean => !isClosed && isGranted() && lock.isHeld()
  const sender = createSender({ queue, transport, clock, store, maySend }, platform)
  const wake = (): void => void sender.wake()
  let open: { readonly event: SluiceEvent; readonly bytes: number }[] = []
  let sealTimer: unknown = null
  let quotaBytes = QUOTA_BYTES
  let isClosed = false

  const lock =
    lasting !== null && platform.locks !== null
      ? webLock(platform.locks, prefix, wake)
      : leaseLock(lasting ?? store, timers, wake)
  // After `hidden` a browser may end a page without any further event. `pagehide` is the last one, where it comes.
  // `unload` is not reliable, and keeps pages out of the back/forward cache.
  const unlisten = page && [
    listen(page.document, {
      visibilitychange: () => (page.document.visibilityState === 'hidden' ? hide(false) : show()),
      securitypolicyviolation: (event) => transport.noteViolation((event as SecurityPolicyViolationEvent).blockedURI),
    }),
    listen(page.window, { pagehide: () => hide(true), pageshow: show, online: show, storage: wake }),
  ]
  lock.acquire()

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
    const reason = isClosed ? 'closed' : given === 'denied' ? 'consent' : add(event)
    if (reason !== null) return queue.drop(reason, [event])
    const isFull = (): boolean =>
      open.length >= MAX_EVENTS || open.reduce((sum, one) => sum + one.bytes, 0) >= MAX_BATCH_BYTES
    if (open.length > MAX_OPEN_EVENTS) queue.drop('overflow', takeOpen(1))
    else if (given === 'granted' && isFull()) sealAndSend()
    else sealTimer ??= timers.setTimeout(sealAndSend, SEAL_AFTER_MS)
  }

  /** Null, or why the event is not taken. */
  function add(given: SluiceEvent): DropReason | null {
    const event = attempt(() => (options.beforeSend ? options.beforeSend(given) : given), null)
    if (!event) return 'before_send'
    const text = attempt(() => JSON.stringify(event), null)
    if (text === null) return 'invalid'
    if (bytesOf(text) > MAX_EVENT_BYTES) return 'too_large'
    // A copy: the caller may go on changing what it gave.
    open.push({ event: JSON.parse(text) as SluiceEvent, bytes: bytesOf(text) + 1 })
    return null
  }

  const takeOpen = (count: number): SluiceEvent[] => open.splice(0, count).map(({ event }) => event)

  function sealAndSend(): void {
    timers.clear(sealTimer)
    sealTimer = null
    while (isGranted() && open.length > 0) sealNext(MAX_BATCH_BYTES)
    wake()
  }

  /** Seals the oldest open events, as many as fit, but at least one. Returns the batch's name. */
  function sealNext(maxBytes: number): string {
    let count = 0
    for (let bytes = 0; count < Math.min(open.length, MAX_EVENTS); count++) {
      bytes += open[count].bytes
      if (bytes > maxBytes && count > 0) break
    }
    return queue.add(clock.correct(takeOpen(count)))
  }

  function hide(ending: boolean): void {
    if (page === null || !isGranted()) return
    const byBeacon = transport.hasBeacon && (ending || !page.keepalive)
    const mayAsk = page.navigator.onLine !== false && sender.mustWaitMs() === 0
    const handOver = mayAsk && (byBeacon || page.keepalive) ? hand : () => 'no room'
    // Its own, whoever holds the lock.
    const mine = queue.names().filter((name) => lock.isHeld() || queue.isOwn(name))
    const left = mine.filter((name) => handOver(name, byBeacon) !== 'handed')
    while (open.length > 0) {
      const before = open.slice()
      const name = sealNext(Math.min(MAX_BATCH_BYTES, quotaBytes - SURROUNDINGS_BYTES))
      const handed = handOver(name, byBeacon)
      if (handed === 'no room') left.push(name)
      if (handed !== 'refused') continue
      // Never sent: it may be made smaller.
      queue.dropItem(name, null)
      open = before
    }
    if (!ending) return wake()
    for (const name of mayAsk ? left.slice(0, MAX_LAST_FETCHES) : []) void sender.send(name, queue.read(name)[0], false)
    lock.release()
  }

  /** Gives a batch to the browser to send whatever becomes of the page. */
  function hand(name: string, byBeacon: boolean): 'handed' | 'refused' | 'no room' {
    const [batch] = queue.read(name)
    if (batch === undefined || batch.handedMs !== undefined) return 'handed'
    const bytes = bytesOf(batch.body)
    if ((queue.busy.has(name) && !byBeacon) || bytes > quotaBytes) return 'no room'
    if (byBeacon && !transport.beacon(batch)) {
      // Other scripts have used the quota too.
      quotaBytes = Math.floor(quotaBytes / 2)
      return 'refused'
    }
    quotaBytes -= bytes
    const handed = { ...batch, handedMs: timers.nowMs() }
    queue.replace(name, batch, [handed])
    const giveBack = (): void => {
      quotaBytes = Math.min(quotaBytes + bytes, QUOTA_BYTES)
      wake()
    }
    if (!byBeacon) void sender.send(name, handed, true).then(giveBack)
    return 'handed'
  }

  function show(): void {
    quotaBytes = QUOTA_BYTES
    lock.acquire()
    void sender.wake(true)
  }

  async function flush(): Promise<boolean> {
    sealAndSend()
    await sender.wake(true)
    return open.length === 0 && queue.names().length === 0
  }

  async function close(timeoutMs = CLOSE_TIMEOUT_MS): Promise<void> {
    let timer: unknown
    const late = new Promise<void>((resolve) => {
      timer = timers.setTimeout(resolve, timeoutMs)
    })
    await Promise.race([flush(), late])
    timers.clear(timer)
    isClosed = true
    for (const stop of unlisten ?? []) stop()
    sender.stop()
    lock.release()
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

/** Returns what ends it. */
function listen(target: EventTarget, listeners: Record<string, (event: Event) => void>): () => void {
  for (const [type, listener] of Object.entries(listeners)) target.addEventListener(type, listener)
  return () => {
    for (const [type, listener] of Object.entries(listeners)) target.removeEventListener(type, listener)
  }
}

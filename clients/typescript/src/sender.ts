// Sends what waits, one batch at a time, oldest first; waits after a failure, and longer after each.

import { judge, MAX_RETRY_AFTER_MS } from './answer.ts'
import type { Clock } from './clock.ts'
import { type Platform, unref } from './platform.ts'
import { type Batch, type Queue, unseal } from './queue.ts'
import type { SpillingStore } from './store.ts'
import type { Transport } from './transport.ts'

const FIRST_BACKOFF_MS = 3000
const MAX_TRIES = 10
/** Tries without an answer. One may be an accident of the network. */
const HELD_AFTER = 2
/** After so many failures in a row. */
const REST_MS = 3_600_000
const MINUTE_MS = 60_000
/** The service remembers a key for 300 s: sent sooner than this, a batch that it has is not stored again. */
const KEY_LIFE_MS = 240_000

type Parts = {
  queue: Queue
  transport: Transport
  clock: Clock
  store: SpillingStore
  maySend: (name: string) => boolean
  /** The user, or the end of the client, may have taken the batch back meanwhile. */
  mayAsk: (name: string) => boolean
}

export function createSender(parts: Parts, { timers, random }: Pick<Platform, 'timers' | 'random'>) {
  const { queue, transport, clock, store, maySend, mayAsk } = parts
  let failures = 0
  let unanswered = 0
  let retryAtMs = 0
  let pacedUntilAtMs = 0
  let refusedUntilAtMs = 0
  let timer: unknown = null
  let running: Promise<void> | null = null

  /** Retry-After, or the rest of a minute that is used up. */
  function mustWaitMs(): number {
    const [untilMs, longestMs = MAX_RETRY_AFTER_MS] = (store.get('wait') ?? '').split(' ').map(Number)
    const waitMs = untilMs - timers.nowMs()
    // A longer wait than was written down: the clock has been set back since.
    return Math.max(waitMs <= longestMs ? waitMs : 0, refusedUntilAtMs - timers.monotonicMs(), 0)
  }

  /** For every client of this store, which share no clock but that of the day. */
  function mustWait(ms: number): void {
    refusedUntilAtMs = timers.monotonicMs() + ms
    store.set('wait', `${timers.nowMs() + ms} ${ms}`)
  }

  function fail(name: string, batch: Batch, retryAfterMs: number): void {
    // This try is over: the batch is no longer one that was handed to the browser and whose answer is unknown.
    const { handedMs, ...unhanded } = batch
    if (handedMs !== undefined) queue.replace(name, batch, [unhanded])
    const backoffMs = FIRST_BACKOFF_MS * 2 ** failures * (1 + random()) * 0.5
    failures = (failures + 1) % MAX_TRIES
    // A little more than Retry-After: not all clients come at the minute's turn.
    retryAtMs =
      timers.monotonicMs() + Math.max(failures === 0 ? REST_MS : backoffMs, retryAfterMs * (1 + random() / 20))
    if (retryAfterMs > 0) mustWait(retryAfterMs)
  }

  /** Little is left of the minute: the rest of it is for what is left, so that nothing is refused. */
  function pace(rateLimit: string | null, events: number): void {
    const [, left, seconds] = /"minute";r=(\d+);t=(\d+)/.exec(rateLimit ?? '') ?? []
    if (left === undefined) return
    const share = Math.min(events / Math.max(Number(left), 1), 1)
    const waitMs = share * Math.min(Number(seconds) * 1000, MINUTE_MS)
    pacedUntilAtMs = timers.monotonicMs() + waitMs
    // What is sent in the rest of it would be refused, whoever sends it.
    if (Number(left) === 0) mustWait(waitMs)
  }

  /** One try. `keepalive`: the page may be gone before the answer. */
  async function send(name: string, batch: Batch, keepalive: boolean): Promise<void> {
    queue.busy.add(name)
    const answer = await transport.send(batch, keepalive, () => mayAsk(name))
    queue.busy.delete(name)
    if (answer === null) return
    if (answer === 'blocked') return queue.takeItem(name)('blocked')
    const contents = unseal(batch)
    unanswered = answer === 'failed' ? unanswered + 1 : 0
    if (answer === 'failed') {
      if (unanswered >= HELD_AFTER && !transport.isOffline()) queue.hold('no_answer', contents.events)
      return fail(name, batch, 0)
    }
    const verdict = judge(answer, contents.events, clock, timers.nowMs())
    if ('retryAfterMs' in verdict) {
      if (verdict.isHeld) queue.hold('origin', contents.events)
      return fail(name, batch, verdict.retryAfterMs)
    }
    failures = 0
    // What a refusal makes of its batch is sent at once: smaller, it may fit into what is left.
    if (answer.status === 202) pace(answer.header('RateLimit'), contents.events.length)
    queue.amend(name, batch, contents, verdict)
  }

  /** What waits next; null where nothing may be sent now. */
  function next(): string | null {
    const name = queue.names().find((item) => !queue.busy.has(item) && maySend(item)) ?? null
    const waitMs = Math.max(mustWaitMs(), Math.max(retryAtMs, pacedUntilAtMs) - timers.monotonicMs())
    if (name === null || waitMs <= 0) return name
    timers.clear(timer)
    timer = unref(timers.setTimeout(() => void wake(), waitMs))
    return null
  }

  async function run(): Promise<void> {
    // So that `wake` has this promise before it can be over.
    await store.settled()
    for (let name = next(); name !== null; name = next()) {
      const [batch] = queue.read(name)
      const isUnconfirmed = batch?.handedMs !== undefined && Math.abs(timers.nowMs() - batch.handedMs) > KEY_LIFE_MS
      if (queue.isExpired(name)) queue.takeItem(name)('expired')
      else if (batch === undefined || isUnconfirmed) queue.takeItem(name)('unconfirmed')
      else await send(name, batch, false)
      await store.settled()
    }
  }

  /** Sends until nothing waits or a try fails. `now` cuts a backoff short, but not a Retry-After. */
  function wake(now = false): Promise<void> {
    if (now) retryAtMs = 0
    // What throws is something that another script has replaced. The next wake tries again.
    return (running ??= run()
      .catch(() => undefined)
      .finally(() => (running = null)))
  }

  return { wake, send, mustWaitMs, stop: (): void => timers.clear(timer) }
}

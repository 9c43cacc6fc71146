// Sends what waits, one batch at a time, oldest first; waits after a failure, and longer after each.

import { type Answer, judge, MAX_RETRY_AFTER_MS } from './answer.ts'
import type { Clock } from './clock.ts'
import { type Platform, unref } from './platform.ts'
import { type Batch, type Queue, unseal } from './queue.ts'
import type { Transport } from './transport.ts'
import type { Store } from './types.ts'

const FIRST_BACKOFF_MS = 3000
const MAX_TRIES = 10
/** After so many failures in a row. */
const REST_MS = 3_600_000
/** The service remembers a key for 300 s: sent sooner than this, a batch that it has is not stored again. */
const KEY_LIFE_MS = 240_000

type Parts = { queue: Queue; transport: Transport; clock: Clock; store: Store; maySend: () => boolean }

export function createSender(parts: Parts, { timers, random }: Pick<Platform, 'timers' | 'random'>) {
  const { queue, transport, clock, store, maySend } = parts
  let failures = 0
  let retryAtMs = 0
  let timer: unknown = null
  let running: Promise<void> | null = null

  /** Retry-After, for every client of this store. The clock may have been set back since. */
  function mustWaitMs(): number {
    const waitMs = Number(store.get('wait') ?? 0) - timers.nowMs()
    return waitMs > MAX_RETRY_AFTER_MS ? 0 : Math.max(waitMs, 0)
  }

  function fail(name: string, batch: Batch, retryAfterMs: number): void {
    // An answer is known now, if only that there is none.
    const { handedMs, ...unhanded } = batch
    if (handedMs !== undefined) queue.replace(name, batch, [unhanded])
    const backoffMs = FIRST_BACKOFF_MS * 2 ** failures * (1 + random()) * 0.5
    failures = (failures + 1) % MAX_TRIES
    // A little more than Retry-After: not all clients come at the minute's turn.
    retryAtMs = timers.nowMs() + Math.max(failures === 0 ? REST_MS : backoffMs, retryAfterMs * (1 + random() / 20))
    if (retryAfterMs > 0) store.set('wait', String(timers.nowMs() + retryAfterMs))
  }

  function settle(name: string, batch: Batch, answer: Answer): void {
    const { events } = unseal(batch)
    const verdict = judge(answer, events.length)
    if (verdict.kind === 'retry') return fail(name, batch, verdict.retryAfterMs)
    failures = 0
    if (verdict.kind === 'accepted') {
      queue.replace(name, batch, [])
    } else if (verdict.kind === 'drop') {
      queue.amend(name, batch, [], false, verdict.reason)
    } else if (verdict.kind === 'split') {
      const half = Math.ceil(events.length / 2)
      const parts = half < events.length ? [events.slice(0, half), events.slice(half)] : []
      queue.amend(name, batch, parts, batch.corrected === true, 'too_large')
    } else {
      const faults = [...verdict.offenders.values()]
      // The batch's events had one clock: where it is the fault, it is of all, though the answer names only some.
      const corrected = batch.corrected !== true && clock.correctionMs() !== 0 && faults.includes('timestamp')
      const kept = events.filter((_, index) => {
        const fault = verdict.offenders.get(index)
        return fault === undefined || (fault === 'timestamp' && corrected)
      })
      const part = corrected ? clock.correct(kept) : kept
      // Each round drops an event, but the one that corrects.
      queue.amend(name, batch, kept.length > 0 ? [part] : [], corrected || batch.corrected === true, 'invalid')
    }
  }

  /** One try. `keepalive`: the page may be gone before the answer. */
  async function send(name: string, batch: Batch, keepalive: boolean): Promise<void> {
    queue.busy.add(name)
    const answer = await transport.send(batch, keepalive)
    queue.busy.delete(name)
    if (answer === 'blocked') queue.dropItem(name, 'blocked')
    else if (answer === 'failed') fail(name, batch, 0)
    else settle(name, batch, answer)
  }

  /** What waits next; null where nothing may be sent now. */
  function next(): string | null {
    if (!maySend()) return null
    queue.dropExpired()
    const name = queue.names().find((item) => !queue.busy.has(item)) ?? null
    const waitMs = Math.max(mustWaitMs(), retryAtMs - timers.nowMs())
    if (name === null || waitMs <= 0) return name
    timers.clear(timer)
    timer = unref(timers.setTimeout(() => void wake(), waitMs))
    return null
  }

  async function run(): Promise<void> {
    // So that `wake` has this promise before it can be over.
    await Promise.resolve()
    for (let name = next(); name !== null; name = next()) {
      const [batch] = queue.read(name)
      const isUnconfirmed = batch?.handedMs !== undefined && timers.nowMs() - batch.handedMs > KEY_LIFE_MS
      if (batch === undefined || isUnconfirmed) queue.dropItem(name, 'unconfirmed')
      else await send(name, batch, false)
    }
    running = null
  }

  /** Sends until nothing waits or a try fails. `now` cuts a backoff short, but not a Retry-After. */
  function wake(now = false): Promise<void> {
    if (now) retryAtMs = 0
    return (running ??= run())
  }

  return { wake, send, mustWaitMs, stop: (): void => timers.clear(timer) }
}

// One try at sending a batch: fetch, fetch that outlives the page, or a beacon.

import type { Answer } from './answer.ts'
import type { Clock } from './clock.ts'
import type { Platform } from './platform.ts'
import type { Batch } from './queue.ts'

const TIMEOUT_MS = 30_000
const GZIP = { 'Content-Encoding': 'gzip' }

export type Transport = ReturnType<typeof createTransport>

export function createTransport(service: string, { timers, fetch, compress, page }: Platform, clock: Clock) {
  const url = `${service.replace(/\/+$/, '')}/api/v1/events`
  // Another origin is asked before any request that a form could not send, and a page that ends has no time for it.
  const isElsewhere = page !== null && new URL(url, page.origin).origin !== page.origin
  const plainUrl = (batch: Batch): string => `${url}?key=${batch.key}`
  let isBlocked = false

  async function request(batch: Batch, keepalive: boolean, signal: AbortSignal): Promise<Answer> {
    const packed = keepalive || page?.document.visibilityState === 'hidden' ? null : await compress(batch.body)
    const isPlain = keepalive && isElsewhere
    const json = { 'Content-Type': 'application/json', 'Idempotency-Key': batch.key, ...(packed && GZIP) }
    const sentMs = timers.nowMs()
    const response = await fetch(isPlain ? plainUrl(batch) : url, {
      method: 'POST',
      body: packed ?? batch.body,
      headers: isPlain ? { 'Content-Type': 'text/plain;charset=UTF-8' } : json,
      credentials: 'omit',
      keepalive,
      signal,
    })
    const dateMs = Date.parse(response.headers.get('Date') ?? '')
    if (!Number.isNaN(dateMs)) clock.learn(dateMs, sentMs, timers.nowMs())
    return { status: response.status, headers: response.headers, text: await response.text() }
  }

  return {
    hasBeacon: isElsewhere && page.navigator.sendBeacon !== undefined,
    beacon: (batch: Batch): boolean => page?.navigator.sendBeacon?.(plainUrl(batch), batch.body) ?? false,
    /** The page's policy forbids what this address is under, and will for its whole life. */
    noteViolation(event: Event): void {
      const { blockedURI } = event as SecurityPolicyViolationEvent
      if (blockedURI !== '' && url.startsWith(blockedURI)) isBlocked = true
    },
    /** With `keepalive` the request is under way when this returns. */
    async send(batch: Batch, keepalive: boolean): Promise<Answer | 'blocked' | 'failed'> {
      if (isBlocked) return 'blocked'
      const abort = new AbortController()
      const timer = timers.setTimeout(() => abort.abort(), TIMEOUT_MS)
      try {
        return await request(batch, keepalive, abort.signal)
      } catch {
        return 'failed'
      } finally {
        timers.clear(timer)
      }
    },
  }
}

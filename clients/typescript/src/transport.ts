// One try at sending a batch: fetch, fetch that outlives the page, or a beacon.

import type { Answer } from './answer.ts'
import type { Clock } from './clock.ts'
import { attempt, bytesOf, type Platform, parseTime, within } from './platform.ts'
import type { Batch } from './queue.ts'

const TIMEOUT_MS = 30_000
const COMPRESS_TIMEOUT_MS = 3000
const STORED = 202
const GZIP = { 'Content-Encoding': 'gzip' }

export type Transport = ReturnType<typeof createTransport>

export function createTransport(service: string, { timers, fetch, compress, page }: Platform, clock: Clock) {
  const url = `${service.replace(/\/+$/, '')}/api/v1/events`
  const address = attempt(() => new URL(url, page?.origin))
  // Another origin is asked before any request that a form could not send, and a page that ends has no time for it.
  const isElsewhere = page !== null && address?.origin !== page.origin
  const plainUrl = (batch: Batch): string => `${url}?key=${batch.key}`
  const saysOffline = (): boolean => attempt(() => page?.navigator.onLine === false, false)
  const isHidden = (): boolean => attempt(() => page?.document.visibilityState === 'hidden', false)
  let isBlocked = false
  let mayCompress = true
  /** An answer came while the browser said that it is offline, as some do in containers. */
  let isOfflineWrong = false

  /** Null: as it is. Where it failed once, nothing of this page is compressed. */
  async function pack(body: string): Promise<ArrayBuffer | null> {
    const packed = await within(timers, COMPRESS_TIMEOUT_MS, () => compress(body), undefined)
    if (packed !== null) mayCompress = isWhole(packed, body)
    return mayCompress ? packed! : null
  }

  async function request(
    batch: Batch,
    keepalive: boolean,
    packed: ArrayBuffer | null,
    signal: AbortSignal | null,
  ): Promise<Answer> {
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
    if (typeof response.status !== 'number') throw new TypeError('not an answer')
    const answeredMs = timers.nowMs()
    const header = (name: string): string | null => {
      const value = attempt(() => response.headers.get(name))
      return typeof value === 'string' ? value : null
    }
    // That it is stored is known before the text is there.
    const text = response.status === STORED ? '' : String(await (response.text() as Promise<unknown>))
    if (response.status === STORED) attempt(() => void response.text().catch(() => ''))
    clock.learn(parseTime(header('Date') ?? ''), sentMs, answeredMs)
    isOfflineWrong = saysOffline()
    return { status: response.status, header, text }
  }

  /** It ends in time though something that another script has put in the place of fetch may not. */
  async function ask(
    batch: Batch,
    keepalive: boolean,
    packed: ArrayBuffer | null,
    mayAsk: () => boolean,
  ): Promise<Answer | 'failed' | null> {
    if (!mayAsk()) return null
    const abort = attempt(() => new AbortController())
    const work = (): Promise<Answer> => request(batch, keepalive, packed, abort?.signal ?? null)
    const answer = await within(timers, TIMEOUT_MS, work, 'failed' as const)
    if (answer === 'failed') attempt(() => abort?.abort())
    return answer
  }

  return {
    hasBeacon: isElsewhere && attempt(() => page.navigator.sendBeacon !== undefined, false),
    beacon: (batch: Batch): boolean =>
      attempt(() => page?.navigator.sendBeacon?.(plainUrl(batch), batch.body) === true, false),
    isOffline: (): boolean => saysOffline() && !isOfflineWrong,
    /** The page's policy forbids this very request, and will for the page's whole life. One that only reports forbids nothing. */
    noteViolation(event: Event): void {
      const { blockedURI, disposition, effectiveDirective } = event as Partial<SecurityPolicyViolationEvent>
      const [blocked] = (blockedURI ?? '').split('?')
      if (disposition === 'enforce' && effectiveDirective === 'connect-src' && blocked === address?.href)
        isBlocked = true
    },
    /** With `keepalive`, and from a page that is hidden, the request is under way when this returns. */
    async send(batch: Batch, keepalive: boolean, mayAsk: () => boolean): Promise<Answer | 'blocked' | 'failed' | null> {
      if (isBlocked) return 'blocked'
      const packed = keepalive || !mayCompress || isHidden() ? null : await pack(batch.body)
      const answer = await ask(batch, keepalive, packed, mayAsk)
      const isRefused = answer !== null && answer !== 'failed' && (answer.status === 400 || answer.status === 415)
      // The service says so of events that do not fit. Else it, or what lies before it, could not read what was compressed.
      if (packed === null || !isRefused || answer.text.includes('"validation_failed"')) return answer
      mayCompress = false
      return await ask(batch, keepalive, null, mayAsk)
    },
  }
}

/** gzip ends with the length of the text. Browsers have given less without an error. */
function isWhole(packed: ArrayBuffer | undefined, body: string): boolean {
  return attempt(() => new DataView(packed!).getUint32(packed!.byteLength - 4, true) === bytesOf(body), false)
}

// What the client needs of a browser or of Node, as values to pass in. Nothing is read before createClient is called,
// so that the package can be imported where pages are rendered.

import type { Context } from './types.ts'

export interface Timers {
  nowMs(): number
  setTimeout(task: () => void, delayMs: number): unknown
  clear(timer: unknown): void
}

export interface Page {
  readonly window: EventTarget
  readonly document: EventTarget & { readonly visibilityState: string }
  readonly navigator: { readonly onLine?: boolean; sendBeacon?(url: string, body: string): boolean }
  readonly origin: string
  /** fetch can outlive the page. */
  readonly keepalive: boolean
}

export interface Platform {
  readonly timers: Timers
  readonly random: () => number
  readonly fetch: typeof fetch
  /** gzip; null where that is not possible, or not worth it. */
  readonly compress: (body: string) => Promise<ArrayBuffer | null>
  readonly context: Context
  readonly page: Page | null
  readonly storage: Storage | null
}

export function systemPlatform(): Platform {
  const timers: Timers = {
    nowMs: () => Date.now(),
    setTimeout: (task, delayMs) => setTimeout(task, delayMs),
    clear: (timer) => clearTimeout(timer as number),
  }
  const always = { timers, random: Math.random, fetch: ((...args) => fetch(...args)) as typeof fetch, compress }
  if (typeof window === 'undefined' || typeof document === 'undefined') {
    const os = (globalThis as { process?: { platform: string } }).process?.platform ?? 'unknown'
    return { ...always, context: { os }, page: null, storage: null }
  }
  const { navigator, location, screen } = window
  const os = /Windows|iPhone|iPad|Android|Mac OS|CrOS|Linux/.exec(navigator.userAgent)?.[0] ?? 'unknown'
  const locale = navigator.language.replace('-', '_')
  const context = { os, locale, screen_width: screen.width, screen_height: screen.height }
  const page = { window, document, navigator, origin: location.origin, keepalive: 'keepalive' in Request.prototype }
  // Reading it throws where the user forbids storage.
  const storage = attempt(() => window.localStorage, null)
  return { ...always, context, page, storage }
}

/** What `work` returns, or `otherwise` where it throws. */
export function attempt<T, F>(work: () => T, otherwise: F): T | F {
  try {
    return work()
  } catch {
    return otherwise
  }
}

/** What fits one packet need not be smaller. */
const COMPRESS_FROM = 1200

async function compress(body: string): Promise<ArrayBuffer | null> {
  if (body.length < COMPRESS_FROM || typeof CompressionStream === 'undefined') return null
  return await new Response(new Blob([body]).stream().pipeThrough(new CompressionStream('gzip'))).arrayBuffer()
}

/** A random UUID. crypto.randomUUID is absent on pages that came over plain http. */
export function uuid(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  bytes[6] = (bytes[6] & 0x0f) | 0x40
  bytes[8] = (bytes[8] & 0x3f) | 0x80
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

export const bytesOf = (text: string): number => new TextEncoder().encode(text).length

/** On Node, a wait must not keep the process from ending. */
export function unref(timer: unknown): unknown {
  ;(timer as { unref?: () => void } | null)?.unref?.()
  return timer
}

// What the client needs of a browser or of Node, as values to pass in. Nothing is read before createClient is called,
// so that the package can be imported where pages are rendered. Each of it may be missing, or be another script's.

import type { Context } from './types.ts'

export interface Timers {
  nowMs(): number
  /** Goes forward alone, whatever is done to the clock of the day. */
  monotonicMs(): number
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
  const isPage = attempt(() => typeof window === 'object' && typeof document === 'object', false)
  return {
    timers: {
      nowMs,
      monotonicMs: forwardClock(),
      setTimeout: later,
      clear: (timer) => attempt(() => clearTimeout(timer as number)),
    },
    random: chance,
    fetch: (...args) => fetch(...args),
    compress,
    context: contextOf(),
    page: isPage
      ? {
          window,
          document,
          navigator: attempt(() => window.navigator) ?? {},
          origin: String(attempt(() => location.origin)),
          keepalive: attempt(() => 'keepalive' in Request.prototype, false),
        }
      : null,
    // Reading it throws where the user forbids storage.
    storage: isPage ? (attempt(() => window.localStorage) ?? null) : null,
  }
}

/** What `work` returns, or `otherwise` where it throws. */
export function attempt<T>(work: () => T): T | undefined
export function attempt<T, F>(work: () => T, otherwise: F): T | F
export function attempt(work: () => unknown, otherwise?: unknown): unknown {
  try {
    return work()
  } catch {
    return otherwise
  }
}

/** What `work` comes to, or `otherwise` where it fails or takes longer. What it does at once is done when this returns. */
export function within<T, F>(timers: Timers, ms: number, work: () => T | Promise<T>, otherwise: F): Promise<T | F> {
  return new Promise((resolve) => {
    const timer = unref(timers.setTimeout(() => resolve(otherwise), ms))
    const end = (value: T | F): void => {
      timers.clear(timer)
      resolve(value)
    }
    const start = async (): Promise<T> => await work()
    start().then(end, () => end(otherwise))
  })
}

const MAX_DATE_MS = 8.64e15

/** Scripts that set the time for tests or games may leave only one of the two right. */
function nowMs(): number {
  const isTime = (ms: unknown): boolean => Number.isFinite(ms) && Math.abs(ms as number) <= MAX_DATE_MS
  return [attempt(() => Date.now()), attempt(() => new Date().getTime())].find(isTime) ?? 0
}

/** Where there is only the clock of the day, or another script's: what it is set back by is not counted. */
function forwardClock(): () => number {
  let lastMs = Infinity
  let passedMs = 0
  return () => {
    const atMs = attempt(() => performance.now(), NaN)
    const readMs = atMs >= 0 ? atMs : nowMs()
    passedMs += Math.max(readMs - lastMs, 0)
    lastMs = readMs
    return passedMs
  }
}

/** NaN where it is no time, or the page has broken its clock. */
export const parseTime = (text: string): number => attempt(() => Date.parse(text), NaN)
export const isoTime = (ms: number): string => attempt(() => new Date(ms).toISOString(), '')

/** A longer delay would be none. */
const MAX_DELAY_MS = 2 ** 31 - 1

/** A task that is run before the timer is there would be run again and again. */
function later(task: () => void, delayMs: number): unknown {
  let isSet = false
  const timer = attempt(() => setTimeout(() => isSet && task(), Math.min(delayMs, MAX_DELAY_MS)))
  isSet = true
  return timer
}

function chance(): number {
  const value = attempt(() => Math.random(), NaN)
  return value >= 0 && value < 1 ? value : 0.5
}

/** Before those whose names their agents have too: that of Android has Linux, that of an iPhone Mac OS. */
const SYSTEMS = ['Windows', 'iPhone', 'iPad', 'Android', 'Quest', 'Mac OS', 'CrOS', 'Tizen', 'Web0S', 'KAIOS', 'Linux']

function contextOf(): Context {
  const agent = String(attempt(() => navigator.userAgent))
  const named = SYSTEMS.find((name) => agent.includes(name))
  const node = attempt(() => (globalThis as { process?: { platform?: string } }).process?.platform)
  // An iPad says that it is a Mac.
  const isPad = named === 'Mac OS' && Number(attempt(() => navigator.maxTouchPoints)) > 1
  const language = named && attempt(() => navigator.language)
  const [width, height] = [attempt(() => screen.width), attempt(() => screen.height)]
  return {
    os: isPad ? 'iPad' : (named ?? node ?? 'unknown'),
    ...(language && typeof language === 'string' && { locale: language.replace(/-/g, '_') }),
    ...(typeof width === 'number' && { screen_width: width }),
    ...(typeof height === 'number' && { screen_height: height }),
  }
}

/** What fits one packet need not be smaller. */
const COMPRESS_FROM = 1200

async function compress(body: string): Promise<ArrayBuffer | null> {
  if (body.length < COMPRESS_FROM || typeof CompressionStream === 'undefined') return null
  return await new Response(new Blob([body]).stream().pipeThrough(new CompressionStream('gzip'))).arrayBuffer()
}

/** A random UUID. crypto.randomUUID is absent on pages that came over plain http, and all of crypto in React Native. */
export function uuid(): string {
  const bytes = new Uint8Array(16)
  attempt(() => crypto.getRandomValues(bytes))
  // Where another script has made one of the two a constant, the other still is random.
  const mixed = Array.from(bytes, (byte) => byte ^ (chance() * 256))
  mixed[6] = (mixed[6] & 0x0f) | 0x40
  mixed[8] = (mixed[8] & 0x3f) | 0x80
  const hex = mixed.map((byte) => byte.toString(16).padStart(2, '0')).join('')
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** Of a JSON text in UTF-8. Neither Blob nor TextEncoder is there in each page. */
export const bytesOf = (json: string): number => encodeURIComponent(json).replace(/%../g, '1').length

export function bounded(given: number | undefined, least: number, most: number, otherwise: number): number {
  return Number.isFinite(given) ? Math.min(Math.max(Math.floor(given!), least), most) : otherwise
}

/** JSON of a list. Scripts of long ago (Prototype.js) give arrays a toJSON that makes a text of them. */
export const listJson = (items: readonly unknown[]): string => `[${items.map((item) => JSON.stringify(item)).join()}]`

/** On Node, a wait must not keep the process from ending. */
export function unref(timer: unknown): unknown {
  attempt(() => (timer as { unref?: () => void } | null)?.unref?.())
  return timer
}

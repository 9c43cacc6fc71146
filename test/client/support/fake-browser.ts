// A browser of the test's own in a context of its own: what the client asks for is there, and a page may break it.

import { createContext, runInContext } from 'node:vm'
import { build } from 'esbuild'
import { SCRIPT_OPTIONS } from '../../../clients/typescript/script.js'
import type { Double } from './double.ts'
import type { DatedTimers } from './rig.ts'

const FROM_NODE = [
  'AbortController',
  'Blob',
  'CompressionStream',
  'Event',
  'ReadableStream',
  'Request',
  'Response',
] as const
const MORE = ['TextEncoder', 'TransformStream', 'URL', 'performance'] as const

/** The script of a page. */
export async function buildScript(): Promise<string> {
  const { outputFiles } = await build({ ...SCRIPT_OPTIONS, write: false })
  return outputFiles[0].text
}

export interface FakeBrowser {
  /** In the page. */
  run(code: string): unknown
  /** The end of the page. */
  end(): void
}

export function createFakeBrowser(timers: DatedTimers, double: Double, origin: string): FakeBrowser {
  const target = new EventTarget()
  const document = Object.assign(new EventTarget(), { visibilityState: 'visible', title: 'Shop', referrer: '' })
  const host: Record<string, unknown> = {
    ...Object.fromEntries([...FROM_NODE, ...MORE].map((name) => [name, globalThis[name]])),
    console: { debug: () => {} },
    crypto: { getRandomValues: (bytes: Uint8Array<ArrayBuffer>) => crypto.getRandomValues(bytes) },
    document,
    fetch: (url: string, init: RequestInit) => double.fetch(url, init),
    history: { pushState: () => {}, replaceState: () => {} },
    location: { origin, pathname: '/', hash: '' },
    navigator: {
      userAgent: 'Mozilla/5.0 (Linux; Android 10; K)',
      language: 'en-GB',
      onLine: true,
      sendBeacon: (url: string, text: string) => (double.receive(url, text), true),
    },
    screen: { width: 1280, height: 800 },
    setTimeout: (task: () => void, delayMs: number) => timers.setTimeout(task, delayMs),
    clearTimeout: (timer: never) => timers.clear(timer),
    now: () => timers.nowMs(),
    addEventListener: target.addEventListener.bind(target),
    removeEventListener: target.removeEventListener.bind(target),
  }
  const context = createContext(host)
  const run = (code: string): unknown => runInContext(code, context)
  run(`
    var window = globalThis
    Date.now = now
    class Storage {
      getItem(name) { return Object.hasOwn(this, name) ? this[name] : null }
      setItem(name, text) { this[name] = String(text) }
      removeItem(name) { delete this[name] }
      clear() { for (const name of Object.keys(this)) delete this[name] }
    }
    globalThis.Storage = Storage
    Object.defineProperty(globalThis, 'localStorage', { value: new Storage(), configurable: true, writable: true })
  `)
  return { run, end: () => void target.dispatchEvent(new Event('pagehide')) }
}

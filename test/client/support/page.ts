// A page that a test hides, shows and ends, with the browser's quota of what it sends for pages that are gone.

import type { Page } from '../../../clients/typescript/src/platform.ts'
import type { Double } from './double.ts'

export interface FakePage extends Page {
  readonly beacons: { readonly url: string; readonly text: string }[]
  /** Types of the listeners that were added and not removed. */
  readonly listening: Set<string>
  hide(): void
  show(): void
  end(): void
  restore(): void
  fire(target: 'window' | 'document', type: string, members?: object): void
}

export interface FakePageOptions {
  readonly origin?: string
  readonly keepalive?: boolean
  readonly hasBeacon?: boolean
  readonly onLine?: boolean
  /** What beacons may bring in all. */
  readonly quotaBytes?: number
  readonly double?: () => Double
}

export function createPage(options: FakePageOptions = {}): FakePage {
  const { origin = 'https://shop.example.com', keepalive = true, hasBeacon = true, onLine = true, double } = options
  const beacons: FakePage['beacons'] = []
  const listening = new Set<string>()
  let leftBytes = options.quotaBytes ?? 65_536
  let visibilityState = 'visible'
  const listened = (): EventTarget => {
    const target = new EventTarget()
    return Object.assign(target, {
      addEventListener(type: string, listener: () => void) {
        listening.add(type)
        EventTarget.prototype.addEventListener.call(target, type, listener)
      },
      removeEventListener(type: string, listener: () => void) {
        listening.delete(type)
        EventTarget.prototype.removeEventListener.call(target, type, listener)
      },
    })
  }
  const window = listened()
  const document = Object.defineProperty(listened(), 'visibilityState', {
    get: () => visibilityState,
  }) as Page['document']
  const fire: FakePage['fire'] = (target, type, members = {}) =>
    void (target === 'window' ? window : document).dispatchEvent(Object.assign(new Event(type), members))
  const sendBeacon = (url: string, text: string): boolean => {
    const bytes = Buffer.byteLength(text)
    if (bytes > leftBytes) return false
    leftBytes -= bytes
    beacons.push({ url, text })
    double?.().receive(url, text)
    return true
  }
  const page = {
    window,
    document,
    navigator: { onLine, ...(hasBeacon ? { sendBeacon } : {}) },
    origin,
    keepalive,
    beacons,
    listening,
    fire,
    hide() {
      visibilityState = 'hidden'
      fire('document', 'visibilitychange')
    },
    show() {
      visibilityState = 'visible'
      fire('document', 'visibilitychange')
    },
    end() {
      visibilityState = 'hidden'
      fire('window', 'pagehide')
    },
    restore() {
      fire('window', 'pageshow', { persisted: true })
    },
  }
  return page
}

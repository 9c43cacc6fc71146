// A `screen` for each page that is shown, also where a script changes the address without loading another.

import { attempt, type Page, type Timers } from './platform.ts'
import type { Members } from './types.ts'

const MAX_NAME = 200
const MAX_TEXT = 500
/** What follows may be a password, or somebody's name. */
const withoutQuery = (address: string): string => address.split(/[?#]/)[0].slice(0, MAX_TEXT)

/** `on` adds a listener that ends with the client. */
export type Watch = {
  readonly page: Page
  readonly timers: Timers
  readonly on: (target: EventTarget, type: string, listener: (event: Event) => void) => void
  readonly tell: (name: string, properties: Members) => void
}

/** Returns what ends it. */
export function watchPages({ page, timers, on, tell }: Watch): () => void {
  const { window, document } = page as unknown as { window: Window; document: Document }
  let last: string | null = null
  let isOver = false

  function look(again = false): void {
    if (isOver) return
    const [, route] = /^#!?(\/[^?#&;=]*)/.exec(window.location.hash) ?? []
    const name = `${window.location.pathname}${route === undefined ? '' : `#${route}`}`.slice(0, MAX_NAME)
    if (name === last && !again) return
    const referrer = last ?? withoutQuery(document.referrer)
    last = name
    tell(name, { title: document.title.slice(0, MAX_TEXT), ...(referrer && { referrer }) })
  }

  // A router sets the title after the address, and may go on to another at once.
  const soon = (): void => void timers.setTimeout(() => attempt(look), 0)
  const watched = (['pushState', 'replaceState'] as const).map((call) =>
    attempt(() => {
      const original = window.history[call]
      const ours: History['pushState'] = function (this: History, ...given) {
        original.apply(this, given)
        soon()
      }
      window.history[call] = ours
      return (): void => {
        // Where another script has wrapped it since, it stays, and does nothing.
        if (window.history[call] === ours) window.history[call] = original
      }
    }, null),
  )
  on(page.window, 'popstate', soon)
  on(page.window, 'hashchange', soon)
  on(page.window, 'pageshow', (event) => {
    if ((event as PageTransitionEvent).persisted) attempt(() => look(true))
  })
  attempt(look)
  return () => {
    isOver = true
    for (const restore of watched) attempt(() => restore?.())
  }
}

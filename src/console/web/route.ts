// The page, its filters and what is opened in it live in the URL, so that each can be sent to a colleague. Links are plain
// ones; those within the console are followed without loading the page again.

import { useEffect, useState } from 'preact/hooks'
import type { IconName } from './parts/icons.tsx'

export interface Route {
  readonly path: string
  readonly query: URLSearchParams
}

export interface View {
  readonly path: string
  readonly name: string
  readonly icon: IconName
  /** Goes there after `g`. */
  readonly key: string
}

/** An event of the window behind each `go`, also to where it is already. */
export const CHANGED = 'sluice-route'

/** `of`: the face that alone has it. */
const ALL_VIEWS: readonly (View & { readonly of?: 'console' | 'portal' })[] = [
  { path: '/', name: 'Now', icon: 'now', key: 'n', of: 'console' },
  { path: '/', name: 'Overview', icon: 'overview', key: 'o', of: 'portal' },
  { path: '/events', name: 'Events', icon: 'events', key: 'e' },
  { path: '/refused', name: 'Refused', icon: 'refused', key: 'r' },
  { path: '/batch', name: 'Batch', icon: 'batch', key: 'b' },
  { path: '/apps', name: 'Apps', icon: 'apps', key: 'a', of: 'console' },
  { path: '/explain', name: 'Explain', icon: 'explain', key: 'x' },
]
export const VIEWS: readonly View[] = ALL_VIEWS.filter(({ of }) => of !== 'portal')
export const PORTAL_VIEWS: readonly View[] = ALL_VIEWS.filter(({ of }) => of !== 'console')

type Members = Readonly<Record<string, string | null | undefined>>

/** A path with the members of the query that have a value. */
export function urlTo(path: string, query: Members = {}): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value) search.set(name, value)
  return search.size === 0 ? path : `${path}?${search}`
}

/** This page with other members of its query. */
export function urlWith(changes: Members): string {
  return urlTo(location.pathname, { ...Object.fromEntries(new URLSearchParams(location.search)), ...changes })
}

/** The page of its batch, with it opened. */
export function eventUrl({ batch_id: id, index }: { readonly batch_id: string; readonly index: number }): string {
  return urlTo('/batch', { id, event: String(index) })
}

/** `replace`: not a step of its own in the browser's history, such as a letter typed into a filter. */
export function go(url: string, { replace = false } = {}): void {
  const isOtherView = new URL(url, location.href).pathname !== location.pathname
  if (replace) history.replaceState(null, '', url)
  else history.pushState(null, '', url)
  dispatchEvent(new Event(CHANGED))
  if (isOtherView) scrollTo(0, 0)
}

export function useRoute(): Route {
  const [href, setHref] = useState(location.href)
  useEffect(() => {
    const update = (): void => setHref(location.href)
    addEventListener(CHANGED, update)
    addEventListener('popstate', update)
    // An effect runs some time after the first drawing, and the URL may have changed in between.
    update()
    return () => {
      removeEventListener(CHANGED, update)
      removeEventListener('popstate', update)
    }
  }, [])
  const url = new URL(href)
  return { path: url.pathname, query: url.searchParams }
}

/** Follows links to a page without a load. A click with a modifier stays the browser's. */
export function followLinks(): void {
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return
    const link = event.target instanceof Element ? event.target.closest('a') : null
    if (!link || link.target || link.download || link.origin !== location.origin) return
    if (link.getAttribute('href')?.startsWith('#') || link.pathname.startsWith('/api/')) return
    event.preventDefault()
    go(link.href)
  })
}

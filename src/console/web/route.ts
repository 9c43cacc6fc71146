// The view and its filters live in the URL, so that both can be bookmarked. Links are plain ones; those within the
// console are followed without loading the page again.

import { useEffect, useState } from 'preact/hooks'

export interface Route {
  readonly path: string
  readonly query: URLSearchParams
}

/** An event of the window behind each `go`, also to where it is already. */
export const CHANGED = 'sluice-route'

export const VIEWS = [
  ['/', 'Now'],
  ['/events', 'Events'],
  ['/refused', 'Refused'],
  ['/batch', 'Batch'],
  ['/apps', 'Apps'],
  ['/explain', 'Explain'],
] as const

/** A path with the members of the query that have a value. */
export function urlTo(path: string, query: Readonly<Record<string, string | null | undefined>> = {}): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value) search.set(name, value)
  return search.size === 0 ? path : `${path}?${search}`
}

/** The page of its batch, with it opened. */
export function eventUrl({ batch_id: id, index }: { readonly batch_id: string; readonly index: number }): string {
  return urlTo('/batch', { id, event: String(index) })
}

/** `replace`: not a step of its own in the browser's history, such as a letter typed into a filter. */
export function go(url: string, { replace = false } = {}): void {
  if (replace) history.replaceState(null, '', url)
  else history.pushState(null, '', url)
  dispatchEvent(new Event(CHANGED))
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

/** Follows links to a view without a load. A click with a modifier stays the browser's. */
export function followLinks(): void {
  document.addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return
    const link = event.target instanceof Element ? event.target.closest('a') : null
    if (!link || link.target || link.download || link.origin !== location.origin) return
    if (link.getAttribute('href')?.startsWith('#') || !VIEWS.some(([path]) => path === link.pathname)) return
    event.preventDefault()
    const isOtherView = link.pathname !== location.pathname
    go(link.href)
    if (isOtherView) scrollTo(0, 0)
  })
}

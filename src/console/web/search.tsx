// One box for every id: it goes to the page of what the id is.

import type { JSX } from 'preact'
import { useEffect, useId, useLayoutEffect, useRef } from 'preact/hooks'
import { useAsk } from './api.ts'
import type { SearchHit, SearchResult } from './api-types.ts'
import { lineOf } from './event-text.ts'
import { EventRow } from './events.tsx'
import { many, UUID, utc } from './format.ts'
import { CHANGED, eventUrl, go, urlTo } from './route.ts'
import { Rows } from './rows.tsx'
import { AS_TYPED, Empty, Problem, useMedia } from './ui.tsx'

/** `/` where nothing is typed, and Ctrl+K or ⌘K anywhere, go to it. */
export function SearchBox(): JSX.Element {
  const id = useId()
  const input = useRef<HTMLInputElement>(null)
  // Other effects wait for a drawing: a key pressed before would be lost.
  useLayoutEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const isTyping = event.target instanceof Element && event.target.closest('input, textarea, select') !== null
      const isCommand = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k'
      if (!isCommand && (isTyping || event.key !== '/')) return
      event.preventDefault()
      input.current?.focus()
      input.current?.select()
    }
    document.addEventListener('keydown', press)
    return () => document.removeEventListener('keydown', press)
  }, [])
  const submit = (event: Event): void => {
    event.preventDefault()
    const text = input.current?.value.trim() ?? ''
    if (text !== '') go(urlTo('/search', { q: text }))
  }
  return (
    <form class="search" role="search" onSubmit={submit}>
      <label for={id} class="hidden">
        Search
      </label>
      <input
        id={id}
        ref={input}
        type="search"
        aria-keyshortcuts="/ Control+K Meta+K"
        placeholder="batch, request, key, event or user id"
        maxLength={256}
        {...AS_TYPED}
      />
    </form>
  )
}

function pageOf(hit: Exclude<SearchHit, { kind: 'user' }>): string {
  switch (hit.kind) {
    case 'batch':
    case 'key':
      return urlTo('/batch', { id: hit.batch_id })
    case 'refusal':
      return urlTo('/refused', { request_id: hit.request_id })
    case 'event':
      return eventUrl(hit)
  }
}

export function Search({ query }: { query: URLSearchParams }): JSX.Element {
  const text = query.get('q') ?? ''
  const { value, why, asking, again } = useAsk<SearchResult>(text === '' ? null : urlTo('/api/search', { q: text }))
  // The same text may be found later, or when others have ended their search.
  useEffect(() => {
    addEventListener(CHANGED, again)
    return () => removeEventListener(CHANGED, again)
  }, [])
  const isNarrow = useMedia('(max-width: 720px)')
  // A user has many events; all else has one page.
  const hit = value?.found.find((one) => one.kind !== 'user')
  useEffect(() => {
    if (hit !== undefined) go(pageOf(hit), { replace: true })
  }, [hit])
  const lines = (value?.found ?? []).flatMap((hit) => (hit.kind === 'user' ? lineOf(hit) : []))
  return (
    <>
      <div aria-live="polite" aria-busy={asking}>
        <Problem why={why} />
        {asking && <p class="muted">Looking for {text}…</p>}
        {lines.length > 0 && (
          <h2>
            {text}: the newest {many(lines.length, 'event')} of this user
          </h2>
        )}
        {value?.found.length === 0 && (
          <Empty title={`Nothing with the id ${text} was found.`}>
            {value.complete && (
              <p>It is no batch, key, event or user that is stored, and no refusal that the service still knows.</p>
            )}
          </Empty>
        )}
        {value !== null && value.skipped > 0 && (
          <p class="muted">{many(value.skipped, 'damaged record')} could not be searched.</p>
        )}
        {value?.complete === false && (
          <p class="muted">
            Two seconds of reading
            {value.searched_back_to !== null && ` came back to ${utc(value.searched_back_to, 'date')} UTC, and`} did not
            reach what is older.{' '}
            {UUID.test(text) && <a href={urlTo('/batch', { id: text })}>Look for an older batch</a>}
          </p>
        )}
      </div>
      {lines.length > 0 && (
        <Rows
          items={lines}
          rowHeight={isNarrow ? 52 : 30}
          label="Events, newest first"
          keyOf={({ id }) => id}
          render={(line, place) => <EventRow line={line} isFirst={place === 0} isOpen={false} />}
        />
      )}
    </>
  )
}

// What an id is: a batch, key, event or refusal has one page, to which it leads. A user has many events, listed here.

import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import { useAsk } from '../api.ts'
import type { SearchHit, SearchResult } from '../api-types.ts'
import { byTime, lineOf } from '../event-text.ts'
import { many, UUID, utc } from '../format.ts'
import { UnderBatches } from '../parts/event-row.tsx'
import { Card, Empty, Problem, Verdict } from '../parts/ui.tsx'
import { CHANGED, eventUrl, go, urlTo } from '../route.ts'

function pageOf(hit: Exclude<SearchHit, { kind: 'user' }>): string {
  switch (hit.kind) {
    case 'batch':
    case 'key':
      return urlTo('/batch', { id: hit.batch_id })
    case 'refusal':
      return urlTo('/batch', { id: hit.request_id })
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
  // A user has many events; all else has one page.
  const hit = value?.found.find((one) => one.kind !== 'user')
  useEffect(() => {
    if (hit !== undefined) go(pageOf(hit), { replace: true })
  }, [hit])
  const lines = (value?.found ?? []).flatMap((one) => (one.kind === 'user' ? lineOf(one) : [])).toSorted(byTime)
  return (
    <div class="page">
      <div aria-live="polite" aria-busy={asking}>
        <Problem why={why} />
        {asking && <p class="dim">Looking for {text}…</p>}
        {lines.length > 0 && value !== null && (
          <Verdict more={<HowFar value={value} text={text} />}>
            {text}: the newest {many(lines.length, 'event')} of this user.
          </Verdict>
        )}
        {value?.found.length === 0 && (
          <Empty icon="find" title={`Nothing with the id ${text} was found`}>
            {value.complete && (
              <p>It is no batch, key, event or user that is stored, and no refusal that the service still knows.</p>
            )}
            <p>
              <HowFar value={value} text={text} />
            </p>
          </Empty>
        )}
      </div>
      {lines.length > 0 && (
        <Card label="Events">
          <UnderBatches lines={lines} hrefOf={eventUrl} />
        </Card>
      )}
    </div>
  )
}

function HowFar({ value, text }: { value: SearchResult; text: string }): JSX.Element | null {
  const damaged = value.skipped > 0 ? `${many(value.skipped, 'damaged record')} could not be searched. ` : ''
  if (value.complete) return damaged === '' ? null : <>{damaged}</>
  return (
    <>
      {damaged}Two seconds of reading
      {value.searched_back_to !== null && ` came back to ${utc(value.searched_back_to, 'date')} UTC, and`} did not reach
      what is older. {UUID.test(text) && <a href={urlTo('/batch', { id: text })}>Look for an older batch</a>}
    </>
  )
}

// Events: what an event of an app looks like right now. The newest that are stored, then those that come; one opened beside.

import type { JSX } from 'preact'
import { useMemo, useRef, useState } from 'preact/hooks'
import { EVENT_TYPES } from '../../../contract/bounds.ts'
import { useAsk } from '../api.ts'
import type { EventRate, Found, NewestEvents, NotFound, Usage } from '../api-types.ts'
import { type Line, linesIn, memberText } from '../event-text.ts'
import { count, many, rate, utc } from '../format.ts'
import { useKeys } from '../keys.ts'
import { useLive } from '../live.tsx'
import { Tabs } from '../parts/controls.tsx'
import { UnderBatches } from '../parts/event-row.tsx'
import { FilterBox, filterOf } from '../parts/filter.tsx'
import { Icon } from '../parts/icons.tsx'
import { FirstEvent } from '../parts/try-it.tsx'
import { Button, Card, Dot, Empty, Note, Problem, useMedia, vars, WIDE } from '../parts/ui.tsx'
import { go, urlTo, urlWith } from '../route.ts'
import { type EventLines, useEventLines } from './event-lines.ts'
import { EventPanel } from './event-panel.tsx'

export function Events({ query }: { query: URLSearchParams }): JSX.Element {
  const { portal } = useLive()
  const keys = portal === null ? ['app', 'type', 'user', 'name'] : ['type', 'user', 'name']
  const path = urlTo('/api/events/stream', filterOf(query, keys))
  // Another filter begins another list.
  return <EventPage key={path} path={path} keys={keys} query={query} />
}

function EventPage({ path, keys, query }: { path: string; keys: readonly string[]; query: URLSearchParams }) {
  const isPaused = query.get('paused') === '1'
  const events = useEventLines(path, isPaused)
  const opened = useOpened(query.get('event'), events.lines)
  const isWide = useMedia(WIDE)
  const close = (): void => go(urlWith({ event: null }))
  const pause = (): void => go(urlWith({ paused: isPaused ? null : '1' }), { replace: true })
  const clear = (): void => go('/events')
  useKeys({ ' ': pause, Escape: query.has('event') ? close : clear })
  const { lines, stored, why } = events
  const first = useFirst(stored, lines)
  const isFiltered = keys.some((key) => query.has(key))
  const isEmpty = lines.length === 0
  if (isEmpty && stored?.complete === true && stored.events.length === 0 && !isFiltered && opened.kind === 'none') {
    return (
      <div class="page">
        <Problem why={why} />
        <FirstEvent />
      </div>
    )
  }
  const panel = <Opened opened={opened} lines={lines} onClose={close} />
  if (!isWide && opened.kind !== 'none') return <div class="page">{panel}</div>
  const columns = opened.kind === 'none' ? 'minmax(0,1fr)' : 'minmax(0,1fr) clamp(380px, 40%, 460px)'
  return (
    <div class="page fill-window">
      <div class="stack">
        <Controls events={events} keys={keys} query={query} isPaused={isPaused} onPause={pause} />
        <Problem why={why} />
        {first !== null && (
          <Note tone="ok">
            Got it: {memberText(first.event, 'type')} {memberText(first.event, 'name')} is stored.{' '}
            <a href={urlWith({ event: first.id })}>Open it</a>
          </Note>
        )}
      </div>
      <div class="grid" style={vars({ columns })}>
        <Card class="scroll" label="Events">
          {isEmpty ? <NoEvents stored={stored} /> : <Come events={events} opened={query.get('event')} />}
        </Card>
        {panel}
      </div>
    </div>
  )
}

/** The event that came first to an empty queue, while this page was open. */
function useFirst(stored: NewestEvents | null, lines: readonly Line[]): Line | null {
  const first = useRef<Line | null>(null)
  if (stored?.complete === true && stored.events.length === 0) first.current ??= lines.at(-1) ?? null
  return first.current
}

interface ControlsProps {
  readonly events: EventLines
  readonly keys: readonly string[]
  readonly query: URLSearchParams
  readonly isPaused: boolean
  readonly onPause: () => void
}

function Controls({ events: { names, perSecond }, keys, query, isPaused, onPause }: ControlsProps): JSX.Element {
  const { portal } = useLive()
  const apps = useAsk<Usage>(portal === null ? '/api/apps?top=1000' : null)
  const values = useMemo(
    () => ({ app: apps.value?.apps.map(({ app_id }) => app_id) ?? [], type: EVENT_TYPES, name: names }),
    [apps.value, names],
  )
  return (
    <div class="row wrap">
      <FilterBox
        query={query}
        keys={keys}
        example={portal === null ? 'app:shop name:check* user:user-41' : 'name:check* user:user-41'}
        values={values}
      />
      <Tabs
        label="Type"
        value={query.get('type') ?? ''}
        options={[['', 'All'], ...EVENT_TYPES.map((type) => [type, type] as const)]}
        onPick={(type) => go(urlWith({ type }), { replace: true })}
      />
      <span class="row push">
        {perSecond !== null && (
          <span class="row dim">
            <Dot tone={isPaused ? 'client' : 'ok'} live={!isPaused} />
            {rateWords(perSecond)}
          </span>
        )}
        <button type="button" class="button" aria-pressed={isPaused} onClick={onPause}>
          <Icon name={isPaused ? 'resume' : 'pause'} />
          {isPaused ? 'Resume' : 'Pause'}
          <kbd>space</kbd>
        </button>
      </span>
    </div>
  )
}

function rateWords({ shown_per_second: shown, seen_per_second: seen, unsearched_per_second: unsearched }: EventRate) {
  const more = unsearched ? `; ${rate(unsearched)}/s were too many to look through` : ''
  return `${rate(shown)} of ${rate(seen)} events/s${more}`
}

function Come({ events, opened }: { events: EventLines; opened: string | null }): JSX.Element {
  const isWide = useMedia(WIDE)
  const { came, fresh, lines, showFresh } = events
  return (
    <>
      <span class="reader" role="status">
        {came > 0 && many(came, 'new event')}
      </span>
      {fresh > 0 && (
        <div class="floating" style={isWide ? {} : { top: '56px' }}>
          <Button kind="small solid" icon="up" text={`${count(fresh)} new`} onClick={showFresh} />
        </div>
      )}
      <UnderBatches
        lines={lines}
        hrefOf={({ id }) => urlWith({ event: id })}
        opened={opened}
        stick={isWide ? '0px' : 'var(--top)'}
      />
    </>
  )
}

function NoEvents({ stored }: { stored: NewestEvents | null }): JSX.Element {
  if (stored === null || stored.events.length > 0) return <p class="empty dim">Reading what is stored…</p>
  return (
    <Empty icon="filter" title="No event that fits is stored">
      {!stored.complete && stored.searched_back_to && (
        <p>Two seconds of reading came back to {utc(stored.searched_back_to, 'date')} UTC: older ones may fit.</p>
      )}
      <p>The filter is applied before sampling, so an event of yours will be here.</p>
      <Button href="/events" text="Show all events" />
    </Empty>
  )
}

type OpenedEvent =
  | { readonly kind: 'none' }
  | { readonly kind: 'asking' }
  | { readonly kind: 'event'; readonly line: Line }
  | { readonly kind: 'missing'; readonly batchId: string; readonly why: string | null }

/** An event that has left the list, or was never in it, is read from its batch. */
function useOpened(id: string | null, lines: readonly Line[]): OpenedEvent {
  const held = lines.find((line) => line.id === id)
  const [kept, setKept] = useState<Line | null>(null)
  if (held !== undefined && kept !== held) setKept(held)
  const known = held ?? (kept?.id === id ? kept : undefined)
  const [batchId = '', index = ''] = id?.split(':') ?? []
  const isAsked = id !== null && known === undefined
  const path = urlTo(`/api/batches/${encodeURIComponent(batchId)}`, { events: '1' })
  const asked = useAsk<Found | NotFound>(isAsked ? path : null)
  if (id === null) return { kind: 'none' }
  if (known !== undefined) return { kind: 'event', line: known }
  if (asked.value === null)
    return asked.why === null ? { kind: 'asking' } : { kind: 'missing', batchId, why: asked.why }
  const line = asked.value.found && 'record' in asked.value ? linesIn(asked.value)[Number(index)] : undefined
  return line === undefined ? { kind: 'missing', batchId, why: null } : { kind: 'event', line }
}

function Opened({ opened, lines, onClose }: { opened: OpenedEvent; lines: readonly Line[]; onClose: () => void }) {
  if (opened.kind === 'none') return null
  if (opened.kind === 'event') return <EventPanel line={opened.line} lines={lines} onClose={onClose} />
  return (
    <Card class="detail" label="The opened event">
      {opened.kind === 'asking' ? (
        <p class="empty dim">Reading the event…</p>
      ) : (
        <Empty icon="batch" title="This event is not held any more">
          <p>{opened.why ?? 'Its batch has left the queue, or the link was cut.'}</p>
          <span class="row">
            <Button href={urlTo('/batch', { id: opened.batchId })} text="Look for its batch" />
            <Button kind="bare" text="Close" onClick={onClose} />
          </span>
        </Empty>
      )}
    </Card>
  )
}

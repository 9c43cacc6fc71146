// Events: what an event of an app looks like right now. Lines as they come; one opened in full beside them.

import type { JSX } from 'preact'
import { useCallback, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { ask, useAsk } from './api.ts'
import type { EventRate, NewestEvents, SampledEvent, Usage } from './api-types.ts'
import { EventDetail } from './event-detail.tsx'
import { byTime, type Line, lineOf, memberText } from './event-text.ts'
import { FilterBox, filterOf } from './filter.tsx'
import { count, rate, utc } from './format.ts'
import { eventUrl, urlTo } from './route.ts'
import { isAimedAt, Rows } from './rows.tsx'
import { useStream } from './stream.ts'
import { Empty, Problem, Time, TryIt, useMedia } from './ui.tsx'

const KEYS = ['app', 'type', 'name'] as const
const TYPES = ['track', 'screen', 'revenue']
/** Older ones leave the list. */
const MAX_EVENTS = 500
const SHOW_EVERY_MS = 250
const MAX_NAMES = 200
const RETRY_MS = 1000
/** Further down than this the list is being read, and does not move. */
const AT_TOP_PX = 24

export function Events({ query }: { query: URLSearchParams }): JSX.Element {
  const filter = filterOf(query, KEYS)
  const path = urlTo('/api/events/stream', filter)
  // Another filter begins another list.
  return <EventList key={path} path={path} query={query} />
}

function EventList({ path, query }: { path: string; query: URLSearchParams }): JSX.Element {
  const { lines, stored, fresh, perSecond, why, names, isPaused, setPaused, showFresh } = useLines(path)
  const [opened, setOpened] = useState<Line | null>(null)
  const isNarrow = useMedia('(max-width: 720px)')
  const apps = useAsk<Usage>('/api/apps?top=1000')
  const values = useMemo(
    () => ({ app: apps.value?.apps.map(({ app_id }) => app_id) ?? [], type: TYPES, name: names }),
    [apps.value, names],
  )
  useKeys({ onPause: () => setPaused(!isPaused), onClose: () => setOpened(null) })
  return (
    <>
      <div class="bar-line sticky">
        <FilterBox
          path="/events"
          query={query}
          keys={KEYS}
          example="app:shop type:revenue name:check*"
          values={values}
        />
        <button type="button" class="button" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>
          {isPaused ? 'resume' : 'pause'} <kbd>space</kbd>
        </button>
        <p class="muted shown" role="status" aria-live="off">
          {isPaused ? 'paused · ' : ''}
          {perSecond !== null && rateWords(perSecond)}
        </p>
        {fresh > 0 && (
          <button type="button" class="button primary fresh" onClick={showFresh}>
            {count(fresh)} new
          </button>
        )}
      </div>
      <Problem why={why} />
      <div class={opened === null ? 'beside' : 'beside open'}>
        <div>
          {lines.length === 0 ? (
            <NoEvents stored={stored} isFiltered={query.size > 0} />
          ) : (
            <Rows
              items={lines}
              rowHeight={isNarrow ? 52 : 30}
              label="Events, newest first"
              keyOf={({ id }) => id}
              render={(line, place) => (
                <EventRow line={line} isFirst={place === 0} isOpen={opened?.id === line.id} onOpen={setOpened} />
              )}
            />
          )}
        </div>
        {opened !== null && <EventDetail line={opened} onClose={() => setOpened(null)} />}
      </div>
    </>
  )
}

function rateWords({ shown_per_second: shown, seen_per_second: seen, unsearched_per_second: unsearched }: EventRate) {
  const more = unsearched ? `; ${rate(unsearched)}/s were too many to look through` : ''
  return `showing ${rate(shown)} of ${rate(seen)}/s${more}`
}

function NoEvents({ stored, isFiltered }: { stored: NewestEvents | null; isFiltered: boolean }): JSX.Element {
  if (stored === null || stored.events.length > 0) return <p class="muted">Reading what is stored…</p>
  if (isFiltered || !stored.complete) {
    return (
      <Empty title="No event that fits is stored.">
        {!stored.complete && stored.searched_back_to !== null && (
          <p>Two seconds of reading came back to {utc(stored.searched_back_to, 'date')} UTC: older ones may fit.</p>
        )}
        <p>The filter is applied before sampling, so an event of yours will be here.</p>
      </Empty>
    )
  }
  return (
    <Empty title="No event has come yet.">
      <TryIt />
    </Empty>
  )
}

/** The lines shown, and those that wait while the list does not move: the newest that are stored, and those that come. */
function useLines(path: string) {
  const shown = useRef<readonly Line[]>([])
  const waiting = useRef<Line[]>([])
  /** Of both. */
  const ids = useRef(new Set<string>())
  /** What is older is not shown, since what came between may not be known. */
  const reachesBackTo = useRef('')
  const known = useRef(new Set<string>())
  const arrived = useRef(0)
  const [lines, setLines] = useState<readonly Line[]>([])
  const [stored, setStored] = useState<NewestEvents | null>(null)
  const [why, setWhy] = useState<string | null>(null)
  const [fresh, setFresh] = useState(0)
  const [perSecond, setPerSecond] = useState<EventRate | null>(null)
  const [isPaused, setPaused] = useState(false)
  const isPausedNow = useRef(isPaused)
  isPausedNow.current = isPaused
  const [names, setNames] = useState<readonly string[]>([])

  const add = (event: SampledEvent): void => {
    const line = lineOf(event)
    if (ids.current.has(line.id)) return
    ids.current.add(line.id)
    waiting.current.unshift(line)
    if (waiting.current.length > MAX_EVENTS) ids.current.delete(waiting.current.pop()?.id ?? '')
    arrived.current += 1
    const eventName = memberText(line.event, 'name')
    if (eventName !== '' && known.current.size < MAX_NAMES) known.current.add(eventName)
  }
  const connection = useStream(path, (name, data) => {
    if (name === 'rate') setPerSecond(data as EventRate)
    if (name === 'event') add(data as SampledEvent)
  })
  const take = useCallback(() => {
    if (waiting.current.length === 0) return
    const all = [...waiting.current, ...shown.current].filter((line) => line.received_at >= reachesBackTo.current)
    shown.current = all.toSorted(byTime).slice(0, MAX_EVENTS)
    ids.current = new Set(shown.current.map(({ id }) => id))
    waiting.current = []
    arrived.current = 0
    setLines(shown.current)
    setNames((last) => (last.length === known.current.size ? last : [...known.current].toSorted()))
    setFresh(0)
  }, [])
  useEffect(() => {
    const timer = setInterval(() => {
      const isHeld = isPausedNow.current || scrollY > AT_TOP_PX || isAimedAt()
      if (isHeld) setFresh(arrived.current)
      else take()
    }, SHOW_EVERY_MS)
    return () => clearInterval(timer)
  }, [take])
  // Once the stream is open, so that nothing comes between the two; again after a lost connection.
  useEffect(() => {
    if (connection.kind !== 'open') return
    const stopped = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    const load = async (): Promise<void> => {
      const answer = await ask<NewestEvents>(path.replace('/stream', ''), { signal: stopped.signal })
      if (stopped.signal.aborted) return
      setWhy(answer.kind === 'ok' ? null : answer.why)
      if (answer.kind === 'failed') {
        timer = setTimeout(() => void load(), RETRY_MS)
        return
      }
      setStored(answer.value)
      reachesBackTo.current = answer.value.events.at(-1)?.received_at ?? ''
      for (const event of answer.value.events.toReversed()) add(event)
      if (shown.current.length === 0) take()
    }
    void load()
    return () => {
      stopped.abort()
      clearTimeout(timer)
    }
  }, [path, connection.kind])
  const showFresh = (): void => {
    setPaused(false)
    scrollTo(0, 0)
    take()
  }
  const problem = connection.kind === 'lost' ? connection.why : why
  return { lines, stored, fresh, perSecond, why: problem, names, isPaused, setPaused, showFresh }
}

/** Space pauses wherever it does not mean something else; Escape closes. */
function useKeys({ onPause, onClose }: { onPause: () => void; onClose: () => void }): void {
  const handlers = useRef({ onPause, onClose })
  handlers.current = { onPause, onClose }
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      const target = event.target instanceof Element ? event.target : null
      if (event.altKey || event.ctrlKey || event.metaKey) return
      if (event.key === 'Escape') handlers.current.onClose()
      if (event.key === ' ' && !target?.closest('input, textarea, select, button, pre')) {
        event.preventDefault()
        handlers.current.onPause()
      }
    }
    document.addEventListener('keydown', press)
    return () => document.removeEventListener('keydown', press)
  }, [])
}

interface EventRowProps {
  readonly line: Line
  readonly isFirst: boolean
  readonly isOpen: boolean
  /** Without it the link is followed. */
  readonly onOpen?: (line: Line) => void
}

/** One stop for the tab key: from there on the arrows. */
export function EventRow({ line, isFirst, isOpen, onOpen }: EventRowProps): JSX.Element {
  const open = (event: MouseEvent): void => {
    if (onOpen === undefined || event.metaKey || event.ctrlKey || event.shiftKey) return
    event.preventDefault()
    onOpen(line)
  }
  return (
    <a
      class="event-row"
      href={eventUrl(line)}
      tabIndex={isFirst || isOpen ? 0 : -1}
      aria-current={isOpen || undefined}
      onClick={open}
    >
      <Time at={line.received_at} as="ms" />
      <span class="app">{line.app_id}</span>
      <span class="muted">{memberText(line.event, 'type')}</span>
      <span class="name">{memberText(line.event, 'name')}</span>
      <span class="mono muted session">{memberText(line.event, 'session_id').slice(-8)}</span>
      <span class="muted sdk">{line.sdk_version}</span>
    </a>
  )
}

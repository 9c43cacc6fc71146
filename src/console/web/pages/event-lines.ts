// The newest events that are stored, then those that come: what is shown, and what waits while the list stands still.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { EventRate, NewestEvents, StoredEvent } from '../api-types.ts'
import { byTime, type Line, lineOf, memberText } from '../event-text.ts'
import { isAimedAt, isScrolled, scroller } from '../parts/rows.tsx'
import { useLiveList } from '../stream.ts'

/** Older ones leave the list. */
const MAX_EVENTS = 500
const SHOW_EVERY_MS = 250
const ANNOUNCE_EVERY_MS = 10_000
const MAX_NAMES = 200

export interface EventLines {
  readonly lines: readonly Line[]
  readonly stored: NewestEvents | null
  /** How many wait. */
  readonly fresh: number
  /** In the last ten seconds or so, for a screen reader. */
  readonly came: number
  readonly perSecond: EventRate | null
  readonly why: string | null
  /** That were seen, for the filter. */
  readonly names: readonly string[]
  readonly showFresh: () => void
}

export function useEventLines(path: string, isPaused: boolean): EventLines {
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
  const [fresh, setFresh] = useState(0)
  const [perSecond, setPerSecond] = useState<EventRate | null>(null)
  const isPausedNow = useRef(isPaused)
  isPausedNow.current = isPaused
  const cameSince = useRef(0)
  const [came, setCame] = useState(0)
  const [names, setNames] = useState<readonly string[]>([])

  const add = (event: StoredEvent): void => {
    const line = lineOf(event)
    if (ids.current.has(line.id)) return
    ids.current.add(line.id)
    waiting.current.unshift(line)
    if (waiting.current.length > MAX_EVENTS) ids.current.delete(waiting.current.pop()?.id ?? '')
    arrived.current += 1
    const eventName = memberText(line.event, 'name')
    if (eventName !== '' && known.current.size < MAX_NAMES) known.current.add(eventName)
  }
  const take = useCallback(() => {
    if (waiting.current.length === 0) return
    const cameAtMs = Date.now()
    const come = shown.current.length === 0 ? waiting.current : waiting.current.map((line) => ({ ...line, cameAtMs }))
    const all = [...come, ...shown.current].filter((line) => line.received_at >= reachesBackTo.current)
    shown.current = all.toSorted(byTime).slice(0, MAX_EVENTS)
    ids.current = new Set(shown.current.map(({ id }) => id))
    waiting.current = []
    arrived.current = 0
    setLines(shown.current)
    setNames((last) => (last.length === known.current.size ? last : [...known.current].toSorted()))
    setFresh(0)
  }, [])
  const why = useLiveList(
    { list: path.replace('/stream', ''), stream: path },
    (list) => {
      const newest = list as NewestEvents
      setStored(newest)
      reachesBackTo.current = newest.events.at(-1)?.received_at ?? ''
      for (const event of newest.events.toReversed()) add(event)
      if (shown.current.length === 0) take()
    },
    (name, data) => {
      if (name === 'rate') setPerSecond(data as EventRate)
      if (name !== 'event') return
      cameSince.current += 1
      add(data as StoredEvent)
    },
  )
  useEffect(() => {
    const timer = setInterval(() => {
      const isHeld = isPausedNow.current || isScrolled() || isAimedAt()
      if (isHeld) setFresh(arrived.current)
      else take()
    }, SHOW_EVERY_MS)
    return () => clearInterval(timer)
  }, [take])
  useEffect(() => {
    const timer = setInterval(() => {
      setCame(cameSince.current)
      cameSince.current = 0
    }, ANNOUNCE_EVERY_MS)
    return () => clearInterval(timer)
  }, [])
  const showFresh = (): void => {
    scroller()?.scrollTo(0, 0)
    take()
  }
  return { lines, stored, fresh, came, perSecond, why, names, showFresh }
}

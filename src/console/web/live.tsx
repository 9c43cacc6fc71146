// What every page knows: the state of the service each second, and whether the node still answers.

import { createContext } from 'preact'
import { useContext, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { useAsk } from './api.ts'
import type { Now, PortalSession } from './api-types.ts'
import { statusOf, type Tone, toneOf } from './codes.ts'
import { rate } from './format.ts'
import { type Connection, said, useStream } from './stream.ts'

/** The node speaks each second. */
const SILENT_AFTER_MS = 5000
const SMOOTHED_MS = 2000
const TICK_MS = 1000
const SESSION_EVERY_MS = 15_000
/** Less than this is nothing: a rate of a single request, smoothed. */
export const SOME_PER_SECOND = 0.05

export interface Live {
  /** null: none has come yet, or this is the portal. Its rates are smoothed. */
  readonly now: Now | null
  readonly connection: Connection
  /** Of the node, or of this browser where it has not spoken. */
  readonly nowMs: number
  /** null: this is the console. */
  readonly portal: PortalSession | null
}

export const LiveContext = createContext<Live>({
  now: null,
  connection: { kind: 'connecting' },
  nowMs: 0,
  portal: null,
})

export function useLive(): Live {
  return useContext(LiveContext)
}

export interface State {
  readonly tone: Tone
  readonly word: string
  /** Why it is so. */
  readonly why: string
}

/** Of the service, and of a node. */
export const STATES: Readonly<Record<Now['state'], readonly [Tone, string]>> = {
  starting: ['near', 'Starting'],
  serving: ['ok', 'Healthy'],
  degraded: ['near', 'Degraded'],
  refusing: ['fail', 'Refusing'],
  stopping: ['near', 'Stopping'],
}

/** The one state, for the pill in the header and the first sentence of Now. */
export function stateOf({ now, connection, portal }: Live): State {
  if (connection.kind === 'lost') return { tone: 'client', word: 'Not connected', why: connection.why }
  if (portal !== null) {
    const since = portal.degraded_since
    if (since !== null) return { tone: 'near', word: 'Degraded', why: `since ${since.slice(11, 16)} UTC` }
    return { tone: 'ok', word: 'Healthy', why: '' }
  }
  if (now === null) return { tone: 'client', word: 'Connecting', why: '' }
  const [tone, word] = STATES[now.state]
  return { tone, word, why: now.state_reason ?? '' }
}

/** `Refusing 9.8 requests/s: journal full for 12 s`. */
export function stateText(live: Live): string {
  const { word, why } = stateOf(live)
  const ours = live.now === null ? 0 : perSecondOf(live.now, 'fail')
  const requests = live.now?.state === 'refusing' && ours >= SOME_PER_SECOND ? ` ${rate(ours)} requests/s` : ''
  return word + requests + (why === '' ? '' : `: ${why}`)
}

/** Requests a second with answers of this tone; accepted ones are the rest of all. */
export function perSecondOf(now: Now, tone: Tone): number {
  let refused = 0
  let wanted = 0
  for (const [code, perSecond] of Object.entries(now.rates.refused_per_second)) {
    refused += perSecond
    if (toneOf(statusOf(code)) === tone) wanted += perSecond
  }
  return tone === 'ok' ? Math.max(0, now.rates.requests_per_second - refused) : wanted
}

/** Client errors and limits together: what this service does not have to mend. */
export function rejectedPerSecond(now: Now): number {
  return perSecondOf(now, 'client') + perSecondOf(now, 'plan') + perSecondOf(now, 'near')
}

/** The time goes on between what the node says. */
function useClock(newest: Now | null): number {
  const [, setTick] = useState(0)
  const aheadMs = useRef(0)
  const at = useRef('')
  if (newest !== null && newest.time !== at.current) {
    at.current = newest.time
    aheadMs.current = Date.parse(newest.time) - Date.now()
  }
  useEffect(() => {
    const timer = setInterval(() => setTick((tick) => tick + 1), TICK_MS)
    return () => clearInterval(timer)
  }, [])
  return Date.now() + aheadMs.current
}

export function useLiveSource(): Live {
  const [now, setNow] = useState<Now | null>(null)
  const recent = useRef<readonly Now[]>([])
  const known = useStream(
    '/api/now/stream',
    (name, data) => {
      if (name !== 'now') return
      const newest = data as Now
      const atMs = Date.parse(newest.time)
      const kept = recent.current.filter((one) => Math.abs(atMs - Date.parse(one.time)) < SMOOTHED_MS)
      recent.current = [...kept, newest]
      setNow(smoothed(newest, recent.current))
    },
    SILENT_AFTER_MS,
  )
  const nowMs = useClock(now)
  const connection = said(known)
  return useMemo(() => ({ now, connection, nowMs, portal: null }), [now, connection, nowMs])
}

/**
 * Of the portal, which gets the state with its session, asked again now and then: a read key has few requests a minute, so this
 * is not a stream.
 */
export function usePortalSource(first: PortalSession): Live {
  const { value, why, asking } = useAsk<PortalSession>('/api/session', SESSION_EVERY_MS)
  const portal = value ?? first
  const nowMs = useClock(null)
  const [known, setKnown] = useState<Connection>({ kind: 'open' })
  useEffect(() => {
    if (asking) return
    setKnown((last) => {
      if (why === null) return { kind: 'open' }
      // Another reason is the same outage.
      const sinceMs = last.kind === 'lost' ? last.sinceMs : Date.now()
      return { kind: 'lost', sinceMs, retryAtMs: Date.now() + SESSION_EVERY_MS, why }
    })
  }, [why, asking])
  const connection = said(known)
  return useMemo(() => ({ now: null, connection, nowMs, portal }), [portal, connection, nowMs])
}

function smoothed(now: Now, samples: readonly Now[]): Now {
  const mean = (read: (one: Now) => number): number => samples.reduce((sum, one) => sum + read(one), 0) / samples.length
  const names = new Set(samples.flatMap((one) => Object.keys(one.rates.refused_per_second)))
  const refused = [...names].map((code) => [code, mean((one) => one.rates.refused_per_second[code] ?? 0)])
  return {
    ...now,
    rates: {
      requests_per_second: mean((one) => one.rates.requests_per_second),
      events_accepted_per_second: mean((one) => one.rates.events_accepted_per_second),
      refused_per_second: Object.fromEntries(refused),
      replays_per_second: mean((one) => one.rates.replays_per_second),
    },
  }
}

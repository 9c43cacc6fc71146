// What every view knows: the state of the service each second, what its codes mean, and whether the node still answers.

import { createContext } from 'preact'
import { useContext, useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { useAsk } from './api.ts'
import type { Code, Now, Reason, Whose } from './api-types.ts'
import { rate } from './format.ts'
import { type Connection, useStream } from './stream.ts'

/** The node speaks each second. */
const SILENT_AFTER_MS = 5000
const SMOOTHED_MS = 2000
/** Less than this is nothing: a rate of a single request, smoothed. */
export const SOME_PER_SECOND = 0.05

export interface Live {
  /** null: none has come yet. Its rates are smoothed. */
  readonly now: Now | null
  readonly connection: Connection
  readonly codes: ReadonlyMap<string, Code>
  /** Of a 503. */
  readonly reasons: ReadonlyMap<string, Reason>
}

export const LiveContext = createContext<Live>({
  now: null,
  connection: { kind: 'connecting' },
  codes: new Map(),
  reasons: new Map(),
})

export function useLive(): Live {
  return useContext(LiveContext)
}

/** The service's own refusals are known without the table too, since red means nothing else. */
export function whoseOf(codes: ReadonlyMap<string, Code>, code: string): Whose {
  return codes.get(code)?.whose ?? (code === 'service_overloaded' ? 'ours' : 'client')
}

export function refusedPerSecond(now: Now, codes: ReadonlyMap<string, Code>, whose: Whose): number {
  let sum = 0
  for (const [code, perSecond] of Object.entries(now.rates.refused_per_second)) {
    if (whoseOf(codes, code) === whose) sum += perSecond
  }
  return sum
}

const STATES: Readonly<Record<Now['state'], string>> = {
  starting: 'Starting',
  serving: 'Healthy',
  degraded: 'Degraded',
  refusing: 'Refusing',
  stopping: 'Stopping',
}

/** The state and why, for the header and the first sentence of Now: `Refusing 9.8 requests/s: journal full for 12 s`. */
export function stateText(now: Now, codes: ReadonlyMap<string, Code>): string {
  const ours = refusedPerSecond(now, codes, 'ours')
  const requests = now.state === 'refusing' && ours >= SOME_PER_SECOND ? ` ${rate(ours)} requests/s` : ''
  return STATES[now.state] + requests + (now.state_reason === null ? '' : `: ${now.state_reason}`)
}

/** The consumer that is furthest behind. */
export function slowestConsumer(now: Now): { readonly name: string; readonly lag_seconds: number } | null {
  const consumers = now.queue?.consumers ?? []
  return consumers.reduce<(typeof consumers)[number] | null>(
    (slowest, one) => (slowest === null || one.lag_seconds > slowest.lag_seconds ? one : slowest),
    null,
  )
}

export function useLiveSource(): Live {
  const [now, setNow] = useState<Now | null>(null)
  const recent = useRef<readonly Now[]>([])
  const asked = useAsk<{ codes: Code[]; reasons: Reason[] }>('/api/codes')
  const codes = useMemo(() => new Map(asked.value?.codes.map((code) => [code.code, code])), [asked.value])
  const reasons = useMemo(() => new Map(asked.value?.reasons.map((one) => [one.reason, one])), [asked.value])
  const connection = useStream(
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
  // Without the codes a limit counts as a client error.
  useEffect(() => {
    if (connection.kind === 'open' && asked.why !== null) asked.again()
  }, [connection.kind])
  return useMemo(() => ({ now, connection, codes, reasons }), [now, connection, codes, reasons])
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

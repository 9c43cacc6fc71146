// What every view knows: the state of the service each second, what its codes mean, and whether the node still answers.

import { createContext } from 'preact'
import { useContext, useMemo, useRef, useState } from 'preact/hooks'
import { useAsk } from './api.ts'
import type { Code, History, Now, Plot, Whose } from './api-types.ts'
import { type Connection, useStream } from './stream.ts'

/** The node speaks each second. */
const SILENT_AFTER_MS = 5000
const SMOOTHED_MS = 2000

export interface Live {
  /** null: not heard yet. Its rates are smoothed. */
  readonly now: Now | null
  readonly history: History | null
  readonly connection: Connection
  readonly codes: ReadonlyMap<string, Code>
}

export const LiveContext = createContext<Live>({
  now: null,
  history: null,
  connection: { kind: 'connecting' },
  codes: new Map(),
})

export function useLive(): Live {
  return useContext(LiveContext)
}

/** The service's own refusals are known without the table too, since red means nothing else. */
export function whoseOf(codes: ReadonlyMap<string, Code>, code: string): Whose {
  return codes.get(code)?.whose ?? (code === 'service_overloaded' ? 'ours' : 'client')
}

/** Refusals a second, by us or by rule. */
export function refusedPerSecond(now: Now, codes: ReadonlyMap<string, Code>, byUs: boolean): number {
  let sum = 0
  for (const [code, perSecond] of Object.entries(now.rates.refused_per_second)) {
    if ((whoseOf(codes, code) === 'ours') === byUs) sum += perSecond
  }
  return sum
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
  const [seen, setSeen] = useState<{ now: Now | null; history: History | null }>({ now: null, history: null })
  const recent = useRef<{ atMs: number; now: Now }[]>([])
  const asked = useAsk<{ codes: Code[] }>('/api/codes')
  const codes = useMemo(() => new Map(asked.value?.codes.map((code) => [code.code, code])), [asked.value])
  const connection = useStream(
    '/api/now/stream',
    (name, data) => {
      if (name !== 'now') return
      const now = data as Now
      const atMs = Date.parse(now.time)
      recent.current = [...recent.current.filter((one) => Math.abs(atMs - one.atMs) < SMOOTHED_MS), { atMs, now }]
      const samples = recent.current.map((one) => one.now)
      setSeen((last) => {
        const history = now.history ?? last.history
        return { now: smoothed(now, samples), history: history && withSample(history, now, codes) }
      })
    },
    SILENT_AFTER_MS,
  )
  return useMemo(() => ({ ...seen, connection, codes }), [seen, connection, codes])
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

/** The node sends its history once; what comes later is put behind it, and as much of the front goes. */
export function withSample(history: History, now: Now, codes: ReadonlyMap<string, Code>): History {
  const fromMs = Date.parse(history.from)
  const stepMs = history.step_seconds * 1000
  const length = history.accepted_events_per_second.length
  const cell = Math.floor((Date.parse(now.time) - fromMs) / stepMs)
  const dropped = Math.max(0, cell - length + 1)
  const put = (plot: Plot, value: number | null): Plot => {
    if (cell < 0) return plot
    const cells = plot.slice(dropped)
    // After a silence the cells between are not known.
    while (cells.length < length) cells.push(null)
    cells[cell - dropped] = value
    return cells
  }
  return {
    step_seconds: history.step_seconds,
    from: new Date(fromMs + dropped * stepMs).toISOString(),
    accepted_events_per_second: put(history.accepted_events_per_second, now.rates.events_accepted_per_second),
    refused_ours_per_second: put(history.refused_ours_per_second, refusedPerSecond(now, codes, true)),
    refused_rule_per_second: put(history.refused_rule_per_second, refusedPerSecond(now, codes, false)),
    p99_seconds: put(history.p99_seconds, now.latency_seconds?.p99 ?? null),
    slowest_consumer_lag_seconds: put(history.slowest_consumer_lag_seconds, slowestConsumer(now)?.lag_seconds ?? null),
  }
}

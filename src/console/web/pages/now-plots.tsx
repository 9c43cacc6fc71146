// All answers of the service on one plot, by family, with the latency beside it: the values of one moment in both.

import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { useAsk } from '../api.ts'
import type { Now, Range } from '../api-types.ts'
import type { Tone } from '../codes.ts'
import { rate, span, spanParts, utc } from '../format.ts'
import { perSecondOf, SOME_PER_SECOND } from '../live.tsx'
import { Tabs } from '../parts/controls.tsx'
import { Plot, Swatch } from '../parts/plot.tsx'
import { Card, Problem, Stat, vars } from '../parts/ui.tsx'
import { go, urlTo, urlWith } from '../route.ts'

const RANGES: readonly (readonly [Range, string])[] = [
  ['15m', '15 min'],
  ['1h', '1 h'],
  ['24h', '24 h'],
]
const AGAIN_EVERY_MS = 5000

/** How a family of answers is named and drawn, from the bottom of the plot up. */
const FAMILIES: readonly (readonly [name: string, tone: Tone])[] = [
  ['Accepted', 'ok'],
  ['Client errors', 'client'],
  ['Limits', 'near'],
  ['503', 'fail'],
]

const REQUESTS_A_SECOND = (
  <>
    <span class="wide">requests</span>/s
  </>
)

function rateText(value: number): string {
  return `${rate(value)}/s`
}

export function Plots({ now, query }: { now: Now; query: URLSearchParams }): JSX.Element {
  const range = RANGES.find(([name]) => name === query.get('range'))?.[0] ?? '15m'
  const setRange = (wanted: Range): void => go(urlWith({ range: wanted === '15m' ? null : wanted }), { replace: true })
  const pointer = useState<number | null>(null)
  const asked = useAsk<Now>(urlTo('/api/now', { range }), AGAIN_EVERY_MS)
  const history = asked.value?.history ?? null
  const cells =
    history === null
      ? []
      : [
          history.accepted_requests_per_second,
          history.refused_client_per_second,
          history.refused_limits_per_second,
          history.refused_ours_per_second,
        ]
  const [p50, p99] = [now.latency_seconds?.p50, now.latency_seconds?.p99]
  const stepMs = (history?.step_seconds ?? 5) * 1000
  const startMs = history === null ? 0 : Date.parse(history.from)
  const length = cells[0]?.length ?? 0
  const timeAt = (cell: number): string => utc(startMs + cell * stepMs, 'minute')
  const shared = { nameOf: (cell: number) => `${utc(startMs + cell * stepMs, 'time')} UTC`, pointer }
  const quarters = [0, length / 3, (length * 2) / 3].map((cell) => timeAt(Math.floor(cell)))
  const ofRange = `in the last ${RANGES.find(([name]) => name === range)?.[1]}`
  return (
    <>
      <Problem why={asked.why} />
      <div class="grid fold" style={vars({ columns: 'minmax(0,1fr) 300px' })}>
        <Card
          label="Requests"
          title={
            <div class="row wrap grow" style={vars({ gap: '8px clamp(10px, 2vw, 24px)' })}>
              {FAMILIES.map(([name, tone]) => (
                <Stat
                  key={name}
                  name={<Swatch name={name} tone={tone} />}
                  value={rate(familyRate(now, tone))}
                  unit={tone === 'ok' ? REQUESTS_A_SECOND : '/s'}
                  tone={tone === 'fail' && familyRate(now, tone) >= SOME_PER_SECOND ? tone : undefined}
                />
              ))}
              <span class="push">
                <Tabs label="Range of the plots" value={range} options={RANGES} onPick={setRange} />
              </span>
            </div>
          }
        >
          <div class="body">
            {history !== null && (
              <Plot
                {...shared}
                label={`Requests a second ${ofRange}`}
                kind="areas"
                series={FAMILIES.map(([name, tone], family) => ({ name, tone, cells: cells[family] }))}
                times={[...quarters, 'now']}
                format={rateText}
              />
            )}
          </div>
        </Card>
        <Card
          label="Latency"
          title={
            <div class="row grow" style={vars({ gap: '24px' })}>
              {(
                [
                  ['p50', 'client', p50],
                  ['p99', 'track', p99],
                ] as const
              ).map(([name, tone, seconds]) => (
                <Stat
                  key={name}
                  name={<Swatch name={name} tone={tone} />}
                  value={seconds === undefined ? '–' : spanParts(seconds)[0]}
                  unit={seconds === undefined ? '' : spanParts(seconds)[1]}
                />
              ))}
              <span class="push t12 dim">latency</span>
            </div>
          }
        >
          <div class="body">
            {history !== null && (
              <Plot
                {...shared}
                label={`Latency in milliseconds ${ofRange}`}
                kind="lines"
                series={[
                  { name: 'p99', tone: 'track', cells: history.p99_seconds.map(inMs) },
                  { name: 'p50', tone: 'client', cells: history.p50_seconds.map(inMs) },
                ]}
                times={[timeAt(0), 'now']}
                format={(ms) => span(ms / 1000)}
              />
            )}
          </div>
        </Card>
      </div>
    </>
  )
}

function inMs(seconds: number | null): number | null {
  return seconds === null ? null : seconds * 1000
}

function familyRate(now: Now, tone: Tone): number {
  // Keys and plans have a colour of their own elsewhere; here 401 is an error of the client, and 402 a limit.
  const { refused_per_second: refused } = now.rates
  if (tone === 'client') return perSecondOf(now, 'client') + (refused['invalid_app_key'] ?? 0)
  if (tone === 'near') return perSecondOf(now, 'near') + perSecondOf(now, 'plan') - (refused['invalid_app_key'] ?? 0)
  return perSecondOf(now, tone)
}

// Now: is it us or them? A sentence, figures with their plots, the parts, and who was refused.

import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { useAsk } from './api.ts'
import type { Plot as Cells, History, Now as NowAnswer, Range, Whose } from './api-types.ts'
import { count, many, percent, rate, span, spanParts, utc } from './format.ts'
import { refusedPerSecond, SOME_PER_SECOND, slowestConsumer, stateText, useLive, whoseOf } from './live.tsx'
import { Nodes, Parts } from './parts.tsx'
import { Plot } from './plot.tsx'
import { urlTo } from './route.ts'
import { CodeName, Dot, Empty, Problem, STATE_TONES, type Tone, TryIt } from './ui.tsx'

const RANGES: readonly (readonly [Range, string])[] = [
  ['15m', '15 min'],
  ['1h', '1 h'],
  ['24h', '24 h'],
]
const HISTORY_EVERY_MS = 5000

const REFUSED: readonly { whose: Whose; title: string; note: string; plot: PlotName }[] = [
  { whose: 'ours', title: 'Refused by us', note: '503', plot: 'refused_ours_per_second' },
  { whose: 'client', title: 'Client errors', note: '400, 401, 404, 405, 413, 415', plot: 'refused_client_per_second' },
  { whose: 'limit', title: 'Limits', note: '402, 429: plan, limits', plot: 'refused_limits_per_second' },
]

function rateText(value: number): string {
  return `${rate(value)}/s`
}

export function Now(): JSX.Element {
  const { now, connection } = useLive()
  if (now === null)
    return connection.kind === 'lost' ? <Empty title="This node has not answered yet." /> : <Empty title="…" />
  return (
    <>
      <Verdict now={now} />
      <Figures now={now} />
      <div class="columns">
        <section aria-labelledby="parts">
          <h2 id="parts">Parts</h2>
          <Parts now={now} />
        </section>
        <LastHour now={now} />
      </div>
      <section aria-labelledby="nodes">
        <h2 id="nodes">Nodes</h2>
        <Nodes nodes={now.nodes} time={now.time} />
      </section>
    </>
  )
}

/** The first question, answered in words. The header has the same ones. */
function Verdict({ now }: { now: NowAnswer }): JSX.Element {
  const { codes, reasons, connection } = useLive()
  const isLost = connection.kind === 'lost'
  const rejected = refusedPerSecond(now, codes, 'client') + refusedPerSecond(now, codes, 'limit')
  const [most] = Object.entries(now.rates.refused_per_second)
    .filter(([code]) => whoseOf(codes, code) !== 'ours')
    .toSorted(([, one], [, other]) => other - one)
  const todo = now.state === 'refusing' ? reasons.get(now.reasons.at(0)?.reason ?? '')?.todo : undefined
  const text = stateText(now, codes)
  const tone = isLost ? 'unknown' : STATE_TONES[now.state]
  return (
    <p class={`verdict ${tone}`}>
      <Dot tone={tone} />
      <span>
        {isLost ? `No connection. At ${utc(now.time, 'time')} UTC it was: ${text}` : text}
        {!isLost && rejected >= SOME_PER_SECOND && (
          <>
            {now.state === 'serving' ? ': ' : '; '}
            {rate(rejected)} rejections/s, most by <CodeName code={most[0]} />
          </>
        )}
        .{todo !== undefined && <span class="muted"> To do: {todo}.</span>}
      </span>
    </p>
  )
}

function Figures({ now }: { now: NowAnswer }): JSX.Element {
  const { codes } = useLive()
  const [range, setRange] = useState<Range>('15m')
  const asked = useAsk<NowAnswer>(urlTo('/api/now', { range }), HISTORY_EVERY_MS)
  const history = asked.value?.history ?? null
  const slowest = slowestConsumer(now)
  const kept = now.queue?.keep_seconds
  const isFarBehind = slowest !== null && kept != null && slowest.lag_seconds > kept / 2
  const timeFigure = (seconds: number | undefined): readonly [string, string] =>
    seconds === undefined ? ['–', ''] : spanParts(seconds)
  return (
    <>
      <div class="bar-line">
        <label for="range" class="muted">
          plots of the last
        </label>
        <select id="range" value={range} onChange={(event) => setRange(event.currentTarget.value as Range)}>
          {RANGES.map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
        <Problem why={asked.why} />
      </div>
      <div class={slowest === null ? 'figures' : 'figures six'}>
        <Figure
          title="Accepted"
          value={[rate(now.rates.events_accepted_per_second), 'events/s']}
          note={`in ${rate(now.rates.requests_per_second)} requests/s, ${rate(now.rates.replays_per_second)} replays/s`}
          history={history}
          plot="accepted_events_per_second"
          format={rateText}
        />
        {REFUSED.map(({ whose, title, note, plot }) => {
          const perSecond = refusedPerSecond(now, codes, whose)
          const oursTone = perSecond >= SOME_PER_SECOND ? 'fail' : undefined
          return (
            <Figure
              key={whose}
              title={title}
              tone={whose === 'ours' ? oursTone : 'client'}
              value={[rate(perSecond), '/s']}
              note={note}
              history={history}
              plot={plot}
              colour={whose === 'ours' ? '--fail' : '--client'}
              format={rateText}
            />
          )
        })}
        <Figure
          title="p99 latency"
          value={timeFigure(now.latency_seconds?.p99)}
          note={now.latency_seconds === null ? 'no requests in 60 s' : `half within ${span(now.latency_seconds.p50)}`}
          history={history}
          plot="p99_seconds"
          format={span}
        />
        {slowest !== null && (
          <Figure
            title={`Oldest unread by ${slowest.name}`}
            tone={isFarBehind ? 'warn' : undefined}
            value={timeFigure(slowest.lag_seconds)}
            note={`slowest of ${many(now.queue?.consumers.length ?? 0, 'consumer')}`}
            history={history}
            plot="slowest_consumer_lag_seconds"
            format={span}
          />
        )}
      </div>
    </>
  )
}

type PlotName = { [Name in keyof History]: History[Name] extends Cells ? Name : never }[keyof History]

interface FigureProps {
  readonly title: string
  readonly value: readonly [string, string]
  readonly note: string
  readonly history: History | null
  readonly plot: PlotName
  readonly tone?: Tone | undefined
  readonly colour?: string
  readonly format: (value: number) => string
}

function Figure({ title, value: [number, unit], note, history, plot, tone, colour = '--accent', format }: FigureProps) {
  return (
    <section class="figure" aria-label={title}>
      <h2 title={title}>{title}</h2>
      <p class={`value ${tone ?? ''}`}>
        {number} <span class="unit">{unit}</span>
      </p>
      <p class="note">{note}</p>
      {history !== null && (
        <Plot
          title={title}
          fromMs={Date.parse(history.from)}
          stepMs={history.step_seconds * 1000}
          cells={history[plot]}
          colour={colour}
          format={format}
        />
      )}
    </section>
  )
}

function LastHour({ now }: { now: NowAnswer }): JSX.Element {
  const { by_code: byCode, by_app: byApp } = now.refused_last_hour
  const { codes } = useLive()
  const isQuiet = byCode.length === 0
  const isEmpty = isQuiet && now.rates.events_accepted_per_second === 0
  return (
    <section aria-labelledby="last-hour">
      <h2 id="last-hour">Refused in the last hour</h2>
      {isQuiet && <Empty title="Nothing was refused.">{isEmpty && now.state === 'serving' && <TryIt />}</Empty>}
      {!isQuiet && (
        <div class="columns tight">
          <Top
            title="by code"
            rows={byCode.map(({ code, reason, count: refused }) => ({
              key: `${code} ${reason ?? ''}`,
              href: urlTo('/refused', { code }),
              name: reason === null ? code : `${code} (${reason})`,
              tone: whoseOf(codes, code) === 'ours' ? 'fail' : 'client',
              refused,
            }))}
          />
          <Top
            title="by app"
            rows={byApp.map(({ app_id: app, count: refused }) => ({
              key: app ?? '-',
              href: urlTo('/refused', { app: app ?? '-' }),
              name: app ?? 'no known app',
              tone: 'client',
              refused,
            }))}
          />
        </div>
      )}
    </section>
  )
}

interface TopRow {
  readonly key: string
  readonly href: string
  readonly name: string
  readonly tone: Tone
  readonly refused: number
}

function Top({ title, rows }: { title: string; rows: readonly TopRow[] }): JSX.Element {
  const most = Math.max(1, ...rows.map(({ refused }) => refused))
  return (
    <div>
      <h3>{title}</h3>
      <ol class="top-list">
        {rows.map(({ key, href, name, tone, refused }) => (
          <li key={key}>
            <a class={tone} href={href} title={name}>
              <span class="bar" style={{ width: percent(refused / most).replace('<', '') }} />
              <span class="name">{name}</span>
              <span class="number">{count(refused)}</span>
            </a>
          </li>
        ))}
      </ol>
    </div>
  )
}

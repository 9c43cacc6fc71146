// Now: is it us or them? A sentence, five figures with 15 minutes each, the parts, and who was refused.

import type { ComponentChildren, JSX } from 'preact'
import type { Plot as Cells, Now as NowAnswer } from './api-types.ts'
import { count, many, percent, rate, span, spanParts } from './format.ts'
import { refusedPerSecond, slowestConsumer, useLive, whoseOf } from './live.tsx'
import { Nodes, Parts } from './parts.tsx'
import { Plot } from './plot.tsx'
import { urlTo } from './route.ts'
import { CodeName, Dot, Empty, type Tone, TryIt } from './ui.tsx'

/** Less than this is nothing: a rate of a single request, smoothed. */
const SOME_PER_SECOND = 0.05

export function Now(): JSX.Element {
  const { now, connection } = useLive()
  if (now === null) return connection.kind === 'lost' ? <Empty title="Nothing was heard yet." /> : <Empty title="…" />
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

/** The first question, answered in words. */
function Verdict({ now }: { now: NowAnswer }): JSX.Element {
  const { codes } = useLive()
  const ours = refusedPerSecond(now, codes, true)
  const theirs = refusedPerSecond(now, codes, false)
  const [most] = Object.entries(now.rates.refused_per_second)
    .filter(([code]) => whoseOf(codes, code) !== 'ours')
    .toSorted(([, one], [, other]) => other - one)
  let tone: Tone = 'ok'
  let text: ComponentChildren = 'Nothing is refused.'
  if (ours >= SOME_PER_SECOND) {
    tone = 'fail'
    const away = now.parts.filter(({ up }) => !up).map(({ part }) => part)
    const because = away.length > 0 ? `: ${away.join(' and ')} ${away.length > 1 ? 'are' : 'is'} not there` : ''
    text = `It is us: we refuse ${rate(ours)} requests/s${because}.`
  } else if (now.state === 'not ready') {
    tone = 'fail'
    text = `It is us: not ready${now.state_reason ? `, ${now.state_reason}` : ''}.`
  } else if (theirs >= SOME_PER_SECOND) {
    tone = 'client'
    text = (
      <>
        It is not us: {rate(theirs)} requests/s are refused by rule, most of them <CodeName code={most[0]} />.
      </>
    )
  }
  return (
    <p class={`verdict ${tone}`}>
      <Dot tone={tone} />
      <span>{text}</span>
    </p>
  )
}

function Figures({ now }: { now: NowAnswer }): JSX.Element {
  const { codes, history } = useLive()
  const ours = refusedPerSecond(now, codes, true)
  const slowest = slowestConsumer(now)
  const kept = now.queue?.keep_seconds
  const isFarBehind = slowest !== null && kept != null && slowest.lag_seconds > kept / 2
  const timeFigure = (seconds: number | undefined): readonly [string, string] =>
    seconds === undefined ? ['–', ''] : spanParts(seconds)
  return (
    <div class="figures">
      <Figure
        title="Accepted"
        value={[rate(now.rates.events_accepted_per_second), 'events/s']}
        note={`in ${rate(now.rates.requests_per_second)} requests/s, ${rate(now.rates.replays_per_second)} replays/s`}
        cells={history?.accepted_events_per_second}
        format={(value) => `${rate(value)}/s`}
      />
      <Figure
        title="Refused by us"
        tone={ours >= SOME_PER_SECOND ? 'fail' : undefined}
        value={[rate(ours), '/s']}
        note="503: sent again later"
        cells={history?.refused_ours_per_second}
        colour="--fail"
        format={(value) => `${rate(value)}/s`}
      />
      <Figure
        title="Refused by rule"
        tone="client"
        value={[rate(refusedPerSecond(now, codes, false)), '/s']}
        note="bad bodies and limits"
        cells={history?.refused_rule_per_second}
        colour="--client"
        format={(value) => `${rate(value)}/s`}
      />
      <Figure
        title="p99 latency"
        value={timeFigure(now.latency_seconds?.p99)}
        note={now.latency_seconds === null ? 'no requests in 60 s' : `half within ${span(now.latency_seconds.p50)}`}
        cells={history?.p99_seconds}
        format={span}
      />
      <Figure
        title={slowest === null ? 'Oldest unread' : `Oldest unread by ${slowest.name}`}
        tone={isFarBehind ? 'warn' : undefined}
        value={timeFigure(slowest?.lag_seconds)}
        note={
          slowest === null ? 'no consumer is known' : `slowest of ${many(now.queue?.consumers.length ?? 0, 'consumer')}`
        }
        cells={history?.slowest_consumer_lag_seconds}
        format={span}
      />
    </div>
  )
}

interface FigureProps {
  readonly title: string
  readonly value: readonly [string, string]
  readonly note: string
  readonly cells: Cells | undefined
  readonly tone?: Tone | undefined
  readonly colour?: string
  readonly format: (value: number) => string
}

function Figure({ title, value: [number, unit], note, cells, tone, colour = '--accent', format }: FigureProps) {
  const { history } = useLive()
  return (
    <section class="figure" aria-label={title}>
      <h2 title={title}>{title}</h2>
      <p class={`value ${tone ?? ''}`}>
        {number} <span class="unit">{unit}</span>
      </p>
      <p class="note">{note}</p>
      {history !== null && cells !== undefined && (
        <Plot
          title={title}
          fromMs={Date.parse(history.from)}
          stepMs={history.step_seconds * 1000}
          cells={cells}
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
            title="by rule"
            rows={byCode.map(({ code, count: refused }) => ({
              key: code,
              href: urlTo('/refused', { code }),
              name: code,
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

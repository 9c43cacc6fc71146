// Now: is it us or them? A sentence, one plot of all answers, what the service is made of, and who was refused.

import type { JSX } from 'preact'
import { useAsk } from '../api.ts'
import type { Now as NowAnswer, Usage } from '../api-types.ts'
import { reasonOf, statusOf } from '../codes.ts'
import { capital, count, many, rate, utc } from '../format.ts'
import { perSecondOf, rejectedPerSecond, SOME_PER_SECOND, stateOf, stateText, useLive } from '../live.tsx'
import { Copy } from '../parts/controls.tsx'
import { TryIt } from '../parts/try-it.tsx'
import { AppName, Bar, Card, Empty, List, More, Note, Verdict, vars } from '../parts/ui.tsx'
import { urlTo } from '../route.ts'
import { nearestOf, windowsOf } from '../windows.ts'
import { type Causes, CauseTitle, MostFrequent, useCauses } from './cause.tsx'
import { Nodes, Parts } from './made-of.tsx'
import { Plots } from './now-plots.tsx'

const AGAIN_EVERY_MS = 5000
const SHOWN = 5
const MIB = 1_048_576

export function Now({ query }: { query: URLSearchParams }): JSX.Element {
  const live = useLive()
  const { now } = live
  const causes = useCauses({}, AGAIN_EVERY_MS)
  const usage = useAsk<Usage>(urlTo('/api/apps', { top: String(SHOWN) }), AGAIN_EVERY_MS)
  if (now === null) {
    if (live.connection.kind === 'lost') return <Empty icon="warning" title="This node has not answered yet" />
    return <div class="page" aria-busy="true" />
  }
  const isFresh =
    now.state === 'serving' &&
    causes.groups.length === 0 &&
    now.rates.requests_per_second === 0 &&
    now.latency_seconds === null
  return (
    <div class="page">
      <Sentence now={now} causes={causes} />
      <Advice now={now} />
      {isFresh && <TryIt />}
      <Plots now={now} query={query} />
      <div class="grid fold" style={vars({ columns: 'minmax(0,1fr) minmax(0,1fr)', align: 'start' })}>
        <div class="stack" style={vars({ gap: 'var(--s4)' })}>
          <Parts now={now} />
          <Nodes nodes={now.nodes} time={now.time} />
        </div>
        <div class="stack" style={vars({ gap: 'var(--s4)' })}>
          <MostFrequent title={`Refused most ${causes.since}`} causes={causes} />
          {usage.value !== null && <Nearest usage={usage.value} />}
        </div>
      </div>
    </div>
  )
}

/** The first question, answered in words. The pill in the header has the same state. */
function Sentence({ now, causes: { groups, since } }: { now: NowAnswer; causes: Causes }): JSX.Element {
  const live = useLive()
  const { tone } = stateOf(live)
  const rejected = rejectedPerSecond(now)
  const most = groups.find(({ code, reason }) => reason === null && statusOf(code) < 500 && statusOf(code) >= 400)
  const unavailable = groups.filter(({ code }) => statusOf(code) === 503).reduce((sum, one) => sum + one.count, 0)
  const ours = unavailable === 0 ? '' : `${many(unavailable, 'request')} got 503 ${since}.`
  const known = reasonOf(now.reasons.at(0)?.reason)
  const isLost = live.connection.kind === 'lost'
  const more =
    now.state === 'refusing' && known !== undefined ? (
      `${capital(known.clients)}. What was answered 202 is stored.`
    ) : most === undefined ? (
      ours || `Nothing was rejected ${since}.`
    ) : (
      <>
        {ours} Most {since}: <CauseTitle cause={most} />
        {most.app_id !== null && (
          <>
            {' '}
            from <AppName id={most.app_id} isLink />
          </>
        )}
        , {most.count === 1 ? 'once, at' : `${count(most.count)} times since`} {utc(most.first_at, 'minute')} UTC.
      </>
    )
  const well = ours === '' ? 'Healthy' : 'Healthy now'
  const state = now.state === 'serving' && !isLost ? well : isLost ? 'Not connected' : stateText(live)
  return (
    <Verdict
      tone={tone}
      more={
        isLost
          ? `It was ${stateText({ ...live, connection: { kind: 'open' } })} at ${utc(now.time, 'time')} UTC.`
          : more
      }
    >
      {state}.
      {!isLost &&
        now.state !== 'refusing' &&
        rejected >= SOME_PER_SECOND &&
        ` ${rate(rejected)} requests/s rejected, most by ${mostBy(now)}.`}
    </Verdict>
  )
}

/** Which family the most rejections are of. */
function mostBy(now: NowAnswer): string {
  const families = [
    ['validation', perSecondOf(now, 'client')],
    ['limits', perSecondOf(now, 'near')],
    ['keys and plans', perSecondOf(now, 'plan')],
  ] as const
  return families.reduce((most, one) => (one[1] > most[1] ? one : most))[0]
}

const SETTING = /SLUICE_[A-Z_]+/g

/** Twice the room, or half of the time that is kept. Without a value where today's is not known. */
function withValue(setting: string, { nodes, parts, queue, ring }: NowAnswer): string {
  const answering = nodes.filter(({ state }) => state !== 'silent').length
  // A full disk bounds it too, and then another value of the setting does not help.
  const isFull = parts.some(({ part, state }) => part === 'queue' && state === 'full')
  const most = isFull ? (queue?.max_bytes ?? null) : null
  const oldest = queue?.oldest_seconds ?? null
  const values: Readonly<Record<string, number | null>> = {
    SLUICE_RING_MB: answering === 0 ? null : Math.ceil((2 * ring.size_bytes) / answering / MIB),
    SLUICE_JOURNAL_MAX_MB: most === null ? null : Math.ceil((2 * most) / MIB),
    SLUICE_JOURNAL_KEEP_HOURS: oldest === null ? null : Math.max(1, Math.floor(oldest / 2 / 3600)),
  }
  const value = values[setting] ?? null
  return value === null ? setting : `${setting}=${value}`
}

/** What to do while the service refuses, with each setting to copy. */
function Advice({ now }: { now: NowAnswer }): JSX.Element | null {
  const known = now.state === 'refusing' ? reasonOf(now.reasons.at(0)?.reason ?? null) : undefined
  if (known === undefined) return null
  return (
    <Note tone="fail">
      <span class="grow">
        <b>To do:</b> {known.todo}.
      </span>
      <span class="row wrap">
        {[...new Set(known.todo.match(SETTING))].map((setting) => {
          const text = withValue(setting, now)
          return <Copy key={setting} text={text} label={`Copy ${text}`} />
        })}
      </span>
    </Note>
  )
}

function Nearest({ usage }: { usage: Usage }): JSX.Element | null {
  const { nowMs } = useLive()
  const nearest = usage.apps.map((app) => ({ app, window: nearestOf(windowsOf(app, nowMs)) }))
  if (nearest.length === 0) return null
  return (
    <Card title="Nearest to a limit" side={<More href="/apps">All {many(usage.total_apps, 'app')}</More>}>
      <List columns="minmax(0,1fr) 50px minmax(40px,0.6fr) 146px 96px" phone="minmax(0,1fr) 48px 128px">
        {nearest.map(({ app, window }) => (
          <a class="item" key={app.app_id} href={urlTo('/app', { id: app.app_id })}>
            <AppName id={app.app_id} />
            <span class="dim">{window.name}</span>
            <span class="wide fill">
              <Bar share={window.share} ahead={window.ahead} tone={window.tone} />
            </span>
            <span class="number">{window.text}</span>
            <span class={`number wide ${window.tone === undefined ? 'dim' : `said ${window.tone}`}`}>
              {window.note}
            </span>
          </a>
        ))}
      </List>
    </Card>
  )
}

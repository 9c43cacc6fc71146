// What the page of one app and the portal's first page share: three windows, 35 days, causes, alerts and the newest events.

import type { ComponentChildren, JSX } from 'preact'
import { useAsk } from '../api.ts'
import type { Alerts, AppUsage, NewestEvents, UsageByDay } from '../api-types.ts'
import { lineOf, memberText } from '../event-text.ts'
import { bytes, count, day, percent, rate } from '../format.ts'
import { useLive } from '../live.tsx'
import { save } from '../parts/controls.tsx'
import { EVENT_COLUMNS_PHONE, Preview, TypePill } from '../parts/event-row.tsx'
import { Plot } from '../parts/plot.tsx'
import { Age, Bar, Button, Card, Empty, List, More, vars } from '../parts/ui.tsx'
import { urlTo } from '../route.ts'
import { useStream } from '../stream.ts'
import { type ShownWindow, soldText, untilText, windowsOf } from '../windows.ts'
import { useCountedSpan } from './apps.tsx'
import { MostFrequent, useCauses } from './cause.tsx'

const DAYS_EVERY_MS = 60_000
/** A read key has 60 requests a minute. */
const AGAIN_EVERY_MS = 20_000
const SHOWN = 5
const SHOWN_EVENTS = 9
const DAY_MS = 86_400_000

const TITLES = { minute: 'This minute', day: 'Today', month: 'This month' } as const

interface FiguresProps {
  readonly usage: AppUsage
  /** null: the one of the portal. */
  readonly app: string | null
  /** At the side, below what all have. */
  readonly children: ComponentChildren
}

export function Figures({ usage, app, children }: FiguresProps): JSX.Element {
  const path = app === null ? '/api/usage' : `/api/apps/${encodeURIComponent(app)}/usage`
  return (
    <>
      <Windows usage={usage} />
      <Stored stored={usage.stored_bytes} isPortal={app === null} />
      <div class="grid fold" style={vars({ columns: 'minmax(0,1fr) 380px', align: 'start' })}>
        <div class="stack" style={vars({ gap: 'var(--s4)' })}>
          <LastDays path={path} resetsAt={usage.month.resets_at} />
          <EventsOf app={app} />
        </div>
        <div class="stack" style={vars({ gap: 'var(--s4)' })}>
          <CausesOf app={app} />
          <AlertsOf app={app} />
          {children}
        </div>
      </div>
    </>
  )
}

function Windows({ usage }: { usage: AppUsage }): JSX.Element {
  const { nowMs } = useLive()
  return (
    <div class="grid" style={vars({ columns: 'repeat(3, minmax(0,1fr))' })}>
      {windowsOf(usage, nowMs)
        .toReversed()
        .map((window) => (
          <WindowCard key={window.name} window={window} perSecond={usage.events_per_second} />
        ))}
    </div>
  )
}

function Stored({ stored, isPortal }: { stored: AppUsage['stored_bytes']; isPortal: boolean }): JSX.Element | null {
  const counted = useCountedSpan()
  if (!stored) return null
  const { last_hour: lastHour, today, highest_minute_today: highest } = stored
  const since = isPortal ? 'as far as is known' : 'what the nodes that answer have counted since their start'
  return (
    <p class="t12 dim">
      {`Stored in ${counted}: ${bytes(lastHour)}; today: ${bytes(today)}, up to ${bytes(highest)} a minute; ${since}.`}
    </p>
  )
}

function WindowCard({ window, perSecond }: { window: ShownWindow; perSecond: number | null }): JSX.Element {
  const { nowMs } = useLive()
  const { name, used, limit, share, ahead, tone, note, resetsAt } = window
  const said = tone === undefined ? 'mid' : `said ${tone}`
  const other =
    name === 'minute' && perSecond !== null ? `${rate(perSecond)} events/s` : `until ${untilText(resetsAt, nowMs)}`
  return (
    <Card label={TITLES[name]}>
      <div class="body stack" style={vars({ gap: 'var(--s2)' })}>
        <span class="row spread label">
          {TITLES[name]}
          {share !== null && <span class={said}>{percent(share)}</span>}
        </span>
        <p class="figure" style={{ font: '600 var(--t28)' }}>
          {count(used)}
          <small> {limit === null ? 'events, no limit' : `of ${count(limit)} events`}</small>
        </p>
        <Bar share={share} ahead={ahead} tone={tone} />
        <span class="row spread t12">
          <span class={said}>{note || other}</span>
          <span class="dim">{name === 'month' && limit !== null ? soldText(window) : note === '' ? '' : other}</span>
        </span>
      </div>
    </Card>
  )
}

/** Nothing where the API has no days. `path` answers them as JSON, and as CSV where that is asked for. */
function LastDays({ path, resetsAt }: { path: string; resetsAt: string }): JSX.Element | null {
  const { value } = useAsk<UsageByDay>(urlTo(path, { days: '35' }), DAYS_EVERY_MS)
  const days = value?.apps?.at(0)?.days
  if (days === undefined) return null
  const since = monthBefore(resetsAt)
  const labels = [0, Math.floor(days.length / 3), Math.floor((days.length * 2) / 3)].map((cell) =>
    day(days[cell]?.day ?? 0),
  )
  return (
    <Card
      title="Last 35 days"
      side={
        <>
          <span class="t12 dim wide">events a day; the paler days are the month before</span>
          <Button kind="small" icon="download" text="CSV" onClick={() => void download(path)} />
        </>
      }
    >
      <div class="body">
        <Plot
          label="Events accepted by day"
          kind="bars"
          series={[{ name: 'Accepted', tone: 'ok', cells: days.map(({ events }) => events) }]}
          times={[...labels, 'today']}
          nameOf={(cell) => day(days[cell].day)}
          format={count}
          paleBefore={days.filter((one) => Date.parse(one.day) < since).length}
        />
      </div>
    </Card>
  )
}

async function download(path: string): Promise<void> {
  const answer = await fetch(urlTo(path, { days: '35' }), { headers: { Accept: 'text/csv' } })
  if (answer.ok) save('usage.csv', 'text/csv', await answer.text())
}

/** When the month began that ends then. */
function monthBefore(resetsAt: string): number {
  const end = new Date(resetsAt)
  const start = new Date(resetsAt)
  start.setUTCMonth(start.getUTCMonth() - 1)
  // A month without such a day begins on its last one.
  if (start.getUTCDate() !== end.getUTCDate()) start.setUTCDate(0)
  return start.getTime() - (start.getTime() % DAY_MS)
}

function CausesOf({ app }: { app: string | null }): JSX.Element {
  const { portal } = useLive()
  const causes = useCauses({ app }, AGAIN_EVERY_MS)
  const title = portal === null ? `Refused ${causes.since}` : 'What to change'
  return <MostFrequent title={title} causes={causes} app={app} isNarrow />
}

function EventsOf({ app }: { app: string | null }): JSX.Element {
  const { value } = useAsk<NewestEvents>(urlTo('/api/events', { app, limit: String(SHOWN_EVENTS) }), AGAIN_EVERY_MS)
  const lines = (value?.events ?? []).map(lineOf)
  return (
    <Card title="Newest events" side={<More href={urlTo('/events', { app })}>All events</More>}>
      {lines.length === 0 ? (
        <Empty icon="events" title={value === null ? 'Reading what is stored…' : 'No event is stored'} />
      ) : (
        <List columns="56px 78px minmax(96px,170px) minmax(0,1fr) 90px" phone={`44px ${EVENT_COLUMNS_PHONE}`}>
          {lines.map((line) => (
            <a class="item" key={line.id} href={urlTo('/events', { app, event: line.id })}>
              <span class="dim">
                <Age at={line.received_at} />
              </span>
              <TypePill event={line.event} />
              <b class="cut">{memberText(line.event, 'name')}</b>
              <Preview event={line.event} />
              <span class="cut dim number wide">{memberText(line.event, 'user_id')}</span>
            </a>
          ))}
        </List>
      )}
    </Card>
  )
}

function alertText({ kind, state, window, percent: reached }: Alerts['alerts'][number]): string {
  if (kind === 'forecast')
    return state === 'raised' ? 'The month will be full in less than 48 h' : 'The month lasts again'
  return state === 'raised' ? `${reached}% of the ${window} is used` : `The ${window} is below ${reached}% again`
}

/** Nothing where the API has no alerts. */
function AlertsOf({ app }: { app: string | null }): JSX.Element | null {
  const { value, again } = useAsk<Alerts>(urlTo('/api/alerts', { app }), DAYS_EVERY_MS)
  useStream(value === null ? null : urlTo('/api/alerts/stream', { app }), (name) => {
    if (name === 'alert') again()
  })
  if (value === null || value.alerts === undefined) return null
  const own = value.alerts.filter((alert) => app === null || alert.app_id === app).toReversed()
  return (
    <Card title="Alerts">
      {own.length === 0 ? (
        <Empty icon="check" title="No alert in the last 35 days" />
      ) : (
        <List columns="minmax(0,1fr) max-content">
          {own.slice(0, SHOWN).map((alert) => (
            <div class="item" key={alert.id}>
              <span class="cut">{alertText(alert)}</span>
              <span class="dim number">
                <Age at={alert.at} ago />
              </span>
            </div>
          ))}
        </List>
      )}
    </Card>
  )
}

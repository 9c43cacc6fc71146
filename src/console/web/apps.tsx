// Apps: how much is left of each app's minute, day and month. The fullest first.

import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'
import { useAsk } from './api.ts'
import type { AppUsage, Usage, Window } from './api-types.ts'
import { count, limitText, many, span } from './format.ts'
import { go, urlTo } from './route.ts'
import { Rows } from './rows.tsx'
import { AS_TYPED, Empty, Problem, TryIt, useMedia } from './ui.tsx'

const AGAIN_EVERY_MS = 10_000
const MAX_APPS = 10_000
const NEAR = 0.9
const SORTS = [
  ['use', 'most used'],
  ['month', 'events of the month'],
  ['refused', 'refused'],
  ['name', 'name'],
] as const

export function Apps({ query }: { query: URLSearchParams }): JSX.Element {
  const asked = useAsk<Usage>(urlTo('/api/apps', { top: String(MAX_APPS) }), AGAIN_EVERY_MS)
  const text = query.get('app') ?? ''
  const sort = query.get('sort') ?? 'use'
  const isNarrow = useMedia('(max-width: 1100px)')
  const usage = asked.value
  const apps = useMemo(() => shownApps(usage?.apps ?? [], text, sort), [usage, text, sort])
  const set = (changes: { app?: string; sort?: string }): void => {
    const wanted = { app: text, sort, ...changes }
    go(urlTo('/apps', { ...wanted, sort: wanted.sort === 'use' ? null : wanted.sort }), { replace: true })
  }
  return (
    <>
      <div class="bar-line" role="search">
        <label for="search" class="hidden">
          Search apps
        </label>
        <input
          id="search"
          type="search"
          value={text}
          placeholder="search: id, name or plan"
          {...AS_TYPED}
          onInput={(event) => set({ app: event.currentTarget.value })}
        />
        <label for="sort" class="muted">
          sort by
        </label>
        <select id="sort" value={sort} onChange={(event) => set({ sort: event.currentTarget.value })}>
          {SORTS.map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
        <p class="muted" role="status">
          {usage !== null &&
            (apps.length === usage.total_apps
              ? many(apps.length, 'app')
              : `${count(apps.length)} of ${many(usage.total_apps, 'app')}`)}
        </p>
      </div>
      <Problem why={asked.why} />
      {usage === null ? (
        <p class="muted">{asked.asking && 'Reading the counters…'}</p>
      ) : apps.length === 0 ? (
        <NoApps total={usage.total_apps} />
      ) : (
        <div class="table apps">
          <div class="head" aria-hidden="true">
            {['app', 'minute', 'day', 'month', 'last hour', 'keys'].map((title) => (
              <span key={title}>{title}</span>
            ))}
          </div>
          <Rows
            items={apps}
            rowHeight={isNarrow ? 188 : 64}
            label="Apps"
            keyOf={({ app_id }) => app_id}
            render={(app) => <AppRow app={app} readAtMs={Date.parse(usage.read_at)} />}
          />
        </div>
      )}
    </>
  )
}

function NoApps({ total }: { total: number }): JSX.Element {
  if (total > 0) return <Empty title="No app fits." />
  return (
    <Empty title="There is no app yet.">
      <p>
        Add one: <code>sluice apps add shop --plan 100k</code>
      </p>
      <TryIt />
    </Empty>
  )
}

/** The API sorts by use; the other orders are made here. */
function shownApps(apps: readonly AppUsage[], text: string, sort: string): readonly AppUsage[] {
  const wanted = text.trim().toLowerCase()
  const fitting =
    wanted === ''
      ? apps
      : apps.filter(({ app_id, name, plan, subscription }) =>
          [app_id, name ?? '', plan, subscription].some((word) => word.toLowerCase().includes(wanted)),
        )
  if (sort === 'name') return fitting.toSorted((one, other) => (one.app_id < other.app_id ? -1 : 1))
  if (sort === 'month') return fitting.toSorted((one, other) => other.month.used - one.month.used)
  if (sort === 'refused') return fitting.toSorted((one, other) => refusedOf(other) - refusedOf(one))
  return fitting
}

function refusedOf({ last_hour: lastHour }: AppUsage): number {
  return Object.values(lastHour?.refused ?? {}).reduce((sum, refused) => sum + refused, 0)
}

function AppRow({ app, readAtMs }: { app: AppUsage; readAtMs: number }): JSX.Element {
  const isServed = ['active', 'trialing', 'past_due'].includes(app.subscription)
  const perHour = app.last_hour?.accepted_events ?? null
  const refused = refusedOf(app)
  return (
    <div class="app-row">
      <div class="who">
        <a class="app" href={urlTo('/events', { app: app.app_id })} title={`${app.app_id}: its events`}>
          {app.app_id}
        </a>
        <span class="muted" title={app.name ?? undefined}>
          {[app.name, app.plan].filter(Boolean).join(' · ')}
          {' · '}
          <span class={isServed ? undefined : 'client'}>{app.subscription}</span>
        </span>
      </div>
      <Use title="minute" window={app.minute} perSecond={null} readAtMs={readAtMs} />
      <Use title="day" window={app.day} perSecond={app.events_per_second} readAtMs={readAtMs} />
      <Use title="month" window={app.month} perSecond={app.events_per_second} readAtMs={readAtMs} />
      <div class="hour">
        <span>{perHour === null ? '–' : `${count(perHour)} events`}</span>
        {refused > 0 ? (
          <a class="client" href={urlTo('/refused', { app: app.app_id })}>
            {count(refused)} refused
          </a>
        ) : (
          <span class="muted">{perHour === null ? 'not known' : 'none refused'}</span>
        )}
      </div>
      <div class="keys">
        {app.keys.slice(0, 2).map(({ key, valid_until: until }) => (
          <span key={key} class="mono" title={until === null ? key : `${key}, valid until ${until}`}>
            {key}
            {until !== null && <span class="warn"> until {until.slice(0, 10)}</span>}
          </span>
        ))}
        {app.keys.length > 2 && <span class="muted">and {count(app.keys.length - 2)} more</span>}
      </div>
    </div>
  )
}

interface UseProps {
  readonly title: string
  readonly window: Window
  /** For a forecast. */
  readonly perSecond: number | null
  readonly readAtMs: number
}

/** A bar against the limit: amber from 90%. */
function Use({ title, window, perSecond, readAtMs }: UseProps): JSX.Element {
  const { used, limit, resets_at: resetsAt, tolerance_percent: tolerance } = window
  const share = limit === null ? 0 : limit === 0 ? 1 : Math.min(1, used / limit)
  const leftSeconds = limit === null || !perSecond ? null : Math.max(0, limit - used) / perSecond
  const resetSeconds = (Date.parse(resetsAt) - readAtMs) / 1000
  const isOver = limit !== null && used >= limit
  const willBeOver = !isOver && leftSeconds !== null && leftSeconds < resetSeconds
  const note = isOver ? 'none left' : willBeOver ? `over in ${span(leftSeconds)}` : ''
  const words = limit === null ? `${count(used)}, no limit` : `${count(used)} of ${limitText(limit, tolerance)}`
  return (
    <div class={share >= NEAR ? 'use warn' : 'use'} title={`${title}: ${words}, until ${resetsAt}`}>
      <span class="label">{title}</span>
      <span class="track" aria-hidden="true">
        <span class="fill" style={{ width: `${share * 100}%` }} />
      </span>
      <span class="words">
        {count(used)}
        {/* A phone has no room for it; the bar shows the share. */}
        <span class="wide">{words.slice(count(used).length)}</span>
      </span>
      {note !== '' && (
        <em>
          {note}
          {willBeOver && <span class="wide"> at this rate</span>}
        </em>
      )}
    </div>
  )
}

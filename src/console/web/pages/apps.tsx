// Apps: how much is left of each app's minute, day and month, and until when. The one with the least left first.

import type { JSX } from 'preact'
import { useMemo } from 'preact/hooks'
import { MAX_REPORTED_APPS } from '../../../contract/bounds.ts'
import { useAsk } from '../api.ts'
import type { AppUsage, Usage } from '../api-types.ts'
import { bytes, count, many, short, span } from '../format.ts'
import { useKeys } from '../keys.ts'
import { useLive } from '../live.tsx'
import { Field, save, Tabs } from '../parts/controls.tsx'
import { Rows } from '../parts/rows.tsx'
import { TryIt } from '../parts/try-it.tsx'
import { AppName, Bar, Button, Card, Empty, List, PHONE, Problem, useMedia, vars } from '../parts/ui.tsx'
import { go, urlTo, urlWith } from '../route.ts'
import { nearestOf, type ShownWindow, windowsOf } from '../windows.ts'

const AGAIN_EVERY_MS = 5000
const HOUR_SECONDS = 3600
const ROW_PX = 72
const PHONE_ROW_PX = 116
const SORTS = [
  ['left', 'Least left'],
  ['month', 'Events of the month'],
  ['bytes', 'Bytes of the hour'],
  ['refused', 'Refused'],
  ['name', 'Name'],
] as const
/** Subscriptions with which events are accepted. */
export const SERVED: ReadonlySet<string> = new Set(['active', 'trialing', 'past_due'])

interface Row {
  readonly app: AppUsage
  readonly windows: readonly ShownWindow[]
  readonly refused: number
}

const KINDS = [
  ['all', 'All', () => true],
  ['near', 'Near a limit', ({ windows }) => windows.some(({ tone }) => tone !== undefined)],
  ['refused', 'Refused', ({ refused }) => refused > 0],
  ['silent', 'Silent', ({ app }) => app.last_hour?.accepted_events === 0],
] as const satisfies readonly (readonly [name: string, words: string, isOf: (row: Row) => boolean])[]

export function Apps({ query }: { query: URLSearchParams }): JSX.Element {
  const asked = useAsk<Usage>(urlTo('/api/apps', { top: String(MAX_REPORTED_APPS) }), AGAIN_EVERY_MS)
  const usage = asked.value
  const text = query.get('app') ?? ''
  const [kind, , isOfKind] = KINDS.find(([name]) => name === query.get('kind')) ?? KINDS[0]
  const sort = query.get('sort') ?? 'left'
  const isPhone = useMedia(PHONE)
  const counted = useCountedSpan()
  const rows = useMemo(() => rowsOf(usage), [usage])
  const found = useMemo(
    () =>
      sorted(
        rows.filter((row) => fits(row, text)),
        sort,
      ),
    [rows, text, sort],
  )
  const shown = found.filter(isOfKind)
  useKeys({ Escape: () => go('/apps') })
  return (
    <div class="page">
      <Controls found={found} kind={kind} sort={sort} text={text} />
      <Problem why={asked.why} />
      {usage === null ? (
        <p class="dim">{asked.asking && 'Reading the counters…'}</p>
      ) : usage.total_apps === 0 ? (
        <NoApps />
      ) : (
        <Card label="Apps">
          <List
            two
            columns="minmax(104px,1.1fr) repeat(3, minmax(80px,1fr)) 82px 82px 60px"
            phone="minmax(0,1fr)"
            heads={
              isPhone
                ? ['Minute, day, month']
                : ['App', 'Minute', 'Day', 'Month', `>Events, ${counted}`, `>Bytes, ${counted}`, '>Refused']
            }
            stick="var(--top)"
          >
            {shown.length === 0 && <Empty icon="filter" title="No app fits" />}
            <Rows
              items={shown}
              rowHeight={isPhone ? PHONE_ROW_PX : ROW_PX}
              label="Apps"
              keyOf={({ app }) => app.app_id}
              render={(row) => <AppRow row={row} isPhone={isPhone} />}
            />
          </List>
          <footer>
            {shown.length === usage.total_apps
              ? many(usage.total_apps, 'app')
              : `${count(shown.length)} of ${many(usage.total_apps, 'app')}`}
            . Forecasts go by the last five minutes. Bytes are what the nodes that answer have stored since their start.
          </footer>
        </Card>
      )}
    </div>
  )
}

/** Nodes count for an hour, and begin when they start. */
export function useCountedSpan(): string {
  const { now, nowMs } = useLive()
  const startedAtMs = (now?.nodes ?? []).map(({ started_at: at }) => Date.parse(at))
  const seconds = (nowMs - Math.max(0, ...startedAtMs)) / 1000
  return seconds < HOUR_SECONDS ? span(Math.max(1, Math.floor(seconds))) : '1 h'
}

function rowsOf(usage: Usage | null): readonly Row[] {
  const readAtMs = Date.parse(usage?.read_at ?? '')
  return (usage?.apps ?? []).map((app) => {
    const refused = Object.values(app.last_hour?.refused ?? {}).reduce((sum, one) => sum + one, 0)
    return { app, windows: windowsOf(app, readAtMs), refused }
  })
}

function fits({ app: { app_id: id, name, plan, subscription } }: Row, text: string): boolean {
  const wanted = text.trim().toLowerCase()
  return [id, name ?? '', plan, subscription].some((word) => word.toLowerCase().includes(wanted))
}

/** The API sorts by use; least left goes by what will be full as well. */
function sorted(rows: readonly Row[], sort: string): readonly Row[] {
  const by = (value: (row: Row) => number): readonly Row[] => rows.toSorted((one, other) => value(other) - value(one))
  if (sort === 'name') return rows.toSorted((one, other) => (one.app.app_id < other.app.app_id ? -1 : 1))
  if (sort === 'month') return by(({ app }) => app.month.used)
  if (sort === 'bytes') return by(({ app }) => app.stored_bytes?.last_hour ?? -1)
  if (sort === 'refused') return by(({ refused }) => refused)
  return by(({ windows }) => {
    const { tone, share } = nearestOf(windows)
    return (tone === 'fail' ? 2 : tone === 'near' ? 1 : 0) + (share ?? 0)
  })
}

interface ControlsProps {
  readonly found: readonly Row[]
  readonly kind: string
  readonly sort: string
  readonly text: string
}

function Controls({ found, kind, sort, text }: ControlsProps): JSX.Element {
  const set = (changes: Readonly<Record<string, string | null>>): void => go(urlWith(changes), { replace: true })
  return (
    <div class="row wrap">
      <Field
        id="search"
        name="Search apps"
        icon="find"
        letter="f"
        value={text}
        placeholder="Name, id or plan"
        onText={(app) => set({ app })}
      />
      <Tabs
        label="Which apps"
        value={kind}
        options={KINDS.map(([name, words, isOf]) => [name, `${words} ${count(found.filter(isOf).length)}`] as const)}
        onPick={(wanted) => set({ kind: wanted === 'all' ? null : wanted })}
      />
      <span class="row push">
        <label for="sort" class="dim">
          Sort
        </label>
        <select
          id="sort"
          class="button"
          value={sort}
          onChange={(event) => set({ sort: event.currentTarget.value === 'left' ? null : event.currentTarget.value })}
        >
          {SORTS.map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
        <Button icon="download" text="CSV" onClick={() => save('apps.csv', 'text/csv', csvOf(found))} />
      </span>
    </div>
  )
}

/** A cell that a spreadsheet would take for a formula begins with a quote. */
function csvCell(value: string | number | null | undefined): string {
  const text = String(value ?? '')
  const safe = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

const CSV_HEAD =
  'app_id,name,plan,subscription,window,used,limit,resets_at,refused_last_hour,bytes_last_hour,bytes_today,bytes_highest_minute_today'

function csvOf(rows: readonly Row[]): string {
  const lines = rows.flatMap(({ app, windows, refused }) => {
    const { last_hour, today, highest_minute_today } = app.stored_bytes ?? {}
    const bytesCells = [last_hour, today, highest_minute_today]
    return windows.map(({ name, used, limit, resetsAt }) =>
      [app.app_id, app.name, app.plan, app.subscription, name, used, limit, resetsAt, refused, ...bytesCells]
        .map(csvCell)
        .join(','),
    )
  })
  return [CSV_HEAD, ...lines, ''].join('\n')
}

function NoApps(): JSX.Element {
  return (
    <>
      <Card>
        <Empty icon="apps" title="There is no app yet">
          <p>
            Add one: <code>sluice apps add shop --plan 100k</code>
          </p>
        </Empty>
      </Card>
      <TryIt />
    </>
  )
}

function AppRow({ row: { app, windows, refused }, isPhone }: { row: Row; isPhone: boolean }): JSX.Element {
  const events = app.last_hour?.accepted_events ?? null
  return (
    <a class="item" href={urlTo('/app', { id: app.app_id })}>
      <span class="row spread fill">
        <span class="stack" style={vars({ gap: 0 })}>
          <b>
            <AppName id={app.app_id} />
          </b>
          <span class="row t12 dim">
            <span class="cut">{[app.name, app.plan].filter(Boolean).join(' · ')}</span>
            {!SERVED.has(app.subscription) && <span class="pill plan">{app.subscription}</span>}
          </span>
        </span>
        {isPhone && refused > 0 && <span class="number dim">{count(refused)} refused</span>}
      </span>
      {isPhone ? (
        <span class="grid fill" style={vars({ phone: 'repeat(3, minmax(0,1fr))' })}>
          {windows.map((window) => (
            <Use key={window.name} window={window} numberOf={short} />
          ))}
        </span>
      ) : (
        <>
          {windows.map((window) => (
            <Use key={window.name} window={window} numberOf={count} />
          ))}
          <span class="number">{events === null ? 'not known' : count(events)}</span>
          <span class="number">{app.stored_bytes ? bytes(app.stored_bytes.last_hour) : 'not known'}</span>
          <span class={refused > 0 ? 'number' : 'number dim'}>{count(refused)}</span>
        </>
      )}
    </a>
  )
}

function Use({ window, numberOf }: { window: ShownWindow; numberOf: (value: number) => string }): JSX.Element {
  const { used, limit, share, ahead, tone, note } = window
  return (
    <span class="stack fill t12" style={vars({ gap: '3px' })}>
      <span class="cut">
        <b>{numberOf(used)}</b> <span class="dim">{limit === null ? 'no limit' : `of ${numberOf(limit)}`}</span>
      </span>
      <Bar share={share} ahead={ahead} tone={tone} />
      <span class={tone === undefined ? 'cut dim' : `cut said ${tone}`}>{note}</span>
    </span>
  )
}

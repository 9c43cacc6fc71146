// Refused: who, why, since when, and what should they change? Causes by count; the opened one beside them.

import type { JSX } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { MAX_REFUSALS_SHOWN } from '../../../contract/admin/words.ts'
import type { Refusal, RefusalGroup, Refusals } from '../api-types.ts'
import { addressOf, causeKey, statusOf, type Tone, toneOf } from '../codes.ts'
import { count, many, UUID, utc } from '../format.ts'
import { useKeys } from '../keys.ts'
import { useLive } from '../live.tsx'
import { Tabs } from '../parts/controls.tsx'
import { FilterBox, filterOf } from '../parts/filter.tsx'
import { Plot, Swatch } from '../parts/plot.tsx'
import { isAimedAt, Rows } from '../parts/rows.tsx'
import { Button, Card, Empty, List, PHONE, Problem, Stat, useMedia, vars, WIDE } from '../parts/ui.tsx'
import { go, urlTo, urlWith } from '../route.ts'
import { useLiveList } from '../stream.ts'
import { CausePanel, CauseRow, refusalsOf, useCauses } from './cause.tsx'

const GROUPS_EVERY_MS = 2000
/** A read key may ask less often. */
const PORTAL_EVERY_MS = 10_000
const PHONE_CAUSES = 5
const REPLAYED = 'replayed_other_body'
const FAMILIES: readonly (readonly [string, Tone])[] = [
  ['Client errors', 'client'],
  ['Key, plan', 'plan'],
  ['Limits', 'near'],
  ['503', 'fail'],
]

export function Refused({ query }: { query: URLSearchParams }): JSX.Element {
  const { portal } = useLive()
  const keys = portal === null ? ['app', 'code'] : ['code']
  const filter = filterOf(query, keys)
  const id = query.get('request_id')
  // The page of one refusal is that of its id.
  useEffect(() => {
    if (id !== null && UUID.test(id)) go(urlTo('/batch', { id: id.toLowerCase() }), { replace: true })
  }, [id])
  const path = urlTo('/api/refusals', { ...filter, limit: String(MAX_REFUSALS_SHOWN) })
  return <RefusedPage key={path} path={path} keys={keys} query={query} />
}

function RefusedPage({ path, keys, query }: { path: string; keys: readonly string[]; query: URLSearchParams }) {
  const { portal } = useLive()
  const filter = filterOf(query, keys)
  const causes = useCauses(filter, portal === null ? GROUPS_EVERY_MS : PORTAL_EVERY_MS)
  const { refusals, why } = useRefusals(path, urlTo('/api/refusals/stream', filter))
  const all = useStillOrder(causes.groups)
  const { since } = causes
  const isReplays = query.get('kind') === 'replays'
  const groups = all.filter(({ code }) => (code === REPLAYED) === isReplays)
  const isWide = useMedia(WIDE)
  const named = groups.find((group) => addressOf(group) === query.get('cause'))
  const opened = named ?? (isWide ? groups[0] : undefined)
  const close = (): void => go(urlWith({ cause: null }))
  useKeys({ Escape: () => (named === undefined ? go(urlTo('/refused')) : close()) })
  const values = useMemo(
    () => ({
      app: ['-', ...new Set(all.flatMap(({ app_id }) => app_id ?? []))],
      code: [...new Set(all.map(({ code }) => code))],
    }),
    [all],
  )
  const panel = opened && (
    <CausePanel group={opened} refusals={refusalsOf(opened, refusals)} since={since} onClose={close} />
  )
  if (!isWide && named !== undefined) return <div class="page">{panel}</div>
  return (
    <div class="page">
      <div class="row wrap">
        <Kinds groups={all} isReplays={isReplays} />
        <FilterBox query={query} keys={keys} example={keys.map((key) => EXAMPLES[key]).join(' ')} values={values} />
      </div>
      <Problem why={causes.why ?? why} />
      {causes.isKnown && groups.length === 0 && (
        <NothingRefused isFiltered={Object.keys(filter).length > 0} since={since} />
      )}
      {groups.length > 0 && (
        <>
          <Hour groups={groups} />
          <div class="grid" style={vars({ columns: isWide ? 'minmax(0,1fr) minmax(0,1.08fr)' : '', align: 'start' })}>
            <Causes groups={groups} since={since} opened={opened} />
            {isWide && panel}
          </div>
        </>
      )}
    </div>
  )
}

const EXAMPLES: Readonly<Record<string, string>> = { app: 'app:shop', code: 'code:validation_failed' }

/** The order changes only while nobody points at it; counts go on. */
function useStillOrder(groups: readonly RefusalGroup[]): readonly RefusalGroup[] {
  const order = useRef<readonly string[]>([])
  return useMemo(() => {
    if (!isAimedAt()) order.current = groups.map(causeKey)
    const place = (group: RefusalGroup): number => {
      const at = order.current.indexOf(causeKey(group))
      return at < 0 ? groups.length : at
    }
    return groups.toSorted((one, other) => place(one) - place(other))
  }, [groups])
}

/** What is known, then what comes. Each once, since both may have the same one. */
function useRefusals(path: string, streamPath: string): { refusals: readonly Refusal[]; why: string | null } {
  const [refusals, setRefusals] = useState<readonly Refusal[]>([])
  const waiting = useRef<Refusal[]>([])
  const add = (more: readonly Refusal[]): void =>
    setRefusals((last) => {
      const all = new Map([...more, ...last].map((one) => [one.request_id, one]))
      return [...all.values()].toSorted((one, other) => (one.time < other.time ? 1 : -1)).slice(0, MAX_REFUSALS_SHOWN)
    })
  const why = useLiveList(
    { list: path, stream: streamPath },
    (list) => add((list as Refusals).refusals),
    (name, data) => {
      if (name === 'refusal' && waiting.current.push(data as Refusal) > MAX_REFUSALS_SHOWN) waiting.current.shift()
    },
  )
  useEffect(() => {
    const timer = setInterval(() => {
      if (!isAimedAt() && waiting.current.length > 0) add(waiting.current.splice(0))
    }, 500)
    return () => clearInterval(timer)
  }, [])
  return { refusals, why }
}

function Kinds({ groups, isReplays }: { groups: readonly RefusalGroup[]; isReplays: boolean }): JSX.Element {
  const sum = (wanted: boolean): string =>
    count(groups.reduce((total, group) => total + ((group.code === REPLAYED) === wanted ? group.count : 0), 0))
  return (
    <Tabs
      label="Kind"
      value={isReplays ? 'replays' : 'refused'}
      options={[
        ['refused', `Refused ${sum(false)}`],
        ['replays', `Replays with another body ${sum(true)}`],
      ]}
      onPick={(kind) => go(urlWith({ kind: kind === 'replays' ? kind : null, cause: null }), { replace: true })}
    />
  )
}

function NothingRefused({ isFiltered, since }: { isFiltered: boolean; since: string }): JSX.Element {
  return (
    <Card>
      {isFiltered ? (
        <Empty icon="filter" title={`Nothing that fits was refused ${since}`}>
          <Button href="/refused" text="Show all causes" />
        </Empty>
      ) : (
        <Empty icon="check" title={`Nothing was refused ${since}`}>
          <p>Every request was taken. What a client does wrong will be here by cause, with what to change.</p>
        </Empty>
      )}
    </Card>
  )
}

/** All causes together, by family and minute. */
function Hour({ groups }: { groups: readonly RefusalGroup[] }): JSX.Element {
  const { nowMs } = useLive()
  const cellsOf = (tone: Tone): number[] => {
    const own = groups.filter(({ code }) => toneOf(code === REPLAYED ? 400 : statusOf(code)) === tone)
    return Array.from({ length: 60 }, (_, minute) => own.reduce((sum, { per_minute: cells }) => sum + cells[minute], 0))
  }
  const series = FAMILIES.map(([name, tone]) => ({ name, tone, cells: cellsOf(tone) }))
  const timeAt = (cell: number): string => utc(nowMs - (59 - cell) * 60_000, 'minute')
  return (
    <Card label="All causes by minute">
      <div class="body grid" style={vars({ columns: '200px minmax(0,1fr)', align: 'center' })}>
        <div class="grid" style={vars({ columns: '1fr 1fr', phone: 'repeat(4, auto)' })}>
          {series.map(({ name, tone, cells }) => (
            <Stat
              key={name}
              name={<Swatch name={name} tone={tone} />}
              value={count(cells.reduce((sum, cell) => sum + cell, 0))}
            />
          ))}
        </div>
        <Plot
          label="Refused requests by minute"
          kind="bars"
          series={series}
          times={[timeAt(0), timeAt(20), timeAt(40), 'now']}
          nameOf={(cell) => `${timeAt(cell)} UTC`}
          format={count}
          height={84}
        />
      </div>
    </Card>
  )
}

interface CausesProps {
  readonly groups: readonly RefusalGroup[]
  readonly since: string
  readonly opened: RefusalGroup | undefined
}

function Causes({ groups, since, opened }: CausesProps): JSX.Element {
  const isPhone = useMedia(PHONE)
  const [showsAll, setShowsAll] = useState(false)
  const shown = isPhone && !showsAll ? groups.slice(0, PHONE_CAUSES) : groups
  return (
    <Card label="Causes">
      <List
        two
        columns="40px minmax(0,1fr) minmax(28px,0.3fr) 64px"
        phone="40px minmax(0,1fr) 60px"
        heads={['Code', 'Cause', '-By minute', '>Count']}
        stick="var(--top)"
      >
        <Rows
          items={shown}
          rowHeight={56}
          label="Causes, the most frequent first"
          keyOf={causeKey}
          render={(group) => (
            <CauseRow group={group} href={urlWith({ cause: addressOf(group) })} isOpen={group === opened} />
          )}
        />
      </List>
      {shown.length < groups.length && (
        <footer>
          <Button
            kind="small"
            text={many(groups.length - shown.length, 'more cause')}
            onClick={() => setShowsAll(true)}
          />
        </footer>
      )}
      <footer>
        {many(groups.length, 'cause')} {since}. Content of a refused request is never kept.
      </footer>
    </Card>
  )
}

// Refused: who, why, since when, and what became of the data. Groups first, then the newest refusals.

import type { JSX } from 'preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { ask, useAsk } from './api.ts'
import type { Code, Refusal, RefusalGroup, Refusals } from './api-types.ts'
import { FilterBox, filterOf } from './filter.tsx'
import { count, many } from './format.ts'
import { useLive, whoseOf } from './live.tsx'
import { Spark } from './plot.tsx'
import { urlTo } from './route.ts'
import { Rows } from './rows.tsx'
import { useStream } from './stream.ts'
import { CodeName, Copy, Empty, Problem, Time, useMedia } from './ui.tsx'

const KEYS = ['app', 'code'] as const
const GROUPS_EVERY_MS = 5000
/** As many as a process keeps. */
const MAX_REFUSALS = 1000
const FIRST_GROUPS = 12

export function Refused({ query }: { query: URLSearchParams }): JSX.Element {
  const filter = filterOf(query, KEYS)
  const path = urlTo('/api/refusals', { ...filter, limit: String(MAX_REFUSALS) })
  return <RefusedPage key={path} path={path} query={query} />
}

function RefusedPage({ path, query }: { path: string; query: URLSearchParams }): JSX.Element {
  const filter = filterOf(query, KEYS)
  const { codes } = useLive()
  const asked = useAsk<Refusals>(urlTo('/api/refusals', { ...filter, limit: '1' }), GROUPS_EVERY_MS)
  const groups = asked.value?.groups
  const { refusals, why } = useRefusals(path, urlTo('/api/refusals/stream', filter))
  const values = useMemo(
    () => ({ app: ['-', ...appsOf(groups ?? [])], code: [...codes.keys(), 'replayed_other_body'] }),
    [groups, codes],
  )
  const code = codes.get(filter['code'] ?? '')
  return (
    <>
      <div class="bar-line">
        <FilterBox
          path="/refused"
          query={query}
          keys={KEYS}
          example="app:shop code:validation_failed"
          values={values}
        />
        <button type="button" class="button" onClick={() => void download(refusals)} disabled={refusals.length === 0}>
          download NDJSON
        </button>
      </div>
      <Problem why={asked.why ?? why} />
      {code !== undefined && <Meaning code={code} />}
      <section aria-labelledby="groups">
        <h2 id="groups">In the last hour</h2>
        {groups !== undefined && <Groups groups={groups} isFiltered={Object.keys(filter).length > 0} />}
      </section>
      {refusals.length > 0 && <Newest refusals={refusals} />}
    </>
  )
}

function appsOf(groups: readonly RefusalGroup[]): string[] {
  return [...new Set(groups.map(({ app_id }) => app_id).filter((app) => app !== null))]
}

/** What is known, then what comes. Each once, since both may have the same one. */
function useRefusals(path: string, streamPath: string): { refusals: readonly Refusal[]; why: string | null } {
  const [refusals, setRefusals] = useState<readonly Refusal[]>([])
  const [why, setWhy] = useState<string | null>(null)
  const waiting = useRef<Refusal[]>([])
  const add = (more: readonly Refusal[]): void =>
    setRefusals((last) => {
      const all = new Map([...more, ...last].map((one) => [one.request_id, one]))
      return [...all.values()].toSorted((one, other) => (one.time < other.time ? 1 : -1)).slice(0, MAX_REFUSALS)
    })
  const connection = useStream(streamPath, (name, data) => {
    if (name === 'refusal' && waiting.current.length < MAX_REFUSALS) waiting.current.push(data as Refusal)
  })
  useEffect(() => {
    const timer = setInterval(() => {
      if (waiting.current.length > 0) add(waiting.current.splice(0))
    }, 500)
    return () => clearInterval(timer)
  }, [])
  // Again after a lost connection: what came meanwhile is only in the list.
  useEffect(() => {
    if (connection.kind !== 'open') return
    const load = async (): Promise<void> => {
      const answer = await ask<Refusals>(path)
      if (answer.kind === 'ok') add(answer.value.refusals)
      setWhy(answer.kind === 'ok' ? null : answer.why)
    }
    void load()
  }, [path, connection.kind])
  return { refusals, why: connection.kind === 'lost' ? connection.why : why }
}

/** The link is made by hand, since the answer of the API is one object. */
async function download(refusals: readonly Refusal[]): Promise<void> {
  const text = refusals.map((refusal) => `${JSON.stringify(refusal)}\n`).join('')
  const url = URL.createObjectURL(new Blob([text], { type: 'application/x-ndjson' }))
  const link = document.createElement('a')
  link.href = url
  link.download = 'refusals.ndjson'
  link.click()
  URL.revokeObjectURL(url)
}

function Meaning({ code }: { code: Code }): JSX.Element {
  return (
    <dl class="facts meaning">
      <dt>
        {code.code}
        {code.status > 0 && <span class="muted"> {code.status}</span>}
      </dt>
      <dd>{code.meaning}</dd>
      <dt>what to do</dt>
      <dd>{code.client_should}</dd>
    </dl>
  )
}

/** What became of the data of such requests, in words. */
function fate(code: string, isOurs: boolean): string {
  if (code === 'replayed_other_body') return 'replayed: these events are not stored'
  if (isOurs) return 'refused by us: the client keeps it and tries again'
  return 'refused: the client still has it'
}

function Groups({ groups, isFiltered }: { groups: readonly RefusalGroup[]; isFiltered: boolean }): JSX.Element {
  const { codes } = useLive()
  const [showsAll, setShowsAll] = useState(false)
  if (groups.length === 0) {
    if (isFiltered) return <Empty title="Nothing that fits was refused in the last hour." />
    return <Empty title="Nothing was refused in the last hour.">{<p class="ok">Every request was taken.</p>}</Empty>
  }
  const shown = showsAll ? groups : groups.slice(0, FIRST_GROUPS)
  return (
    <>
      <ul class="groups">
        {shown.map((group) => {
          const { app_id: app, code, path, sdk_version: sdk } = group
          return (
            <li key={JSON.stringify([app, code, path, sdk])}>
              <div class="what">
                <CodeName code={code} app={app ?? '-'} />
                <span class="muted small">{fate(code, whoseOf(codes, code) === 'ours')}</span>
              </div>
              <div class="what">
                <a href={urlTo('/refused', { app: app ?? '-' })} class={app === null ? 'muted' : 'app'}>
                  {app ?? 'no known app'}
                </a>
                <span class="muted small">{sdk === null ? 'SDK not known' : `SDK ${sdk}`}</span>
              </div>
              <p class="path mono">{path}</p>
              <Spark cells={group.per_minute} label={`${code}: by minute, the last hour`} />
              <p class="number">
                <strong>{count(group.count)}</strong>
                <span class="muted">
                  <Time at={group.first_at} /> – <Time at={group.last_at} />
                </span>
              </p>
            </li>
          )
        })}
      </ul>
      {groups.length > FIRST_GROUPS && (
        <button type="button" class="button" onClick={() => setShowsAll(!showsAll)}>
          {showsAll ? 'fewer' : `all ${many(groups.length, 'group')}`}
        </button>
      )}
    </>
  )
}

function Newest({ refusals }: { refusals: readonly Refusal[] }): JSX.Element {
  const isNarrow = useMedia('(max-width: 900px)')
  return (
    <section aria-labelledby="newest">
      <h2 id="newest">
        Newest <span class="muted">{count(refusals.length)}</span>
      </h2>
      <Rows
        items={refusals}
        rowHeight={isNarrow ? 92 : 32}
        label="Refusals, newest first"
        keyOf={({ request_id }) => request_id}
        render={(refusal) => <RefusalRow refusal={refusal} />}
      />
    </section>
  )
}

function RefusalRow({ refusal }: { refusal: Refusal }): JSX.Element {
  const { app_id: app, code, path, message, sdk_version: sdk } = refusal
  const words = path !== null && message.startsWith(path) ? message : [path, message].filter(Boolean).join(': ')
  const explain = urlTo('/explain', { path, code })
  return (
    <div class="refusal-row">
      <Time at={refusal.time} as="ms" />
      <CodeName code={code} app={app} />
      <span class={app === null ? 'muted app' : 'app'}>{app ?? 'no known app'}</span>
      <span class="message" title={words}>
        {path === null ? (
          words
        ) : (
          <a href={explain} title={`${words} (explain a body)`}>
            {words}
          </a>
        )}
      </span>
      <span class="muted sdk">{sdk}</span>
      <span class="muted node">{refusal.node}</span>
      <Copy text={refusal.request_id}>{refusal.request_id.slice(-8)}</Copy>
    </div>
  )
}

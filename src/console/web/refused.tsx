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
import { isAimedAt, Rows } from './rows.tsx'
import { useStream } from './stream.ts'
import { CodeName, Copy, Empty, Fact, Problem, Time, useMedia } from './ui.tsx'

const KEYS = ['app', 'code', 'request_id'] as const
const GROUPS_EVERY_MS = 5000
/** As many as a process keeps. */
const MAX_REFUSALS = 1000
const FIRST_GROUPS = 12
const MAX_SDKS = 3

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
  const requestId = filter['request_id'] ?? null
  const { refusals, fresh, take, isRead, why } = useRefusals(path, urlTo('/api/refusals/stream', filter), requestId)
  const values = useMemo(() => ({ app: ['-', ...appsOf(groups ?? [])], code: [...codes.keys()] }), [groups, codes])
  const code = codes.get(filter['code'] ?? '')
  return (
    <>
      <div class="bar-line">
        <FilterBox
          path="/refused"
          query={query}
          keys={KEYS}
          example="app:shop code:validation_failed, or an X-Request-Id"
          values={values}
        />
        <button type="button" class="button" onClick={() => void download(refusals)} disabled={refusals.length === 0}>
          download NDJSON
        </button>
      </div>
      <Problem why={asked.why ?? why} />
      {code !== undefined && <Meaning code={code} />}
      {requestId === null && (
        <section aria-labelledby="groups">
          <h2 id="groups">In the last hour</h2>
          {groups !== undefined && <Groups groups={groups} isFiltered={Object.keys(filter).length > 0} />}
        </section>
      )}
      {refusals.length > 0 && <Newest refusals={refusals} fresh={fresh} onFresh={take} />}
      {requestId !== null && isRead && refusals.length === 0 && (
        <Empty title="No refusal with this X-Request-Id is known.">
          <p>
            The service knows the newest ones only. If it is an X-Batch-Id:{' '}
            <a href={urlTo('/batch', { id: requestId })}>look for the batch</a>
          </p>
        </Empty>
      )}
    </>
  )
}

function appsOf(groups: readonly RefusalGroup[]): string[] {
  return [...new Set(groups.map(({ app_id }) => app_id).filter((app) => app !== null))]
}

/** What is known, then what comes. Each once, since both may have the same one. */
function useRefusals(path: string, streamPath: string, requestId: string | null) {
  const [isRead, setRead] = useState(false)
  const [refusals, setRefusals] = useState<readonly Refusal[]>([])
  const [why, setWhy] = useState<string | null>(null)
  const waiting = useRef<Refusal[]>([])
  /** How many wait while the list does not move. */
  const [fresh, setFresh] = useState(0)
  const add = (more: readonly Refusal[]): void =>
    setRefusals((last) => {
      const all = new Map([...more, ...last].map((one) => [one.request_id, one]))
      return [...all.values()].toSorted((one, other) => (one.time < other.time ? 1 : -1)).slice(0, MAX_REFUSALS)
    })
  const connection = useStream(streamPath, (name, data) => {
    const refusal = data as Refusal
    if (name !== 'refusal' || (requestId !== null && refusal.request_id !== requestId)) return
    if (waiting.current.push(refusal) > MAX_REFUSALS) waiting.current.shift()
  })
  const take = (): void => {
    add(waiting.current.splice(0))
    setFresh(0)
  }
  useEffect(() => {
    const timer = setInterval(() => {
      if (isAimedAt()) setFresh(waiting.current.length)
      else if (waiting.current.length > 0) take()
    }, 500)
    return () => clearInterval(timer)
  }, [])
  // Again after a lost connection: what came meanwhile is only in the list.
  useEffect(() => {
    if (connection.kind !== 'open') return
    const load = async (): Promise<void> => {
      const answer = await ask<Refusals>(path)
      if (answer.kind === 'ok') add(answer.value.refusals)
      setRead(answer.kind === 'ok')
      setWhy(answer.kind === 'ok' ? null : answer.why)
    }
    void load()
  }, [path, connection.kind])
  return { refusals, fresh, take, isRead, why: connection.kind === 'lost' ? connection.why : why }
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
      <Fact name="what to do">{code.client_should}</Fact>
    </dl>
  )
}

/** What became of the data of such requests, in words. Whether the client keeps it cannot be known here. */
function fate(code: string, isOurs: boolean): string {
  if (code === 'replayed_other_body') return 'replayed: these events are not stored'
  return isOurs ? 'refused by us, not stored' : 'not stored'
}

function sdkWords(versions: RefusalGroup['sdk_versions']): string {
  const sdks = versions.map((version) => version ?? 'not known')
  return `SDK ${sdks.slice(0, MAX_SDKS).join(', ')}${sdks.length > MAX_SDKS ? ` and ${sdks.length - MAX_SDKS} more` : ''}`
}

function Groups({ groups, isFiltered }: { groups: readonly RefusalGroup[]; isFiltered: boolean }): JSX.Element {
  const { codes, reasons } = useLive()
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
          const { app_id: app, code, reason, origin, path, sdk_versions: sdks } = group
          const known = reasons.get(reason ?? '')
          return (
            <li key={JSON.stringify([app, code, reason, origin, path])}>
              <div class="what">
                <CodeName code={code} app={app ?? '-'} />
                {reason !== null && <span class="mono">{reason}</span>}
                <span class="muted small">{fate(code, whoseOf(codes, code) === 'ours')}</span>
              </div>
              <div class="what">
                <a href={urlTo('/refused', { app: app ?? '-' })} class={app === null ? 'muted' : 'app'}>
                  {app ?? 'no known app'}
                </a>
                <span class="muted small">{sdkWords(sdks)}</span>
              </div>
              {known === undefined ? (
                <p class="path mono">
                  {origin === null ? path : `${origin}: name it in SLUICE_CORS_ORIGINS if its pages may send`}
                </p>
              ) : (
                <p class="path">
                  {known.happened}; {known.todo}
                </p>
              )}
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

type NewestProps = { refusals: readonly Refusal[]; fresh: number; onFresh: () => void }

function Newest({ refusals, fresh, onFresh }: NewestProps): JSX.Element {
  const isNarrow = useMedia('(max-width: 900px)')
  return (
    <section aria-labelledby="newest">
      <h2 id="newest">
        Newest <span class="muted">{count(refusals.length)}</span>{' '}
        {/* Its place is there before it is, or it would move the list. */}
        <button type="button" class="button" onClick={onFresh} style={{ visibility: fresh > 0 ? 'visible' : 'hidden' }}>
          {count(fresh)} new
        </button>
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

export function RefusalRow({ refusal }: { refusal: Refusal }): JSX.Element {
  const { reasons } = useLive()
  const { app_id: app, code, reason, path, message, sdk_version: sdk } = refusal
  const what = reasons.get(reason ?? '')?.happened ?? message
  const words = path !== null && message.startsWith(path) ? message : [reason ?? path, what].filter(Boolean).join(': ')
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

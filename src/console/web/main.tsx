// The frame of the console: views, the state in words, and the token where one is wanted.

import { type JSX, render } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { ask, onLocked } from './api.ts'
import type { Session } from './api-types.ts'
import { Apps } from './apps.tsx'
import { Batch } from './batch.tsx'
import { Events } from './events.tsx'
import { Explain } from './explain.tsx'
import { many, utc } from './format.ts'
import { type Live, LiveContext, stateText, useLive, useLiveSource } from './live.tsx'
import { Now } from './now.tsx'
import { Refused } from './refused.tsx'
import { followLinks, useRoute, VIEWS } from './route.ts'
import { Search, SearchBox } from './search.tsx'
import './style.css'
import { TokenForm } from './token-form.tsx'
import { Dot, Empty, STATE_TONES } from './ui.tsx'

const PAGES: Readonly<Record<string, (props: { query: URLSearchParams }) => JSX.Element>> = {
  '/': Now,
  '/events': Events,
  '/refused': Refused,
  '/batch': Batch,
  '/apps': Apps,
  '/explain': Explain,
  '/search': Search,
}

function Console(): JSX.Element | null {
  const [session, setSession] = useState<Session | null>(null)
  const [why, setWhy] = useState<string | null>(null)
  const look = async (): Promise<void> => {
    const answer = await ask<Session>('/api/session')
    if (answer.kind === 'ok') setSession(answer.value)
    setWhy(answer.kind === 'ok' ? null : answer.why)
  }
  useEffect(() => void look(), [])
  useEffect(() => onLocked(() => setSession({ token_wanted: true, open: false })), [])
  if (session?.open) return <Opened session={session} onLeft={() => void look()} />
  if (session !== null) return <TokenForm onOpened={() => void look()} />
  return why === null ? null : (
    <main class="alone">
      <h1>sluice</h1>
      <p role="alert">{why}</p>
      <button type="button" class="button" onClick={() => void look()}>
        try again
      </button>
    </main>
  )
}

function Opened({ session, onLeft }: { session: Session; onLeft: () => void }): JSX.Element {
  const live = useLiveSource()
  const { path, query } = useRoute()
  const name = path === '/search' ? 'Search' : VIEWS.find(([view]) => view === path)?.[1]
  const Page = PAGES[path]
  const isLost = live.connection.kind === 'lost'
  const heading = useRef<HTMLHeadingElement>(null)
  const isFirst = useRef(true)
  // Before the next key: later it would take the focus away from where that led.
  useLayoutEffect(() => {
    document.title = name === undefined ? 'sluice' : `${name} · sluice`
    // After a link to another view a screen reader goes on there.
    if (!isFirst.current) heading.current?.focus({ preventScroll: true })
    isFirst.current = false
  }, [name])
  const leave = (): void => void ask('/api/session', { method: 'DELETE' }).then(onLeft)
  return (
    <LiveContext.Provider value={live}>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <header class="top">
        <a class="brand" href="/">
          sluice
        </a>
        <nav aria-label="Views">
          {VIEWS.map(([view, label]) => (
            <a key={view} href={view} aria-current={view === path ? 'page' : undefined}>
              {label}
            </a>
          ))}
        </nav>
        <SearchBox />
        <StateLine live={live} />
        {session.token_wanted && (
          <button type="button" class="button quiet" onClick={leave}>
            sign out
          </button>
        )}
      </header>
      <Lost />
      <main id="main" tabIndex={-1} class={isLost ? 'old' : undefined}>
        <h1 ref={heading} tabIndex={-1} class="hidden">
          {name ?? 'Not found'}
        </h1>
        {Page === undefined ? (
          <Empty title="There is no such page.">
            <a href="/">Now</a>
          </Empty>
        ) : (
          <Page query={query} />
        )}
      </main>
    </LiveContext.Provider>
  )
}

/** One state in words, at the right of the top line. */
function StateLine({ live: { now, connection, codes } }: { live: Live }): JSX.Element {
  const isLost = connection.kind === 'lost'
  const answering = now?.nodes.filter(({ state }) => state !== 'silent').length ?? 0
  const silent = (now?.nodes.length ?? 0) - answering
  const words = isLost ? 'No connection' : now === null ? 'Connecting' : stateText(now, codes)
  return (
    <div class="state">
      <Dot tone={isLost || now === null ? 'unknown' : STATE_TONES[now.state]} />
      <span class="words" title={words}>
        {words}
      </span>
      {/* A screen reader reads it out when it changes, as the words may each second. */}
      <span class="hidden" role="status">
        {isLost ? 'No connection' : now?.state}
      </span>
      {now !== null && (
        <>
          <span class="nodes">
            {many(answering, 'node')}
            {silent > 0 && `, ${silent} silent`}
          </span>
          <time dateTime={now.time} title={new Date(now.time).toLocaleString()}>
            {utc(now.time, 'time')} UTC
          </time>
        </>
      )}
    </div>
  )
}

function Lost(): JSX.Element | null {
  const { connection, now } = useLive()
  const [, setTick] = useState(0)
  const isLost = connection.kind === 'lost'
  useEffect(() => {
    if (!isLost) return
    const timer = setInterval(() => setTick((tick) => tick + 1), 1000)
    return () => clearInterval(timer)
  }, [isLost])
  if (!isLost) return null
  const leftSeconds = Math.max(0, Math.ceil((connection.retryAtMs - Date.now()) / 1000))
  const since = `since ${utc(connection.sinceMs, 'time')} UTC`
  return (
    <div class="lost">
      <p role="alert">
        <strong>No connection to this node {since}.</strong> {connection.why}
      </p>
      <p>
        {now !== null && `What you see is old: it is of ${utc(now.time, 'time')} UTC. `}
        {leftSeconds === 0 ? 'Trying again now.' : `Trying again in ${leftSeconds} s.`}
      </p>
    </div>
  )
}

followLinks()
const root = document.getElementById('console')
if (root === null) throw new Error('the page has no place for the console')
render(<Console />, root)

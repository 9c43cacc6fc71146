// Which pages there are, and who may see them: the console, or the portal of one app where the session says so.

import { type JSX, render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { ask, onLocked } from './api.ts'
import type { PortalSession, Session } from './api-types.ts'
import { type Live, LiveContext, useLiveSource, usePortalSource } from './live.tsx'
import { OneApp } from './pages/app.tsx'
import { Apps } from './pages/apps.tsx'
import { Batch } from './pages/batch.tsx'
import { Events } from './pages/events.tsx'
import { Explain } from './pages/explain.tsx'
import { Now } from './pages/now.tsx'
import { Overview } from './pages/overview.tsx'
import { Refused } from './pages/refused.tsx'
import { Search } from './pages/search.tsx'
import { SignIn, Unreachable } from './pages/sign-in.tsx'
import { Shell } from './parts/shell.tsx'
import { followLinks, PORTAL_VIEWS, useRoute, VIEWS } from './route.ts'
import './style.css'
import { Button, Empty } from './parts/ui.tsx'

type Page = (props: { query: URLSearchParams }) => JSX.Element

const SHARED: Readonly<Record<string, Page>> = {
  '/events': Events,
  '/refused': Refused,
  '/batch': Batch,
  '/explain': Explain,
}
const PAGES: Readonly<Record<string, Page>> = { ...SHARED, '/': Now, '/apps': Apps, '/app': OneApp, '/search': Search }
const PORTAL_PAGES: Readonly<Record<string, Page>> = { ...SHARED, '/': Overview }
/** Of pages that the sidebar does not name. */
const NAMES: Readonly<Record<string, string>> = { '/search': 'Search', '/app': 'App' }

function Root(): JSX.Element | null {
  const [session, setSession] = useState<Session | PortalSession | 'closed portal' | null>(null)
  const [why, setWhy] = useState<string | null>(null)
  const look = async (): Promise<void> => {
    const answer = await ask<Session | PortalSession>('/api/session')
    // The portal says nothing to who has no key, not even that it is one.
    const isClosed = answer.kind === 'failed' && answer.error === 'key_wanted'
    if (answer.kind === 'ok') setSession(answer.value)
    if (isClosed) setSession('closed portal')
    setWhy(answer.kind === 'ok' || isClosed ? null : answer.why)
  }
  useEffect(() => void look(), [])
  useEffect(() => onLocked(() => setSession(closed)), [])
  if (session === null) return why === null ? null : <Unreachable why={why} onAgain={() => void look()} />
  const open = (): void => void look()
  const leave = (): void => void ask('/api/session', { method: 'DELETE' }).then(look)
  if (session === 'closed portal') return <SignIn isPortal onOpened={open} />
  if ('app' in session) return <Portal portal={session} onLeave={leave} />
  if (!session.open) return <SignIn isPortal={false} onOpened={open} />
  return <Console onLeave={session.token_wanted ? leave : null} />
}

function closed(last: Session | PortalSession | 'closed portal' | null): Session | 'closed portal' {
  const isPortal = last === 'closed portal' || (last !== null && 'app' in last)
  return isPortal ? 'closed portal' : { token_wanted: true, open: false }
}

/** null: nobody has to sign in. */
type Leave = (() => void) | null

function Console({ onLeave }: { onLeave: Leave }): JSX.Element {
  return <Opened live={useLiveSource()} onLeave={onLeave} />
}

function Portal({ portal, onLeave }: { portal: PortalSession; onLeave: Leave }): JSX.Element {
  return <Opened live={usePortalSource(portal)} onLeave={onLeave} />
}

function Opened({ live, onLeave }: { live: Live; onLeave: Leave }): JSX.Element {
  const { path, query } = useRoute()
  const isPortal = live.portal !== null
  const views = isPortal ? PORTAL_VIEWS : VIEWS
  const Page: Page | undefined = (isPortal ? PORTAL_PAGES : PAGES)[path]
  const name =
    views.find((view) => view.path === path)?.name ??
    (Page === undefined ? 'Not found' : (query.get('id') ?? NAMES[path]))
  return (
    <LiveContext.Provider value={live}>
      <Shell views={views} path={path} name={name} onLeave={onLeave}>
        {Page === undefined ? (
          <Empty icon="find" title="There is no such page.">
            <p>The address may be of another version, or was cut.</p>
            <Button href="/" text={`Go to ${views[0].name}`} />
          </Empty>
        ) : (
          <Page query={query} />
        )}
      </Shell>
    </LiveContext.Provider>
  )
}

followLinks()
const root = document.getElementById('console')
if (root === null) throw new Error('the page has no place for the console')
render(<Root />, root)

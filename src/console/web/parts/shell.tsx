// The frame of every page: sidebar, state, what is said above all, and the keys that hold everywhere.

import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { exactly, many, rate, span, utc } from '../format.ts'
import { useKeys } from '../keys.ts'
import { type Live, perSecondOf, rejectedPerSecond, SOME_PER_SECOND, stateOf, useLive } from '../live.tsx'
import { go, urlTo, type View } from '../route.ts'
import { tryNow } from '../stream.ts'
import { Icon, Mark } from './icons.tsx'
import { Palette } from './palette.tsx'
import { useRowKeys } from './rows.tsx'
import { Button, Dialog, Dot, hueOf, Note, vars } from './ui.tsx'

const G_MS = 1500
const THEMES = ['system', 'light', 'dark'] as const
const THEME = 'sluice-theme'
/** What is shown is of before. */
const OLD = { filter: 'grayscale(0.8)' }

export interface ShellProps {
  readonly views: readonly View[]
  readonly path: string
  /** Of the page. */
  readonly name: string
  /** null: nobody has to sign in. */
  readonly onLeave: (() => void) | null
  readonly children: ComponentChildren
}

export function Shell({ views, path, name, onLeave, children }: ShellProps): JSX.Element {
  const live = useLive()
  const [above, setAbove] = useState<'find' | 'keys' | null>(null)
  const heading = useRef<HTMLHeadingElement>(null)
  const isFirst = useRef(true)
  // Before the next key: later it would take the focus away from where that led.
  useLayoutEffect(() => {
    document.title = `${name} · ${live.portal?.app.name ?? live.portal?.app.app_id ?? 'sluice'}`
    // After a link to another page a screen reader goes on there.
    if (!isFirst.current) heading.current?.focus({ preventScroll: true })
    isFirst.current = false
  }, [name])
  usePageKeys(views, setAbove)
  return (
    <div class="shell">
      <a class="reader skip" href="#main">
        Skip to the content
      </a>
      <aside class="side">
        <Brand live={live} />
        <button type="button" class="button" aria-keyshortcuts="/ Control+K Meta+K" onClick={() => setAbove('find')}>
          <Icon name="find" />
          <span class="word dim">Find any id</span>
          <kbd class="word push">/</kbd>
        </button>
        <nav aria-label="Pages">
          {views.map(({ path: view, name: label, icon }) => (
            <a
              key={view}
              class="button bare"
              href={view}
              aria-current={view === path || (view === '/apps' && path === '/app') ? 'page' : undefined}
            >
              <Icon name={icon} />
              <span class="word">{label}</span>
              {view === '/refused' && <RefusedRate live={live} />}
            </a>
          ))}
        </nav>
        <Foot live={live} onLeave={onLeave} />
      </aside>
      <div>
        <Top live={live} onFind={() => setAbove('find')}>
          <h1 ref={heading} tabIndex={-1} class="cut">
            {name}
          </h1>
        </Top>
        <Lost />
        <main id="main" tabIndex={-1} style={live.connection.kind === 'lost' ? OLD : {}}>
          {children}
        </main>
      </div>
      {above === 'find' && <Palette views={views} onClose={() => setAbove(null)} />}
      {above === 'keys' && <KeyHelp views={views} onClose={() => setAbove(null)} />}
    </div>
  )
}

function Brand({ live: { portal } }: { live: Live }): JSX.Element {
  return (
    <a class="brand row" href="/">
      {portal === null ? (
        <>
          <Mark />
          <span class="word">sluice</span>
        </>
      ) : (
        <Badge id={portal.app.app_id} name={portal.app.name ?? portal.app.app_id} />
      )}
    </a>
  )
}

/** Of an app: its first letter on its hue. */
function Badge({ id, name }: { id: string; name: string }): JSX.Element {
  return (
    <span class="app" style={vars({ hue: hueOf(id) })}>
      <svg width="28" height="28" viewBox="0 0 28 28" aria-hidden="true">
        <rect width="28" height="28" rx="6" fill="oklch(50% 0.14 calc(var(--hue) * 30deg + 20deg))" />
        <text x="14" y="19.5" text-anchor="middle" fill="#fff">
          {(name || id).slice(0, 1).toUpperCase()}
        </text>
      </svg>
      <span class="cut word">{name}</span>
    </span>
  )
}

function RefusedRate({ live: { now } }: { live: Live }): JSX.Element | null {
  const ours = now === null ? 0 : perSecondOf(now, 'fail')
  const perSecond = now === null ? 0 : rejectedPerSecond(now) + ours
  if (perSecond < SOME_PER_SECOND) return null
  const tone = ours < SOME_PER_SECOND ? 'dim' : 'said fail'
  return <span class={`word wide push t12 ${tone}`}>{rate(perSecond)}/s</span>
}

function Foot({ live, onLeave }: { live: Live; onLeave: (() => void) | null }): JSX.Element {
  const { now, portal } = live
  const answering = now?.nodes.filter(({ state }) => state !== 'silent') ?? []
  const silent = (now?.nodes.length ?? 0) - answering.length
  const [theme, setTheme] = useTheme()
  return (
    <div class="foot stack t12" style={{ '--gap': '2px' }}>
      {now !== null && (
        <span class="row button small bare">
          <Dot tone={silent > 0 ? 'near' : stateOf(live).tone} />
          {many(answering.length, 'node')}
          {silent > 0 ? `, ${silent} silent` : ` · version ${answering[0]?.version ?? ''}`}
        </span>
      )}
      {portal !== null && (
        <span class="row button small bare">
          <Icon name="user" />
          Read key {portal.key.name}
        </span>
      )}
      <Button kind="small bare" icon="theme" text={`Theme: ${theme}`} onClick={setTheme} />
      {onLeave !== null && <Button kind="small bare" icon="leave" text="Sign out" onClick={onLeave} />}
      {portal !== null && <span class="row button small bare">Ingestion by sluice</span>}
    </div>
  )
}

function useTheme(): readonly [string, () => void] {
  const [theme, setTheme] = useState(() => localStorage.getItem(THEME) ?? 'system')
  useLayoutEffect(() => {
    document.documentElement.style.colorScheme = theme === 'system' ? '' : theme
    localStorage.setItem(THEME, theme)
  }, [theme])
  return [theme, () => setTheme(THEMES[(THEMES.findIndex((one) => one === theme) + 1) % THEMES.length])]
}

/** The state as one word, at the right of each page. */
function Top({ live, onFind, children }: { live: Live; onFind: () => void; children: ComponentChildren }) {
  const { tone, word, why } = stateOf(live)
  const time = new Date(live.nowMs).toISOString()
  return (
    <header class="top row">
      <a class="brand row narrow" href="/" aria-label="First page">
        {live.portal === null ? <Mark /> : <Badge id={live.portal.app.app_id} name="" />}
      </a>
      {children}
      <a class={`pill state push ${tone}`} href="/" title={why}>
        <Dot tone={tone} live={tone === 'ok'} />
        {word}
      </a>
      {/* A screen reader reads it out when it changes. */}
      <span class="reader" role="status">
        {word}
      </span>
      <time class="dim wide number" dateTime={time} title={exactly(time)}>
        {utc(live.nowMs, 'time')} UTC
      </time>
      <Button kind="bare narrow" icon="find" aria-label="Find any id" onClick={onFind} />
    </header>
  )
}

function Lost(): JSX.Element | null {
  const { connection, now } = useLive()
  if (connection.kind !== 'lost') return null
  const leftSeconds = Math.max(0, Math.ceil((connection.retryAtMs - Date.now()) / 1000))
  const name = now?.nodes.length === 1 ? now.nodes[0].node : 'this service'
  return (
    <Note>
      <p class="grow" role="alert">
        <b>
          No connection to {name} for {span(Math.max(1, Math.round((Date.now() - connection.sinceMs) / 1000)))}.
        </b>{' '}
        {connection.why} {now !== null && `What you see is from ${utc(now.time, 'time')} UTC.`}
      </p>
      <span class="dim">{leftSeconds === 0 ? 'Trying now' : `Next try in ${leftSeconds} s`}</span>
      <Button kind="small" text="Try now" onClick={tryNow} />
    </Note>
  )
}

function usePageKeys(views: readonly View[], setAbove: (above: 'find' | 'keys') => void): void {
  const gAtMs = useRef(0)
  const find = (): void => setAbove('find')
  const goTo = Object.fromEntries(
    views.map(({ path, key }) => [
      key,
      () => {
        if (Date.now() - gAtMs.current < G_MS) go(urlTo(path))
      },
    ]),
  )
  useRowKeys()
  useKeys({
    ...goTo,
    g: () => {
      gAtMs.current = Date.now()
    },
    '/': find,
    'command-k': find,
    '?': () => setAbove('keys'),
    f: () => document.querySelector<HTMLInputElement>('main .field input')?.focus(),
  })
}

function KeyHelp({ views, onClose }: { views: readonly View[]; onClose: () => void }): JSX.Element {
  const keys: readonly (readonly [string, string])[] = [
    ['/ or ⌘K', 'Find any id'],
    ['j k', 'Next row, row before'],
    ['enter', 'Open'],
    ['esc', 'Close, then clear the filter'],
    ['space', 'Pause, resume'],
    ['f', 'Filter'],
    ...views.map(({ key, name }) => [`g ${key}`, name] as const),
  ]
  useEffect(() => {
    const close = (event: KeyboardEvent): void => {
      if (event.key === '?') onClose()
    }
    document.addEventListener('keydown', close)
    return () => document.removeEventListener('keydown', close)
  }, [])
  return (
    <Dialog label="Keys" onClose={onClose}>
      <header>
        <h2>Keys</h2>
        <kbd class="push">esc</kbd>
      </header>
      <dl class="facts body">
        {keys.map(([key, words]) => [
          <dt key={key} class="dim">
            {key.split(' ').map((one) => (one === 'or' ? ' or ' : <kbd key={one}>{one}</kbd>))}
          </dt>,
          <dd key={words}>{words}</dd>,
        ])}
      </dl>
    </Dialog>
  )
}

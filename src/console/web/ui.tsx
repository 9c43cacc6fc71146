// Small pieces that several views use. Text is always set as text.

import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { useAsk } from './api.ts'
import type { Example, NodeLine } from './api-types.ts'
import { curlOf } from './event-text.ts'
import { localTime, utc } from './format.ts'
import { useLive, whoseOf } from './live.tsx'
import { urlTo } from './route.ts'

const SAID_MS = 1500

export function Time({ at, as = 'time' }: { at: string; as?: 'time' | 'ms' | 'date' }): JSX.Element {
  const timeMs = Date.parse(at)
  return (
    <time dateTime={at} title={Number.isNaN(timeMs) ? '' : `${localTime(timeMs)} local time`}>
      {utc(at, as)}
    </time>
  )
}

/** Pages over plain HTTP have no clipboard of their own unless they come from loopback. */
async function copy(text: string): Promise<void> {
  if (isSecureContext) return await navigator.clipboard.writeText(text)
  const area = document.createElement('textarea')
  area.value = text
  document.body.append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}

/** `text`: what is copied. The label says for a moment that it was. */
export function Copy({ text, label, children }: { text: string; label?: string; children?: ComponentChildren }) {
  const [said, setSaid] = useState('')
  useEffect(() => {
    if (said === '') return
    const timer = setTimeout(() => setSaid(''), SAID_MS)
    return () => clearTimeout(timer)
  }, [said])
  const run = (): void =>
    void copy(text).then(
      () => setSaid('copied'),
      () => setSaid('not copied'),
    )
  const isId = children !== undefined
  return (
    <button type="button" class={isId ? 'id' : 'button'} title={isId ? `Copy ${text}` : undefined} onClick={run}>
      <span>{isId ? children : said || label}</span>
      {isId && said !== '' && <span class="said">{said}</span>}
      <span class="hidden" role="status">
        {said}
      </span>
    </button>
  )
}

/** Of a list of facts; nothing where there is none. */
export function Fact({ name, children }: { name: string; children: ComponentChildren }): JSX.Element | null {
  return children ? (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  ) : null
}

/** Of an input for ids and the like, which no browser may correct. */
export const AS_TYPED = { spellcheck: false, autocapitalize: 'off', autocomplete: 'off' } as const

/** A dot with a word beside it: no colour speaks alone. */
export function Dot({ tone }: { tone: Tone }): JSX.Element {
  return <span class={`dot ${tone}`} aria-hidden="true" />
}

export type Tone = 'ok' | 'warn' | 'fail' | 'client' | 'unknown'

export const STATE_TONES: Readonly<Record<NodeLine['state'], Tone>> = {
  starting: 'warn',
  serving: 'ok',
  degraded: 'warn',
  refusing: 'fail',
  stopping: 'warn',
  silent: 'fail',
}

/** A code, in red only where it is us who fail. */
export function CodeName({ code, app }: { code: string; app?: string | null | undefined }): JSX.Element {
  const { codes } = useLive()
  const meaning = codes.get(code)
  return (
    <a
      class={whoseOf(codes, code) === 'ours' ? 'code fail' : 'code client'}
      href={urlTo('/refused', { app, code })}
      title={meaning ? `${meaning.meaning} ${meaning.client_should}` : undefined}
    >
      {code}
    </a>
  )
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <p class="title">{title}</p>
      {children}
    </div>
  )
}

export function Problem({ why }: { why: string | null }): JSX.Element | null {
  return why === null ? null : (
    <p class="problem" role="alert">
      {why}
    </p>
  )
}

/** Where to send an event, by the name under which this page was reached, and with which key. */
export function useExample(): { readonly url: string; readonly key: string | null } {
  const { port = 8080, tls = false, app_key: key = null } = useAsk<Example>('/api/example').value ?? {}
  return { url: `${tls ? 'https' : 'http'}://${location.hostname}:${port}`, key }
}

const EXAMPLE = {
  type: 'track',
  name: 'hello',
  hashed_daily_id: 'demo-daily-0123456789',
  hashed_monthly_id: 'demo-monthly-0123456789',
  session_id: 'demo',
  timestamp: 'NOW',
  context: { os: 'demo' },
}

export function TryIt(): JSX.Element {
  const { url, key } = useExample()
  const curl = curlOf(url, key, EXAMPLE).replace('NOW', `'"$(date -u +%Y-%m-%dT%H:%M:%SZ)"'`)
  return (
    <>
      <p>
        Send one
        {key === null && (
          <>
            , with an app&rsquo;s key in place of <code>YOUR_APP_KEY</code>: <code>sluice apps list</code> shows the
            keys
          </>
        )}
        :
      </p>
      <pre class="sample" tabIndex={0} aria-label="A curl line that sends an event">
        {curl}
      </pre>
      <Copy text={curl} label="copy" />
    </>
  )
}

/** Whether a media query holds. */
export function useMedia(query: string): boolean {
  const [holds, setHolds] = useState(() => matchMedia(query).matches)
  useEffect(() => {
    const list = matchMedia(query)
    const update = (): void => setHolds(list.matches)
    update()
    list.addEventListener('change', update)
    return () => list.removeEventListener('change', update)
  }, [query])
  return holds
}

// Small pieces that several views use. Text is always set as text.

import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { localTime, utcDateTime, utcTime, utcTimeMs } from './format.ts'
import { useLive, whoseOf } from './live.tsx'
import { urlTo } from './route.ts'

const SAID_MS = 1500

export function Time({ at, as = 'time' }: { at: string; as?: 'time' | 'ms' | 'date' }): JSX.Element {
  const timeMs = Date.parse(at)
  const format = { time: utcTime, ms: utcTimeMs, date: utcDateTime }[as]
  return (
    <time dateTime={at} title={Number.isNaN(timeMs) ? '' : `${localTime(timeMs)} local time`}>
      {format(timeMs)}
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

/** A dot with a word beside it: no colour speaks alone. */
export function Dot({ tone }: { tone: Tone }): JSX.Element {
  return <span class={`dot ${tone}`} aria-hidden="true" />
}

export type Tone = 'ok' | 'warn' | 'fail' | 'client' | 'unknown'

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

const CURL = `curl -i http://localhost:8080/api/v1/events -H 'Content-Type: application/json' -d '{"app_key":"ak_demo_…","events":[{"type":"track","name":"hello","hashed_daily_id":"demo-daily-0123456789","hashed_monthly_id":"demo-monthly-0123456789","session_id":"demo","timestamp":"'"$(date -u +%Y-%m-%dT%H:%M:%SZ)"'","context":{"os":"demo"}}]}'`

export function TryIt(): JSX.Element {
  return (
    <>
      <p>
        Send one, with an app&rsquo;s key in place of <code>ak_demo_…</code>: <code>sluice apps list</code> shows the
        keys. Another port than 8080 is the one that <code>PORT</code> names.
      </p>
      <pre class="sample" tabIndex={0} aria-label="A curl line that sends an event">
        {CURL}
      </pre>
      <Copy text={CURL} label="copy" />
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

// Explain: what would happen to a body now. Nothing is queued and nothing is spent.

import type { JSX } from 'preact'
import { useMemo, useRef, useState } from 'preact/hooks'
import { MAX_BODY_BYTES } from '../../../contract/bounds.ts'
import { ask, readJson } from '../api.ts'
import type { Explained } from '../api-types.ts'
import { changeFor, meaningOf } from '../codes.ts'
import { count, limitText, many } from '../format.ts'
import { useLive } from '../live.tsx'
import { coloured } from '../parts/code.tsx'
import { AS_TYPED, Tabs } from '../parts/controls.tsx'
import { AppName, Bar, Button, Card, Empty, List, Pill, Problem, Verdict, vars } from '../parts/ui.tsx'
import { urlTo } from '../route.ts'

/** More are counted, not listed. */
const MAX_LISTED = 200

interface Result {
  readonly text: string
  readonly explained: Explained
}

export function Explain({ query }: { query: URLSearchParams }): JSX.Element {
  const [text, setText] = useState('')
  const [appKey, setAppKey] = useState('')
  const [result, setResult] = useState<Result | null>(null)
  const [why, setWhy] = useState<string | null>(null)
  const [isMarked, setMarked] = useState(false)
  const { portal } = useLive()
  const file = useRef<HTMLInputElement>(null)
  const from = query.get('path')

  const run = async (body: string): Promise<void> => {
    if (body.trim() === '') return setWhy('Paste a body, or drop a file, first.')
    if (new Blob([body]).size > MAX_BODY_BYTES) {
      return setWhy(
        `The body has more than ${count(MAX_BODY_BYTES)} bytes: it would be answered 413 payload_too_large.`,
      )
    }
    const path = urlTo('/api/explain', { app_key: appKey.trim() })
    const answer = await ask<Explained>(path, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body,
    })
    setWhy(answer.kind === 'ok' ? null : answer.why)
    setResult(answer.kind === 'ok' ? { text: body, explained: answer.value } : null)
    setMarked(answer.kind === 'ok' && answer.value.errors.some(({ start }) => start !== null))
  }
  const take = async (dropped: File | undefined): Promise<void> => {
    if (dropped === undefined) return
    if (dropped.size > MAX_BODY_BYTES) {
      return setWhy(`The file has ${count(dropped.size)} bytes; a body has at most ${count(MAX_BODY_BYTES)}.`)
    }
    const body = await dropped.text()
    setText(body)
    await run(body)
  }
  return (
    <div class="page">
      <Problem why={why} />
      <div class="grid fold" style={vars({ columns: 'minmax(0,1fr) minmax(0,1fr)', align: 'start' })}>
        <form
          class="card"
          onSubmit={(event) => {
            event.preventDefault()
            void run(text)
          }}
          onDragOver={(event) => event.preventDefault()}
          onDrop={(event) => {
            event.preventDefault()
            void take(event.dataTransfer?.files[0])
          }}
        >
          <header>
            <h2>Request body</h2>
            <span class="row push">
              {result !== null && result.text === text && (
                <Tabs
                  label="The body"
                  value={isMarked ? 'marked' : 'edit'}
                  options={[
                    ['edit', 'Edit'],
                    ['marked', 'Marked'],
                  ]}
                  onPick={(view) => setMarked(view === 'marked')}
                />
              )}
              <Button kind="small bare" text="Open a file" onClick={() => file.current?.click()} />
              <Button kind="small bare" text="Format" onClick={() => setText(formatted(text))} />
            </span>
          </header>
          <input
            ref={file}
            type="file"
            class="reader"
            tabIndex={-1}
            aria-label="A file with a body"
            onChange={(event) => void take(event.currentTarget.files?.[0])}
          />
          <div class="body stack">
            {from !== null && (
              <p class="mid">
                The refusal named <code>{from}</code>: paste the body that was refused.
              </p>
            )}
            {isMarked && result !== null && result.text === text ? (
              <Marked {...result} />
            ) : (
              <div class="code">
                <label for="body" class="reader">
                  A body as an SDK sends it: paste it, or drop a file
                </label>
                <textarea
                  id="body"
                  value={text}
                  rows={26}
                  spellcheck={false}
                  placeholder={'Paste a body, or drop a file: {"app_key":"ak_…","events":[…]}'}
                  onInput={(event) => {
                    setText(event.currentTarget.value)
                    setMarked(false)
                  }}
                  onKeyDown={(event) => {
                    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void run(text)
                  }}
                />
              </div>
            )}
            <div class="row wrap">
              <Button type="submit" kind="solid" text="Explain" />
              {portal === null && (
                <span class="field" style={{ flex: '0 1 200px' }}>
                  <label for="app-key" class="dim">
                    as app key
                  </label>
                  <input
                    id="app-key"
                    value={appKey}
                    placeholder="the body’s own"
                    {...AS_TYPED}
                    onInput={(event) => setAppKey(event.currentTarget.value)}
                  />
                </span>
              )}
              <span class="dim push t12">Dry run: nothing is stored or counted.</span>
            </div>
          </div>
        </form>
        <div class="stack" style={vars({ gap: 'var(--s4)' })} aria-live="polite">
          {result === null ? <Teach /> : <Outcome {...result} />}
        </div>
      </div>
    </div>
  )
}

function formatted(text: string): string {
  try {
    return JSON.stringify(readJson(text), null, 2)
  } catch {
    return text
  }
}

function Teach(): JSX.Element {
  return (
    <Card>
      <Empty icon="explain" title="What would be answered?">
        <p>Paste a body as an SDK sends it. Every member that does not fit is named, and marked in the body.</p>
      </Empty>
    </Card>
  )
}

function Outcome({ text, explained }: Result): JSX.Element {
  const { portal } = useLive()
  const { code, reason, message, errors, limits, app, events } = explained
  const isAccepted = code === 'accepted'
  const tone = code === 'service_overloaded' ? 'fail' : undefined
  const [first] = errors
  const cause = { code, reason, origin: null, path: first?.path ?? null, message: first?.message ?? '' }
  const more = isAccepted ? message : changeFor(cause, portal !== null)
  const sentence = isAccepted
    ? 'Would be accepted.'
    : errors.length > 1
      ? `Would be refused: ${many(errors.length, 'member')} do not fit.`
      : `Would be refused: ${message ?? code}.`
  return (
    <>
      <Card label="What would be answered">
        <div class="body stack">
          <span class="row">
            {isAccepted ? <span class="pill ok">202</span> : <Pill code={code} />}
            <code>{code}</code>
          </span>
          <Verdict {...(tone === undefined ? {} : { tone })} more={more}>
            {sentence}
          </Verdict>
          {!isAccepted && <p class="dim">{meaningOf(code)}</p>}
        </div>
        {errors.length > 0 && <Offenders text={text} explained={explained} />}
      </Card>
      {limits !== null && (
        <Card title="What it would cost" side={app !== null && <AppName id={app.app_id} />}>
          <div class="body stack">
            {(['minute', 'day', 'month', 'bytes'] as const).map((name) => {
              const limit = limits[name]
              return limit && <Cost key={name} name={name} limit={limit} />
            })}
            <span class="mid">
              {isAccepted ? `${many(events ?? 0, 'event')} would be counted.` : 'A refused batch costs nothing.'}
            </span>
          </div>
        </Card>
      )}
    </>
  )
}

function Cost({
  name,
  limit: window,
}: {
  name: string
  limit: NonNullable<Explained['limits']>['minute']
}): JSX.Element {
  const { used, limit, tolerance_percent: tolerance } = window
  const share = limit === null ? null : limit === 0 ? 1 : used / limit
  const left =
    limit === null ? 'no limit' : `${count(Math.max(0, limit - used))} left of ${limitText(limit, tolerance)}`
  return (
    <div
      class="grid"
      style={vars({ columns: '64px minmax(0,1fr) 220px', phone: '56px minmax(0,1fr) 200px', align: 'center' })}
    >
      <span class="dim">{name}</span>
      <Bar share={share} tone={share !== null && share >= 1 ? 'near' : undefined} />
      <span class="number">{left}</span>
    </div>
  )
}

function Offenders({ text, explained: { errors } }: Result): JSX.Element {
  const lines = useMemo(() => {
    const bytes = new TextEncoder().encode(text)
    return errors.map(({ start }) => (start === null ? null : lineAt(bytes, start)))
  }, [text, errors])
  return (
    <List two columns="36px minmax(0,1fr) minmax(0,1fr)" heads={['Line', 'Member', 'What is wrong']}>
      {errors.slice(0, MAX_LISTED).map(({ path, message: wrong }, place) => (
        <div class="item" key={place}>
          <span class="dim">{lines[place]}</span>
          <code>{path}</code>
          <span>{wrong}</span>
        </div>
      ))}
    </List>
  )
}

/** From 1. */
function lineAt(bytes: Uint8Array, offset: number): number {
  let line = 1
  for (let at = 0; at < offset; at++) if (bytes[at] === 10) line += 1
  return line
}

/** The body by lines, those with an offending member marked. */
function Marked({ text, explained }: Result): JSX.Element {
  const lines = useMemo(() => linesOf(piecesOf(text, explained)), [text, explained])
  return (
    <div class="code">
      <pre class="marked" tabIndex={0} aria-label="The body, with what is wrong marked">
        {lines.map((pieces, at) => (
          <span key={at} class={pieces.some(({ wrong }) => wrong !== null) ? 'line near' : 'line'}>
            <span class="number dim" aria-hidden="true">
              {at + 1}
            </span>
            <span>
              {pieces.map(({ text: piece, wrong }, place) =>
                wrong === null ? (
                  coloured(piece)
                ) : (
                  <mark key={place} class="near" title={wrong}>
                    {piece}
                  </mark>
                ),
              )}
            </span>
          </span>
        ))}
      </pre>
    </div>
  )
}

interface Piece {
  readonly text: string
  readonly wrong: string | null
}

function linesOf(pieces: readonly Piece[]): Piece[][] {
  const lines: Piece[][] = [[]]
  for (const { text, wrong } of pieces) {
    for (const [at, part] of text.split('\n').entries()) {
      if (at > 0) lines.push([])
      if (part !== '') lines.at(-1)?.push({ text: part, wrong })
    }
  }
  return lines
}

function piecesOf(text: string, { errors }: Explained): Piece[] {
  const bytes = new TextEncoder().encode(text)
  const pieces: Piece[] = []
  let at = 0
  const add = (until: number, wrong: string | null): void => {
    if (until > at) pieces.push({ text: new TextDecoder().decode(bytes.subarray(at, until)), wrong })
    at = Math.max(at, until)
  }
  const marks = errors.flatMap(({ path, message, start, end }) =>
    start === null || end === null ? [] : [{ start, end, wrong: `${path}: ${message}` }],
  )
  for (const { start, end, wrong } of marks.toSorted((one, other) => one.start - other.start || other.end - one.end)) {
    // What lies within one that is marked already is named in the list above.
    if (start < at) continue
    add(start, null)
    add(end, wrong)
  }
  add(bytes.length, null)
  return pieces
}

// Explain: what would happen to a body now. Nothing is queued and nothing is spent.

import type { JSX } from 'preact'
import { useMemo, useRef, useState } from 'preact/hooks'
import { ask } from './api.ts'
import type { Explained } from './api-types.ts'
import { count, limitText, many } from './format.ts'
import { useLive, whoseOf } from './live.tsx'
import { urlTo } from './route.ts'
import { AS_TYPED, Dot, Fact, Problem, Time } from './ui.tsx'

const MAX_BODY_BYTES = 524_288
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
  const [isOver, setIsOver] = useState(false)
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
  }
  const take = async (dropped: File | undefined): Promise<void> => {
    setIsOver(false)
    if (dropped === undefined) return
    if (dropped.size > MAX_BODY_BYTES) {
      return setWhy(`The file has ${count(dropped.size)} bytes; a body has at most ${count(MAX_BODY_BYTES)}.`)
    }
    const body = await dropped.text()
    setText(body)
    await run(body)
  }
  return (
    <div class="explain">
      <form
        class={isOver ? 'over' : undefined}
        onSubmit={(event) => {
          event.preventDefault()
          void run(text)
        }}
        onDragOver={(event) => {
          event.preventDefault()
          setIsOver(true)
        }}
        onDragLeave={() => setIsOver(false)}
        onDrop={(event) => {
          event.preventDefault()
          void take(event.dataTransfer?.files[0])
        }}
      >
        <label for="body">A body as an SDK sends it: paste it, or drop a file</label>
        {from !== null && (
          <p class="muted">
            The refusal named <code>{from}</code>: paste the body that was refused.
          </p>
        )}
        <textarea
          id="body"
          value={text}
          rows={16}
          spellcheck={false}
          placeholder={'{"app_key":"ak_…","events":[…]}'}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) void run(text)
          }}
        />
        <div class="bar-line">
          <button type="submit" class="button primary">
            explain
          </button>
          <button type="button" class="button" onClick={() => file.current?.click()}>
            open a file
          </button>
          <input
            ref={file}
            type="file"
            class="hidden"
            tabIndex={-1}
            aria-label="A file with a body"
            onChange={(event) => void take(event.currentTarget.files?.[0])}
          />
          <label for="app-key" class="muted">
            as app key
          </label>
          <input
            id="app-key"
            value={appKey}
            placeholder="the body’s own"
            {...AS_TYPED}
            onInput={(event) => setAppKey(event.currentTarget.value)}
          />
        </div>
        <p class="muted">Dry run: nothing is stored or counted.</p>
      </form>
      <div aria-live="polite">
        <Problem why={why} />
        {result !== null && <Verdict {...result} />}
      </div>
    </div>
  )
}

function Verdict({ text, explained }: Result): JSX.Element {
  const { codes } = useLive()
  const { status, code, reason, message, errors, limits } = explained
  const isAccepted = status < 300
  const advice = codes.get(code)?.client_should
  const tone = isAccepted ? 'ok' : whoseOf(codes, code) === 'ours' ? 'fail' : 'client'
  return (
    <>
      <p class={`verdict ${tone}`}>
        <Dot tone={tone} />
        <span>
          {status} {code}
          {reason !== null && ` (${reason})`}
          {message !== null && `: ${message}`}
        </span>
      </p>
      {advice !== undefined && <p class="muted advice">{advice}</p>}
      {limits !== null && (
        <dl class="facts">
          {Object.entries(limits).map(([name, { used, limit, ends_at: endsAt, tolerance_percent: tolerance }]) => (
            <Fact key={name} name={`left of the ${name}`}>
              {limit === null
                ? 'no limit'
                : `${count(Math.max(0, limit - used))} of ${limitText(limit, tolerance)} ${limit === 1 ? 'event' : 'events'}`}
              <span class="muted">
                until <Time at={endsAt} as="date" /> UTC
              </span>
            </Fact>
          ))}
        </dl>
      )}
      {errors.length > 0 && (
        <>
          <h2>{many(errors.length, 'offending member')}</h2>
          <ol class="offenders">
            {errors.slice(0, MAX_LISTED).map(({ path, message: wrong }, place) => (
              <li key={place}>
                <code>{path}</code> {wrong}
              </li>
            ))}
          </ol>
          <Marked text={text} explained={explained} />
        </>
      )}
    </>
  )
}

/** The body with every offending member marked. */
function Marked({ text, explained }: Result): JSX.Element | null {
  const pieces = useMemo(() => piecesOf(text, explained), [text, explained])
  if (pieces.every(({ wrong }) => wrong === null)) return null
  return (
    <pre class="marked" tabIndex={0} aria-label="The body, with what is wrong marked">
      {pieces.map(({ text: piece, wrong }, place) =>
        wrong === null ? (
          piece
        ) : (
          <mark key={place} title={wrong}>
            {piece}
          </mark>
        ),
      )}
    </pre>
  )
}

function piecesOf(text: string, { errors }: Explained): { text: string; wrong: string | null }[] {
  const bytes = new TextEncoder().encode(text)
  const pieces: { text: string; wrong: string | null }[] = []
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

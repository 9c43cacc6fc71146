// Batch: where is this batch? A sentence, the line of time, and its events.

import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { useAsk } from '../api.ts'
import type { Found, NotFound, RefusalFound } from '../api-types.ts'
import { changeFor, meaningOf } from '../codes.ts'
import { capital, UUID, utc } from '../format.ts'
import { useLive } from '../live.tsx'
import { Copy, Field } from '../parts/controls.tsx'
import { AppName, Button, Card, Empty, Facts, Note, Pill, Problem, Verdict, vars } from '../parts/ui.tsx'
import { go, urlTo } from '../route.ts'
import { Stored } from './stored.tsx'

type Answer = Found | RefusalFound | NotFound

/** A batch id, or an app and an Idempotency-Key, in any of the ways that one may paste them. */
export function readQuestion(text: string): { id: string } | { app: string; key: string } | null {
  const words = text.trim().split(/\s+/)
  const bare = words.map((word) => word.replace(/^(id|batch_id|app|key):/, ''))
  if (bare.length === 1 && UUID.test(bare[0])) return { id: bare[0].toLowerCase() }
  if (bare.length === 2 && bare[0] !== '' && UUID.test(bare[1])) return { app: bare[0], key: bare[1].toLowerCase() }
  return null
}

export function Batch({ query }: { query: URLSearchParams }): JSX.Element {
  const { portal } = useLive()
  const [id, app, key] = ['id', 'app', 'key'].map((name) => query.get(name))
  const times = { since: query.get('since'), before: query.get('before') }
  const byKey = portal === null ? app && key && { app, key } : key && { key }
  const path = id
    ? urlTo(`/api/batches/${encodeURIComponent(id)}`, { ...times, events: '1' })
    : byKey
      ? urlTo('/api/batches', { ...byKey, ...times, events: '1' })
      : null
  const asked = useAsk<Answer>(path)
  // In the portal an id may be a key as well: it has no search of its own.
  const isMissing = portal !== null && id !== null && asked.value?.found === false
  const other = useAsk<Answer>(isMissing ? urlTo('/api/batches', { key: id, events: '1' }) : null)
  const value = other.value?.found === true ? other.value : asked.value
  const isAsking = asked.asking || other.asking
  const [problem, setProblem] = useState<string | null>(null)
  return (
    <div class="page">
      <Question
        inUrl={id ?? [app, key].filter(Boolean).join(' ')}
        onAgain={asked.again}
        problem={problem}
        onProblem={setProblem}
      />
      <Problem why={asked.why} />
      <div class="stack" style={vars({ gap: 'var(--s5)' })} aria-busy={isAsking}>
        {(path === null || problem !== null) && <Teach />}
        {problem === null && path !== null && isAsking && <p class="dim">Looking through the queue…</p>}
        {problem === null && path !== null && !isAsking && value !== null && <Outcome value={value} query={query} />}
      </div>
    </div>
  )
}

interface QuestionProps {
  readonly inUrl: string
  readonly onAgain: () => void
  /** Of what is written. */
  readonly problem: string | null
  readonly onProblem: (problem: string | null) => void
}

function Question({ inUrl, onAgain, problem, onProblem }: QuestionProps): JSX.Element {
  const { portal } = useLive()
  const [text, setText] = useState(inUrl)
  const written = useRef(inUrl)
  useEffect(() => {
    // An effect runs after the first drawing, and something may have been typed by then.
    if (written.current === inUrl) return
    written.current = inUrl
    setText(inUrl)
    onProblem(null)
  }, [inUrl])
  const what = portal === null ? 'a batch id (a UUID), or an app id and an Idempotency-Key' : 'a UUID'
  const submit = (event: Event): void => {
    event.preventDefault()
    const question = readQuestion(text)
    onProblem(question === null ? `Write ${what}.` : null)
    if (question === null) return
    const url = urlTo('/batch', question)
    if (url === location.pathname + location.search) onAgain()
    else go(url)
  }
  return (
    <form class="row" style={{ maxWidth: '780px' }} onSubmit={submit}>
      <Field
        id="batch"
        name="Batch id, or app and Idempotency-Key"
        icon="find"
        class="mono"
        value={text}
        placeholder={portal === null ? 'batch id, or: app Idempotency-Key' : 'batch id, request id or Idempotency-Key'}
        problem={problem}
        onText={setText}
      />
      <Button type="submit" kind="solid" text="Find" />
    </form>
  )
}

function Teach(): JSX.Element {
  const { portal } = useLive()
  return (
    <Card>
      <Empty icon="batch" title="Where is a batch?">
        <p>
          Paste the <code>X-Batch-Id</code> of its 202, or {portal === null && 'an app id and '}the{' '}
          <code>Idempotency-Key</code> that it was sent with.
        </p>
        <p>
          A request that was refused has no batch: its <code>X-Request-Id</code> says why, while the service knows it.
        </p>
      </Empty>
    </Card>
  )
}

function Outcome({ value, query }: { value: Answer; query: URLSearchParams }): JSX.Element {
  if ('refusal' in value) return <Refused refusal={value.refusal} />
  return (
    <>
      {value.found ? <Stored found={value} opened={query.get('event')} /> : <Missing missing={value} query={query} />}
      <Damaged damage={value.damage ?? []} />
    </>
  )
}

/** What the search met that is not as it was written: the batch may have been in it. */
function Damaged({ damage }: { damage: NonNullable<Found['damage']> }): JSX.Element | null {
  if (damage.length === 0) return null
  const places = damage.map(({ file, offset_bytes: at }) => `${file} at ${at}`)
  return (
    <Note>
      The search met damage in {places.join(', ')}. What was there is not found; <code>sluice verify</code> says whose
      events it was.
    </Note>
  )
}

function Refused({ refusal }: { refusal: RefusalFound['refusal'] }): JSX.Element {
  const { portal } = useLive()
  const { app_id: app, code, path, shape, message, sdk_version: sdk, request_id: id, node, time } = refusal
  return (
    <>
      <Verdict more={<>It is the X-Request-Id of a request of {utc(time, 'date')} UTC.</>}>
        This request was refused, so no batch has this id.
      </Verdict>
      <Card title="The refusal">
        <div class="body stack">
          <Facts
            of={{
              Answer: (
                <span class="row">
                  <Pill code={code} />
                  <code>{code}</code>
                </span>
              ),
              Message: <code>{message}</code>,
              'What was sent': shape && (
                <>
                  {shape} <span class="dim">type and length only</span>
                </>
              ),
              'What to change': changeFor(refusal, portal !== null),
              'It means': meaningOf(code),
              App: portal === null && <AppName id={app} isLink />,
              SDK: sdk,
              Node: portal === null && node,
              Request: <Copy text={id} />,
            }}
          />
          <span class="row wrap">
            <Button href={urlTo('/refused', { app: portal === null ? app : null, code })} text="All like this one" />
            <Button kind="bare" href={urlTo('/explain', { path, code })} text="Try a body in Explain" />
          </span>
        </div>
      </Card>
    </>
  )
}

const REASONS: Readonly<Record<NonNullable<NotFound['reason']>, string>> = {
  stopped: 'only a part of the queue was read in the time that a search has',
  empty: 'the queue is empty',
  future: 'the id says that it was made in the future: it is not an id of this service, or a clock was wrong',
  expired: 'it is older than anything the queue still has: it was removed when it expired, or was never stored',
  narrowed: 'the queue has more, outside of the times that were searched',
  absent: 'refused, never arrived, of another app or key, or removed when it expired',
}

function Missing({ missing, query }: { missing: NotFound; query: URLSearchParams }): JSX.Element {
  const { portal } = useLive()
  const { searched_from: from, searched_to: to, queue_reaches_back_to: reach, go_on_before: goOn } = missing
  const [id, app, key, since] = ['id', 'app', 'key', 'since'].map((name) => query.get(name))
  // The portal does not say how far the queue reaches.
  const reason = missing.reason ?? (missing.complete ? 'absent' : 'stopped')
  return (
    <>
      <Verdict more={`${capital(REASONS[reason])}.`}>Not found{goOn === null ? '' : ' so far'}.</Verdict>
      <Card title="Where we looked">
        <div class="body stack">
          <Facts
            of={{
              Searched: from && to && `${utc(from, 'date')} to ${utc(to, 'date')} UTC`,
              'The queue reaches back to':
                reach !== undefined && (reach === null ? 'not known' : `${utc(reach, 'date')} UTC`),
              'Possible reasons': reason === 'absent' && REASONS.absent,
            }}
          />
          <span class="row wrap">
            {goOn !== null && (
              <Button
                kind="solid"
                href={urlTo('/batch', { id, app, key, since, before: goOn })}
                text="Search further back"
              />
            )}
            {reason === 'narrowed' && <Button href={urlTo('/batch', { id, app, key })} text="Search all of it" />}
            <Button
              kind="bare"
              href={urlTo('/refused', { app: portal === null ? app : null })}
              text="Was it refused?"
            />
          </span>
        </div>
      </Card>
    </>
  )
}

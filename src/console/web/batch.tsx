// Batch: where is this batch? A sentence and a line of time.

import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { useAsk } from './api.ts'
import type { Found, NotFound, Place, Reader, Refusal, RefusalFound } from './api-types.ts'
import { memberText } from './event-text.ts'
import { count, many, UUID, utc } from './format.ts'
import { RefusalRow } from './refused.tsx'
import { go, urlTo } from './route.ts'
import { AS_TYPED, Copy, Dot, Fact, Problem, Time } from './ui.tsx'

/** A batch id, or an app and an Idempotency-Key, in any of the ways that one may paste them. */
export function readQuestion(text: string): { id: string } | { app: string; key: string } | null {
  const words = text.trim().split(/\s+/)
  const bare = words.map((word) => word.replace(/^(id|batch_id|app|key):/, ''))
  if (bare.length === 1 && UUID.test(bare[0])) return { id: bare[0].toLowerCase() }
  if (bare.length === 2 && bare[0] !== '' && UUID.test(bare[1])) return { app: bare[0], key: bare[1].toLowerCase() }
  return null
}

export function Batch({ query }: { query: URLSearchParams }): JSX.Element {
  const [id, app, key] = ['id', 'app', 'key'].map((name) => query.get(name))
  const times = { since: query.get('since'), before: query.get('before') }
  const inUrl = id ?? (app !== null && key !== null ? `${app} ${key}` : '')
  const [text, setText] = useState(inUrl)
  const [problem, setProblem] = useState<string | null>(null)
  useEffect(() => {
    setText(inUrl)
    setProblem(null)
  }, [inUrl])
  const path = id
    ? urlTo(`/api/batches/${encodeURIComponent(id)}`, { ...times, events: '1' })
    : app && key
      ? urlTo('/api/batches', { app, key, ...times, events: '1' })
      : null
  const asked = useAsk<Found | RefusalFound | NotFound>(path)
  const submit = (event: Event): void => {
    event.preventDefault()
    const question = readQuestion(text)
    setProblem(question === null ? 'Write a batch id (a UUID), or an app id and an Idempotency-Key.' : null)
    if (question === null) return
    const url = urlTo('/batch', question)
    if (url === location.pathname + location.search) asked.again()
    else go(url)
  }
  return (
    <div class="narrow">
      <form class="bar-line" role="search" onSubmit={submit}>
        <label for="batch" class="hidden">
          Batch id, or app and Idempotency-Key
        </label>
        <input
          id="batch"
          class="grow"
          type="search"
          value={text}
          placeholder="batch id, or: app Idempotency-Key"
          {...AS_TYPED}
          aria-describedby="batch-problem"
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <button type="submit" class="button primary">
          find
        </button>
      </form>
      <div id="batch-problem">
        <Problem why={problem ?? asked.why} />
      </div>
      <div aria-live="polite" aria-busy={asked.asking}>
        {(path === null || problem !== null) && <Teach />}
        {problem === null && path !== null && asked.asking && <p class="muted">Looking through the queue…</p>}
        {problem === null && !asked.asking && asked.value !== null && <Outcome value={asked.value} query={query} />}
      </div>
    </div>
  )
}

function Teach(): JSX.Element {
  return (
    <div class="empty">
      <p class="title">Where is a batch?</p>
      <p>
        Paste the <code>X-Batch-Id</code> of its 202, or an app id and the <code>Idempotency-Key</code> that it was sent
        with: <span class="mono">shop 7f0e0bb2-6c3a-4d5e-9a53-2a6a4d1c9a10</span>
      </p>
      <p>
        A request that was refused has no batch: its <code>X-Request-Id</code> says why, while the service knows it.
      </p>
    </div>
  )
}

function Outcome({ value, query }: { value: Found | RefusalFound | NotFound; query: URLSearchParams }): JSX.Element {
  if (!value.found) return <Missing missing={value} query={query} />
  return 'refusal' in value ? (
    <Refused refusal={value.refusal} />
  ) : (
    <Answer found={value} opened={Number(query.get('event') ?? 0)} />
  )
}

function placeWords(place: Place): string {
  if (place.kind === 'stream') return `at ${count(place.sequence)} in ${place.stream}`
  return `at byte ${count(place.offset_bytes)} of ${place.segment}`
}

/** The sentence above the line of time. */
function summary(found: Found): string {
  const unread = found.consumers.filter(({ state }) => state === 'waiting' || state === 'delivered')
  const readers = found.consumers.filter(({ state }) => state === 'acknowledged')
  const base = `Stored, with ${many(found.events, 'event')} of ${found.app_id}`
  if (found.place.kind === 'journal') return `${base}; who has read it is not known: a journal has no consumers.`
  if (found.consumers.length === 0) return `${base}; no consumer of the queue is known.`
  if (unread.length === 0) return `${base}, and read by ${listed(readers)}.`
  if (readers.length === 0) return `${base}; not yet read by ${listed(unread)}.`
  return `${base}; read by ${listed(readers)}, not yet by ${listed(unread)}.`
}

function listed(readers: readonly Reader[]): string {
  if (readers.length === 0) return 'nobody who wants it'
  return readers.map(({ name }) => name).join(', ')
}

const STATE_WORDS: Readonly<Record<string, string>> = {
  acknowledged: 'read by',
  delivered: 'handed to, not yet acknowledged by',
  waiting: 'not yet read by',
  skipped: 'passed over by',
  'other subject': 'not wanted by',
}

function Answer({ found, opened }: { found: Found; opened: number }): JSX.Element {
  const place = useRef<HTMLDetailsElement>(null)
  useEffect(() => {
    if (opened > 0) place.current?.scrollIntoView({ block: 'center' })
  }, [found, opened])
  const events = Array.isArray(found.record?.events) ? (found.record.events as unknown[]) : []
  const storedAt = found.place.kind === 'stream' ? found.place.stored_at : null
  return (
    <>
      <p class="verdict">
        <Dot tone="ok" />
        <span>{summary(found)}</span>
      </p>
      <ol class="way">
        <Step is="done" words="received" at={found.received_at} />
        <Step is="done" words={`stored ${placeWords(found.place)}`} at={storedAt} />
        {found.consumers.map(({ name, state, read_at: readAt }) => (
          <Step
            key={name}
            is={state === 'acknowledged' ? 'done' : 'open'}
            words={`${STATE_WORDS[state] ?? state} ${name}`}
            at={readAt}
          />
        ))}
      </ol>
      <dl class="facts">
        <Fact name="batch">
          <Copy text={found.batch_id}>{found.batch_id}</Copy>
          {found.keyed && <span class="muted">sent with an Idempotency-Key</span>}
        </Fact>
        <Fact name="app">
          {found.app_id} <a href={urlTo('/apps', { app: found.app_id })}>usage</a>
          <a href={urlTo('/events', { app: found.app_id })}>events</a>
        </Fact>
        <Fact name="received">
          <span>
            <Time at={found.received_at} as="date" /> UTC
          </span>
        </Fact>
        <Fact name="SDK">{found.sdk_version}</Fact>
        <Fact name="trace">{found.trace && <Copy text={found.trace}>{found.trace}</Copy>}</Fact>
      </dl>
      {events.length > 0 && <h2>Events</h2>}
      {events.map((event, index) => (
        <details key={index} open={index === opened} ref={index === opened ? place : null}>
          <summary>
            events[{index}] <span class="muted">{memberText(event, 'type')}</span> {memberText(event, 'name')}
          </summary>
          <pre tabIndex={0} aria-label={`Event ${index} as JSON`}>
            {JSON.stringify(event, null, 2)}
          </pre>
        </details>
      ))}
    </>
  )
}

function Step({ is, words, at }: { is: 'done' | 'open'; words: string; at: string | null }): JSX.Element {
  return (
    <li class={is}>
      <span>{words}</span>
      {at !== null && <Time at={at} as="ms" />}
    </li>
  )
}

function Refused({ refusal }: { refusal: Refusal }): JSX.Element {
  return (
    <>
      <p class="verdict">
        <Dot tone="unknown" />
        <span>Refused at {utc(refusal.time, 'date')} UTC.</span>
      </p>
      <RefusalRow refusal={refusal} />
    </>
  )
}

const REASONS: Readonly<Record<NotFound['reason'], string>> = {
  stopped: 'only a part of the queue was read in the time that a search has',
  empty: 'the queue is empty',
  future: 'the id says that it was made in the future: it is not an id of this service, or a clock was wrong',
  expired: 'it is older than anything the queue still has: it was removed when it expired, or was never stored',
  narrowed: 'the queue has more, outside of the times that were searched',
  absent: 'refused, never arrived, of another app or key, or removed when it expired',
}

function Missing({ missing, query }: { missing: NotFound; query: URLSearchParams }): JSX.Element {
  const { searched_from: from, searched_to: to, queue_reaches_back_to: reach, go_on_before: goOn } = missing
  const [id, app, key, since] = ['id', 'app', 'key', 'since'].map((name) => query.get(name))
  return (
    <>
      <p class="verdict">
        <Dot tone="unknown" />
        <span>Not found{goOn === null ? '' : ' so far'}.</span>
      </p>
      <dl class="facts">
        <Fact name="searched">
          {utc(from, 'date')} to {utc(to, 'date')} UTC
        </Fact>
        <Fact name="the queue reaches back to">{reach === null ? 'not known' : `${utc(reach, 'date')} UTC`}</Fact>
        <Fact name={missing.reason === 'absent' ? 'possible reasons' : 'why'}>{REASONS[missing.reason]}</Fact>
      </dl>
      <p class="links">
        {goOn !== null && <a href={urlTo('/batch', { id, app, key, since, before: goOn })}>search further back</a>}
        {missing.reason === 'narrowed' && <a href={urlTo('/batch', { id, app, key })}>search all of it</a>}
        <a href={urlTo('/refused', { app })}>was it refused?</a>
      </p>
    </>
  )
}

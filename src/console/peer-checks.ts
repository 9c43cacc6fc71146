// Which messages of other processes are taken. Whoever may publish on NATS may send them: what does not have the form that
// the code relies on is dropped.

import { MAX_APP_ID_CHARACTERS } from '../bounds.ts'
import { EVENT_TYPES } from './event-filter.ts'
import type { InquiryName } from './inquiries.ts'
import type { QuestionName } from './questions.ts'
import { MAX_REFUSALS_SHOWN } from './refusal-view.ts'
import { RANGES } from './totals.ts'

/** Whether a value has the form that is wanted. */
export type Check = (value: unknown) => boolean

const MAX_TEXT = 1000
/** Of a filter, whose text is looked for in each event. */
const MAX_FILTER_TEXT = 200
const MAX_LIST = 1000
/** Of a word that a later version may have. */
const MAX_REASON_CHARACTERS = 40
/** An id of a process, and the number of its watch. The subject of a feed is made of it. */
const WATCH_ID = /^[0-9a-f]{1,32}-\d{1,10}$/
/** Anywhere else a peer could make this process publish where the peer itself may not. */
const INBOX = /^sluice\.console\.reply\.[\w.-]{1,200}$/
/** The largest time that a date can show. */
const MAX_TIME_MS = 8.64e15
const MAX_QUERY_CHARACTERS = 4096

export function isInbox(subject: string): boolean {
  return INBOX.test(subject)
}

const flag: Check = (value) => typeof value === 'boolean'
const number: Check = (value) => Number.isFinite(value)
const time: Check = (value) => number(value) && Math.abs(value as number) <= MAX_TIME_MS
const httpStatus: Check = (value) => Number.isInteger(value) && 200 <= (value as number) && (value as number) <= 599
const text = textOf(MAX_TEXT)
const appId = orNull(textOf(MAX_APP_ID_CHARACTERS))

function textOf(maxCharacters: number): Check {
  return (value) => typeof value === 'string' && value.length <= maxCharacters
}

function orNull(check: Check): Check {
  return (value) => value === null || check(value)
}

function oneOf(...values: readonly unknown[]): Check {
  return (value) => values.includes(value)
}

function listOf(check: Check, most = MAX_LIST): Check {
  return (value) => Array.isArray(value) && value.length <= most && value.every(check)
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function recordOf(check: Check, most = MAX_LIST): Check {
  return (value) => isObject(value) && Object.keys(value).length <= most && Object.values(value).every(check)
}

/** Further members are allowed. */
function members(checks: Readonly<Record<string, Check>>): Check {
  const all = Object.entries(checks)
  return (value) => isObject(value) && all.every(([name, check]) => Object.hasOwn(value, name) && check(value[name]))
}

/** Members of one form. */
function each(check: Check, ...names: readonly string[]): Record<string, Check> {
  return Object.fromEntries(names.map((name) => [name, check]))
}

function anyOf(...checks: readonly Check[]): Check {
  return (value) => checks.some((check) => check(value))
}

const filterText = orNull(textOf(MAX_FILTER_TEXT))
const refusalFilter = { app: filterText, code: filterText }
const eventFilter = { app: filterText, type: orNull(oneOf(...EVENT_TYPES)), name: filterText }

export const isWatch = anyOf(
  ...[
    { kind: oneOf('end') },
    { kind: oneOf('events'), filter: members(eventFilter) },
    { kind: oneOf('refusals'), filter: members(refusalFilter) },
  ].map((wanted) => members({ from: text, id: (id) => typeof id === 'string' && WATCH_ID.test(id), ...wanted })),
)

const QUESTIONS: Readonly<Record<QuestionName, Check>> = {
  now: members({ range: orNull(oneOf(...Object.keys(RANGES))) }),
  refusals: members({ ...refusalFilter, limit: (limit) => number(limit) && (limit as number) <= MAX_REFUSALS_SHOWN }),
  'last hour': members({ app: filterText }),
}

export const isAsk = anyOf(
  ...Object.entries(QUESTIONS).map(([name, question]) => members({ from: text, name: oneOf(name), question })),
)

const INQUIRIES: readonly InquiryName[] = ['explain', 'batch', 'apps', 'events', 'search', 'example']

export const isInquiry = members({ name: oneOf(...INQUIRIES), query: textOf(MAX_QUERY_CHARACTERS) })

const reason = orNull(textOf(MAX_REASON_CHARACTERS))

/** What a refusal and a group of them have both. */
const refused = {
  app_id: appId,
  code: text,
  reason,
  ...each(orNull(text), 'origin', 'path', 'sdk_version'),
}

const refusal = members({ ...refused, ...each(text, 'time', 'request_id', 'message', 'node') })

const group = members({ ...refused, count: number, first_ms: time, last_ms: time, per_minute: listOf(number) })

const report = members({
  ...each(text, 'node', 'version', 'node_js', 'started_at'),
  state: oneOf('starting', 'serving', 'degraded', 'refusing', 'stopping'),
  state_reason: orNull(text),
  reasons: listOf(members({ reason: textOf(MAX_REASON_CHARACTERS), per_second: number })),
  ...each(number, 'connections', 'cpu_percent', 'rss_bytes', 'parser_queue'),
  rates: members({
    ...each(number, 'requests_per_second', 'events_accepted_per_second', 'replays_per_second'),
    refused_per_second: recordOf(number),
  }),
  bounds_seconds: listOf(number),
  buckets: listOf(number),
  ring: members(each(number, 'used_bytes', 'size_bytes', 'requests')),
  parts: listOf(
    members({
      ...each(text, 'part', 'kind', 'state', 'text'),
      reason: orNull(text),
      up: flag,
      latency_seconds: orNull(number),
    }),
  ),
  queue: members({
    kind: oneOf('journal', 'stream'),
    ...each(
      orNull(number),
      'bytes',
      'max_bytes',
      'oldest_seconds',
      'keep_seconds',
      'full_in_seconds',
      'audit_lag_seconds',
    ),
    consumers: listOf(members({ name: text, lag_seconds: number })),
  }),
  refused_last_hour: listOf(members({ app_id: appId, code: text, reason, count: number })),
  cells: listOf(
    members({
      ...each(number, 'step', 'accepted_per_second', 'ours_per_second', 'client_per_second', 'limits_per_second'),
      buckets: listOf(number),
      slowest_consumer_seconds: orNull(number),
    }),
    RANGES['15m'].cells,
  ),
})

export const isHere = anyOf(members({ from: text, report }), members({ from: text, gone: text }))

const PIECES: Readonly<Record<QuestionName, Check>> = {
  now: report,
  refusals: members({ minute: time, refusals: listOf(refusal), groups: listOf(group) }),
  'last hour': members({
    accepted: recordOf(number),
    recent: recordOf(listOf(number, 2)),
    refused: recordOf(recordOf(number)),
    has_all: flag,
  }),
}

export function isPieceOf(name: QuestionName): Check {
  return members({ piece: PIECES[name] })
}

export const isFeed = anyOf(
  members({ kind: oneOf('item') }),
  members({ kind: oneOf('rate'), rate: members(each(number, 'seen', 'shown', 'unsearched')) }),
)

/** An event is read by whoever watches: here a line break, which would end its message, is all that is looked for. */
export function isItem(kind: 'events' | 'refusals', json: string): boolean {
  if (!/^\{[^\r\n]*\}$/.test(json)) return false
  if (kind === 'events') return true
  try {
    return refusal(JSON.parse(json))
  } catch {
    return false
  }
}

export const isPart = members({ part: number, of: number, status: httpStatus })

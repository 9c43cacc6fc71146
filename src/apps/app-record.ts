// App records as operators write them: checks every member, names each mistake by its path, and makes an App.

import { toOrigin } from '../lib/origin.ts'
import { parseTimestamp } from '../lib/timestamp.ts'
import type { App, PlanName, PreviousKey, ReadKey, Subscription } from './app.ts'
import { enforcedEventsPerMonth, PLANS } from './plans.ts'
import { MAX_READ_KEYS } from './read-keys.ts'

/** A key that was rotated out. */
export interface PreviousKeyRecord {
  readonly app_key: string
  readonly valid_until: string
}

/** A key that reads the app's figures, as its hash. */
export interface ReadKeyRecord {
  readonly name: string
  readonly hash: string
  readonly session_key: string
  readonly expires_at?: string
  /** To the hour. */
  readonly last_used_at?: string
}

/** One app as it is stored, in the file or in the bucket. */
export interface AppRecord {
  readonly app_key: string
  readonly app_id: string
  readonly name?: string
  readonly plan: PlanName
  readonly subscription: Subscription
  readonly trial_ends_at?: string
  readonly billing_cycle_anchor?: string
  readonly events_per_day?: number
  readonly events_per_minute?: number
  readonly events_per_month?: number
  /** Of the web pages that may send with its keys; absent: this is not checked. */
  readonly origins?: readonly string[]
  /** Percent of day and month at which its developers are told; absent: DEFAULT_ALERT_STEPS. */
  readonly alerts?: readonly number[]
  /** Oldest first. */
  readonly previous_keys?: readonly PreviousKeyRecord[]
  readonly read_keys?: readonly ReadKeyRecord[]
}

export type ReadApp =
  | { readonly kind: 'app'; readonly app: App; readonly record: AppRecord }
  | { readonly kind: 'mistakes'; readonly mistakes: readonly string[] }

export type CheckedRecords =
  | { readonly kind: 'records'; readonly records: readonly AppRecord[] }
  | { readonly kind: 'mistakes'; readonly mistakes: readonly string[] }

export const SUBSCRIPTIONS: readonly Subscription[] = ['trialing', 'active', 'past_due', 'canceled', 'unpaid', 'paused']

const PLAN_NAMES = Object.keys(PLANS)
const MAX_NAME_CHARACTERS = 200
export const MAX_PREVIOUS_KEYS = 4
/** Per document; further ones are only counted, so that a file of wrong records does not fill the log. */
const MAX_NAMED_MISTAKES = 100

/** Returns what is wrong with a value, or null. */
type Check = (value: unknown) => string | null

const isText =
  (pattern: RegExp, mistake: string): Check =>
  (value) =>
    typeof value === 'string' && pattern.test(value) ? null : mistake

const isOneOf =
  (words: readonly string[]): Check =>
  (value) =>
    typeof value === 'string' && words.includes(value) ? null : `must be one of ${words.join(', ')}`

const isCount: Check = (value) =>
  Number.isSafeInteger(value) && (value as number) > 0 ? null : 'must be a whole number of at least 1'

const isMoment: Check = (value) =>
  typeof value === 'string' && momentMs(value) !== null
    ? null
    : 'must be a date and time with its zone, such as 2026-12-31T00:00:00Z'

const isName: Check = (value) =>
  typeof value === 'string' && value.length <= MAX_NAME_CHARACTERS
    ? null
    : `must be a string of at most ${MAX_NAME_CHARACTERS} characters`

const isKey = isText(
  /^ak_[!-~]{0,253}$/,
  'must start with ak_ and hold at most 256 printable ASCII characters, no space',
)

const isPreviousKeys: Check = (value) =>
  Array.isArray(value) && value.length <= MAX_PREVIOUS_KEYS && value.every(isPreviousKey)
    ? null
    : `must be an array of at most ${MAX_PREVIOUS_KEYS} objects, each with an app_key and a valid_until, and nothing else`

function isPreviousKey(value: unknown): boolean {
  if (!isObject(value) || Object.keys(value).length !== 2) return false
  return isKey(value['app_key']) === null && isMoment(value['valid_until']) === null
}

/** Of a read key: it stands in an address. */
export const READ_KEY_NAME = /^[A-Za-z0-9_-]{1,64}$/
const DIGEST = /^[\w-]{43}$/

const isReadKeys: Check = (value) =>
  Array.isArray(value) &&
  value.length <= MAX_READ_KEYS &&
  value.every(isReadKey) &&
  new Set(value.map(({ name }: ReadKeyRecord) => name)).size === value.length
    ? null
    : `must be an array of at most ${MAX_READ_KEYS} read keys as sluice apps read-key makes them, each with a name of its own`

function isReadKey(value: unknown): boolean {
  if (!isObject(value)) return false
  const { name, hash, session_key: sessionKey, expires_at: end, last_used_at: used, ...others } = value
  return (
    Object.keys(others).length === 0 &&
    [name, hash, sessionKey].every((text) => typeof text === 'string') &&
    READ_KEY_NAME.test(String(name)) &&
    DIGEST.test(String(hash)) &&
    DIGEST.test(String(sessionKey)) &&
    [end, used].every((time) => time === undefined || isMoment(time) === null)
  )
}

const ALERT_STEP_PERCENT = 10
const MAX_ALERT_PERCENT = 100

const isAlerts: Check = (value) =>
  Array.isArray(value) && value.every(isAlertStep) && new Set(value).size === value.length
    ? null
    : `must be an array of different multiples of ${ALERT_STEP_PERCENT} from ${ALERT_STEP_PERCENT} to ${MAX_ALERT_PERCENT}`

function isAlertStep(value: unknown): boolean {
  if (!Number.isInteger(value)) return false
  const percent = value as number
  return percent > 0 && percent <= MAX_ALERT_PERCENT && percent % ALERT_STEP_PERCENT === 0
}

const MAX_ORIGINS = 100
const MAX_ORIGIN_CHARACTERS = 300

const isOrigins: Check = (value) =>
  Array.isArray(value) && value.length <= MAX_ORIGINS && value.every(isOrigin)
    ? null
    : `must be an array of at most ${MAX_ORIGINS} origins such as https://app.example.com, without a path`

function isOrigin(value: unknown): boolean {
  return typeof value === 'string' && value.length <= MAX_ORIGIN_CHARACTERS && toOrigin(value) !== null
}

/** Every member that a record may have, in the order in which its mistakes are named. */
const MEMBERS: Readonly<Record<keyof AppRecord, { readonly required: boolean; readonly check: Check }>> = {
  app_key: { required: true, check: isKey },
  app_id: {
    required: true,
    check: isText(/^[A-Za-z0-9_-]{1,64}$/, 'must be 1 to 64 letters, digits, _ or -'),
  },
  name: { required: false, check: isName },
  plan: { required: true, check: isOneOf(PLAN_NAMES) },
  subscription: { required: true, check: isOneOf(SUBSCRIPTIONS) },
  trial_ends_at: { required: false, check: isMoment },
  billing_cycle_anchor: { required: false, check: isMoment },
  events_per_day: { required: false, check: isCount },
  events_per_minute: { required: false, check: isCount },
  events_per_month: { required: false, check: isCount },
  origins: { required: false, check: isOrigins },
  alerts: { required: false, check: isAlerts },
  previous_keys: { required: false, check: isPreviousKeys },
  read_keys: { required: false, check: isReadKeys },
}

const MEMBER_RULES = Object.entries(MEMBERS)

/** `path` is the record's, for the mistakes: `apps[2]`, or empty for a single record. */
export function readApp(value: unknown, path: string): ReadApp {
  const mistakes = mistakesIn(value)
  if (mistakes.length > 0) return { kind: 'mistakes', mistakes: mistakes.map((each) => withPath(path, value, each)) }
  const record = value as AppRecord
  return { kind: 'app', app: appOf(record), record }
}

/** A dot joins the path and a mistake in a member, a colon the path and a mistake of the record itself. */
function withPath(path: string, value: unknown, mistake: string): string {
  if (!isObject(value)) return `${path || 'record'}: ${mistake}`
  return path === '' ? mistake : `${path}.${mistake}`
}

function mistakesIn(value: unknown): string[] {
  if (!isObject(value)) return ['must be an object']
  const mistakes: string[] = []
  for (const [member, { required, check }] of MEMBER_RULES) {
    if (!Object.hasOwn(value, member)) {
      if (required) mistakes.push(`${member}: required`)
      continue
    }
    const found = value[member]
    const mistake = found === null && !required ? 'must not be null: leave it out instead' : check(found)
    if (mistake !== null) mistakes.push(`${member}: ${mistake}`)
  }
  // A misspelt limit must not pass: the app would have no such limit.
  for (const member of Object.keys(value)) {
    if (!Object.hasOwn(MEMBERS, member)) mistakes.push(`${member}: unknown member`)
  }
  const keys = recordKeys(value)
  if (new Set(keys).size < keys.length) mistakes.push('previous_keys: one key is there twice')
  return mistakes
}

/** Every key of the app, the current one first, and the hashes of its read keys. Of an unchecked record, those that are strings. */
export function recordKeys({ app_key: own, previous_keys: previous, read_keys: read }: PossibleKeys): string[] {
  const earlier = Array.isArray(previous) ? previous.map((each: PossibleKeys | null) => each?.app_key) : []
  const hashes = Array.isArray(read) ? read.map((each: { hash?: unknown } | null) => each?.hash) : []
  return [own, ...earlier, ...hashes].filter((key) => typeof key === 'string')
}

interface PossibleKeys {
  readonly app_key?: unknown
  readonly previous_keys?: unknown
  readonly read_keys?: unknown
}

/**
 * Checks a whole document, `{"apps": [...]}`. No two records may share a key, or an `app_id`, since then it would be
 * undefined which limits apply.
 */
export function checkRecords(document: unknown): CheckedRecords {
  if (!isObject(document) || !Array.isArray(document['apps'])) {
    return { kind: 'mistakes', mistakes: ['apps: required, an array of app records'] }
  }
  const mistakes: string[] = []
  for (const member of Object.keys(document)) if (member !== 'apps') mistakes.push(`${member}: unknown member`)
  const records: readonly unknown[] = document['apps']
  const idsUsed = new Map<string, number>()
  const keysUsed = new Map<string, number>()
  for (const [index, value] of records.entries()) {
    if (mistakes.length >= MAX_COUNTED_MISTAKES) break
    for (const mistake of mistakesIn(value).slice(0, MAX_COUNTED_MISTAKES))
      mistakes.push(withPath(`apps[${index}]`, value, mistake))
    if (!isObject(value)) continue
    for (const key of recordKeys(value)) {
      const usedBy = keysUsed.get(key)
      if (usedBy === undefined) keysUsed.set(key, index)
      else if (usedBy !== index) {
        const first = `apps[${usedBy}].${keyMember(records[usedBy] as PossibleKeys, key)}`
        mistakes.push(`apps[${index}].${keyMember(value, key)}: same as ${first}`)
      }
    }
    const appId = value['app_id']
    if (typeof appId !== 'string') continue
    const usedBy = idsUsed.get(appId)
    if (usedBy === undefined) idsUsed.set(appId, index)
    else mistakes.push(`apps[${index}].app_id: same as apps[${usedBy}].app_id`)
  }
  if (mistakes.length > 0) return { kind: 'mistakes', mistakes: named(mistakes) }
  return { kind: 'records', records: records as readonly AppRecord[] }
}

/** The member of the record that holds `key`. */
function keyMember(record: PossibleKeys, key: string): string {
  if (record.app_key === key) return 'app_key'
  return key.startsWith('ak_') ? 'previous_keys' : 'read_keys'
}

/** The check stops here: a hostile file of 60 MB has millions of mistakes. */
const MAX_COUNTED_MISTAKES = 10_000

function named(mistakes: readonly string[]): readonly string[] {
  const more = mistakes.length - MAX_NAMED_MISTAKES
  if (more <= 0) return mistakes
  const atLeast = mistakes.length >= MAX_COUNTED_MISTAKES ? ' at least' : ''
  return [...mistakes.slice(0, MAX_NAMED_MISTAKES), `and ${more} more${atLeast}`]
}

/** Why the app may not send now; null: it may. */
export function subscriptionRefusal(app: App, nowMs: number): 'subscription_inactive' | 'trial_expired' | null {
  if (app.subscription === 'canceled' || app.subscription === 'unpaid' || app.subscription === 'paused') {
    return 'subscription_inactive'
  }
  const onTrial = app.subscription === 'trialing' || app.plan === 'trial'
  return onTrial && app.trialEndsAtMs !== null && app.trialEndsAtMs <= nowMs ? 'trial_expired' : null
}

/** As the record's check took them. */
function originsOf(origins: readonly string[]): string[] {
  return origins.map((origin) => toOrigin(origin) ?? origin)
}

/** Shared by all apps that name none. */
const DEFAULT_ALERT_STEPS: readonly number[] = [50, 80, 100]
/** Shared by all apps without previous keys. */
const NO_KEYS: readonly PreviousKey[] = []
const NO_READ_KEYS: readonly ReadKey[] = []

function previousKeyOf({ app_key: appKey, valid_until: text }: PreviousKeyRecord): PreviousKey {
  return { appKey, validUntilMs: momentMs(text) ?? 0 }
}

function readKeyOf({
  name,
  hash,
  session_key: sessionKey,
  expires_at: end,
  last_used_at: used,
}: ReadKeyRecord): ReadKey {
  return {
    name,
    hash,
    sessionKey,
    endsAtMs: end === undefined ? null : momentMs(end),
    usedAtMs: used === undefined ? null : momentMs(used),
  }
}

export function appOf(record: AppRecord): App {
  const plan = PLANS[record.plan]
  return {
    appKey: record.app_key,
    previousKeys: record.previous_keys === undefined ? NO_KEYS : record.previous_keys.map(previousKeyOf),
    appId: record.app_id,
    name: record.name ?? null,
    plan: record.plan,
    subscription: record.subscription,
    trialEndsAtMs: record.trial_ends_at === undefined ? null : momentMs(record.trial_ends_at),
    billingAnchorMs: record.billing_cycle_anchor === undefined ? null : momentMs(record.billing_cycle_anchor),
    eventsPerMinute: record.events_per_minute ?? plan.eventsPerMinute,
    eventsPerDay: record.events_per_day ?? null,
    eventsPerMonth: enforcedEventsPerMonth(record.plan, record.events_per_month ?? plan.eventsPerMonth),
    origins: record.origins === undefined ? null : originsOf(record.origins),
    readKeys: record.read_keys === undefined ? NO_READ_KEYS : record.read_keys.map(readKeyOf),
    alertSteps: record.alerts?.toSorted((one, other) => one - other) ?? DEFAULT_ALERT_STEPS,
  }
}

/** Unix ms of an ISO 8601 date and time with zone; null: it is not valid. */
export function momentMs(text: string): number | null {
  return parseTimestamp(text, { needsZone: true })
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

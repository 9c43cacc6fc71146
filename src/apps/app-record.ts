// App records as operators write them: names each mistake by its path, in one record or in all, and makes an App.

import { toOrigin } from '../lib/origin.ts'
import type { App, PlanName, PreviousKey, ReadKey, Subscription } from './app.ts'
import { bytesPerMinuteFor, enforcedEventsPerMonth, PLANS } from './plans.ts'
import { isObject, MEMBERS, type MemberRule, momentMs } from './record-members.ts'

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
  /** Absent: by the events of its minute. */
  readonly bytes_per_minute?: number
  /** Of the web pages that may send with its keys; absent: this is not checked. */
  readonly origins?: readonly string[]
  /** Percent of day and month at which alerts are raised; absent: DEFAULT_ALERT_STEPS. */
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

/** Per document; further ones are only counted, so that a file of wrong records does not fill the log. */
const MAX_NAMED_MISTAKES = 100

const RULES: Readonly<Record<keyof AppRecord, MemberRule>> = MEMBERS
const MEMBER_RULES = Object.entries(RULES)

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
  const eventsPerMinute = record.events_per_minute ?? plan.eventsPerMinute
  return {
    appKey: record.app_key,
    previousKeys: record.previous_keys === undefined ? NO_KEYS : record.previous_keys.map(previousKeyOf),
    appId: record.app_id,
    name: record.name ?? null,
    plan: record.plan,
    subscription: record.subscription,
    trialEndsAtMs: record.trial_ends_at === undefined ? null : momentMs(record.trial_ends_at),
    billingAnchorMs: record.billing_cycle_anchor === undefined ? null : momentMs(record.billing_cycle_anchor),
    eventsPerMinute,
    eventsPerDay: record.events_per_day ?? null,
    eventsPerMonth: enforcedEventsPerMonth(record.plan, record.events_per_month ?? plan.eventsPerMonth),
    bytesPerMinute: record.bytes_per_minute ?? bytesPerMinuteFor(eventsPerMinute),
    origins: record.origins === undefined ? null : originsOf(record.origins),
    readKeys: record.read_keys === undefined ? NO_READ_KEYS : record.read_keys.map(readKeyOf),
    alertSteps: record.alerts?.toSorted((one, other) => one - other) ?? DEFAULT_ALERT_STEPS,
  }
}

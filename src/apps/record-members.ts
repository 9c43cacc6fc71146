// What each member of an app record may hold, and the sentence that says so.

import { isAppId } from '../contract/ids.ts'
import { toOrigin } from '../lib/origin.ts'
import { parseTimestamp } from '../lib/timestamp.ts'
import type { Subscription } from './app.ts'
import { PLANS } from './plans.ts'
import { MAX_READ_KEYS } from './read-keys.ts'

export const SUBSCRIPTIONS: readonly Subscription[] = ['trialing', 'active', 'past_due', 'canceled', 'unpaid', 'paused']

const PLAN_NAMES = Object.keys(PLANS)
const MAX_NAME_CHARACTERS = 200
export const MAX_PREVIOUS_KEYS = 4
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
  new Set(value.map(({ name }: { name: string }) => name)).size === value.length
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

export interface MemberRule {
  readonly required: boolean
  readonly check: Check
}

/** Every member that a record may have, in the order in which its mistakes are named. */
export const MEMBERS = {
  app_key: { required: true, check: isKey },
  app_id: {
    required: true,
    check: (value) => (typeof value === 'string' && isAppId(value) ? null : 'must be 1 to 64 letters, digits, _ or -'),
  },
  name: { required: false, check: isName },
  plan: { required: true, check: isOneOf(PLAN_NAMES) },
  subscription: { required: true, check: isOneOf(SUBSCRIPTIONS) },
  trial_ends_at: { required: false, check: isMoment },
  billing_cycle_anchor: { required: false, check: isMoment },
  events_per_day: { required: false, check: isCount },
  events_per_minute: { required: false, check: isCount },
  events_per_month: { required: false, check: isCount },
  bytes_per_minute: { required: false, check: isCount },
  origins: { required: false, check: isOrigins },
  alerts: { required: false, check: isAlerts },
  previous_keys: { required: false, check: isPreviousKeys },
  read_keys: { required: false, check: isReadKeys },
} satisfies Readonly<Record<string, MemberRule>>

/** Unix ms of an ISO 8601 date and time with zone; null: it is not valid. */
export function momentMs(text: string): number | null {
  return parseTimestamp(text, { needsZone: true })
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

// What an answer means to the eye: the tone of its status, and the cause of a refusal in words, with what to change.

import { CODES, REASONS } from '../../contract/codes.ts'
import type { Refusal, RefusalGroup } from './api-types.ts'
import { capital, hashOf } from './format.ts'

export type Tone = 'ok' | 'near' | 'fail' | 'client' | 'plan'

const BY_CODE = new Map<string, (typeof CODES)[number]>(CODES.map((one) => [one.code, one]))
const BY_REASON = new Map<string, (typeof REASONS)[number]>(REASONS.map((one) => [one.reason, one]))

export function reasonOf(reason: string | null | undefined) {
  return BY_REASON.get(reason ?? '')
}

/** A code of a later version is the client's. */
export function statusOf(code: string): number {
  return BY_CODE.get(code)?.status ?? 400
}

export function toneOf(status: number): Tone {
  if (status < 300) return 'ok'
  if (status === 401 || status === 402) return 'plan'
  if (status === 429) return 'near'
  return status >= 500 ? 'fail' : 'client'
}

export function meaningOf(code: string): string {
  return BY_CODE.get(code)?.meaning ?? code
}

/** A member and what is wrong with it, or a sentence alone. */
export interface Title {
  readonly member: string | null
  readonly words: string
}

const TITLES: Readonly<Record<string, string>> = {
  not_found: 'Path is not that of events',
  method_not_allowed: 'Method is not POST',
  unsupported_media_type: 'Content type is not JSON',
  payload_too_large: 'Body is larger than 512 KiB',
  validation_failed: 'Batch does not fit the schema',
  invalid_json: 'Body is not JSON',
  invalid_app_key: 'No app has this key',
  subscription_inactive: 'Subscription is not active',
  trial_expired: 'Trial has ended',
  monthly_limit_exceeded: 'Month limit is reached',
  daily_limit_exceeded: 'Day limit is reached',
  rate_limit_exceeded: 'Minute limit is reached',
  service_overloaded: 'Service could not take the batch',
  replayed_other_body: 'Replay with another body',
}

/** `message`: of one of its refusals, which says more than the code; '': none is known. */
type Cause = Pick<RefusalGroup, 'code' | 'reason' | 'origin' | 'path' | 'message'>

export function titleOf({ code, reason, origin, path, message }: Cause): Title {
  if (origin !== null) return { member: null, words: 'Origin may not send' }
  if (reason === 'bytes') return { member: null, words: 'Bytes of the minute are used up' }
  if (reason) return { member: null, words: reasonName(reason) }
  if (path === null) return { member: null, words: TITLES[code] ?? code }
  const wrong = ruleOf(message)
  if (wrong.startsWith('required')) return { member: memberOf(path), words: 'is missing' }
  return { member: memberOf(path), words: wrong === '' ? 'does not fit' : wrong }
}

const ABBREVIATIONS: Readonly<Record<string, string>> = { nats: 'NATS', redis: 'Redis' }

/** `nats_away` is NATS away. */
function reasonName(reason: string): string {
  return capital(
    reason
      .split('_')
      .map((word) => ABBREVIATIONS[word] ?? word)
      .join(' '),
  )
}

/** Of the path of a member: `events[*].context.os` is `context.os`. */
export function memberOf(path: string): string {
  return path.replace(/^events\[[*\d]*\]\./, '')
}

/** What is wrong, without the path before it. */
function ruleOf(message: string): string {
  const rule = message.slice(message.indexOf(': ') + 1).trim()
  if (rule === 'length must be at least 1') return 'must not be empty'
  return rule.replace(/^length must be (.*)$/, 'must be $1 characters long')
}

/** `isPortal`: without the names of settings, which are the operators'. */
export function changeFor({ code, reason, origin, path, message }: Cause, isPortal = false): string {
  if (origin !== null && isPortal) return `Ask those who run the service to allow ${origin}, if its pages may send.`
  if (origin !== null) return `Allow ${origin} (SLUICE_CORS_ORIGINS, or the origins of the app) if its pages may send.`
  if (reason === 'bytes' && isPortal) return 'Send smaller events, or spread them over the minute.'
  if (reason === 'bytes')
    return 'Send smaller events, spread them over the minute, or raise bytes_per_minute of the app.'
  const known = reasonOf(reason)
  if (known !== undefined) return `${capital(known.happened)}. To do: ${known.todo}.`
  if (path === null) return BY_CODE.get(code)?.client_should ?? code
  const wrong = ruleOf(message)
  if (wrong === '') return `Correct ${path}: it does not fit the schema.`
  return wrong.startsWith('required')
    ? `Send ${memberOf(path)}: it is required.`
    : `Correct ${memberOf(path)}: ${wrong}.`
}

/** The refusals of a cause are alike in all of these. */
export function causeKey({
  app_id,
  code,
  reason,
  origin,
  path,
}: Omit<Cause, 'message'> & Pick<Refusal, 'app_id'>): string {
  return JSON.stringify([app_id, code, reason, origin, path?.replace(/\[\d+\]/g, '[*]') ?? null])
}

/** In the URL. */
export function addressOf(cause: Parameters<typeof causeKey>[0]): string {
  return hashOf(causeKey(cause)).toString(36)
}

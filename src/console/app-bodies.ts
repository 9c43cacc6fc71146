// What the API of app records reads and answers: records with their ETags, keys shown or masked, and what refuses a body.

import { createHash } from 'node:crypto'
import type { AppRecord } from '../apps/app-record.ts'
import { type AdminRequest, type Answer, answered, problem } from '../http/admin-routes.ts'
import { maskedKey } from '../inspect/usage-report.ts'
import type { Draft } from '../records/app-draft.ts'
import { freshKey, shownReadKey, spanMsOf } from '../records/app-keys.ts'
import { repeatedMembers } from '../records/repeated-members.ts'

const MAX_RECORD_BYTES = 65_536

const STALE = problem('precondition_failed')
const NO_JSON = problem('unsupported_media_type')

/** In place of what was asked for. */
export class Refusal {
  readonly answer: Answer

  constructor(answer: Answer) {
    this.answer = answer
  }
}

/** Without `app_key` an app keeps its keys, the older ones too, and a new one gets one. */
export function withKeys(given: Draft, appId: string, present: AppRecord | undefined): Draft {
  const { previous_keys: older, ...members } = given
  if (present !== undefined && !('app_key' in members)) {
    return { ...members, app_key: present.app_key, ...pick(present, 'previous_keys') }
  }
  // A record without older keys has no such member, so that its ETag is the same however it was written.
  const isNone = older === undefined || (Array.isArray(older) && older.length === 0)
  return { app_key: freshKey(appId), ...members, ...(isNone ? {} : { previous_keys: older }) }
}

export function pick(record: AppRecord | undefined, member: 'previous_keys' | 'read_keys'): Draft {
  const value = record?.[member]
  return value === undefined ? {} : { [member]: value }
}

/** Keys are shown in full to who may change them, and read keys to nobody. */
export function shown(record: AppRecord, isWhole: boolean): object {
  const { app_key: key, previous_keys: older, read_keys: readKeys, ...members } = record
  const keyOf = (one: string): string => (isWhole ? one : maskedKey(one, record.app_id))
  return {
    app_key: keyOf(key),
    ...members,
    ...(older === undefined
      ? {}
      : { previous_keys: older.map((one) => Object.assign({}, one, { app_key: keyOf(one.app_key) })) }),
    ...(readKeys === undefined ? {} : { read_keys: readKeys.map(shownReadKey) }),
  }
}

/** Of the record, but for the last use of its read keys, which is no edit. */
export function etagOf(record: AppRecord): string {
  const text = JSON.stringify(record, (member, value: unknown) => (member === 'last_used_at' ? undefined : value))
  return `"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"`
}

export function withEtag(answer: Answer, etag: string): Answer {
  return { ...answer, headers: { ...answer.headers, ETag: etag } }
}

export function matches(header: string | undefined, etag: string): boolean {
  return header?.split(',').some((tag) => tag.trim() === '*' || tag.trim() === etag) ?? false
}

/** null: the record is the one that the request is for. */
export function staleAnswer({ headers }: AdminRequest, present: AppRecord | undefined): Answer | null {
  const wanted = headers['if-match']
  if (wanted !== undefined && (present === undefined || !matches(wanted, etagOf(present)))) return STALE
  return headers['if-none-match']?.trim() === '*' && present !== undefined ? STALE : null
}

/** An object; empty where there is no body and none is needed. */
export async function jsonIn(
  request: AdminRequest,
  isNeeded: boolean,
): Promise<Readonly<Record<string, unknown>> | Refusal> {
  const type = request.headers['content-type'] ?? ''
  const hasBody =
    request.headers['transfer-encoding'] !== undefined || Number(request.headers['content-length'] ?? 0) > 0
  if ((isNeeded || hasBody) && !/^application\/json *(;|$)/i.test(type)) return new Refusal(NO_JSON)
  const body = await request.body(MAX_RECORD_BYTES)
  if (!Buffer.isBuffer(body)) return new Refusal(body)
  if (body.length === 0 && !isNeeded) return {}
  try {
    const text = body.toString()
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      const [repeated] = repeatedMembers(text)
      return repeated === undefined ? (value as Record<string, unknown>) : new Refusal(problem('bad_record', repeated))
    }
  } catch {
    // Said below.
  }
  return new Refusal(problem('bad_record', 'record: must be a JSON object'))
}

export const NO_CONTENT = answered(204, 'text/plain', '')

/** null: it is no span. */
export function spanIn(given: Readonly<Record<string, unknown>>, member: string, standard = ''): number | null {
  const text = given[member] ?? standard
  return typeof text === 'string' ? spanMsOf(text) : null
}

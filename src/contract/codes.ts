// What each code means and what a client should do, and what each reason of a 503 means, for people who look at refusals.

import type { Whose } from './admin/words.ts'
import { OVERLOAD_REASONS, type OverloadReason, type RefusalCode, STATUS_OF_REFUSAL } from './outcome.ts'
import { OVERLOAD_ADVICE, type OverloadAdvice } from './overload-advice.ts'

export interface Code {
  readonly code: RefusalCode | 'replayed_other_body'
  readonly status: number
  readonly meaning: string
  readonly client_should: string
  readonly whose: Whose
}

export interface Reason extends OverloadAdvice {
  readonly reason: OverloadReason
}

const LATER = 'Keep the batch and send it again after Retry-After.'
const DROP = 'Correct the request; sent again as it is, it is refused again.'

/** The refusals of the public API, and a replay whose events are not stored. */
const TABLE: Readonly<Record<Code['code'], readonly [meaning: string, clientShould: string, whose: Whose]>> = {
  not_found: ['The path is not that of events.', 'Send to /api/v1/events.', 'client'],
  method_not_allowed: ['The method is not POST.', 'Send with POST.', 'client'],
  service_overloaded: ['The service could not take the batch; the reason says why.', LATER, 'ours'],
  unsupported_media_type: ['The content type is not JSON in UTF-8, or the encoding is unknown.', DROP, 'client'],
  payload_too_large: ['The body is larger than 524,288 bytes.', 'Send smaller batches.', 'client'],
  validation_failed: [
    'The batch does not fit the schema; the path names the first member that does not.',
    DROP,
    'client',
  ],
  invalid_json: ['The body is not JSON.', DROP, 'client'],
  invalid_app_key: ['No app has this key.', 'Use the key of an app that exists.', 'client'],
  subscription_inactive: [
    'The subscription of the app is canceled, unpaid or paused.',
    'Keep the batch until the subscription is active again.',
    'limit',
  ],
  trial_expired: ['The trial of the app has ended.', 'Keep the batch until the app has a plan.', 'limit'],
  monthly_limit_exceeded: ['The batch does not fit into what is left of the month.', LATER, 'limit'],
  daily_limit_exceeded: ['The batch does not fit into what is left of the day.', LATER, 'limit'],
  rate_limit_exceeded: ['The batch does not fit into what is left of the minute.', LATER, 'limit'],
  replayed_other_body: [
    'The Idempotency-Key was accepted before with another body: these events are not stored.',
    'Give each batch a key of its own.',
    'client',
  ],
}

const STATUSES: Readonly<Record<Code['code'], string>> = { ...STATUS_OF_REFUSAL, replayed_other_body: '202 Accepted' }

export const CODES: readonly Code[] = (Object.keys(TABLE) as Code['code'][]).map((code) => {
  const [meaning, client_should, whose] = TABLE[code]
  return { code, status: Number.parseInt(STATUSES[code], 10), meaning, client_should, whose }
})

export const REASONS: readonly Reason[] = OVERLOAD_REASONS.map(reasonOf)

function reasonOf(reason: OverloadReason): Reason {
  const { happened, clients, todo } = OVERLOAD_ADVICE[reason]
  return { reason, happened, clients, todo }
}

/** Of a code that this version does not know, the client is the likely one. */
export function whoseOf(code: string): Whose {
  return Object.hasOwn(TABLE, code) ? TABLE[code as Code['code']][2] : 'client'
}

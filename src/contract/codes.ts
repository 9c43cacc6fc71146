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

/** The refusals of the public API, and a replay whose events are not stored. */
const TABLE: Readonly<Record<Code['code'], readonly [meaning: string, clientShould: string, whose: Whose]>> = {
  not_found: ['The path is not that of events.', 'Send to /api/v1/events.', 'client'],
  method_not_allowed: ['The method is not POST.', 'Send with POST.', 'client'],
  service_overloaded: [
    'The service could not take the batch.',
    'Keep the batch and send it again after Retry-After.',
    'ours',
  ],
  unsupported_media_type: [
    'The content type is not JSON in UTF-8, or the encoding is unknown.',
    'Send Content-Type: application/json, in UTF-8, and as encoding none, gzip, deflate or br.',
    'client',
  ],
  payload_too_large: [
    'The body is larger than 524,288 bytes.',
    'Send fewer events in a batch: a body has at most 512 KiB, also when it is unpacked.',
    'client',
  ],
  validation_failed: [
    'The batch does not fit the schema. Sent again as it is, it is refused again.',
    'Correct the member that the path names.',
    'client',
  ],
  invalid_json: [
    'The body is not JSON.',
    'Make the body with a JSON library. Explain shows where it breaks.',
    'client',
  ],
  invalid_app_key: [
    'No app has this key.',
    'Use the key of an app that exists. A key that was rotated is valid until its end.',
    'client',
  ],
  subscription_inactive: [
    'The subscription of the app is canceled, unpaid or paused.',
    'Make the subscription active again. Until then keep the events, or stop sending.',
    'limit',
  ],
  trial_expired: [
    'The trial of the app has ended.',
    'Choose a plan for the app. Until then keep the events, or stop sending.',
    'limit',
  ],
  monthly_limit_exceeded: [
    'The batch does not fit into what is left of the month.',
    'Choose a larger plan, or send fewer events. A batch that is kept fits when the month begins anew.',
    'limit',
  ],
  daily_limit_exceeded: [
    'The batch does not fit into what is left of the day.',
    'Raise the limit of the day, or send fewer events. A batch that is kept fits on the next day.',
    'limit',
  ],
  rate_limit_exceeded: [
    'The batch does not fit into what is left of the minute.',
    'Spread the events over the minute, or raise its limit. A batch fits when it is sent after Retry-After.',
    'limit',
  ],
  replayed_other_body: [
    'The Idempotency-Key was accepted before with another body: these events are not stored.',
    'Give each batch an Idempotency-Key of its own: the events of the second body are not stored.',
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

// What each code means and what a client should do, for people who look at refusals.

import { type RefusalCode, STATUS_OF_REFUSAL } from '../outcome.ts'

/** `ours`: the service fails; `client`: the request is wrong; `rule`: the app's plan, limits or subscription. */
export type Whose = 'ours' | 'client' | 'rule'

export interface Code {
  readonly code: RefusalCode | 'replayed_other_body'
  readonly status: number
  readonly meaning: string
  readonly client_should: string
  readonly whose: Whose
}

const LATER = 'Keep the batch and send it again after Retry-After.'
const DROP = 'Correct the request; sent again as it is, it is refused again.'

const MEANINGS: Readonly<Record<RefusalCode, Omit<Code, 'code' | 'status'>>> = {
  not_found: { meaning: 'The path is not that of events.', client_should: 'Send to /api/v1/events.', whose: 'client' },
  method_not_allowed: { meaning: 'The method is not POST.', client_should: 'Send with POST.', whose: 'client' },
  service_overloaded: {
    meaning: 'The service could not take the batch: no room, or the queue did not answer.',
    client_should: LATER,
    whose: 'ours',
  },
  unsupported_media_type: {
    meaning: 'The content type is not JSON in UTF-8, or the encoding is unknown.',
    client_should: DROP,
    whose: 'client',
  },
  payload_too_large: {
    meaning: 'The body is larger than 524,288 bytes.',
    client_should: 'Send smaller batches.',
    whose: 'client',
  },
  validation_failed: {
    meaning: 'The batch does not fit the schema; the path names the first member that does not.',
    client_should: DROP,
    whose: 'client',
  },
  invalid_json: { meaning: 'The body is not JSON.', client_should: DROP, whose: 'client' },
  invalid_app_key: {
    meaning: 'No app has this key.',
    client_should: 'Use the key of an app that exists.',
    whose: 'client',
  },
  subscription_inactive: {
    meaning: 'The subscription of the app is canceled, unpaid or paused.',
    client_should: 'Keep the batch until the subscription is active again.',
    whose: 'rule',
  },
  trial_expired: {
    meaning: 'The trial of the app has ended.',
    client_should: 'Keep the batch until the app has a plan.',
    whose: 'rule',
  },
  monthly_limit_exceeded: {
    meaning: 'The batch does not fit into what is left of the month.',
    client_should: LATER,
    whose: 'rule',
  },
  daily_limit_exceeded: {
    meaning: 'The batch does not fit into what is left of the day.',
    client_should: LATER,
    whose: 'rule',
  },
  rate_limit_exceeded: {
    meaning: 'The batch does not fit into what is left of the minute.',
    client_should: LATER,
    whose: 'rule',
  },
}

export const CODES: readonly Code[] = [
  ...(Object.entries(STATUS_OF_REFUSAL) as [RefusalCode, string][]).map(([code, status]) =>
    codeOf(code, Number.parseInt(status, 10)),
  ),
  {
    code: 'replayed_other_body',
    status: 202,
    meaning: 'The Idempotency-Key was accepted before with another body: these events are not stored.',
    client_should: 'Give each batch a key of its own.',
    whose: 'client',
  },
]

function codeOf(code: RefusalCode, status: number): Code {
  return { code, status, ...MEANINGS[code] }
}

export function isOurs(code: string): boolean {
  return code === 'service_overloaded'
}

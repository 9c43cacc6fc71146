// The words and bounds of the admin API that the service itself goes by. Apart from the schemas, whose library a process
// loads only where it reads what others wrote.

export const STATES = ['starting', 'serving', 'degraded', 'refusing', 'stopping'] as const
/** How far plots reach back. */
export const RANGE_NAMES = ['15m', '1h', '24h'] as const
export const MAX_CELLS = 180
export const MAX_REFUSALS_SHOWN = 1000
export const CONSUMER_STATES = ['acknowledged', 'delivered', 'waiting', 'skipped', 'other subject'] as const
export const NOT_FOUND_REASONS = ['stopped', 'empty', 'future', 'expired', 'narrowed', 'absent'] as const
/** What a search may meet in the files of a journal or a spool. */
export const DAMAGE_KINDS = ['checksum', 'missing', 'record', 'beside'] as const
export const MAX_DAMAGE_SHOWN = 20
/** `ours`: the service fails; `client`: the request is wrong; `limit`: the app's plan, limits or subscription. */
export const WHOSE = ['ours', 'client', 'limit'] as const
/** Questions that one node answers for all. */
export const INQUIRY_NAMES = ['explain', 'batch', 'apps', 'days', 'alerts', 'events', 'search', 'example'] as const

/** Why the admin port answers with an error. */
export const PROBLEMS = [
  'bad_request',
  'token_wanted',
  'console_off',
  'foreign_host',
  'foreign_origin',
  'not_found',
  'method_not_allowed',
  'payload_too_large',
  'too_many_tries',
  'too_many_watchers',
  'draining',
  'starting',
  'busy',
  'unavailable',
  'internal_error',
  'unsupported_media_type',
  'read_only',
  'no_such_app',
  'no_such_key',
  'key_exists',
  'bad_record',
  'precondition_failed',
  'apps_in_file',
] as const

/** Why the portal does. */
export const PORTAL_PROBLEMS = [
  'bad_request',
  'key_wanted',
  'foreign_host',
  'foreign_origin',
  'not_found',
  'method_not_allowed',
  'payload_too_large',
  'too_many_tries',
  'too_many_requests',
  'too_many_searches',
  'too_many_streams',
  'busy',
  'unavailable',
  'internal_error',
] as const

export type Range = (typeof RANGE_NAMES)[number]
export type ConsumerStateName = (typeof CONSUMER_STATES)[number]
export type NotFoundReason = (typeof NOT_FOUND_REASONS)[number]
export type Whose = (typeof WHOSE)[number]
export type InquiryName = (typeof INQUIRY_NAMES)[number]
export type Problem = (typeof PROBLEMS)[number]
export type PortalProblem = (typeof PORTAL_PROBLEMS)[number]

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
/** Questions that every process answers of itself. */
export const OF_EACH = ['now', 'refusals', 'last hour', 'live'] as const
/** Questions that one process answers for all, from the stores. */
export const OF_STORES = ['explain', 'batch', 'apps', 'days', 'alerts', 'events', 'search', 'example'] as const

/** So many nodes are known, and asked, at most. */
export const MAX_NODES = 100
/** A node tells of the bytes of so many apps at most. */
export const MAX_BYTES_APPS = 1000

export type Range = (typeof RANGE_NAMES)[number]
export type ConsumerStateName = (typeof CONSUMER_STATES)[number]
export type NotFoundReason = (typeof NOT_FOUND_REASONS)[number]
export type Whose = (typeof WHOSE)[number]
export type OfEach = (typeof OF_EACH)[number]
export type OfStores = (typeof OF_STORES)[number]

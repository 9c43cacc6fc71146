// What an SDK does with each answer: `x-sdk` of openapi.yaml, which a test holds this to.

/** @typedef {{ action: 'done' | 'drop' | 'drop_events' | 'keep' | 'wait', retry?: 'at_once' | 'header' | 'backoff', key?: 'same' | 'new', report?: string }} Rule */
/** @typedef {{ status: number | null, headers: Record<string, string>, body: unknown }} Answer status null: there was no answer */

export const ANSWER_TIMEOUT_MS = 30_000
const FIRST_BACKOFF_MS = 3000
/** By chance. */
const LEAST_SHARE = 0.5
/** A Retry-After that is none of these does not say how long. */
const SECONDS = /^\d+$/

/** @type {Rule} */
const KEEP = { action: 'keep', retry: 'backoff', key: 'same' }
/** @type {Rule} */
const HALVES = { action: 'keep', retry: 'at_once', key: 'new' }
/** @type {Record<number, string>} */
const REASONS = { 401: 'unauthorized', 402: 'subscription', 403: 'blocked', 413: 'too_large' }

/**
 * @param {Answer} answer
 * @param {number} count of the events of the batch
 * @returns {Rule}
 */
export function ruleOf({ status, headers, body }, count) {
  const members = /** @type {{ invalid_events?: unknown, reason?: unknown }} */ (Object(body))
  if (status === null || status === 408) return KEEP
  if (status === 202)
    return headers['Sluice-Replay'] === 'other' ? { action: 'drop', report: 'key_reused' } : { action: 'done' }
  if (status === 400) {
    if (members.invalid_events === undefined) return { action: 'drop', report: 'invalid' }
    return { action: 'drop_events', retry: 'at_once', key: 'new', report: 'invalid' }
  }
  if (status === 401 && members.reason === 'origin') return KEEP
  if (status === 413 && count > 1) return HALVES
  if (status === 429) {
    if (count > Number(headers['X-RateLimit-Limit'] ?? Infinity)) return HALVES
    const says = SECONDS.test(headers['Retry-After'] ?? '')
    return { action: 'wait', retry: says ? 'header' : 'backoff', key: 'same' }
  }
  if (status === 503) return { action: 'wait', retry: 'backoff', key: 'same' }
  if (status >= 400 && status < 500) return { action: 'drop', report: REASONS[status] ?? 'refused' }
  return KEEP
}

/**
 * The least time from an answer to the next try of its batch.
 * @param {Rule} rule
 * @param {Answer} answer
 * @param {number} failures in a row, with this one
 */
export function waitOf({ action, retry }, { headers }, failures) {
  return {
    retryAfterMs: action === 'wait' ? (Number(headers['Retry-After']) || 0) * 1000 : 0,
    backoffMs: retry === 'backoff' ? FIRST_BACKOFF_MS * 2 ** (failures - 1) * LEAST_SHARE : 0,
  }
}

// @ts-check
// What the contract says of every answer on the public port, as a list of what an answer gets wrong. Pure.

/** Codes that the service may answer with; `accepted` and `replayed` are the two kinds of 202. */
export const STATUS_OF_CODE = /** @type {const} */ ({
  accepted: 202,
  replayed: 202,
  validation_failed: 400,
  invalid_json: 400,
  invalid_app_key: 401,
  subscription_inactive: 402,
  trial_expired: 402,
  not_found: 404,
  method_not_allowed: 405,
  payload_too_large: 413,
  unsupported_media_type: 415,
  rate_limit_exceeded: 429,
  daily_limit_exceeded: 429,
  monthly_limit_exceeded: 429,
  service_overloaded: 503,
})
/** `no_answer`: the connection failed or the time was up; `other`: nothing that the contract knows. */
export const CODES = /** @type {readonly Code[]} */ ([...Object.keys(STATUS_OF_CODE), 'no_answer', 'other'])
const CODES_WITH_RETRY = new Set([
  'rate_limit_exceeded',
  'daily_limit_exceeded',
  'monthly_limit_exceeded',
  'service_overloaded',
])
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const WINDOW_SECONDS = 60
const CLOCK_SLACK_SECONDS = 5

/** @typedef {keyof typeof STATUS_OF_CODE | 'no_answer' | 'other'} Code */
/** @typedef {{ status: number, headers: Readonly<Record<string, string>>, body: unknown }} Answer */
/** @typedef {{ status?: string, events?: number, deduplicated?: boolean, error?: string, message?: string }} Body */

/** As Go, and so k6, writes the name of a header. @type {Map<string, string>} */
const canonicalNames = new Map()

/** @param {string} name */
export function canonicalName(name) {
  let canonical = canonicalNames.get(name)
  if (canonical === undefined) {
    canonical = name.toLowerCase().replace(/(^|-)[a-z]/g, (start) => start.toUpperCase())
    canonicalNames.set(name, canonical)
  }
  return canonical
}

/** A header by its name, or ''. @param {Answer} answer @param {string} name */
export function header({ headers }, name) {
  return headers[canonicalName(name)] ?? ''
}

/** @param {unknown} text @returns {Body | null} */
export function parseBody(text) {
  if (typeof text !== 'string' || text === '') return null
  try {
    const value = JSON.parse(text)
    return value !== null && typeof value === 'object' ? value : null
  } catch {
    return null
  }
}

/** @param {Answer} answer @param {Body | null} body @returns {Code} */
export function codeOf({ status }, body) {
  if (status === 0) return 'no_answer'
  const code = status === 202 ? (body?.deduplicated === true ? 'replayed' : 'accepted') : (body?.error ?? 'other')
  return Object.hasOwn(STATUS_OF_CODE, code) ? /** @type {Code} */ (code) : 'other'
}

/**
 * What is wrong with an answer, in words that hold nothing of this one answer, so that they can be counted.
 * @param {Answer} answer @param {Body | null} body @param {{ events?: number, nowSeconds: number }} sent @returns {string[]}
 */
export function faultsOf(answer, body, { events, nowSeconds }) {
  const code = codeOf(answer, body)
  if (code === 'no_answer') return []
  const faults = []
  if (code === 'other' || STATUS_OF_CODE[code] !== answer.status) faults.push('status and error code belong together')
  if (body === null) faults.push('the body is a JSON object')
  if (!header(answer, 'Content-Type').startsWith('application/json')) faults.push('Content-Type is application/json')
  faults.push(...windowFaults(answer, nowSeconds))
  const retryAfter = header(answer, 'Retry-After')
  if (CODES_WITH_RETRY.has(code) ? !/^[1-9]\d*$/.test(retryAfter) : retryAfter !== '') {
    faults.push('Retry-After is whole seconds on 429 and 503, and nowhere else')
  }
  const batchId = header(answer, 'X-Batch-Id')
  if (answer.status === 202) {
    if (body?.status !== 'accepted') faults.push('status is accepted')
    if (events !== undefined && body?.events !== events) faults.push('events is the number that was sent')
    if (!UUID.test(batchId)) faults.push('X-Batch-Id is a UUID on 202')
  } else {
    if (batchId !== '') faults.push('X-Batch-Id is on 202 only')
    if (typeof body?.message !== 'string' || body.message === '') faults.push('message says what is wrong')
  }
  if (answer.status === 405 && header(answer, 'Allow') !== 'POST') faults.push('Allow is POST on 405')
  return faults
}

/** @param {Answer} answer @param {number} nowSeconds @returns {string[]} */
export function windowFaults(answer, nowSeconds) {
  const texts = ['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'].map((name) => header(answer, name))
  if (!texts.every((text) => /^\d+$/.test(text))) return ['the three X-RateLimit headers are whole numbers']
  const [limit, remaining, reset] = texts.map(Number)
  const faults = []
  if (remaining > limit) faults.push('X-RateLimit-Remaining is at most X-RateLimit-Limit')
  const isNear = reset > nowSeconds - CLOCK_SLACK_SECONDS && reset <= nowSeconds + WINDOW_SECONDS + CLOCK_SLACK_SECONDS
  if (reset % WINDOW_SECONDS !== 0 || !isNear) faults.push('X-RateLimit-Reset is the end of this UTC minute')
  return faults
}

// @ts-check
// The same rules as the service's, the way they are usually written: a JSON Schema compiled by ajv.
// Only the benchmark uses it, to have something to compare with.

import { Ajv } from 'ajv'

const PAST_LIMIT_MS = 72 * 3_600_000
const FUTURE_LIMIT_MS = 3_600_000
const MAX_VALUE_CHARACTERS = 500
const TIMESTAMP = /^\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?$/

const hash = { type: 'string', minLength: 16, maxLength: 128 }
const text = { type: 'string' }
const values = { type: 'object', maxProperties: 50, additionalProperties: { shortValue: true } }

const BODY = {
  type: 'object',
  required: ['app_key', 'events'],
  properties: {
    app_key: { type: 'string', pattern: '^ak_' },
    sdk_version: text,
    events: {
      type: 'array',
      maxItems: 100,
      items: {
        type: 'object',
        required: ['type', 'name', 'hashed_daily_id', 'hashed_monthly_id', 'session_id', 'timestamp', 'context'],
        properties: {
          type: { enum: ['track', 'screen', 'revenue'] },
          name: { type: 'string', minLength: 1, maxLength: 200 },
          hashed_daily_id: hash,
          hashed_monthly_id: hash,
          hashed_retention_id: hash,
          session_id: { type: 'string', minLength: 1, maxLength: 128 },
          timestamp: { type: 'string', format: 'timestamp' },
          user_id: { type: 'string', minLength: 1, maxLength: 256 },
          context: {
            type: 'object',
            required: ['os'],
            properties: {
              os: { type: 'string', minLength: 1 },
              os_version: text,
              app_version: text,
              locale: text,
              device_type: text,
              screen_width: { type: 'number' },
              screen_height: { type: 'number' },
            },
          },
          properties: values,
          revenue: values,
        },
        anyOf: [{ properties: { type: { enum: ['track', 'screen'] } } }, { required: ['revenue'] }],
      },
    },
  },
}

/** @param {() => number} clock @returns {(body: unknown) => boolean} */
export function compileSchema(clock) {
  const ajv = new Ajv({ strict: false })
  ajv.addFormat('timestamp', (/** @type {string} */ value) => {
    if (!TIMESTAMP.test(value)) return false
    const atMs = Date.parse(value)
    const nowMs = clock()
    return atMs >= nowMs - PAST_LIMIT_MS && atMs <= nowMs + FUTURE_LIMIT_MS
  })
  ajv.addKeyword({
    keyword: 'shortValue',
    errors: false,
    validate: (/** @type {unknown} */ _schema, /** @type {unknown} */ value) => {
      if (typeof value === 'string') return isShort(value)
      return typeof value !== 'object' || value === null || isShort(JSON.stringify(value))
    },
  })
  return ajv.compile(BODY)
}

/** @param {string} text */
function isShort(text) {
  return text.length <= MAX_VALUE_CHARACTERS || Array.from(text).length <= MAX_VALUE_CHARACTERS
}

// The closed set of ways a request can end, and the table that turns each into an answer.

/** Why a request was refused: the `error` member of its answer. */
export type RefusalCode = keyof typeof STATUS_OF_REFUSAL

/** HTTP status line of each refusal (specification, "Errors"; contract, section 1). */
export const STATUS_OF_REFUSAL = {
  not_found: '404 Not Found',
  method_not_allowed: '405 Method Not Allowed',
  service_overloaded: '503 Service Unavailable',
  unsupported_media_type: '415 Unsupported Media Type',
  payload_too_large: '413 Payload Too Large',
  validation_failed: '400 Bad Request',
  invalid_json: '400 Bad Request',
  invalid_app_key: '401 Unauthorized',
  subscription_inactive: '402 Payment Required',
  trial_expired: '402 Payment Required',
  monthly_limit_exceeded: '429 Too Many Requests',
  daily_limit_exceeded: '429 Too Many Requests',
  rate_limit_exceeded: '429 Too Many Requests',
} as const

/** The app's minute as the client sees it in the three X-RateLimit headers. Counts are events. */
export interface RateLimitView {
  readonly limit: number
  readonly remaining: number
  /** Unix second at which the minute ends. */
  readonly resetUnixSeconds: number
}

// Web pages of other origins (CORS): what the answer tells the browser, and what a page that cannot set headers, because
// it sends a beacon, may give in the query instead. Only origins that SLUICE_CORS_ORIGINS allows get any of it.

import type { RequestHead } from '../request/head.ts'

const EXPOSED =
  'X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After, X-Batch-Id, X-Request-Id, Sluice-Replay, ' +
  'RateLimit, RateLimit-Policy, Date'

/** Header lines for every answer to this origin, each after a CRLF; empty: it is not allowed. */
export type CorsHeaders = (origin: string | null) => string

/** `origins`: as browsers write them, or `*` for all. The text of each is made here, once. */
export function corsHeadersFor(origins: readonly string[] | '*'): CorsHeaders {
  if (origins === '*') {
    const headers = headersOf('*')
    // A repeated header has commas, and is no origin.
    return (origin) => (origin === null || origin === '' || origin.includes(',') ? '' : headers)
  }
  const headersOfOrigin = new Map(origins.map((origin) => [origin, `${headersOf(origin)}\r\nVary: Origin`]))
  return (origin) => (origin === null ? '' : (headersOfOrigin.get(origin) ?? ''))
}

function headersOf(origin: string): string {
  return `\r\nAccess-Control-Allow-Origin: ${origin}\r\nAccess-Control-Expose-Headers: ${EXPOSED}`
}

/** The two headers that a page may give in the query. One that differs from the header is refused like a repeated one. */
export function withQuery(
  { idempotencyKey, contentEncoding }: Pick<RequestHead, 'idempotencyKey' | 'contentEncoding'>,
  query: string,
): Pick<RequestHead, 'idempotencyKey' | 'contentEncoding'> {
  const members = new URLSearchParams(query)
  // Not one of the names for Content-Encoding: the query's one encoding is gzip.
  const encodings = members.getAll('encoding').map((name) => (name === 'gzip' ? name : 'unknown'))
  return {
    idempotencyKey: joined(idempotencyKey, members.getAll('key')),
    contentEncoding: joined(contentEncoding, encodings),
  }
}

/** Values that differ are joined by commas, which the rules of both headers refuse. */
function joined(header: string | null, others: readonly string[]): string | null {
  return others.reduce<string | null>((all, other) => {
    if (all === null || all.toLowerCase() === other.toLowerCase()) return other
    return `${all},${other}`
  }, header)
}

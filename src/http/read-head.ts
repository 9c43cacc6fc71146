// Reads a request's head from the engine into plain values.

import type { RequestHead } from '../request/head.ts'
import { type CorsHeaders, withQuery } from './cors.ts'
import type { Route, WireHead } from './wire.ts'

/** RFC 9110: digits only. 15 digits are larger than any body, and exact as a number. */
const LENGTH = /^[0-9]{1,15}$/
const CLOSE = /(?:^|,)[ \t]*close[ \t]*(?:,|$)/i

/**
 * To be called inside the request handler only, where `request` is valid. `cors` null: no page of another origin sends.
 * `route` null: the engine has matched neither method nor path.
 */
export function readHead(request: WireHead, cors: CorsHeaders | null, route: Route | null): RequestHead {
  let contentType: string | null = null
  let contentEncoding: string | null = null
  let idempotencyKey: string | null = null
  let traceparent: string | null = null
  let contentLengthBytes: number | null = null
  let framingFault: string | null = null
  let isChunked = false
  let wantsClose = false
  let origin: string | null = null
  request.forEach((name, value) => {
    switch (name) {
      case 'content-type':
        contentType = contentType === null ? value : `${contentType},${value}`
        break
      case 'content-encoding':
        contentEncoding = contentEncoding === null ? value : `${contentEncoding},${value}`
        break
      case 'idempotency-key':
        idempotencyKey = idempotencyKey === null ? value : `${idempotencyKey},${value}`
        break
      case 'traceparent':
        traceparent = traceparent === null ? value : `${traceparent},${value}`
        break
      case 'content-length':
        if (contentLengthBytes !== null) framingFault = 'Content-Length: must appear once'
        else if (!LENGTH.test(value)) framingFault = 'Content-Length: must be a number of bytes'
        contentLengthBytes = Number(value)
        break
      case 'transfer-encoding':
        if (isChunked || value.toLowerCase() !== 'chunked') framingFault = 'Transfer-Encoding: must be chunked'
        isChunked = true
        break
      case 'connection':
        wantsClose ||= CLOSE.test(value)
        break
      case 'origin':
        origin = origin === null ? value : `${origin},${value}`
        break
      case 'trailer':
        // The library would read the trailers as the head of the next request.
        framingFault = 'Trailer: not supported'
        break
    }
  })
  if (isChunked && contentLengthBytes !== null) {
    framingFault ??= 'Content-Length: must not appear with Transfer-Encoding'
  }
  const corsHeaders = cors === null ? '' : cors(origin)
  const query = corsHeaders === '' ? '' : request.getQuery()
  if (query) ({ idempotencyKey, contentEncoding } = withQuery({ idempotencyKey, contentEncoding }, query))
  return {
    method: route === null ? request.getCaseSensitiveMethod() : route.method,
    path: route === null ? request.getUrl() : route.path,
    contentType,
    contentEncoding,
    idempotencyKey,
    traceparent,
    contentLengthBytes,
    framingFault,
    wantsClose,
    corsHeaders,
    origin,
    foreignOrigin: corsHeaders === '' ? origin || null : null,
  }
}

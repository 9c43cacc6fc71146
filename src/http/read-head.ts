// Reads a request's head from the engine into plain values.

import type { RequestHead } from '../request/head.ts'
import { type CorsHeaders, withQuery } from './cors.ts'
import type { Route, WireHead } from './wire.ts'

/** RFC 9110: digits only. 15 digits are larger than any body, and exact as a number. */
const LENGTH = /^[0-9]{1,15}$/
const CLOSE = /(?:^|,)[ \t]*close[ \t]*(?:,|$)/i

/** Of the request that is being read. One object and one function for all, since a closure a request costs as much as a header. */
const fields = {
  contentType: null as string | null,
  contentEncoding: null as string | null,
  idempotencyKey: null as string | null,
  traceparent: null as string | null,
  contentLengthBytes: null as number | null,
  framingFault: null as string | null,
  isChunked: false,
  wantsClose: false,
  origin: null as string | null,
}

/**
 * To be called inside the request handler only, where `request` is valid. `cors` null: no page of another origin sends.
 * `route` null: the engine has matched neither method nor path.
 */
export function readHead(request: WireHead, cors: CorsHeaders | null, route: Route | null): RequestHead {
  clear()
  request.forEach(takeHeader)
  const { contentType, traceparent, contentLengthBytes, wantsClose, origin } = fields
  let { contentEncoding, idempotencyKey, framingFault } = fields
  if (fields.isChunked && contentLengthBytes !== null) {
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

function clear(): void {
  fields.contentType = null
  fields.contentEncoding = null
  fields.idempotencyKey = null
  fields.traceparent = null
  fields.contentLengthBytes = null
  fields.framingFault = null
  fields.isChunked = false
  fields.wantsClose = false
  fields.origin = null
}

function takeHeader(name: string, value: string): void {
  switch (name) {
    case 'content-type':
      fields.contentType = joined(fields.contentType, value)
      break
    case 'content-encoding':
      fields.contentEncoding = joined(fields.contentEncoding, value)
      break
    case 'idempotency-key':
      fields.idempotencyKey = joined(fields.idempotencyKey, value)
      break
    case 'traceparent':
      fields.traceparent = joined(fields.traceparent, value)
      break
    case 'content-length':
      if (fields.contentLengthBytes !== null) fields.framingFault = 'Content-Length: must appear once'
      else if (!LENGTH.test(value)) fields.framingFault = 'Content-Length: must be a number of bytes'
      fields.contentLengthBytes = Number(value)
      break
    case 'transfer-encoding':
      if (fields.isChunked || value.toLowerCase() !== 'chunked')
        fields.framingFault = 'Transfer-Encoding: must be chunked'
      fields.isChunked = true
      break
    case 'connection':
      fields.wantsClose ||= CLOSE.test(value)
      break
    case 'origin':
      fields.origin = joined(fields.origin, value)
      break
    case 'trailer':
      // The library would read the trailers as the head of the next request.
      fields.framingFault = 'Trailer: not supported'
      break
  }
}

/** A header that comes again adds to the one before. */
function joined(before: string | null, value: string): string {
  return before === null ? value : `${before},${value}`
}
